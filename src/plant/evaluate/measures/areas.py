"""Areas under the ROC curve, from the standing of the gold scores alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.evaluate.scores.forms import Scores, Standing
from plant.evaluate.scores.lists import Lists


@dataclass(frozen=True)
class Areas:
    """ROC areas: of each label (NaN without a positive or without a negative) and of all pairs together."""

    labels: NDArray[np.float64]
    micro: float
    complete: bool  # False: only lists were scored; what is not listed is tied last

    @property
    def macro(self) -> float:
        """The mean over the labels that have an area."""
        return float(np.nanmean(self.labels)) if np.isfinite(self.labels).any() else float("nan")


def areas_of(scores: Scores, gold: Lists, n_labels: int) -> Areas:
    """Both kinds of area; a tie between a positive and a negative counts one half."""
    in_label = scores.standing_in_label(gold)
    overall = scores.standing_overall(gold, n_labels)
    positives = np.bincount(gold.labels, minlength=n_labels)
    midranks = np.bincount(gold.labels, weights=_midranks(in_label, len(gold)), minlength=n_labels)
    n_pairs = len(gold) * n_labels
    micro = _area(_midranks(overall, n_pairs).sum(), np.asarray(len(gold.labels)), n_pairs)
    return Areas(_area(midranks, positives, len(gold)), float(micro), scores.complete)


def average_precision(weights: NDArray[np.floating], positive: NDArray[np.bool_]) -> float:
    """Area under the precision-recall curve as a sum over recall steps; tied weights step together."""
    if not positive.any():
        return float("nan")
    distinct, inverse = np.unique(weights, return_inverse=True)
    listed = np.cumsum(np.bincount(inverse, minlength=len(distinct))[::-1])
    steps = np.bincount(inverse, weights=positive, minlength=len(distinct))[::-1]
    return float(np.sum(steps * np.cumsum(steps) / listed) / positive.sum())


def _midranks(standing: Standing, total: int) -> NDArray[np.float64]:
    """Places in rising order, from 1; equal scores share the middle of theirs."""
    return total - standing.above - (standing.tied - 1) / 2


def _area(midranks: Any, positives: NDArray[np.integer], total: int) -> NDArray[np.float64]:
    negatives = total - positives
    with np.errstate(divide="ignore", invalid="ignore"):
        areas = (midranks - positives * (positives + 1) / 2) / (positives.astype(np.float64) * negatives)
    return np.where((positives > 0) & (negatives > 0), areas, np.nan)
