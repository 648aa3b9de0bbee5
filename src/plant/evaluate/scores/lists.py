"""Lists of labels, one per document, as flat arrays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.store.ragged import Ragged, offsets, owners, places

Labels = NDArray[np.int32]
Starts = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Lists:
    """A list of labels per document: document `d` owns `labels[starts[d]:starts[d + 1]]`."""

    labels: Labels
    starts: Starts

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many labels each document has."""
        return np.diff(self.starts)

    @property
    def documents(self) -> NDArray[np.int64]:
        """The document of each entry."""
        return owners(self.starts)

    @property
    def places(self) -> NDArray[np.int64]:
        """The place of each entry in its list, from 1."""
        return np.arange(1, len(self.labels) + 1) - np.repeat(self.starts[:-1], self.lengths)

    def of(self, document: int) -> Labels:
        """The list of one document."""
        return self.labels[self.starts[document] : self.starts[document + 1]]

    def within(self, first: int, last: int) -> "Lists":
        """The lists of documents `first` to `last`."""
        starts = self.starts[first : last + 1]
        return Lists(self.labels[starts[0] : starts[-1]], starts - starts[0])

    def keys(self, n_labels: int) -> NDArray[np.int64]:
        """One number per (document, label) pair."""
        return self.documents * n_labels + self.labels

    def keep(self, kept: Mask) -> "Lists":
        """The lists without the entries that are not `kept`."""
        return Lists(self.labels[kept], offsets(kept)[self.starts])

    def renumbered(self, numbers: NDArray[np.int64]) -> "Lists":
        """The lists with label `l` called `numbers[l]`; a negative number drops the entry."""
        labels = numbers[self.labels].astype(np.int32)
        return Lists(labels, self.starts).keep(labels >= 0)

    def sums(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """The sum over each document of one value per entry."""
        return np.bincount(self.documents, weights=values, minlength=len(self)).astype(np.float64, copy=False)


def lists_of(rows: Iterable[Sequence[int]]) -> Lists:
    """Lists from one sequence of labels per document."""
    ragged = Ragged.of(rows, np.int32)
    return Lists(ragged.values, ragged.starts)


def lists_of_mask(mask: NDArray[np.generic]) -> Lists:
    """Lists of the columns that are not zero in each row."""
    documents, labels = np.nonzero(mask)
    return Lists(labels.astype(np.int32), offsets(np.bincount(documents, minlength=len(mask))))


def taken(lists: Lists, rows: NDArray[np.integer]) -> tuple[Lists, NDArray[np.int64]]:
    """The lists of some documents in the order asked for, and which flat entries they are."""
    kept = places(lists.starts, rows)
    return Lists(lists.labels[kept.values], kept.starts), kept.values


def joined(first: Lists, second: Lists) -> Lists:
    """The documents of the first, then those of the second."""
    starts = np.concatenate([first.starts, second.starts[1:] + first.starts[-1]])
    return Lists(np.concatenate([first.labels, second.labels]), starts)


def member_of(entries: Lists, lists: Lists, n_labels: int) -> Mask:
    """Whether each entry is found in the other list of the same document."""
    return np.isin(entries.keys(n_labels), lists.keys(n_labels))
