"""One-vs-rest support vector machines of squared hinge loss: 1/2 |w|^2 + C * sum of max(0, 1 - y w . x)^2.

Dual coordinate descent (Hsieh et al. 2008): a document's dual variable a >= 0 is moved to where the slope

    y * w . x - 1 + a / 2C

of the dual is 0, and w = sum of a * y * x goes with it.
"""

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plant.train.linear import Linear
from plant.train.one_vs_rest import fit_each


def fit_hinge(
    features: csr_array,
    targets: csr_array,
    *,
    cost: float = 1.0,
    prune: float = 0.0,
    tolerance: float = 0.1,
    max_passes: int = 1000,
    seed: int = 1,
) -> Linear:
    """Fit every column of `targets` as `fit_each` does, until no slope that can still be followed is above `tolerance`.

    The intercept is the weight of a constant feature, regularised like the rest.
    """
    matrix = (features.indptr, features.indices, features.data)
    squares = 1 + np.asarray(features.multiply(features).sum(axis=1), np.float64)

    def fit(positives: NDArray[np.int32], order: NDArray[np.int64]) -> NDArray[np.float64]:
        size = features.shape[1] + 1
        weights: NDArray[np.float64] = _fit_label(
            *matrix, squares, size, positives, order, cost, tolerance, max_passes, seed
        )
        return weights

    return fit_each(features, targets, fit, prune=prune)


@numba.njit(cache=True, nogil=True)
def _fit_label(  # type: ignore[no-untyped-def]  # compiled
    starts, columns, values, squares, size, positives, order, cost, tolerance, max_passes, seed
):
    """The weights of a label, the intercept last; `order` are the documents it is fitted on, which are shuffled."""
    n_documents, slack = len(starts) - 1, 0.5 / cost
    weights, dual, truth = np.zeros(size), np.zeros(n_documents), np.full(n_documents, -1.0)
    truth[positives] = 1.0
    np.random.seed(seed)
    for _ in range(max_passes):
        np.random.shuffle(order)
        worst = 0.0
        for document in order:
            margin = weights[-1]  # of the constant feature
            for place in range(starts[document], starts[document + 1]):
                margin += weights[columns[place]] * values[place]
            side, old = truth[document], dual[document]
            slope = side * margin - 1 + slack * old
            if old == 0 and slope > 0:
                continue  # the variable would have to fall below 0
            worst = max(worst, abs(slope))
            dual[document] = max(0.0, old - slope / (squares[document] + slack))
            step = side * (dual[document] - old)
            weights[-1] += step
            for place in range(starts[document], starts[document + 1]):
                weights[columns[place]] += step * values[place]
        if worst < tolerance:
            break
    return weights
