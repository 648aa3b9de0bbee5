"""Draws of documents: the value, the bootstrap and the randomisation test of a measure are the same sums, differently
weighted."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plant.evaluate.scores.outcome import Numbers, Outcome


@dataclass(frozen=True)
class LabelCounts:
    """Right, accepted and gold documents per draw and active label."""

    right: Numbers
    accepted: Numbers
    gold: Numbers
    n_labels: int  # all of them, the inactive too


@runtime_checkable
class Sample(Protocol):
    """Documents drawn once or many times; measures need not know how."""

    @property
    def outcome(self) -> Outcome:
        """What is drawn from."""

    @property
    def labels(self) -> LabelCounts:
        """The counts of each label, per draw."""

    def sums(self, values: NDArray[Any]) -> Numbers:
        """The sum over the drawn documents, per draw."""


@dataclass(frozen=True)
class Weighted:
    """Documents that count by weight: ones give the value of a measure, multinomial weights a bootstrap."""

    outcome: Outcome
    weights: Numbers  # draws x documents

    def sums(self, values: NDArray[Any]) -> Numbers:
        if len(self.weights) == 1:  # a BLAS product may differ in its last bit from call to call; values must not
            return (self.weights * values).sum(axis=1)
        return self.weights @ values

    @cached_property
    def labels(self) -> LabelCounts:
        right, accepted, gold = ((matrix @ self.weights.T).T for matrix in self.outcome.label_matrices)
        return LabelCounts(right, accepted, gold, self.outcome.n_labels)


@dataclass(frozen=True)
class Swapped:
    """One of two systems after swaps between them; `outcome` holds the documents of both, one after the other.

    Only what differs between the systems is summed anew, which for the counts of labels is very little.
    """

    outcome: Outcome
    swaps: Numbers  # draws x documents of one system: 1 where the other's result is taken
    second: bool  # which of the two

    def sums(self, values: NDArray[Any]) -> Numbers:
        mine, other = np.split(np.asarray(values, dtype=np.float64), 2)[:: -1 if self.second else 1]
        return mine.sum() + self.swaps @ (other - mine)

    @cached_property
    def labels(self) -> LabelCounts:
        right, accepted, gold = (self._label_sums(matrix) for matrix in self.outcome.label_matrices)
        return LabelCounts(right, accepted, gold, self.outcome.n_labels)

    def _label_sums(self, matrix: csr_array) -> Numbers:
        half = matrix.shape[1] // 2
        mine, other = (matrix[:, :half], matrix[:, half:])[:: -1 if self.second else 1]
        change = other - mine
        change.eliminate_zeros()
        return mine.sum(axis=1) + (change @ self.swaps.T).T


def whole(outcome: Outcome) -> Sample:
    """Every document once."""
    return Weighted(outcome, np.ones((1, len(outcome))))
