"""What other systems say of whole notes: the codes that they put first, and the log-odds of these."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

KEPT = 4000  # codes of a note that a system is heard about: no row of all labels is kept for any note


@dataclass(frozen=True)
class Heard:
    """What a system says of a note: labels, best first, and their log-odds; it is not heard about others."""

    labels: NDArray[np.int32]
    values: NDArray[np.float32]

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

    def of(self, note: int, columns: NDArray[np.int32]) -> Heard:
        """What it says of a note; `columns` are the labels of its codes in a coder, negative where there is none."""
        labels = columns[self.labels[note]]
        return Heard(labels[labels >= 0], self.values[note][labels >= 0])


def heard_of(labels: NDArray[np.int32], values: NDArray[np.float32]) -> Heard:
    """What is heard of the scores of some labels; of equals the first label comes first."""
    best = np.lexsort((labels, -values))[:KEPT]
    return Heard(labels[best], values[best])


def in_columns(heard: Iterable[Heard], labels: NDArray[np.integer]) -> NDArray[np.float32]:
    """What several systems say of some labels: log-odds and rank by each, [systems x 2, labels]."""
    return np.concatenate([np.zeros((0, len(labels)), np.float32), *(one.of(labels) for one in heard)])
