"""One-vs-rest logistic regression for thousands of labels over one sparse matrix.

Dual coordinate descent (Yu, Huang and Lin 2011). A document's dual variable is kept as its logit t, so that the
variable C * sigmoid(t) never meets its bounds and the one-dimensional problem

    t + q * C * (sigmoid(t) - sigmoid(old t)) + y * w . x = 0

is solved by a few safe Newton steps.
"""

from collections.abc import Callable

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plant.train.linear import Linear
from plant.train.one_vs_rest import fit_each
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
    """Fit every column of `targets` (documents x labels) as `fit_each` does; 1 / `cost` is the weight decay.

    The intercept is the weight of a constant feature, regularised like the rest.
    """
    matrix, size = (features.indptr, features.indices, features.data), features.shape[1] + 1

    def fit(positives: NDArray[np.int32], order: NDArray[np.int64]) -> NDArray[np.float64]:
        weights: NDArray[np.float64] = _fit_label(*matrix, size, positives, order, cost, tolerance, max_passes, seed)
        return weights

    return fit_each(features, targets, fit, prune=prune, rows=rows, progress=progress)


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
