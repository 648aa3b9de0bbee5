"""Rows of different lengths as one flat array and the places where rows start."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Ragged:
    """Row i is `values[starts[i]:starts[i + 1]]`."""

    values: NDArray[Any]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Iterable[ArrayLike], dtype: type) -> "Ragged":
        """Copies of the given rows, one after the other."""
        arrays: list[NDArray[Any]] = [np.asarray(row, dtype) for row in rows]
        return cls(np.concatenate([np.empty(0, dtype), *arrays]), offsets([len(array) for array in arrays]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many values each row has."""
        return np.diff(self.starts)

    def row(self, number: int) -> NDArray[Any]:
        """The values of one row."""
        return self.values[self.starts[number] : self.starts[number + 1]]

    def take(self, rows: NDArray[np.integer]) -> "Ragged":
        """Copies of some rows, in the order asked for."""
        chosen = places(self.starts, rows)
        return Ragged(self.values[chosen.values], chosen.starts)


def offsets(lengths: ArrayLike) -> NDArray[np.int64]:
    """Where each of some rows starts, and the end of the last; also how many of some truths stand before each place."""
    counted = np.asarray(lengths)
    starts = np.zeros(len(counted) + 1, np.int64)
    np.cumsum(counted, out=starts[1:])
    return starts


def owners(starts: NDArray[np.integer]) -> NDArray[np.int64]:
    """The row of each value."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def places(starts: NDArray[np.int64], rows: NDArray[np.integer]) -> Ragged:
    """Of some rows of a flat array, the places where their values stand in it; one index serves parallel arrays."""
    lengths = starts[rows + 1] - starts[rows]
    new = offsets(lengths)
    return Ragged(np.arange(new[-1]) + np.repeat(starts[rows] - new[:-1], lengths), new)
