"""Candidates: spans of a note, each with a code that it may mean, as rows of features for the judge."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from plant.store.ragged import offsets


@dataclass(frozen=True)
class Rows:
    """One row for each span and code of a note, in the order of the note's spans; `features` are those of level 1.

    A code for which no span speaks, but the note as a whole, has a row of its own without a place (`first` is -1).
    """

    first: NDArray[np.int32]  # words [first, last)
    last: NDArray[np.int32]
    start: NDArray[np.int32]  # characters
    end: NDArray[np.int32]
    code: NDArray[np.int32]
    features: NDArray[np.float32]  # [rows, features]

    def __len__(self) -> int:
        return len(self.code)

    def take(self, rows: NDArray[np.generic]) -> "Rows":
        """Some of the rows, by number or by a mask."""
        return Rows(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True)
class ListedNotes:
    """The rows of several notes, one note after the other: note n owns `rows[starts[n]:starts[n + 1]]`."""

    rows: Rows
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of(self, note: int) -> Rows:
        """The rows of one note."""
        return self.rows.take(np.arange(self.starts[note], self.starts[note + 1]))


def listed(notes: Sequence[Rows], *, n_features: int) -> ListedNotes:
    """The rows of notes behind each other."""
    names = [field.name for field in fields(Rows)]
    if not notes:
        empty = np.empty(0, np.int32)
        rows = Rows(empty, empty, empty, empty, empty, np.empty((0, n_features), np.float32))
    else:
        rows = Rows(*(np.concatenate([getattr(note, name) for note in notes]) for name in names))
    return ListedNotes(rows, offsets([len(note) for note in notes]))
