"""Blending: one score from those of several systems, by weights that the choosing notes decide."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from plant.evaluate.calibration import logits_of

Scores = NDArray[np.float32]
PRIOR = 1.0  # how strongly weights are held at equal shares; a few dozen notes are little to learn from


def blended(scores: Sequence[Scores], weights: NDArray[np.floating], shift: float) -> Scores:
    """The probability whose log-odds are the weighted sum of those of the systems, and a constant."""
    total = np.full(scores[0].shape, shift, np.float32)
    for weight, one in zip(weights, scores, strict=True):
        total += np.float32(weight) * logits_of(one)
    return (1 / (1 + np.exp(-total))).astype(np.float32)


def fit_blend(scores: Sequence[Scores], targets: NDArray[np.floating]) -> tuple[NDArray[np.float32], float]:
    """Weights of at least 0, and the constant, that make the targets likeliest; drawn towards equal shares."""
    from scipy.optimize import minimize  # a third of a second that loading a coder need not wait for

    logits = np.stack([logits_of(one).ravel() for one in scores]).astype(np.float64)
    truth, equal = targets.ravel().astype(np.float64), 1 / len(scores)

    def cost(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        total = point[:-1] @ logits + point[-1]
        drawn = point[:-1] - equal
        value = np.logaddexp(0, total).sum() - truth @ total + PRIOR * drawn @ drawn
        error = 1 / (1 + np.exp(-total)) - truth
        return float(value), np.append(logits @ error + 2 * PRIOR * drawn, error.sum())

    start = np.append(np.full(len(scores), equal), 0.0)
    bounds = [(0.0, None)] * len(scores) + [(None, None)]
    found = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return found[:-1].astype(np.float32), float(found[-1])
