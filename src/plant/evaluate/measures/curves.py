"""Precision and recall of all codes together at every threshold."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.evaluate.scores.forms import Scores
from plant.evaluate.scores.lists import Lists


@dataclass(frozen=True)
class Curve:
    """What one global threshold after another would give, from the strictest on."""

    thresholds: NDArray[np.float64]
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]

    @property
    def f1(self) -> NDArray[np.float64]:
        """The harmonic mean at each threshold."""
        return 2 * self.precision * self.recall / np.maximum(self.precision + self.recall, 1e-300)

    def thinned(self, points: int) -> "Curve":
        """At most so many points, evenly spread over the recall."""
        chosen = np.unique(np.linspace(0, len(self.thresholds) - 1, min(points, len(self.thresholds))).astype(int))
        return Curve(self.thresholds[chosen], self.precision[chosen], self.recall[chosen])


def micro_curve(scores: Scores, gold: Lists, n_labels: int) -> Curve:
    """The exact curve at the distinct scores of gold codes, between which precision only falls."""
    own = scores.scores_of(gold)
    scored = np.isfinite(own)
    standing = scores.standing_overall(gold, n_labels)
    thresholds, entries = np.unique(-own[scored], return_index=True)
    accepted = (standing.above + standing.tied)[scored][entries]
    right = np.searchsorted(np.sort(-own[scored]), thresholds, side="right")
    return Curve(-thresholds, right / np.maximum(accepted, 1), right / max(1, len(own)))
