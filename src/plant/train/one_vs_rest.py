"""One linear classifier for each of many labels over one sparse matrix, whatever they are fitted by.

LIBLINEAR solves such problems as fast, but copies the features for each label and draws from one random state, so its
labels cannot be fitted in threads; compiled walks that let go of the interpreter can, and share the features.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plant.train.linear import Linear
from plant.types import Progress, silent

FitLabel = Callable[[NDArray[np.int32], NDArray[np.int64]], NDArray[np.float64]]
"""The weights of a label, the intercept last, from its own documents and all that it is fitted on."""


def fit_each(
    features: csr_array,
    targets: csr_array,
    fit_label: FitLabel,
    *,
    prune: float,
    rows: Callable[[int], NDArray[np.int64]] | None = None,
    progress: Progress = silent,
) -> Linear:
    """Fit every column of `targets` (documents x labels) on the rows of `features`.

    Weights not above `prune` are dropped. A label without any positive gets no weights and an intercept of minus
    infinity. `rows` says which documents a label is fitted on, its own among them; without it, on all.
    """
    every = np.arange(features.shape[0])

    def fit(label: int, positives: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.float32], float]:
        if len(positives) == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.float32), -np.inf
        order = every.copy() if rows is None else rows(label).astype(np.int64)
        weights = fit_label(positives, order)
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
