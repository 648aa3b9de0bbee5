"""Grades: what a token's place in a label's list is worth when its order is learned.

Mutual information stays below ln 2, so 2^g of it is nearly constant; gains come from these grades instead.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Grade = Literal["log-rank", "scaled"]
HIGHEST_SCALED = 5.0  # the grade of a label's best token where grades are scaled information


def gains(scores: NDArray[np.float32], grade: Grade) -> NDArray[np.float64]:
    """2^grade - 1 of lists of falling scores; 0 where a score is 0, equal where scores are equal."""
    grades = log_rank_grades(scores) if grade == "log-rank" else scaled_grades(scores)
    return np.exp2(grades) - 1.0


def log_rank_grades(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    """Bins of places 1, 2-3, 4-7, 8-15, ...: the first is worth most and the last 1, ties share the best place."""
    keep = scores.shape[1]
    bins = np.floor(np.log2(first_places(scores) + 1.0))
    return np.where(scores > 0, np.floor(np.log2(max(keep, 1))) + 1.0 - bins, 0.0)


def scaled_grades(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    """Information relative to the label's best token."""
    best = np.maximum(scores[:, :1], np.finfo(np.float32).tiny).astype(np.float64)
    return HIGHEST_SCALED * scores / best


def first_places(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """The place (from 0) of the first entry of equal score, in lists of falling scores."""
    places = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    new = np.ones(scores.shape, dtype=bool)
    new[:, 1:] = scores[:, 1:] != scores[:, :-1]
    return np.maximum.accumulate(np.where(new, places, 0), axis=1)
