"""Curves over the number of notes: with how few of them does one system do what another does with all?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Point = tuple[int, int, float]
"""Seed, notes, value."""
ROUNDS = 1000


@dataclass(frozen=True)
class Saved:
    """The factor of notes saved; None where the value is never reached, `least` where the smallest number reaches it.

    The interval is that of 95 % of the means of resampled seeds; None where some of them never reach the value.
    """

    factor: float | None
    least: bool = False
    low: float | None = None
    high: float | None = None

    def said(self, other: str) -> str:
        """The same in words."""
        if self.factor is None:
            return f"never reaches what {other} reaches with all notes"
        bound = "at least " if self.least else ""
        interval = "" if self.low is None or self.high is None else f" ({self.low:.1f} to {self.high:.1f} over seeds)"
        return f"does with 1/{bound}{self.factor:.1f} of the notes what {other} does with all{interval}"


def data_saved(planted: Sequence[Point], twin: Sequence[Point], *, rounds: int = ROUNDS) -> Saved:
    """How many times fewer notes the first system needs for what the second has with the most."""
    seeds = sorted({seed for seed, _, _ in planted} & {seed for seed, _, _ in twin})
    if not seeds:
        return Saved(None)
    factor, least = _factor(planted, twin, seeds)
    if factor is None or len(seeds) < 2:
        return Saved(factor, least)
    generator = np.random.default_rng(0)
    draws = [_factor(planted, twin, generator.choice(seeds, len(seeds)).tolist())[0] for _ in range(rounds)]
    known = [draw for draw in draws if draw is not None]
    if len(known) < len(draws):
        return Saved(factor, least)
    low, high = np.quantile(known, [0.025, 0.975])
    return Saved(factor, least, float(low), float(high))


def _factor(planted: Sequence[Point], twin: Sequence[Point], seeds: Sequence[int]) -> tuple[float | None, bool]:
    (notes, values), (all_notes, all_values) = _curve(planted, seeds), _curve(twin, seeds)
    needed, smallest = notes_for(notes, values, all_values[-1])
    return (None if needed is None else float(all_notes[-1]) / needed), smallest


def _curve(points: Sequence[Point], seeds: Sequence[int]) -> tuple[list[int], list[float]]:
    """The mean over seeds, as often as each is drawn, at each number of notes."""
    numbers = sorted({notes for _, notes, _ in points})
    by_place = {(seed, notes): value for seed, notes, value in points}
    means = [np.mean([by_place[seed, n] for seed in seeds if (seed, n) in by_place] or [np.nan]) for n in numbers]
    known = [(number, float(mean)) for number, mean in zip(numbers, means, strict=True) if not np.isnan(mean)]
    return [number for number, _ in known], [mean for _, mean in known]


def notes_for(notes: Sequence[int], values: Sequence[float], wanted: float) -> tuple[float | None, bool]:
    """The notes at which a curve first reaches a value, straight between its points over the logarithm of notes.

    True where that is at its first point, or before.

    >>> notes_for([10, 1000], [0.0, 1.0], 0.5)
    (100.0, False)
    """
    if values[0] >= wanted:
        return float(notes[0]), True
    for place in range(1, len(values)):
        if values[place] >= wanted:
            share = (wanted - values[place - 1]) / (values[place] - values[place - 1])
            low, high = np.log10(notes[place - 1 : place + 1])
            return round(float(10 ** (low + share * (high - low))), 6), False
    return None, False
