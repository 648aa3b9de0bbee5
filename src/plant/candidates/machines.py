"""Linear support vector machines, one class against the rest, over one sparse matrix.

    of a class:  the minimum of  1/2 (w . w + b^2) + cost sum_i c_i max(0, 1 - y_i (w . x_i + b))^2,   y_i = 1 or -1

by dual coordinate descent with shrinking (Hsieh et al. 2008, as in LIBLINEAR): w = sum_i y_i a_i x_i with a_i >= 0, and
one a_i after the other is moved to where the gradient y_i (w . x_i + b) - 1 + a_i / (2 cost c_i) is zero. Most rows are
negative for most classes, so all classes start from the a of a class without members instead of from zero.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plant.types import Progress, silent


@dataclass(frozen=True)
class Machines:
    """One row of weights and an intercept per class."""

    weights: Float32[np.ndarray, "label feature"]
    intercepts: Float32[np.ndarray, "label"]


def fit_machines(
    X: csr_array,
    classes: csr_array,
    *,
    cost: float = 2.0,
    row_weights: Float32[np.ndarray, "row"] | None = None,
    tolerance: float = 0.01,
    epochs: int = 200,
    seed: int = 1,
    threads: int | None = None,
    progress: Progress = silent,
) -> Machines:
    """A machine for every column of `classes` (rows x classes), whose members are the entries that are not zero.

    `row_weights` are the c_i; rows of weight 0 are not looked at. `tolerance` is the largest difference of projected
    gradients that is left. A class without members has an intercept of about -1 and weights of about 0.
    """
    rows = (X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data.astype(np.float32))
    costs = cost * (np.ones(X.shape[0]) if row_weights is None else row_weights.astype(np.float64))
    nobody = np.zeros(0, np.int32)
    nothing = np.zeros(X.shape[0]), np.zeros(X.shape[1] + 1)
    start = _fit_class(rows, nobody, costs, nothing, (tolerance / 10, epochs, seed))

    def fit(members: NDArray[np.int32]) -> NDArray[np.float32]:
        return _fit_class(rows, members, costs, start, (tolerance, epochs, seed))[1].astype(np.float32)

    fitted = np.zeros((classes.shape[1], X.shape[1] + 1), np.float32)
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        for label, weights in enumerate(pool.map(fit, _members(classes))):
            fitted[label] = weights
            progress("classes", label + 1, classes.shape[1])
    return Machines(np.ascontiguousarray(fitted[:, :-1]), fitted[:, -1].copy())


def margins(machines: Machines, X: csr_array) -> Float32[np.ndarray, "row label"]:
    """w . x + b of each row and class."""
    return X.astype(np.float32) @ machines.weights.T + machines.intercepts


def _members(classes: csr_array) -> list[NDArray[np.int32]]:
    """The rows of each class."""
    by_class = csr_array(classes.T)
    by_class.eliminate_zeros()
    by_class.sort_indices()
    return np.split(by_class.indices.astype(np.int32), by_class.indptr[1:-1])


@njit(cache=True, nogil=True)
def _margin(rows, row, weights):  # type: ignore[no-untyped-def]
    starts, columns, values = rows
    margin = weights[-1]
    for place in range(starts[row], starts[row + 1]):
        margin += weights[columns[place]] * values[place]
    return margin


@njit(cache=True, nogil=True)
def _move(rows, row, step, weights):  # type: ignore[no-untyped-def]
    starts, columns, values = rows
    weights[-1] += step
    for place in range(starts[row], starts[row + 1]):
        weights[columns[place]] += step * values[place]


@njit(cache=True, nogil=True)
def _squares(rows):  # type: ignore[no-untyped-def]
    """x . x of each row, with the constant feature of the intercept."""
    starts, _, values = rows
    squares = np.ones(len(starts) - 1)
    for row in range(len(squares)):
        for place in range(starts[row], starts[row + 1]):
            squares[row] += values[place] * values[place]
    return squares


@njit(cache=True, nogil=True)
def _fit_class(rows, members, costs, start, limits):  # type: ignore[no-untyped-def]
    """The a_i of a class and its weights, the intercept last."""
    tolerance, epochs, seed = limits
    duals, weights, sides = start[0].copy(), start[1].copy(), np.full(len(costs), -1.0)
    for row in members:
        _move(rows, row, duals[row], weights)
        duals[row], sides[row] = 0.0, 1.0
    squares = _squares(rows)
    active = np.flatnonzero(costs > 0)
    n_active, highest = len(active), np.inf
    np.random.seed(seed)
    for _ in range(epochs):
        np.random.shuffle(active[:n_active])
        largest, smallest = -np.inf, np.inf
        place = 0
        while place < n_active:
            row = active[place]
            ridge = 0.5 / costs[row]
            slope = sides[row] * _margin(rows, row, weights) - 1 + duals[row] * ridge
            if duals[row] == 0 and slope > highest:  # it will stay there: look at it again at the end
                n_active -= 1
                active[place], active[n_active] = active[n_active], row
                continue
            place += 1
            if duals[row] == 0 and slope > 0:
                slope = 0.0
            largest, smallest = max(largest, slope), min(smallest, slope)
            if abs(slope) > 1e-12:
                new = max(0.0, duals[row] - slope / (squares[row] + ridge))
                _move(rows, row, (new - duals[row]) * sides[row], weights)
                duals[row] = new
        if largest - smallest <= tolerance:
            if n_active == len(active):
                break
            n_active, highest = len(active), np.inf
        else:
            highest = largest if largest > 0 else np.inf
    return duals, weights
