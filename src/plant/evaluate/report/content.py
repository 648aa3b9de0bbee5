"""The report: measures with intervals beside the prior, and all that is needed to believe them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.evaluate.choosing.calibration import Reliability
from plant.evaluate.measures.bins import Group
from plant.evaluate.measures.curves import Curve
from plant.evaluate.scores.outcome import Outcome
from plant.evaluate.scores.scored import Frame, Scored
from plant.evaluate.significance.resampling import Value

WORST = 20
EXAMPLES = 5


@dataclass(frozen=True)
class EvaluatedCounts:
    """How much was evaluated."""

    documents: int
    without_gold: int  # documents that have no gold code
    labels: int  # scored or gold
    gold_labels: int  # gold in at least one document
    gold: int  # document-code pairs
    train_documents: int  # 0: not known
    unseen_labels: int | None  # gold labels that no training note has; None where training is not known
    unseen: int | None  # gold pairs with such a label
    list_length: int  # codes ranked for a document, at most
    complete: bool  # every document has a score for every label of training


@dataclass(frozen=True)
class WorstCode:
    """A code with many wrong decisions, and identifiers of documents to look at."""

    code: str
    description: str
    train: int
    gold: int
    accepted: int
    right: int
    f1: float
    missed_in: tuple[str, ...]
    wrongly_in: tuple[str, ...]


@dataclass(frozen=True)
class Calibration:
    """Reliability over all scored pairs, and over those with a probability that is not negligible."""

    all_pairs: Reliability
    likely_pairs: Reliability


@dataclass(frozen=True)
class Report:
    """Everything that is printed, plotted and written as JSON."""

    frame: Frame
    counts: EvaluatedCounts
    measures: Mapping[str, Value]
    prior: Mapping[str, Value]  # empty where training is not known
    families: Mapping[str, tuple[str, ...]]  # names of measures by what they look at
    definitions: Mapping[str, str]
    parts: Mapping[str, Mapping[str, Value]]  # diagnoses and procedures apart, where there are both
    bins: tuple[Group, ...]  # empty where training is not known
    prior_bins: tuple[Group, ...]
    chapters: tuple[Group, ...]
    worst: tuple[WorstCode, ...]
    train_skew: NDArray[np.int64]  # training notes per code, falling
    gold_skew: NDArray[np.int64]  # evaluated notes per code, falling
    curve: Curve | None
    calibration: Calibration | None


def counts_of(scored: Scored) -> EvaluatedCounts:
    """The frame of counts."""
    known = scored.train_documents > 0
    unseen = scored.train_counts[scored.gold.labels] == 0
    return EvaluatedCounts(
        documents=len(scored),
        without_gold=int((scored.gold.lengths == 0).sum()),
        labels=scored.n_labels,
        gold_labels=len(np.unique(scored.gold.labels)),
        gold=len(scored.gold.labels),
        train_documents=scored.train_documents,
        unseen_labels=len(np.unique(scored.gold.labels[unseen])) if known else None,
        unseen=int(unseen.sum()) if known else None,
        list_length=scored.scores.list_length,
        complete=scored.scores.complete,
    )


def worst_codes(scored: Scored, outcome: Outcome) -> tuple[WorstCode, ...]:
    """The codes with the most wrong decisions, missed or wrongly accepted."""
    gold = np.bincount(outcome.gold.labels, minlength=outcome.n_labels)
    accepted = np.bincount(outcome.accepted.labels, minlength=outcome.n_labels)
    right = np.bincount(outcome.gold.labels[outcome.found], minlength=outcome.n_labels)
    wrong = gold + accepted - 2 * right
    worst = [int(label) for label in np.argsort(-wrong, kind="stable")[:WORST] if wrong[label]]
    return tuple(
        WorstCode(
            code=scored.codes[label],
            description=scored.codebook.description(scored.codes[label]) if scored.codebook else "",
            train=int(scored.train_counts[label]),
            gold=int(gold[label]),
            accepted=int(accepted[label]),
            right=int(right[label]),
            f1=2 * int(right[label]) / int(gold[label] + accepted[label]),
            missed_in=_examples(scored, outcome, label, missed=True),
            wrongly_in=_examples(scored, outcome, label, missed=False),
        )
        for label in worst
    )


def skew(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """The counts that are not zero, falling."""
    return np.sort(counts[counts > 0])[::-1].astype(np.int64)


def report_table(report: Report) -> dict[str, Any]:
    """The report as plain tables, for JSON."""
    return {
        "system": report.frame.system,
        "seed": report.frame.seed,
        **{name: value for name, value in asdict(report.counts).items() if not name.startswith("unseen")},
        "unseen": None
        if report.counts.unseen_labels is None
        else {"labels": report.counts.unseen_labels, "gold": report.counts.unseen},
        "threshold": {"value": report.frame.threshold, "origin": report.frame.threshold_origin},
        "temperature": report.frame.temperature,
        "splits": dict(report.frame.splits),
        "remarks": list(report.frame.remarks),
        "measures": _values(report.measures),
        "prior": _values(report.prior),
        "parts": {name: _values(values) for name, values in report.parts.items()},
        "bins": [asdict(group) for group in report.bins],
        "prior_bins": [asdict(group) for group in report.prior_bins],
        "chapters": [asdict(group) for group in report.chapters],
        "calibration": _calibration_table(report.calibration),
        "worst_codes": [asdict(code) for code in report.worst],
        "explanations": {name: dict(row) for name, row in report.frame.explanations.items()},
        "history": [dict(row) for row in report.frame.history],
        "definitions": dict(report.definitions),
    }


def _values(values: Mapping[str, Value]) -> dict[str, Any]:
    """Measured numbers as tables; what is not a number (an area without labels) is null."""
    return {
        name: asdict(value) | {"value": value.value if np.isfinite(value.value) else None}
        for name, value in values.items()
    }


def _calibration_table(calibration: Calibration | None) -> dict[str, Any] | None:
    if calibration is None:
        return None
    likely = calibration.likely_pairs
    return {
        "ECE (all pairs)": calibration.all_pairs.error,
        f"ECE (pairs from {likely.floor} on)": likely.error,
        "bins": {
            "pairs": likely.counts.tolist(), "probability": likely.confidence.tolist(), "share": likely.share.tolist(),
        },
    }  # fmt: skip


def _examples(scored: Scored, outcome: Outcome, label: int, *, missed: bool) -> tuple[str, ...]:
    having, others = (outcome.gold, outcome.accepted) if missed else (outcome.accepted, outcome.gold)
    mine = having.documents[having.labels == label]
    theirs = others.documents[others.labels == label]
    return tuple(scored.ids[document] for document in np.setdiff1d(mine, theirs)[:EXAMPLES])
