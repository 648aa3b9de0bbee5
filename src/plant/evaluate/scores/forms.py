"""Scores of documents for labels in three forms that answer the same questions.

`Dense` holds every score, `RankedLists` the best codes of each document, `Constant` one score per label for everybody
(the prior). A label without a score is ranked nowhere, accepted never, and lies below (tied with) all that have one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from plant.errors import InputError, quoted
from plant.evaluate.scores.lists import Lists, Mask
from plant.store.ragged import offsets

Values = NDArray[np.float32]
UNRANKED = np.iinfo(np.int64).max
BLOCK = 4_000_000  # scores handled at once: 16 MB
LISTED_BLOCK = 500_000  # entries of lists that are sorted at once: each takes some fifty bytes on the way


@dataclass(frozen=True)
class Standing:
    """For each gold entry the number of scores above its own, and the number equal to it (itself counted)."""

    above: NDArray[np.int64]
    tied: NDArray[np.int64]


@dataclass(frozen=True)
class Histogram:
    """Number and sum of the scores in equal bins from 0 to 1, and how many lie outside."""

    counts: NDArray[np.float64]
    sums: NDArray[np.float64]
    outside: int


@runtime_checkable
class Scores(Protocol):
    """What measures ask of scores; `gold` names the entries that are asked about."""

    @property
    def complete(self) -> bool:
        """Whether every document has a score for every label of training."""

    @property
    def valued(self) -> bool:
        """Whether there are scores, not a mere order."""

    @property
    def list_length(self) -> int:
        """How many codes are ranked for a document, at most."""

    def ranks(self, gold: Lists) -> NDArray[np.int64]:
        """The place of each gold entry in its document's ranking, from 1, or `UNRANKED`."""

    def accepted(self) -> Lists:
        """The labels that pass."""

    def scores_of(self, entries: Lists) -> NDArray[np.float64]:
        """The score of each entry, minus infinity where it has none."""

    def standing_in_label(self, gold: Lists) -> Standing:
        """The standing among the scores of all documents for the same label."""

    def standing_overall(self, gold: Lists, n_labels: int) -> Standing:
        """The standing among all scores of all documents."""

    def histogram(self, bins: int, floor: float) -> Histogram:
        """The distribution of all scores that reach `floor`."""

    def only(self, kept: Mask) -> "Scores":
        """The scores of the kept labels, renumbered."""

    def top(self, k: int) -> "RankedLists":
        """The best `k` codes of every document."""


