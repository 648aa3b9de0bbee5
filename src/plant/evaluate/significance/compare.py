"""Systems side by side on the same documents: values, spread over seeds, and which differences are no chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from plant.errors import InputError
from plant.evaluate.measures.table import HEADLINE, Measure, measure
from plant.evaluate.scores.lists import taken
from plant.evaluate.scores.outcome import Outcome, pooled
from plant.evaluate.scores.result import Result, result_of
from plant.evaluate.scores.scored import Scored
from plant.evaluate.significance.resampling import Spread, holm, over_seeds, randomisation
from plant.types import Progress, silent

COMPARED = (*HEADLINE, "P@5", "P@8", "P@15", "nDCG@15")
ALPHA = 0.05


@dataclass(frozen=True)
class Cell:
    """One measure of one system; `p` is against the reference, corrected for the number of systems."""

    spread: Spread
    p: float | None  # None for the reference itself, and for measures without a test

    @property
    def significant(self) -> bool:
        """Whether the difference to the reference is unlikely to be chance."""
        return self.p is not None and self.p < ALPHA


@dataclass(frozen=True)
class Comparison:
    """Rows of systems; the first is the reference."""

    measures: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Cell]]
    documents: int
    rounds: int

    @property
    def reference(self) -> str:
        """The system that the others are tested against."""
        return next(iter(self.rows))


def compare(
    systems: Mapping[str, Sequence[Scored]],
    *,
    measures: Sequence[str] = COMPARED,
    rounds: int = 10_000,
    seed: int = 0,
    progress: Progress = silent,
) -> Comparison:
    """What `compare_results` says of scored documents."""
    results = {name: [result_of(run) for run in runs] for name, runs in systems.items()}
    return compare_results(results, measures=measures, rounds=rounds, seed=seed, progress=progress)


def compare_results(
    systems: Mapping[str, Sequence[Result]],
    *,
    measures: Sequence[str] = COMPARED,
    rounds: int = 10_000,
    seed: int = 0,
    progress: Progress = silent,
) -> Comparison:
    """Compare systems, each with one run or several that differ in their seed, against the first of them.

    Documents must be the same. Runs of one system enter the test together: document by document, a system's results
    are those of all its runs.
    """
    first = next(iter(systems.values()))[0]
    codes = tuple(dict.fromkeys(code for runs in systems.values() for run in runs for code in run.codes))
    outcomes = {name: [_aligned(run, first, codes) for run in runs] for name, runs in systems.items()}
    asked = [measure(name) for name in measures]
    p_values = _tested(outcomes, asked, rounds=rounds, seed=seed, progress=progress)
    rows = {
        name: {m.name: Cell(over_seeds([m(run) for run in runs]), p_values[m.name].get(name)) for m in asked}
        for name, runs in outcomes.items()
    }
    return Comparison(tuple(measures), rows, len(first.ids), rounds)


def _tested(
    outcomes: Mapping[str, Sequence[Outcome]],
    measures: Sequence[Measure],
    *,
    rounds: int,
    seed: int,
    progress: Progress,
) -> dict[str, dict[str, float]]:
    """Corrected p-values by measure, then by system, all but the first."""
    reference, *others = outcomes
    found: dict[str, dict[str, float]] = {m.name: {} for m in measures}
    for done, name in enumerate(others, start=1):
        one, other, runs = _evenly(outcomes[reference], outcomes[name])
        p_values = randomisation(one, other, measures, rounds=rounds, seed=seed, runs=runs)
        for measure_name, p in p_values.items():
            found[measure_name][name] = p
        progress("compare", done, len(others))
    return {name: holm(row) for name, row in found.items()}


def _evenly(first: Sequence[Outcome], second: Sequence[Outcome]) -> tuple[Outcome, Outcome, int]:
    """The runs of two systems as one outcome each, equally many runs, and how many: the least common multiple."""
    runs = int(np.lcm(len(first), len(second)))
    return _chained([*first] * (runs // len(first))), _chained([*second] * (runs // len(second))), runs


def _chained(runs: Sequence[Outcome]) -> Outcome:
    whole = runs[0]
    for run in runs[1:]:
        whole = pooled(whole, run)
    return whole


def _aligned(run: Result, first: Result, codes: tuple[str, ...]) -> Outcome:
    """The outcome of a run over common labels, its documents in the order of the first run's."""
    place = {document: row for row, document in enumerate(run.ids)}
    if set(place) != set(first.ids):
        raise InputError(
            f"the runs hold different documents ({len(first.ids)} and {len(run.ids)}): compare runs on the same"
        )
    rows = np.array([place[document] for document in first.ids], dtype=np.int64)
    number = {code: label for label, code in enumerate(codes)}
    numbers = np.array([number[code] for code in run.codes], dtype=np.int64)
    gold, order = taken(run.outcome.gold, rows)
    aligned = replace(
        run.outcome,
        n_labels=len(codes),
        gold=gold.renumbered(numbers),
        ranks=run.outcome.ranks[order],
        accepted=taken(run.outcome.accepted, rows)[0].renumbered(numbers),
        train_counts=np.zeros(len(codes), np.int64),
        train_documents=0,
    )
    _check_gold(aligned, first, codes)
    return aligned


def _check_gold(outcome: Outcome, first: Result, codes: tuple[str, ...]) -> None:
    number = {code: label for label, code in enumerate(codes)}
    wanted = first.outcome.gold.renumbered(np.array([number[code] for code in first.codes], dtype=np.int64))
    if not np.array_equal(np.sort(wanted.keys(len(codes))), np.sort(outcome.gold.keys(len(codes)))):
        raise InputError("the runs hold different gold codes for the same documents: only the same can be compared")
