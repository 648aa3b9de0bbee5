"""From token weights to the words that a person is shown."""

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
    positive = np.maximum(np.asarray(weights, np.float64), 0)
    if not positive.any():
        return ()
    strong = np.flatnonzero(positive >= SHARE * positive.max())
    share = positive / positive.sum()
    phrases = [(float(share[first : last + 1].sum()), first, last) for first, last in _runs(strong)]
    best = sorted(phrases, key=lambda phrase: (-phrase[0], phrase[1]))[:most]
    return tuple(_evidence(weight, int(starts[first]), int(ends[last]), text) for weight, first, last in best)


def _runs(places: NDArray[np.intp]) -> list[tuple[int, int]]:
    """First and last place of each run without larger gaps."""
    breaks = np.flatnonzero(np.diff(places) > GAP)
    firsts = places[np.concatenate([[0], breaks + 1])]
    lasts = places[np.concatenate([breaks, [len(places) - 1]])]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _evidence(weight: float, start: int, end: int, text: str) -> Evidence:
    return Evidence(start, end, text[start:end], round(weight, 6))
