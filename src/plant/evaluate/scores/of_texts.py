"""Scores of some texts for all labels, as rows or as lists, that answer the same questions.

`Full` has a score for every label of every text. `Sparse` has those of the labels that a text speaks for; every other
label has its usual score, which is kept once for all texts: what it costs goes by what a text says.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from plant.evaluate.scores.forms import Values, best_labels
from plant.evaluate.scores.lists import Lists
from plant.store.ragged import offsets

Change = Callable[[NDArray[Any]], NDArray[Any]]


@runtime_checkable
class TextScores(Protocol):
    """What may be asked of the scores of texts that were read together."""

    @property
    def n_labels(self) -> int:
        """How many labels there are."""
        ...

    def of(self, row: int, labels: NDArray[np.integer]) -> Values:
        """The scores of some labels of a text."""
        ...

    def best(self, row: int, most: int) -> NDArray[np.intp]:
        """The best labels of a text, best first, of equals the first."""
        ...

    def reaching(self, row: int, thresholds: Values) -> NDArray[np.intp]:
        """The labels of a text that reach their thresholds, rising."""
        ...

    def changed(self, change: Change) -> "TextScores":
        """The same with every score changed by itself."""
        ...


@dataclass(frozen=True)
class Full:
    """A score for each label of each text."""

    values: Values

    @property
    def n_labels(self) -> int:
        return self.values.shape[1]

    def of(self, row: int, labels: NDArray[np.integer]) -> Values:
        return self.values[row, labels]

    def best(self, row: int, most: int) -> NDArray[np.intp]:
        return best_labels(self.values[row], most)

    def reaching(self, row: int, thresholds: Values) -> NDArray[np.intp]:
        return np.flatnonzero(self.values[row] >= thresholds)

    def changed(self, change: Change) -> "Full":
        return Full(change(self.values))


@dataclass(frozen=True)
class Usual:
    """The score of each label in a text that does not speak for it; of labels from `known` on nothing is known."""

    values: Values
    known: int

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The labels, best first."""
        return np.argsort(-self.values, kind="stable")


@dataclass(frozen=True)
class Sparse:
    """The scores of the labels that each text speaks for, its labels rising, beside what is usual."""

    lists: Lists
    values: Values  # of the entries
    usual: Usual

    @property
    def n_labels(self) -> int:
        return len(self.usual.values)

    def of(self, row: int, labels: NDArray[np.integer]) -> Values:
        own, values = self._own(row)
        scores = self.usual.values[labels]
        if len(own):
            places = np.minimum(np.searchsorted(own, labels), len(own) - 1)
            scores = np.where(own[places] == labels, values[places], scores)
        return scores

    def best(self, row: int, most: int) -> NDArray[np.intp]:
        own, values = self._own(row)
        others = self.usual.order[: max(0, most) + len(own)]  # as many as there are, were all own ones among them
        others = others[~np.isin(others, own)]
        labels = np.concatenate([own, others]).astype(np.intp)
        scores = np.concatenate([values, self.usual.values[others]])
        return labels[np.lexsort((labels, -scores))][: max(0, most)]

    def reaching(self, row: int, thresholds: Values) -> NDArray[np.intp]:
        own, values = self._own(row)
        others = np.setdiff1d(np.flatnonzero(self.usual.values >= thresholds), own)
        return np.sort(np.concatenate([own[values >= thresholds[own]], others])).astype(np.intp)

    def changed(self, change: Change) -> "Sparse":
        return Sparse(self.lists, change(self.values), Usual(change(self.usual.values), self.usual.known))

    def filled(self) -> Values:
        """The scores of all labels of each text."""
        rows = np.tile(self.usual.values, (len(self.lists), 1))
        rows[self.lists.documents, self.lists.labels] = self.values
        return rows

    def _own(self, row: int) -> tuple[NDArray[np.int32], Values]:
        place = slice(self.lists.starts[row], self.lists.starts[row + 1])
        return self.lists.labels[place], self.values[place]


def sparse_of(found: Sequence[tuple[NDArray[np.integer], NDArray[np.floating]]], usual: Usual) -> Sparse:
    """Scores from the labels that each text speaks for, rising, and what it says of them."""
    labels = np.concatenate([np.zeros(0, np.int32), *(labels for labels, _ in found)]).astype(np.int32)
    values = np.concatenate([np.zeros(0, np.float32), *(values for _, values in found)]).astype(np.float32)
    return Sparse(Lists(labels, offsets([len(labels) for labels, _ in found])), values, usual)