@dataclass(frozen=True)
class Dense:
    """A score for every document and label; ties rank in column order; what reaches its threshold passes."""

    values: Values  # documents x labels
    thresholds: Values  # per label

    complete = True
    valued = True

    @property
    def list_length(self) -> int:
        return self.values.shape[1]

    def ranks(self, gold: Lists) -> NDArray[np.int64]:
        ranks = np.full(len(gold.labels), UNRANKED)
        for rows in self._row_blocks():
            ordered = np.sort(self.values[rows], axis=1)
            for row, scores in zip(range(rows.start, rows.stop), ordered, strict=True):
                own = slice(gold.starts[row], gold.starts[row + 1])
                ranks[own] = _ranks_in_row(self.values[row], scores, gold.labels[own])
        return ranks

    def accepted(self) -> Lists:
        labels, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for rows in self._row_blocks():
            passing = self.values[rows] >= self.thresholds
            labels.append((np.flatnonzero(passing) % passing.shape[1]).astype(np.int32))
            lengths.append(np.count_nonzero(passing, axis=1))
        return Lists(np.concatenate(labels), offsets(np.concatenate(lengths)))

    def scores_of(self, entries: Lists) -> NDArray[np.float64]:
        scores = np.full(len(entries.labels), -np.inf)
        scored = entries.labels < self.values.shape[1]
        scores[scored] = self.values[entries.documents[scored], entries.labels[scored]]
        return scores

    def standing_in_label(self, gold: Lists) -> Standing:
        above = np.zeros(len(gold.labels), np.int64)
        tied = np.full(len(gold.labels), len(self.values))
        scores = self.scores_of(gold).astype(np.float32)
        for column, entries in self.columns(gold):
            above[entries], tied[entries] = _standing(column, scores[entries])
        return Standing(above, tied)

    def columns(self, gold: Lists) -> Iterator[tuple[Values, NDArray[np.intp]]]:
        """For each scored label that is gold somewhere: its rising scores, and which gold entries are its own."""
        order = np.argsort(gold.labels, kind="stable")
        present, first = np.unique(gold.labels[order], return_index=True)
        entries = np.split(order, first[1:])
        scored = int(np.searchsorted(present, self.values.shape[1]))
        for part in blocks(scored, BLOCK // max(1, len(self.values))):
            rising = np.sort(np.ascontiguousarray(self.values[:, present[part]].T), axis=1)
            yield from zip(rising, entries[part], strict=True)

    def standing_overall(self, gold: Lists, n_labels: int) -> Standing:
        n_documents, n_scored = self.values.shape
        scores = self.scores_of(gold).astype(np.float32)
        distinct, inverse = np.unique(scores, return_inverse=True)
        above, tied = np.zeros(len(distinct), np.int64), np.zeros(len(distinct), np.int64)
        for rows in self._row_blocks():
            more_above, more_tied = _standing(np.sort(self.values[rows], axis=None), distinct)
            above, tied = above + more_above, tied + more_tied
        tied = np.where(np.isneginf(distinct), tied + n_documents * (n_labels - n_scored), tied)
        return Standing(above[inverse], tied[inverse])

    def histogram(self, bins: int, floor: float) -> Histogram:
        parts = [_histogram(self.values[rows].ravel(), bins, floor) for rows in self._row_blocks()]
        return Histogram(
            counts=sum((part.counts for part in parts), np.zeros(bins)),
            sums=sum((part.sums for part in parts), np.zeros(bins)),
            outside=sum(part.outside for part in parts),
        )

    def only(self, kept: Mask) -> "Dense":
        mine = kept[: self.values.shape[1]]
        return Dense(self.values[:, mine], self.thresholds[mine])

    def top(self, k: int) -> "RankedLists":
        k = min(k, self.values.shape[1])
        labels = np.zeros((len(self.values), k), np.int64)
        for rows in self._row_blocks():
            labels[rows] = [best_labels(row, k) for row in self.values[rows]]
        return ranked(labels, np.take_along_axis(self.values, labels, axis=1), thresholds=self.thresholds)

    def _row_blocks(self) -> Iterator[slice]:
        return blocks(len(self.values), BLOCK // max(1, self.values.shape[1]))


@dataclass(frozen=True)
class RankedLists:
    """The best labels of each document, best first; without `values` only their order is known."""

    lists: Lists
    flags: Mask  # whether each listed label is accepted
    values: Values | None = None

    complete = False

    @property
    def valued(self) -> bool:
        return self.values is not None

    @property
    def list_length(self) -> int:
        return int(self.lists.lengths.max(initial=0))

    def ranks(self, gold: Lists) -> NDArray[np.int64]:
        entries, places = self._entries(gold), np.full(len(gold.labels), UNRANKED)
        found = entries < len(self.lists.labels)
        places[found] = entries[found] - self.lists.starts[gold.documents[found]] + 1
        return places

    def accepted(self) -> Lists:
        return self.lists.keep(self.flags)

    def scores_of(self, entries: Lists) -> NDArray[np.float64]:
        listed, scores = self._entries(entries), np.full(len(entries.labels), -np.inf)
        found = listed < len(self.lists.labels)
        scores[found] = self._values()[listed[found]]
        return scores

    def standing_in_label(self, gold: Lists) -> Standing:
        values, labels, entries = self._values(), self.lists.labels, self._entries(gold)
        n_labels = int(max(labels.max(initial=-1), gold.labels.max(initial=-1))) + 1
        listed = np.bincount(labels, minlength=n_labels)
        above, tied = listed[gold.labels], len(self.lists) - listed[gold.labels]
        found = entries < len(labels)
        for first, last in pairwise(_bounds(listed, LISTED_BLOCK)):
            own = np.flatnonzero((labels >= first) & (labels < last))
            asked = np.flatnonzero(found & (gold.labels >= first) & (gold.labels < last))
            above[asked], tied[asked] = _standing_by_label(labels[own], values[own], own.searchsorted(entries[asked]))
        return Standing(above, tied)

    def columns(self, gold: Lists) -> Iterator[tuple[Values, NDArray[np.intp]]]:
        """For each label with a gold entry that is listed: its rising scores, and which gold entries are its own."""
        order = np.lexsort((self._values(), self.lists.labels))
        labels, values = self.lists.labels[order], self._values()[order]
        own = np.argsort(gold.labels, kind="stable")
        present, first = np.unique(gold.labels[own], return_index=True)
        found = np.isfinite(self.scores_of(gold))
        for label, entries in zip(present, np.split(own, first[1:]), strict=True):
            if found[entries].any():
                yield values[slice(*np.searchsorted(labels, [label, label + 1]))], entries

    def standing_overall(self, gold: Lists, n_labels: int) -> Standing:
        values = self._values()
        scores = self.scores_of(gold).astype(np.float32)
        above, tied = _standing(np.sort(values), scores)
        unlisted = len(self.lists) * n_labels - len(values)
        return Standing(above, np.where(np.isneginf(scores), unlisted + tied, tied))

    def histogram(self, bins: int, floor: float) -> Histogram:
        return _histogram(self._values(), bins, floor)

    def only(self, kept: Mask) -> "RankedLists":
        mine = kept[self.lists.labels]
        numbers = np.where(kept, np.cumsum(kept) - 1, -1)
        values = None if self.values is None else self.values[mine]
        return RankedLists(self.lists.renumbered(numbers), self.flags[mine], values)

    def top(self, k: int) -> "RankedLists":
        kept = self.lists.places <= k
        values = None if self.values is None else self.values[kept]
        return RankedLists(self.lists.keep(kept), self.flags[kept], values)

    def _values(self) -> Values:
        if self.values is None:
            raise InputError("these predictions have an order but no scores: areas, curves and calibration need scores")
        return self.values

    def _entries(self, gold: Lists) -> NDArray[np.int64]:
        """Where each gold entry stands in the flat lists; their length where it is not listed."""
        found = np.full(len(gold.labels), len(self.lists.labels), np.int64)
        for first, last in pairwise(_bounds(self.lists.lengths, LISTED_BLOCK)):
            begin, asked = self.lists.starts[first], slice(gold.starts[first], gold.starts[last])
            places = _places_of(self.lists.within(first, last), gold.within(first, last))
            found[asked] = np.where(places < 0, len(self.lists.labels), begin + places)
        return found


@dataclass(frozen=True)
class Constant:
    """The same scores for every document; ranked are the labels with a score above 0, at most `list_length` of them."""

    values: Values  # per label
    threshold: float
    n_documents: int
    list_length: int

    complete = True
    valued = True

    def ranks(self, gold: Lists) -> NDArray[np.int64]:
        return self._places()[gold.labels]

    def accepted(self) -> Lists:
        labels = np.flatnonzero((self.values >= self.threshold) & (self._places() != UNRANKED)).astype(np.int32)
        return Lists(np.tile(labels, self.n_documents), offsets([len(labels)] * self.n_documents))

    def scores_of(self, entries: Lists) -> NDArray[np.float64]:
        return self.values[entries.labels].astype(np.float64)

    def standing_in_label(self, gold: Lists) -> Standing:
        return Standing(np.zeros(len(gold.labels), np.int64), np.full(len(gold.labels), self.n_documents))

    def standing_overall(self, gold: Lists, n_labels: int) -> Standing:
        above, tied = _standing(np.sort(self.values), self.values[gold.labels])
        return Standing(above * self.n_documents, tied * self.n_documents)

    def histogram(self, bins: int, floor: float) -> Histogram:
        once = _histogram(self.values, bins, floor)
        return Histogram(once.counts * self.n_documents, once.sums * self.n_documents, once.outside * self.n_documents)

    def only(self, kept: Mask) -> "Constant":
        return replace(self, values=self.values[kept])

    def top(self, k: int) -> "RankedLists":
        labels = np.argsort(self._places(), kind="stable")[: min(k, np.count_nonzero(self._places() != UNRANKED))]
        everybody = np.tile(labels, (self.n_documents, 1))
        return ranked(
            everybody, self.values[everybody], thresholds=np.full(len(self.values), self.threshold, np.float32)
        )

    def _places(self) -> NDArray[np.int64]:
        order = np.argsort(-self.values, kind="stable")
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(1, len(order) + 1)
        return np.where((places <= self.list_length) & (self.values > 0), places, UNRANKED)


def best_labels(scores: Values, k: int) -> NDArray[np.intp]:
    """The `k` best labels of one document, best first, of equals the first; only these are sorted."""
    if not 0 < k < len(scores):
        return np.argsort(-scores, kind="stable")[: max(0, k)]
    floor = np.partition(scores, len(scores) - k)[len(scores) - k]
    reaching = np.flatnonzero(scores >= floor)
    return reaching[np.argsort(-scores[reaching], kind="stable")[:k]]


def ranked(
    labels: NDArray[np.integer], values: NDArray[np.floating], *, thresholds: NDArray[np.floating]
) -> RankedLists:
    """Lists of equal length from the arrays of a top-k: documents x k labels and their scores, best first."""
    n_documents, k = labels.shape
    flat = labels.reshape(-1).astype(np.int32)
    scores = values.reshape(-1).astype(np.float32)
    lists = Lists(flat, offsets(np.full(n_documents, k)))
    return RankedLists(lists, scores >= thresholds.astype(np.float32)[flat], scores)


def check_scores(values: NDArray[np.floating], ids: tuple[str, ...]) -> None:
    """Refuse scores that are not numbers, naming the first row that has one."""
    for rows in blocks(len(values), BLOCK // max(1, values[0].size if len(values) else 1)):
        bad = np.isnan(values[rows]).reshape(rows.stop - rows.start, -1).any(axis=1)
        if bad.any():
            row = rows.start + int(bad.argmax())
            raise InputError(
                f"the scores of document {quoted(ids[row])} (row {row}) hold NaN: mend the system that wrote them"
            )


def blocks(total: int, size: int) -> Iterator[slice]:
    """Slices that cover `total` in pieces of at most `size`."""
    size = max(1, size)
    return (slice(first, min(first + size, total)) for first in range(0, total, size))


def _ranks_in_row(row: Values, ordered: Values, labels: NDArray[np.int32]) -> NDArray[np.int64]:
    """Places of some labels of one document; labels beyond the row have no score."""
    ranks = np.full(len(labels), UNRANKED)
    scored = np.flatnonzero(labels < len(row))
    scores = row[labels[scored]]
    above, tied = _standing(ordered, scores)
    ranks[scored] = above + 1
    for entry in np.flatnonzero(tied > 1):
        label = labels[scored[entry]]
        ranks[scored[entry]] += np.count_nonzero(row[:label] == row[label])
    return ranks


def _standing(ordered: Values, scores: Values) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many of the rising `ordered` lie above each score, and how many equal it."""
    right = np.searchsorted(ordered, scores, side="right")
    return len(ordered) - right, right - np.searchsorted(ordered, scores, side="left")


def _runs(labels: NDArray[np.int32], values: Values) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each entry of a sorted table, where its run of equal (label, value) starts and how long it is."""
    new = np.ones(len(labels), bool)
    new[1:] = (labels[1:] != labels[:-1]) | (values[1:] != values[:-1])
    starts = np.flatnonzero(new)
    run = np.cumsum(new) - 1
    return starts[run], np.diff(np.append(starts, len(labels)))[run]


def _standing_by_label(
    labels: NDArray[np.int32], values: Values, asked: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For some of the entries, how many of the same label have a higher value, and how many the same."""
    order = np.lexsort((-values, labels))
    run_starts, run_lengths = _runs(labels[order], values[order])
    first = np.searchsorted(labels[order], labels)
    above, tied = np.empty((2, len(labels)), np.int64)
    above[order], tied[order] = run_starts, run_lengths
    return (above - first)[asked], tied[asked]


def _places_of(lists: Lists, gold: Lists) -> NDArray[np.int64]:
    """Where each gold entry stands in the flat lists of the same documents; -1 where it is not listed."""
    n_labels = int(max(lists.labels.max(initial=0), gold.labels.max(initial=0))) + 1
    keys, asked = lists.keys(n_labels), gold.keys(n_labels)
    order = np.argsort(keys, kind="stable")
    spots = np.searchsorted(keys, asked, sorter=order)
    candidates = np.append(order, -1)[spots]
    return np.where(np.append(keys, -1)[candidates] == asked, candidates, -1)


def _bounds(sizes: NDArray[np.integer], most: int) -> list[int]:
    """Where to cut a row of things so that each piece holds `most` in all, or a single thing that holds more."""
    ends, bounds = np.cumsum(sizes), [0]
    while bounds[-1] < len(sizes):
        before = ends[bounds[-1] - 1] if bounds[-1] else 0
        bounds.append(max(bounds[-1] + 1, int(np.searchsorted(ends, before + most, side="right"))))
    return bounds


def _histogram(values: Values, bins: int, floor: float) -> Histogram:
    values = values[values >= floor] if floor > 0 else values
    numbers = bin_numbers(values, bins)
    counts = np.bincount(numbers, minlength=bins).astype(np.float64)
    sums = np.bincount(numbers, weights=values, minlength=bins).astype(np.float64)
    return Histogram(counts, sums, outside=int(np.count_nonzero((values < 0) | (values > 1))))


def bin_numbers(values: NDArray[np.floating], bins: int) -> NDArray[np.int32]:
    """The equal bin between 0 and 1 that each value falls into."""
    return np.clip((values * bins).astype(np.int32), 0, bins - 1)
