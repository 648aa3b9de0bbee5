"""Which names are most like a wording: cosines of sparse vectors, all of them or the best few.

For some thousand names all cosines are computed. For a whole classification the best few are found exactly without
looking at most names: the columns of a wording are read from the rarest on, and as soon as what is left of its length
cannot make a name good enough by itself, names that have not been met are out.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

Arrays = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]
WORTH = 8  # entries of a column that may be read for each name that was met
SLACK = np.float32(1e-4)  # rounding of sums must not shut out a name


@dataclass(frozen=True)
class NameIndex:
    """Vectors of names, row by row and column by column."""

    rows: csr_array  # [names, columns], float32

    @property
    def n_names(self) -> int:
        return self.rows.shape[0]

    @cached_property
    def by_name(self) -> Arrays:
        """Where each name's columns start, the columns and their weights."""
        return arrays_of(self.rows)

    @cached_property
    def by_column(self) -> Arrays:
        """The same turned around: where each column's names start, the names and their weights."""
        turned = self.rows.T.tocsr()
        turned.sort_indices()
        return arrays_of(turned)


def cosines(index: NameIndex, queries: csr_array) -> NDArray[np.float32]:
    """The cosine of every wording with every name, [wordings, names]."""
    out = np.zeros((queries.shape[0], index.n_names), np.float32)
    if out.size:
        _all_cosines(*arrays_of(queries), *index.by_column, out)
    return out


def nearest(
    index: NameIndex, queries: csr_array, *, count: int, least: float
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The most similar names of each wording with a cosine above `least`, best first, -1 where there are no more."""
    names = np.full((queries.shape[0], count), -1, np.int32)
    found = np.zeros((queries.shape[0], count), np.float32)
    if index.n_names and queries.nnz and count:
        _best_few(*arrays_of(queries), *index.by_name, *index.by_column, np.float32(least), names, found)
    return names, found


def best_of_each(
    cosine: NDArray[np.float32], *, count: int, least: float
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The same from a table of all cosines."""
    names = np.full((len(cosine), count), -1, np.int32)
    found = np.zeros((len(cosine), count), np.float32)
    if cosine.size and count:
        _best_of_rows(cosine, np.float32(least), names, found)
    return names, found


def arrays_of(matrix: csr_array) -> Arrays:
    """Starts of rows, columns and weights, in the types that the compiled functions know."""
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), matrix.data


@njit(cache=True)
def _all_cosines(starts, columns, weights, name_starts, names, name_weights, out):  # type: ignore[no-untyped-def]
    for row in range(len(starts) - 1):
        for place in range(starts[row], starts[row + 1]):
            column, weight = columns[place], weights[place]
            for at in range(name_starts[column], name_starts[column + 1]):
                out[row, names[at]] += weight * name_weights[at]


@njit(cache=True)
def _insert(name, value, names, found):  # type: ignore[no-untyped-def]
    """Put a name among the best, which stay sorted; equal ones by number."""
    place = len(names)
    while place > 0 and (
        names[place - 1] < 0 or found[place - 1] < value or (found[place - 1] == value and names[place - 1] > name)
    ):
        place -= 1
    if place == len(names):
        return
    for at in range(len(names) - 1, place, -1):
        names[at], found[at] = names[at - 1], found[at - 1]
    names[place], found[place] = name, value


@njit(cache=True)
def _best_of_rows(cosine, least, names, found):  # type: ignore[no-untyped-def]
    last = names.shape[1] - 1
    for row in range(len(cosine)):
        for name in range(cosine.shape[1]):
            value = cosine[row, name]
            if value > least and value >= found[row, last]:
                _insert(name, value, names[row], found[row])


@njit(cache=True)
def _best_few(  # type: ignore[no-untyped-def]
    starts,
    columns,
    weights,
    row_starts,
    row_columns,
    row_weights,
    of_column,
    names_of,
    name_weights,
    least,
    best,
    found,
):
    n_names, count = len(row_starts) - 1, best.shape[1]
    sums, query = np.zeros(n_names, np.float32), np.zeros(len(of_column) - 1, np.float32)
    met = np.empty(n_names, np.int32)
    partial_names, partial = np.empty(count, np.int32), np.empty(count, np.float32)
    for row in range(len(starts) - 1):
        own = columns[starts[row] : starts[row + 1]]
        own_weights = weights[starts[row] : starts[row + 1]]
        query[own] = own_weights
        order = np.argsort(of_column[own + 1] - of_column[own], kind="mergesort")
        rest, n_met = np.float32(0), 0
        for weight in own_weights:
            rest += weight * weight
        for place in order:
            column, weight = own[place], own_weights[place]
            closed = np.sqrt(max(rest, np.float32(0))) < least - SLACK  # what is left makes no new name good enough
            if closed and of_column[column + 1] - of_column[column] > WORTH * n_met:
                break  # looking at the names that were met, one by one, takes less time
            for at in range(of_column[column], of_column[column + 1]):
                name = names_of[at]
                if sums[name] == 0:
                    if closed:
                        continue
                    met[n_met] = name
                    n_met += 1
                sums[name] += weight * name_weights[at]
            rest -= weight * weight
        partial_names[:], partial[:] = -1, 0
        for name in met[:n_met]:
            if sums[name] > partial[count - 1]:
                _insert(name, sums[name], partial_names, partial)
        needed = max(least, partial[count - 1]) - np.sqrt(max(rest, np.float32(0))) - SLACK
        for name in met[:n_met]:
            if sums[name] >= needed:
                value = np.float32(0)
                for at in range(row_starts[name], row_starts[name + 1]):
                    value += query[row_columns[at]] * row_weights[at]
                if value > least:
                    _insert(name, value, best[row], found[row])
            sums[name] = 0
        query[own] = 0
