"""Kernel ridge regression of the parts of codes on their names, all parts at once.

    A = (K + ridge diag(1 / w))^-1 (Y - mu),   k(a, b) = (cos + cos^2) / 2
    s(a) = k(a, .) A + mu,   P_q(v | a) = softmax over the values v of part q of sharpness * s_qv(a)

Y has the values of every part side by side. A name of several codes is one row, with their shares: that is the same as
a row for each, weighted by its share, since rows of equal kernels add up.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax


@dataclass(frozen=True)
class Ridge:
    """What each name says about each value of each part, and what is said where nothing is alike."""

    coefficients: NDArray[np.float32]  # [names, values]
    means: NDArray[np.float32]


def kernel(cosine: NDArray[np.float32]) -> NDArray[np.float32]:
    """Half the cosine and half its square: two names that share two things are more than twice as near."""
    return (cosine + cosine * cosine) * np.float32(0.5)


def fit_ridge(
    cosine: NDArray[np.float32], targets: NDArray[np.float32], weights: NDArray[np.float64], *, ridge: float
) -> Ridge:
    """`cosine` of every pair of names, `targets` [names, values] and how far each name is believed."""
    if not len(weights):
        return Ridge(np.zeros(targets.shape, np.float32), np.zeros(targets.shape[1], np.float32))
    means = (weights @ targets / weights.sum()).astype(np.float32)
    matrix = kernel(cosine)
    matrix[np.diag_indices(len(matrix))] += (ridge / weights).astype(np.float32)
    solved = cho_solve(cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False), targets - means)
    return Ridge(np.ascontiguousarray(solved, np.float32), means)


def parts_probabilities(
    ridge: Ridge, cosine: NDArray[np.float32], starts: NDArray[np.int64], *, sharpness: float
) -> NDArray[np.float32]:
    """P of each value [wordings, values]; the values of part q stand from `starts[q]` to `starts[q + 1]`."""
    scores = kernel(cosine) @ ridge.coefficients + ridge.means
    scores *= np.float32(sharpness)
    for first, last in pairwise(starts.tolist() if scores.size else []):
        scores[:, first:last] = softmax(scores[:, first:last], axis=1)
    return scores
