"""One-vs-rest logistic regression for thousands of labels over one sparse matrix.

Dual coordinate descent (Yu, Huang and Lin 2011). A document's dual variable is kept as its logit t, so that the
variable C * sigmoid(t) never meets its bounds and the one-dimensional problem

    t + q * C * (sigmoid(t) - sigmoid(old t)) + y * w . x = 0

is solved by a few safe Newton steps. The features are shared by all labels, and only one block of labels is ever dense.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from plant.types import Progress, silent

BLOCK_BYTES = 1 << 28
START = -30.0  # a dual variable of 1e-13 C: as good as none, so that the weights start at zero


@dataclass(frozen=True)
class Linear:
    """Sparse weights, labels x features, and one intercept per label."""

    weights: csr_array
    intercepts: NDArray[np.float32]


def fit_logistic(
    features: csr_array,
    targets: csr_array,
    *,
    cost: float = 1.0,
    prune: float = 0.0,
    tolerance: float = 0.01,
    max_passes: int = 100,
    seed: int = 1,
    progress: Progress = silent,
) -> Linear:
    """Fit every column of `targets` (documents x labels) on the rows of `features`; 1 / `cost` is the weight decay.

    The intercept is the weight of a constant feature, regularised like the rest. Weights not above `prune` are
    dropped. A label without any positive gets no weights and an intercept of minus infinity: probability zero.
    """
    positives = csr_array(targets.T)
    parts, intercepts = [], []
    for first, last in _blocks(positives.shape[0], features.shape[1]):
        dense = _fit_block(
            features.indptr.astype(np.int64), features.indices.astype(np.int32), features.data.astype(np.float32),
            positives.indptr[first : last + 1].astype(np.int64), positives.indices.astype(np.int32),
            features.shape[1], cost, tolerance, max_passes, seed,
        )  # fmt: skip
        intercepts.append(dense[:, -1].copy())
        parts.append(csr_array(np.where(np.abs(dense[:, :-1]) > prune, dense[:, :-1], 0.0).astype(np.float32)))
        progress("labels", last, positives.shape[0])
    never = np.diff(positives.indptr) == 0
    joined = np.where(never, -np.inf, np.concatenate(intercepts)).astype(np.float32)
    return Linear(csr_array(vstack(parts, format="csr")), joined)


def _blocks(n_labels: int, n_features: int) -> Iterator[tuple[int, int]]:
    step = max(1, BLOCK_BYTES // (8 * (n_features + 1)))
    for first in range(0, n_labels, step):
        yield first, min(first + step, n_labels)


@numba.njit(parallel=True, cache=True)
def _fit_block(  # type: ignore[no-untyped-def]  # compiled
    starts, columns, values, positive_starts, positives, n_features, cost, tolerance, max_passes, seed
):
    n_labels = len(positive_starts) - 1
    weights = np.zeros((n_labels, n_features + 1))
    for label in numba.prange(n_labels):
        own = positives[positive_starts[label] : positive_starts[label + 1]]
        if len(own) > 0:
            _fit_label(weights[label], starts, columns, values, own, cost, tolerance, max_passes, seed)
    return weights


@numba.njit(cache=True)
def _fit_label(  # type: ignore[no-untyped-def]  # compiled
    weights, starts, columns, values, positives, cost, tolerance, max_passes, seed
):
    n_documents = len(starts) - 1
    truth = np.full(n_documents, -1.0)
    truth[positives] = 1.0
    dual = np.full(n_documents, START)
    np.random.seed(seed)
    order = np.arange(n_documents)
    for _ in range(max_passes):
        np.random.shuffle(order)
        worst = 0.0
        for document in order:
            first, last = starts[document], starts[document + 1]
            margin, square = weights[-1], 1.0  # of the constant feature
            for place in range(first, last):
                margin += weights[columns[place]] * values[place]
                square += values[place] * values[place]
            old, margin = dual[document], margin * truth[document]
            worst = max(worst, abs(old + margin))
            if abs(old + margin) < 0.1 * tolerance:
                continue
            new = _solve(old, margin, square * cost)
            step = truth[document] * cost * (_sigmoid(new) - _sigmoid(old))
            for place in range(first, last):
                weights[columns[place]] += step * values[place]
            weights[-1] += step
            dual[document] = new
        if worst < tolerance:
            break


@numba.njit(cache=True)
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


@numba.njit(cache=True)
def _sigmoid(t):  # type: ignore[no-untyped-def]  # compiled
    return 1 / (1 + np.exp(-t))
