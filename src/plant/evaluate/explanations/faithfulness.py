"""Explanations against the model itself: does its score hang on the words that it is said to hang on?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.floating]
Scorer = Callable[[NDArray[np.bool_]], NDArray[np.floating]]
"""The score of a code for versions of a note: keep-masks (versions x tokens) in, one score per version out."""

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True)
class Faithfulness:
    """Mean change of the score over several shares of tokens.

    `comprehensiveness`: how far it falls without the most weighted tokens (more is better); `sufficiency`: how far it
    falls when only they are kept (less is better).
    """

    comprehensiveness: float
    sufficiency: float


def faithfulness(weights: Weights, score: Scorer, *, shares: Sequence[float] = SHARES) -> Faithfulness:
    """Both measures of one explanation, from one call of the scorer with 1 + 2 x shares versions of the note."""
    kept = most_weighted(weights, shares)
    whole = np.ones((1, len(weights)), bool)
    full, *others = np.asarray(score(np.concatenate([whole, ~kept, kept])), dtype=np.float64)
    without, alone = np.split(np.array(others), 2)
    return Faithfulness(float(np.mean(full - without)), float(np.mean(full - alone)))


def most_weighted(weights: Weights, shares: Sequence[float]) -> NDArray[np.bool_]:
    """For each share, the mask of that share of the tokens (at least one) that weigh most; ties by position."""
    places = np.empty(len(weights), np.int64)
    places[np.argsort(-weights, kind="stable")] = np.arange(len(weights))
    counts = np.maximum(1, np.ceil(np.array(shares) * len(weights) - 1e-9)).astype(np.int64)
    return places[None, :] < counts[:, None]


def mean_faithfulness(rows: Sequence[Faithfulness]) -> dict[str, float]:
    """Both numbers, averaged over explanations."""
    if not rows:
        return {}
    return {
        "comprehensiveness": float(np.mean([row.comprehensiveness for row in rows])),
        "sufficiency": float(np.mean([row.sufficiency for row in rows])),
    }
