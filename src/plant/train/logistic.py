"""One-vs-rest logistic regression for thousands of labels over one sparse matrix.

Dual coordinate descent (Yu, Huang and Lin 2011). A document's dual variable is kept as its logit t, so that the
variable C * sigmoid(t) never meets its bounds and the one-dimensional problem

    t + q * C * (sigmoid(t) - sigmoid(old t)) + y * w . x = 0

is solved by a few safe Newton steps. LIBLINEAR solves the same problem as fast, but copies the features for each label
and draws from one random state, so its labels cannot be fitted in threads; ours can, and share the features.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plant.train.linear import Linear
from plant.types import Progress, silent

START = -30.0  # a dual variable of 1e-13 C: as good as none, so that weights of zero agree with it


def fit_logistic(
    features: csr_array,
    targets: csr_array,
    *,
    cost: float = 1.0,
    prune: float = 0.0,
    tolerance: float = 0.01,
    max_passes: int = 100,
    seed: int = 1,
    rows: Callable[[int], NDArray[np.int64]] | None = None,
    progress: Progress = silent,
) -> Linear:
    """Fit every column of `targets` (documents x labels) on the rows of `features`; 1 / `cost` is the weight decay.

    The intercept is the weight of a constant feature, regularised like the rest. Weights not above `prune` are
    dropped. A label without any positive gets no weights and an intercept of minus infinity: probability zero.
    `rows` says which documents a label is fitted on, its own among them; without it, on all.
    """
    matrix = (features.indptr, features.indices, features.data)
    size, every = features.shape[1] + 1, np.arange(features.shape[0])

    def fit(label: int, positives: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.float32], float]:
        if len(positives) == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.float32), -np.inf
        order = every.copy() if rows is None else rows(label).astype(np.int64)
        weights = _fit_label(*matrix, size, positives, order, cost, tolerance, max_passes, seed)
        kept = np.flatnonzero(np.abs(weights[:-1]) > prune)
        return kept, weights[kept].astype(np.float32), weights[-1]

    fitted = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for one in pool.map(fit, range(targets.shape[1]), _positives(targets)):
            fitted.append(one)
            progress("labels", len(fitted), targets.shape[1])
    columns, values, intercepts = zip(*fitted, strict=True)
    starts = np.cumsum([0, *map(len, columns)])
    parts = (np.concatenate(values), np.concatenate(columns), starts)
    shape = (targets.shape[1], features.shape[1])
    return Linear(csr_array(parts, shape=shape), np.array(intercepts, np.float32))


def _positives(targets: csr_array) -> Iterator[NDArray[np.int32]]:
    """The documents of each label."""
    by_label = csr_array(targets.T)
    yield from np.split(by_label.indices.astype(np.int32), by_label.indptr[1:-1])


@numba.njit(cache=True, nogil=True)
def _fit_label(  # type: ignore[no-untyped-def]  # compiled
    starts, columns, values, size, positives, order, cost, tolerance, max_passes, seed
):
    """The weights of a label, the intercept last; `order` are the documents it is fitted on, which are shuffled."""
    n_documents = len(starts) - 1
    weights, dual, truth = np.zeros(size), np.full(n_documents, START), np.full(n_documents, -1.0)
    truth[positives] = 1.0
    np.random.seed(seed)
    for _ in range(max_passes):
        np.random.shuffle(order)
        worst = 0.0
        for document in order:
            margin, square = weights[-1], 1.0  # of the constant feature
            for place in range(starts[document], starts[document + 1]):
                margin += weights[columns[place]] * values[place]
                square += values[place] * values[place]
            side, old = truth[document], dual[document]
            gap = abs(old + side * margin)
            worst = max(worst, gap)
            if gap > 0.1 * tolerance:
                new = _solve(old, side * margin, square * cost)
                step = side * cost * (_sigmoid(new) - _sigmoid(old))
                weights[-1] += step
                for place in range(starts[document], starts[document + 1]):
                    weights[columns[place]] += step * values[place]
                dual[document] = new
        if worst < tolerance:
            break
    return weights


@numba.njit(cache=True, nogil=True)
def _solve(old, margin, curvature):  # type: ignore[no-untyped-def]  # compiled
    """The root of t + curvature * (sigmoid(t) - sigmoid(old)) + margin, which rises in t, by bracketed Newton steps."""
    before = _sigmoid(old)
    low, high = -margin - curvature * (1 - before), -margin + curvature * before
    t = min(max(old, low), high)
    for _ in range(50):
        share = _sigmoid(t)
        value = t + curvature * (share - before) + margin
        if value > 0:
            high = t
        else:
            low = t
        new = t - value / (1 + curvature * share * (1 - share))
        if not low <= new <= high:
            new = (low + high) / 2
        if abs(new - t) < 1e-10:
            return new
        t = new
    return t


@numba.njit(cache=True, nogil=True)
def _sigmoid(t):  # type: ignore[no-untyped-def]  # compiled
    return 1 / (1 + np.exp(-t))
