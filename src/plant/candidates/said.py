"""What other systems say of whole notes: the codes that they put first, their log-odds, and where they looked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plant.store.ragged import offsets
from plant.types import Evidence

KEPT = 4000  # codes of a note that a system is heard about: no row of all labels is kept for any note
LOOKED, PHRASES = 30, 2  # codes of a note for which is kept where a system looked, and places of each


@dataclass(frozen=True)
class Looks:
    """Where a system looked for codes: characters [start, end), and their share of all that it looked at."""

    label: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    share: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.label)

    def taken(self, entries: slice) -> "Looks":
        """Some of them."""
        return Looks(self.label[entries], self.start[entries], self.end[entries], self.share[entries])

    def relabelled(self, columns: NDArray[np.int32]) -> "Looks":
        """The same with label `l` called `columns[l]`; a negative number drops it."""
        label = columns[self.label]
        kept = label >= 0
        return Looks(label[kept], self.start[kept], self.end[kept], self.share[kept])

    def shares(
        self, labels: NDArray[np.integer], starts: NDArray[np.integer], ends: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        """What of the looks for each label met a span; not a number for labels for which it is not known."""
        found = np.zeros(len(labels), np.float32)
        for label, start, end, share in zip(self.label, self.start, self.end, self.share, strict=True):
            found[(labels == label) & (starts < end) & (ends > start)] += share
        return np.where(np.isin(labels, self.label), found, np.nan).astype(np.float32)


LOOKS = ("label", "start", "end", "share")
NOWHERE = Looks(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32))


@dataclass(frozen=True)
class Heard:
    """What a system says of a note: labels, best first, and their log-odds; it is not heard about others."""

    labels: NDArray[np.int32]
    values: NDArray[np.float32]
    looks: Looks = field(default=NOWHERE)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Where the labels stand in the list, by label."""
        return np.argsort(self.labels)

    def of(self, labels: NDArray[np.integer]) -> NDArray[np.float32]:
        """Log-odds and rank of some labels, [2, labels]; not a number where it is not heard about them."""
        found = np.full((2, len(labels)), np.nan, np.float32)
        if not len(self.labels):
            return found
        at = self.order[np.minimum(np.searchsorted(self.labels, labels, sorter=self.order), len(self.labels) - 1)]
        heard = self.labels[at] == labels
        found[:, heard] = self.values[at[heard]], at[heard]
        return found


@dataclass(frozen=True)
class SaidOfNotes:
    """What a system says of some notes: of each its best `codes` by number, best first, and their log-odds."""

    codes: tuple[str, ...]
    labels: NDArray[np.int32]  # [notes, heard]
    values: NDArray[np.float32]
    looks: Looks  # of all notes behind each other
    look_starts: NDArray[np.int64]

    def of(self, note: int, columns: NDArray[np.int32]) -> Heard:
        """What it says of a note; `columns` are the labels of its codes in a coder, negative where there is none."""
        labels = columns[self.labels[note]]
        looks = self.looks.taken(slice(self.look_starts[note], self.look_starts[note + 1]))
        return Heard(labels[labels >= 0], self.values[note][labels >= 0], looks.relabelled(columns))


def heard_of(labels: NDArray[np.int32], values: NDArray[np.float32]) -> Heard:
    """What is heard of the scores of some labels; of equals the first label comes first."""
    best = np.lexsort((labels, -values))[:KEPT]
    return Heard(labels[best], values[best])


def looks_of(labels: Sequence[int], phrases: Sequence[Sequence[Evidence]]) -> Looks:
    """The strongest phrases of each label."""
    found = [
        (label, one.start, one.end, one.weight)
        for label, own in zip(labels, phrases, strict=True)
        for one in own[:PHRASES]
    ]
    places = np.array([place for *place, _ in found], np.int32).reshape(-1, 3)
    return Looks(places[:, 0], places[:, 1], places[:, 2], np.array([share for *_, share in found], np.float32))


def said_together(codes: tuple[str, ...], notes: Sequence[Heard]) -> SaidOfNotes:
    """What a system says of notes, each of which it was heard about as many codes of."""
    most = len(notes[0].labels) if notes else 0
    return SaidOfNotes(
        codes,
        np.array([one.labels for one in notes], np.int32).reshape(len(notes), most),
        np.array([one.values for one in notes], np.float32).reshape(len(notes), most),
        Looks(*(np.concatenate([getattr(one.looks, name) for one in (_NOTHING, *notes)]) for name in LOOKS)),
        offsets([len(one.looks) for one in notes]),
    )


_NOTHING = Heard(np.zeros(0, np.int32), np.zeros(0, np.float32))


def in_columns(heard: Iterable[Heard], labels: NDArray[np.integer]) -> NDArray[np.float32]:
    """What several systems say of some labels: log-odds and rank by each, [systems x 2, labels]."""
    return np.concatenate([np.zeros((0, len(labels)), np.float32), *(one.of(labels) for one in heard)])
