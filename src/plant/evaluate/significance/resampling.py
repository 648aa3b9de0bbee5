"""How sure a number is: bootstrap intervals, randomisation tests, corrections, spread over seeds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.evaluate.measures.table import Measure
from plant.evaluate.scores.outcome import Numbers, Outcome, pooled
from plant.evaluate.significance.samples import Swapped, Weighted

DECIMALS = 6  # of an interval's ends: far finer than their error, and the same on every machine
ENTRIES = 4_000_000  # weights or label counts held at once: 32 MB


@dataclass(frozen=True)
class Value:
    """A measured number with its interval, where it has one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation over runs that differ in their seed alone."""

    mean: float
    deviation: float | None  # None for a single run
    runs: int


def valued(
    outcome: Outcome, measures: Sequence[Measure], *, rounds: int = 1000, seed: int = 0, level: float = 0.95
) -> dict[str, Value]:
    """Every measure with its bootstrap interval over documents; no rounds, no intervals.

    The spread of the resampled values around their own mean is laid around the value: resampled documents hold fewer
    distinct codes than the real ones, which shifts a macro mean without saying anything of its error.
    """
    values = {measure.name: measure(outcome) for measure in measures}
    resampled = tuple(measure for measure in measures if measure.resampled)
    if not rounds or len(outcome) < 2:
        return {name: Value(value) for name, value in values.items()}
    draws = _resampled(outcome, resampled, rounds, seed)
    shares = {measure.name for measure in measures if measure.share}
    return {name: _interval(value, draws.get(name), level, share=name in shares) for name, value in values.items()}


def randomisation(
    first: Outcome,
    second: Outcome,
    measures: Sequence[Measure],
    *,
    rounds: int = 10_000,
    seed: int = 0,
    runs: int = 1,
) -> dict[str, float]:
    """Two-sided p-values of the difference between two systems on the same documents.

    In every round each document's results are swapped between the systems with chance one half; p is the share of
    rounds, the real one counted, whose difference is at least as great as the real one. Where the outcomes hold the
    documents of several runs, one run after the other, a document is swapped in all of them at once.
    """
    both = pooled(first, second)
    tested = tuple(measure for measure in measures if measure.resampled)
    real = {measure.name: abs(measure(first) - measure(second)) for measure in tested}
    extreme = dict.fromkeys(real, 0)
    for drawn in _swaps(len(first) // runs, both, rounds, seed):
        swaps = np.tile(drawn, runs) if runs > 1 else drawn
        one, other = Swapped(both, swaps, second=False), Swapped(both, swaps, second=True)
        for measure in tested:
            differences = np.abs(measure.value(one) - measure.value(other))
            extreme[measure.name] += int(np.count_nonzero(differences >= real[measure.name] - 1e-12))
    return {name: (1 + count) / (1 + rounds) for name, count in extreme.items()}


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """P-values corrected for being several (Holm's step-down method): the chance of any false alarm stays bounded."""
    ordered = sorted(p_values, key=lambda name: p_values[name])
    corrected: dict[str, float] = {}
    least = 0.0
    for place, name in enumerate(ordered):
        least = max(least, min(1.0, (len(ordered) - place) * p_values[name]))
        corrected[name] = least
    return {name: corrected[name] for name in p_values}


def over_seeds(values: Sequence[float]) -> Spread:
    """Mean and spread of one measure over several runs."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Spread(float(np.mean(values)), deviation, len(values))


def _resampled(outcome: Outcome, measures: Sequence[Measure], rounds: int, seed: int) -> dict[str, Numbers]:
    """The measures of `rounds` sets of documents drawn with replacement."""
    generator = np.random.default_rng(seed)
    chances = np.full(len(outcome), 1 / len(outcome))
    found: dict[str, list[Numbers]] = {measure.name: [] for measure in measures}
    for size in _block_sizes(rounds, outcome):
        sample = Weighted(outcome, generator.multinomial(len(outcome), chances, size=size).astype(np.float64))
        for measure in measures:
            found[measure.name].append(measure.value(sample))
    return {name: np.concatenate(values) for name, values in found.items()}


def _swaps(n_documents: int, both: Outcome, rounds: int, seed: int) -> Iterator[NDArray[np.float64]]:
    generator = np.random.default_rng(seed)
    for size in _block_sizes(rounds, both):
        yield generator.integers(0, 2, size=(size, n_documents), dtype=np.int8).astype(np.float64)


def _block_sizes(rounds: int, outcome: Outcome) -> Iterator[int]:
    size = max(1, ENTRIES // max(len(outcome), len(outcome.active), 1))
    for first in range(0, rounds, size):
        yield min(size, rounds - first)


def _interval(value: float, draws: Numbers | None, level: float, *, share: bool) -> Value:
    """Laid around the value, and cut where no such number can be: nothing is below 0, no share above 1."""
    if draws is None:
        return Value(value)
    ends = value + np.quantile(draws - draws.mean(), [(1 - level) / 2, (1 + level) / 2])
    low, high = np.clip(ends, 0.0, 1.0 if share else np.inf)
    return Value(value, round(float(low), DECIMALS), round(float(high), DECIMALS))
