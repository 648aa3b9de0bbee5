"""Blending: one score from those of several systems, by weights that the choosing notes decide."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.evaluate.choosing.calibration import logits_of
from plant.evaluate.choosing.pairs import Pairs

Scores = NDArray[np.float32]
PAIRS = 20_000_000  # of documents and labels are enough to fit a few numbers
HELD = 1.0  # how strongly weights are held where they start; a few dozen notes are little to learn from


@dataclass(frozen=True)
class Blend:
    """How far each system is believed, and how far the labels' log-odds among the fitted notes are.

    What a system says counts by how much it raises a label above these log-odds, so that none can veto a label for
    being rare.
    """

    weights: NDArray[np.float32]  # one per system
    trust: float  # in the labels' own log-odds
    shift: float


def blended(
    scores: Sequence[Scores],
    log_odds: NDArray[np.floating],
    blend: Blend,
    known: NDArray[np.bool_] | None = None,
) -> Scores:
    """The probability whose log-odds are the weighted sum of what the systems say and of the labels' own.

    `known` says which labels each system knows, [system, label]; a label that not all know gets the weighted mean of
    the log-odds that the others give it.
    """
    weights = np.repeat(blend.weights[:, None], len(log_odds), axis=1)
    start = blend.shift + blend.trust * log_odds
    if known is not None and not known.all():
        left = ~known.all(0)
        weights[:, left] = _shares(weights, known)[:, left]
        start[left] = log_odds[left]
    total = np.tile(start.astype(np.float32), (len(scores[0]), 1))
    for row, one in zip(weights, scores, strict=True):
        total += row * (logits_of(one) - log_odds).astype(np.float32)
    with np.errstate(over="ignore"):  # beyond all probability is 0, without a word to the user
        return (1 / (1 + np.exp(-total))).astype(np.float32)


def _shares(weights: NDArray[np.float32], known: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Weights among those that know a label, as shares of one; equal ones where only the unbelieved know it."""
    own = np.where(known, weights, 0)
    own = np.where(own.sum(0) > 0, own, known)
    return (own / np.maximum(own.sum(0), 1e-12)).astype(np.float32)


def fit_blend(scores: Sequence[Scores], log_odds: NDArray[np.floating], targets: NDArray[np.floating]) -> Blend:
    """The blend, no weight below 0, that makes the targets likeliest; drawn towards equal shares of full trust."""
    rows = slice(None, None, -(-targets.size // PAIRS))  # evenly chosen documents where there are many
    truth = targets[rows].ravel().astype(np.float64)
    said = [(logits_of(one[rows]) - log_odds).ravel() for one in scores]
    return _likeliest(np.stack([*said, np.tile(log_odds, len(truth) // len(log_odds))]).astype(np.float64), truth)


def fit_blend_on(pairs: Pairs, log_odds: NDArray[np.floating]) -> Blend:
    """The same from pairs that stand for all."""
    own = log_odds[pairs.labels].astype(np.float64)
    return _likeliest(np.stack([*(logits_of(pairs.scores) - own), own]), pairs.truth, pairs.counts)


def _likeliest(
    features: NDArray[np.float64], truth: NDArray[np.float64], counts: NDArray[np.float64] | float = 1.0
) -> Blend:
    """The blend of features [system, then the labels' log-odds; pair], each pair counted so many times."""
    from scipy.optimize import minimize  # a third of a second that loading a coder need not wait for

    n_systems = len(features) - 1
    usual = np.array([1 / n_systems] * n_systems + [1.0])
    right = counts * truth

    def cost(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        total = point[:-1] @ features + point[-1]
        drawn = point[:-1] - usual
        value = (counts * np.logaddexp(0, total)).sum() - right @ total + HELD * drawn @ drawn
        error = counts * (1 / (1 + np.exp(-total)) - truth)
        return float(value), np.append(features @ error + 2 * HELD * drawn, error.sum())

    bounds = [(0.0, None)] * len(usual) + [(None, None)]
    found = minimize(cost, np.append(usual, 0.0), jac=True, method="L-BFGS-B", bounds=bounds).x
    return Blend(found[:-2].astype(np.float32), float(found[-2]), float(found[-1]))
