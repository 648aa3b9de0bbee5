"""Whether a probability means what it says, and one number to mend it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.errors import InputError
from plant.evaluate.scores.forms import Scores, bin_numbers, blocks
from plant.evaluate.scores.lists import Lists

BINS = 15
FLOOR = 0.01  # nearly all pairs lie below it, and are right to
COLDEST, HOTTEST = 0.01, 100.0
ROWS = 2_000_000


@dataclass(frozen=True)
class Reliability:
    """Per bin of probability: how many document-code pairs, their mean probability, and the share that is gold."""

    counts: NDArray[np.float64]
    confidence: NDArray[np.float64]
    share: NDArray[np.float64]
    floor: float

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance between probability and share, weighted by the counts."""
        return float(np.sum(self.counts * np.abs(self.confidence - self.share)) / max(1.0, self.counts.sum()))


def reliability(scores: Scores, gold: Lists, *, bins: int = BINS, floor: float = 0.0) -> Reliability:
    """Equal bins from 0 to 1 over the scored pairs with a probability of at least `floor`."""
    histogram = scores.histogram(bins, floor)
    if histogram.outside:
        raise InputError(f"{histogram.outside:,} scores lie outside of 0 to 1: calibration needs probabilities")
    own = scores.scores_of(gold)
    own = own[np.isfinite(own) & (own >= floor)].astype(np.float32)
    positives = np.bincount(bin_numbers(own, bins), minlength=bins)
    counts = np.maximum(histogram.counts, 1)
    return Reliability(histogram.counts, histogram.sums / counts, positives / counts, floor)


def fit_temperature(
    logits: NDArray[np.floating], targets: NDArray[np.generic], counts: NDArray[np.float64] | None = None
) -> float:
    """The temperature T that makes sigmoid(logit / T) the most likely on the dev notes.

    `counts` says how many pairs each one stands for, where that is not one.
    The loss is convex in 1 / T, so Newton's method finds its one minimum; T is kept between 0.01 and 100.
    """
    flat, gold = logits.reshape(-1), np.asarray(targets).reshape(-1)
    sharpness = 1.0
    for _ in range(100):
        slope, curvature = _derivatives(flat, gold, sharpness, counts)
        step = sharpness - slope / max(curvature, 1e-300)
        updated = float(np.clip(step, max(sharpness / 4, 1 / HOTTEST), min(sharpness * 4, 1 / COLDEST)))
        if abs(updated - sharpness) <= 1e-10 * sharpness:
            break
        sharpness = updated
    return 1 / sharpness


def calibrated(probabilities: NDArray[np.floating], temperature: float) -> NDArray[np.float64]:
    """Probabilities at another temperature; their order stays."""
    return _sigmoid(logits_of(probabilities) / temperature)


def logits_of(probabilities: NDArray[np.floating], *, smallest: float = 1e-7) -> NDArray[np.float64]:
    """Log odds, with probabilities kept off 0 and 1."""
    safe = np.clip(probabilities.astype(np.float64), smallest, 1 - smallest)
    return np.log(safe) - np.log1p(-safe)


def _derivatives(
    logits: NDArray[np.floating], gold: NDArray[np.generic], sharpness: float, counts: NDArray[np.float64] | None
) -> tuple[float, float]:
    slope = curvature = 0.0
    for rows in blocks(len(logits), ROWS):
        z = logits[rows].astype(np.float64)
        p = _sigmoid(sharpness * z)
        often = 1.0 if counts is None else counts[rows]
        slope += float(np.dot(z, often * (p - gold[rows].astype(np.float64))))
        curvature += float(np.dot(z * z, often * (p * (1 - p))))
    return slope, curvature


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 * (1 + np.tanh(0.5 * values))
