"""The same numbers by groups of codes: training-frequency bins, chapters, diagnoses and procedures."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.codes.systems import normal_form, single_system
from plant.evaluate.scores.outcome import Outcome

BIN_ENDS = (0, 5, 10, 50, 100, 500)
BIN_NAMES = ("0", "1-5", "6-10", "11-50", "51-100", "101-500", "> 500")
PARTS = {
    "icd9-diagnosis": "diagnosis", "icd10cm": "diagnosis", "icd9-procedure": "procedure", "icd10pcs": "procedure",
}  # fmt: skip
RECALL_AT = 15


@dataclass(frozen=True)
class Group:
    """What became of the codes of one group; P, R and F1 are micro within the group."""

    name: str
    labels: int  # gold in at least one evaluated document
    gold: int  # document-code pairs
    accepted: int
    right: int
    precision: float
    recall: float
    f1: float
    macro_precision: float  # mean of the gold labels, as are the next two
    macro_recall: float
    macro_f1: float
    distinct: int  # codes that are accepted somewhere
    recall_at_15: float  # share of the gold pairs that are among the first 15 of their document
    auc: float | None  # mean of the labels that have one


def by_frequency(outcome: Outcome) -> tuple[Group, ...]:
    """A row for each training-frequency bin, also for those without gold codes."""
    return grouped(outcome, np.searchsorted(BIN_ENDS, outcome.train_counts), BIN_NAMES)


def all_together(outcome: Outcome) -> Group:
    """All codes as one group."""
    return grouped(outcome, np.zeros(outcome.n_labels, np.int64), ("all",))[0]


def by_name(outcome: Outcome, names: Sequence[str]) -> tuple[Group, ...]:
    """A row for each distinct name of a label's group that has gold or accepted codes, in order of gold codes."""
    distinct = tuple(dict.fromkeys(names))
    number = {name: group for group, name in enumerate(distinct)}
    rows = grouped(outcome, np.array([number[name] for name in names], dtype=np.int64), distinct)
    return tuple(sorted((row for row in rows if row.gold or row.accepted), key=lambda row: -row.gold))


def grouped(outcome: Outcome, group_of: NDArray[np.integer], names: Sequence[str]) -> tuple[Group, ...]:
    """A row for each group; `group_of` gives the group of every label."""
    label_rows = _label_counts(outcome)
    return tuple(_group(outcome, name, group_of == group, label_rows) for group, name in enumerate(names))


def chapter_names(codes: Sequence[str], codebook: CodeBook) -> tuple[str, ...]:
    """The topmost ancestor of each code in the book, with its title; 'no chapter' where it has none."""
    tops = [(codebook.ancestors(code) or ("",))[-1] for code in codes]
    return tuple(f"{top} {codebook.description(top)}".strip() or "no chapter" for top in tops)


def part_names(codes: Sequence[str], codebook: CodeBook) -> tuple[str, ...]:
    """'diagnosis' or 'procedure' as the coding system of the book tells them apart, otherwise 'other'."""
    return tuple(_part(code, codebook.system) for code in codes)


def _part(code: str, system: str) -> str:
    written = normal_form(code, system) if system else None
    return "other" if written is None else PARTS.get(single_system(written, system), "other")


def _label_counts(outcome: Outcome) -> tuple[NDArray[np.int64], ...]:
    """Per label: gold, accepted, right, and gold among the first 15."""
    gold = outcome.gold.labels
    entries = (gold, outcome.accepted.labels, gold[outcome.found], gold[outcome.ranks <= RECALL_AT])
    return tuple(np.bincount(labels, minlength=outcome.n_labels) for labels in entries)


def _group(outcome: Outcome, name: str, mine: NDArray[np.bool_], counts: tuple[NDArray[np.int64], ...]) -> Group:
    gold, accepted, right, listed = (int(count[mine].sum()) for count in counts)
    present = mine & (counts[0] > 0)
    return Group(
        name=name,
        labels=int(present.sum()),
        gold=gold,
        accepted=accepted,
        right=right,
        precision=right / max(1, accepted),
        recall=right / max(1, gold),
        f1=2 * right / max(1, accepted + gold),
        macro_precision=_mean(counts[2][present] / np.maximum(1, counts[1][present])) or 0.0,
        macro_recall=_mean(counts[2][present] / counts[0][present]) or 0.0,
        macro_f1=_mean(2 * counts[2][present] / (counts[1][present] + counts[0][present])) or 0.0,
        distinct=int((mine & (counts[1] > 0)).sum()),
        recall_at_15=listed / max(1, gold),
        auc=None if outcome.areas is None else _mean(outcome.areas.labels[mine]),
    )


def _mean(values: NDArray[np.float64]) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None
