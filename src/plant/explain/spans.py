"""From token weights to the words that a person is shown."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from plant.types import Evidence

GAP = 2  # words between two strong ones that still belong to the same phrase
SHARE = 0.25  # of the strongest word's weight, below which a word is no evidence


def evidence_spans(
    weights: NDArray[np.floating],
    starts: NDArray[np.int32],
    ends: NDArray[np.int32],
    text: str,
    *,
    most: int = 5,
) -> tuple[Evidence, ...]:
    """The phrases that speak most for a code, strongest first; weights are shares of all that speaks for it."""
    return evidence_of_all(np.asarray(weights)[None], starts, ends, text, most=most)[0]


def evidence_of_all(
    weights: NDArray[np.floating],
    starts: NDArray[np.int32],
    ends: NDArray[np.int32],
    text: str,
    *,
    most: int = 5,
) -> list[tuple[Evidence, ...]]:
    """The phrases of several codes, a row of weights each: few words of a long note weigh anything."""
    rows, places = np.nonzero(weights > 0)
    values, bounds = weights[rows, places].astype(np.float64), np.searchsorted(rows, range(len(weights) + 1))
    every, cuts = places.tolist(), pairwise(bounds.tolist())
    best = [_phrases(every[a:b], values[a:b])[:most] if a < b else [] for a, b in cuts]
    return [tuple(_evidence(phrase, starts, ends, text) for phrase in phrases) for phrases in best]


def _phrases(places: Sequence[int], values: NDArray[np.float64]) -> list[tuple[float, int, int]]:
    """Weight, first and last word of each phrase, strongest first; all words inside of a phrase count."""
    strong, total = (values >= SHARE * values.max()).tolist(), values.sum()
    runs = _runs([place for place, counts in zip(places, strong, strict=True) if counts])
    inside = [(bisect_left(places, first), bisect_right(places, last)) for first, last in runs]
    phrases = [(float(values[a:b].sum() / total), *run) for (a, b), run in zip(inside, runs, strict=True)]
    return sorted(phrases, key=lambda phrase: (-phrase[0], phrase[1]))


def _runs(places: Sequence[int]) -> list[tuple[int, int]]:
    """First and last place of each run without larger gaps."""
    runs = [(places[0], places[0])]
    for place in places[1:]:
        first, last = runs[-1]
        if place - last > GAP:
            runs.append((place, place))
        else:
            runs[-1] = (first, place)
    return runs


def _evidence(
    phrase: tuple[float, int, int], starts: NDArray[np.int32], ends: NDArray[np.int32], text: str
) -> Evidence:
    start, end = int(starts[phrase[1]]), int(ends[phrase[2]])
    return Evidence(start, end, text[start:end], round(phrase[0], 6))
