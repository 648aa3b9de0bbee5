"""Evaluate: scored documents become a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from plant.errors import InputError, unknown
from plant.evaluate.choosing.calibration import FLOOR, reliability
from plant.evaluate.measures.bins import Group, by_frequency, by_name, chapter_names, part_names
from plant.evaluate.measures.curves import Curve, micro_curve
from plant.evaluate.measures.table import CUTOFFS, HEADLINE, Measure, families_for, measure
from plant.evaluate.report.content import Calibration, Report, counts_of, skew, worst_codes
from plant.evaluate.scores.lists import Mask
from plant.evaluate.scores.outcome import Outcome, outcome_of
from plant.evaluate.scores.prior import prior_of
from plant.evaluate.scores.scored import Scored
from plant.evaluate.significance.resampling import Value, valued
from plant.types import Progress, silent

CURVE_POINTS = 400
Subsets = Mapping[str, Mask]


@dataclass(frozen=True)
class Settings:
    """What to measure besides the usual, and how long to resample."""

    cutoffs: Sequence[int] = CUTOFFS
    without: Sequence[str] = ()  # codes whose absence is measured as well
    without_frequent: Sequence[int] = (10,)  # numbers of most frequent codes, likewise
    rounds: int = 1000  # of the bootstrap; 0: no intervals
    seed: int = 0


def evaluate(scored: Scored, settings: Settings | None = None, *, progress: Progress = silent) -> Report:
    """All measures with intervals beside the prior's, by bin, chapter and part."""
    if not len(scored):
        raise InputError("there is no document to evaluate")
    settings = settings or Settings()
    outcome, prior = outcome_of(scored), prior_of(scored)
    prior_outcome = outcome_of(prior) if prior else None
    progress("evaluate", 1, 3)
    families, subsets = families_for(outcome, settings.cutoffs), subsets_of(scored, settings)
    measures = tuple(measure for family in families.values() for measure in family)
    values = _values(scored, outcome, measures, subsets, settings)
    progress("evaluate", 2, 3)
    report = Report(
        frame=scored.frame,
        counts=counts_of(scored),
        measures=values,
        prior=_values(prior, prior_outcome, measures, subsets, replace(settings, rounds=0))
        if prior and prior_outcome
        else {},
        families={title: tuple(m.name for m in family) for title, family in families.items()}
        | {f"Measured {name}": tuple(f"{headline} ({name})" for headline in HEADLINE) for name in subsets},
        definitions={m.name: m.definition for m in measures},
        parts=_parts(scored, settings),
        bins=by_frequency(outcome) if prior_outcome else (),
        prior_bins=by_frequency(prior_outcome) if prior_outcome else (),
        chapters=_chapters(scored, outcome),
        worst=worst_codes(scored, outcome),
        train_skew=skew(scored.train_counts),
        gold_skew=skew(np.bincount(scored.gold.labels, minlength=1)),
        curve=_curve(scored),
        calibration=_calibration(scored),
    )
    progress("evaluate", 3, 3)
    return report


def subsets_of(scored: Scored, settings: Settings) -> Subsets:
    """The labels that are left when some codes are not looked at, by a name that says which."""
    for code in settings.without:
        if code not in scored.codes:
            raise InputError(unknown("code", code, scored.codes[:20]))
    subsets: dict[str, Mask] = {}
    if settings.without:
        kept = np.array([code not in settings.without for code in scored.codes], dtype=bool)
        subsets[f"without {', '.join(settings.without)}"] = kept
    counts = scored.train_counts
    where = "training" if scored.train_documents else "gold"
    if not scored.train_documents:
        counts = np.bincount(scored.gold.labels, minlength=scored.n_labels)
    for number in settings.without_frequent:
        kept = np.ones(scored.n_labels, bool)
        kept[np.argsort(-counts, kind="stable")[:number]] = False
        if kept.any():
            subsets[f"without the {number} most frequent {where} codes"] = kept
    return subsets


def _values(
    scored: Scored, outcome: Outcome, measures: Sequence[Measure], subsets: Subsets, settings: Settings
) -> dict[str, Value]:
    """The measures over all codes, then the headline ones over each subset under their longer names."""
    values = valued(outcome, measures, rounds=settings.rounds, seed=settings.seed)
    for name, kept in subsets.items():
        headline = _headline(scored.only(kept), settings)
        values |= {f"{short} ({name})": value for short, value in headline.items()}
    return values


def _headline(scored: Scored, settings: Settings) -> dict[str, Value]:
    outcome = outcome_of(replace(scored, codebook=None), areas=False)
    return valued(outcome, [measure(name) for name in HEADLINE], rounds=settings.rounds, seed=settings.seed)


def _parts(scored: Scored, settings: Settings) -> dict[str, Mapping[str, Value]]:
    """Diagnoses and procedures apart, where the codes are both."""
    names = np.array(part_names(scored.codes, scored.codebook) if scored.codebook else [])
    parts = [name for name in ("diagnosis", "procedure") if (names == name).any()]
    return {name: _headline(scored.only(names == name), settings) for name in parts} if len(parts) > 1 else {}


def _chapters(scored: Scored, outcome: Outcome) -> tuple[Group, ...]:
    return by_name(outcome, chapter_names(scored.codes, scored.codebook)) if scored.codebook else ()


def _curve(scored: Scored) -> Curve | None:
    if not scored.scores.valued or not len(scored.gold.labels):
        return None
    curve = micro_curve(scored.scores, scored.gold, scored.n_labels).thinned(CURVE_POINTS)
    return curve if len(curve.thresholds) else None


def _calibration(scored: Scored) -> Calibration | None:
    """Reliability, where the scores are probabilities."""
    scores, gold = scored.scores, scored.gold
    if not scores.valued or scores.histogram(1, 0.0).outside:
        return None
    return Calibration(reliability(scores, gold), reliability(scores, gold, floor=FLOOR))
