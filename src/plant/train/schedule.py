"""Learning rates as pure functions of the step: the share of the peak rate at step `step` of `total`."""

import math
from collections.abc import Callable, Mapping

WARM_SHARE = 0.25  # of the steps, before the peak of a one-cycle
START, END = 1 / 25, 1 / 25e4  # of the peak, at the first and last step of a one-cycle
TRIANGLE_CUT, TRIANGLE_RATIO = 0.1, 32  # of the slanted triangle of Howard and Ruder 2018


def one_cycle(step: int, total: int) -> float:
    """Up and down again along cosines; Smith and Topin 2018."""
    warm = max(1, round(WARM_SHARE * total))
    if step < warm:
        return _cosine(START, 1.0, step / warm)
    return _cosine(1.0, END, (step - warm) / max(1, total - warm))


def slanted_triangular(step: int, total: int) -> float:
    """A short way up and a long way down, both straight."""
    cut = max(1, round(TRIANGLE_CUT * total))
    height = step / cut if step < cut else 1 - (step - cut) / max(1, total - cut)
    return (1 + height * (TRIANGLE_RATIO - 1)) / TRIANGLE_RATIO


def constant(step: int, total: int) -> float:
    """The peak rate throughout."""
    return 1.0


SCHEDULES: Mapping[str, Callable[[int, int], float]] = {
    "one-cycle": one_cycle,
    "slanted-triangular": slanted_triangular,
    "constant": constant,
}


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
