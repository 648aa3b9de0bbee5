"""From token weights to the words that a person is shown."""

from collections.abc import Sequence

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
    given = np.asarray(weights)
    places = np.flatnonzero(given > 0)  # few words of a long note
    if not len(places):
        return ()
    values = given[places].astype(np.float64)
    runs = _runs(places[values >= SHARE * values.max()].tolist())
    bounds = np.searchsorted(places, [(first, last + 1) for first, last in runs])
    total = values.sum()
    phrases = [(float(values[a:b].sum() / total), *run) for (a, b), run in zip(bounds.tolist(), runs, strict=True)]
    best = sorted(phrases, key=lambda phrase: (-phrase[0], phrase[1]))[:most]
    return tuple(_evidence(weight, int(starts[first]), int(ends[last]), text) for weight, first, last in best)


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


def _evidence(weight: float, start: int, end: int, text: str) -> Evidence:
    return Evidence(start, end, text[start:end], round(weight, 6))
