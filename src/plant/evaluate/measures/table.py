"""Measures as values: a name without ambiguity, its definition, and the number.

Almost every measure of the field is a ratio of two sums over documents (a mean is one), or a mean over labels of such
ratios. Written that way, one function gives the value, its bootstrap and its randomisation test: see `Sample`.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.errors import InputError, unknown
from plant.evaluate.measures.areas import Areas
from plant.evaluate.measures.ranking import (
    average_precision_sums,
    best_gains,
    discounted,
    hits_at,
    ideal_discounted,
    inverse_propensities,
    r_precisions,
)
from plant.evaluate.scores.outcome import Numbers, Outcome
from plant.evaluate.significance.samples import LabelCounts, Sample, whole

CUTOFFS = (5, 8, 15)
PerDocument = Callable[[Outcome], NDArray[Any]]
MACRO_F1 = "macro-F1 (mean of labels)"
MACRO_F1_HARMONIC = "macro-F1 (of macro-P and macro-R)"
HEADLINE = ("MAP", "micro-P", "micro-R", "micro-F1", MACRO_F1, MACRO_F1_HARMONIC)


@dataclass(frozen=True)
class Measure:
    """A named number of a `Sample`, one per draw."""

    name: str
    definition: str
    value: Callable[[Sample], Numbers]
    share: bool = True  # between 0 and 1, more is better; otherwise a count
    resampled: bool = True  # False: resampling documents says nothing of it, hence no interval

    def __call__(self, outcome: Outcome) -> float:
        return float(self.value(whole(outcome))[0])


def ratio(name: str, definition: str, top: PerDocument, bottom: PerDocument, *, share: bool = True) -> Measure:
    """A sum over documents divided by another; 0 where the second is 0."""

    def value(sample: Sample) -> Numbers:
        return divided(sample.sums(top(sample.outcome)), sample.sums(bottom(sample.outcome)))

    return Measure(name, definition, value, share)


def mean(name: str, definition: str, value: PerDocument, *, share: bool = True) -> Measure:
    """The mean over all documents."""
    return ratio(name, definition, value, lambda o: np.ones(len(o)), share=share)


def mean_with_gold(name: str, definition: str, value: PerDocument) -> Measure:
    """The mean over the documents that have gold codes."""
    return ratio(name, f"{definition}; mean of the documents with gold codes.", value, lambda o: o.gold_counts > 0)


def over_labels(name: str, definition: str, value: Callable[[LabelCounts], Numbers]) -> Measure:
    """A number of the counts per label."""
    return Measure(name, definition, lambda sample: value(sample.labels))


def harmonic(name: str, definition: str, first: Measure, second: Measure) -> Measure:
    """The harmonic mean of two measures."""

    def value(sample: Sample) -> Numbers:
        a, b = first.value(sample), second.value(sample)
        return divided(2 * a * b, a + b)

    return Measure(name, definition, value)


def accepted_measures() -> tuple[Measure, ...]:
    """Measures of the accepted codes."""
    return (
        ratio("micro-P", "Share of the accepted codes that are right, all documents together.",
              lambda o: o.right, lambda o: o.accepted_counts),
        ratio("micro-R", "Share of the gold codes that are accepted, all documents together.",
              lambda o: o.right, lambda o: o.gold_counts),
        ratio("micro-F1", "Harmonic mean of micro-P and micro-R.",
              lambda o: 2 * o.right, lambda o: o.accepted_counts + o.gold_counts),
        *_macro_measures("", "the labels that are gold in at least one evaluated document", gold_only=True),
        *_macro_measures("all labels", "all labels, 0 for a label that is never gold", gold_only=False),
        mean("F1 (mean of documents)", "F1 of each document's accepted codes, averaged; 1 where gold and accepted are "
             "both empty.", lambda o: divided(2 * o.right, o.accepted_counts + o.gold_counts, otherwise=1.0)),
        mean("Jaccard", "Accepted and gold / accepted or gold, per document, averaged; 1 where both are empty.",
             lambda o: divided(o.right, o.accepted_counts + o.gold_counts - o.right, otherwise=1.0)),
        mean("exact match", "Share of the documents whose accepted codes are exactly the gold ones.",
             lambda o: (o.right == o.gold_counts) & (o.right == o.accepted_counts)),
        mean("codes per document", "Accepted codes per document.", lambda o: o.accepted_counts, share=False),
        Measure("distinct codes", "Codes accepted for at least one document.",
                lambda sample: (sample.labels.accepted > 0).sum(axis=1), share=False, resampled=False),
    )  # fmt: skip


def ranking_measures(cutoffs: Iterable[int] = CUTOFFS) -> tuple[Measure, ...]:
    """Measures of the ranked lists."""
    r_precision = mean_with_gold("R-precision", "P@k with k the number of the document's gold codes", r_precisions)
    return (mean_average_precision(), r_precision, *(measure for k in cutoffs for measure in at(k)))


def at(k: int) -> tuple[Measure, ...]:
    """Measures of the first `k` codes."""
    precision = mean(f"P@{k}", f"Right codes among the first {k}, divided by {k}; mean of all documents.",
                     lambda o: hits_at(o, k) / k)  # fmt: skip
    recall = mean_with_gold(f"R@{k}", f"Share of the gold codes that are among the first {k}",
                            lambda o: divided(hits_at(o, k), o.gold_counts))  # fmt: skip
    return (
        precision,
        recall,
        mean(f"F1@{k} (mean of documents)", f"2 hits / ({k} + gold codes) per document; mean of all documents.",
             lambda o: 2 * hits_at(o, k) / (k + o.gold_counts)),
        harmonic(f"F1@{k} (of P@{k} and R@{k})", f"Harmonic mean of the printed P@{k} and R@{k}.", precision, recall),
        mean_with_gold(f"nDCG@{k}", f"Sum of 1 / log2(place + 1) over the right codes among the first {k}, divided by "
                       "its greatest possible value", lambda o: divided(discounted(o, k), ideal_discounted(o, k))),
    )  # fmt: skip


def mean_average_precision(k: int | None = None) -> Measure:
    """MAP over whole lists, or over the first `k` codes, which is another number and has another name."""
    name, where = ("MAP", "the list") if k is None else (f"MAP@{k}", f"the first {k} codes")
    return mean_with_gold(
        name,
        f"Precision at the place of every gold code in {where}, 0 if it is not there, averaged over the document's "
        "gold codes, known from training or not; ties keep the order given",
        lambda o: divided(average_precision_sums(o, k), o.gold_counts),
    )


def propensity_measures(cutoffs: Iterable[int] = CUTOFFS) -> tuple[Measure, ...]:
    """Measures that value a rare code more; they need the training frequencies."""
    return tuple(measure for k in cutoffs for measure in _propensity_scored(k))


def hierarchical_measures() -> tuple[Measure, ...]:
    """Measures over codes and their ancestors; they need a code book with parents."""
    ending = "of the codes and all their ancestors, as sets per document, all documents together."
    return (
        ratio("hierarchical P", f"Precision {ending}", lambda o: o.hierarchical.right,
              lambda o: o.hierarchical.accepted),
        ratio("hierarchical R", f"Recall {ending}", lambda o: o.hierarchical.right, lambda o: o.hierarchical.gold),
        ratio("hierarchical F1", f"F1 {ending}", lambda o: 2 * o.hierarchical.right,
              lambda o: o.hierarchical.accepted + o.hierarchical.gold),
    )  # fmt: skip


def area_measures(*, complete: bool = True) -> tuple[Measure, ...]:
    """Areas under ROC curves; of lists, they carry that in their name."""
    ending, note = ("", "") if complete else (" (of lists)", " Codes that are not listed are tied below all others.")
    return (
        Measure(f"micro-AUC{ending}", f"ROC area over all document-code pairs; a tie counts one half.{note}",
                lambda sample: np.array([_areas(sample).micro]), resampled=False),
        Measure(f"macro-AUC{ending}", "ROC area per label, averaged over the labels with a positive and a negative "
                f"document; a label that has no scores gets one half.{note}",
                lambda sample: np.array([_areas(sample).macro]), resampled=False),
    )  # fmt: skip


def families_for(outcome: Outcome, cutoffs: Iterable[int] = CUTOFFS) -> dict[str, tuple[Measure, ...]]:
    """All measures that this outcome has the means for, by what they look at."""
    cutoffs = tuple(cutoffs)
    families = {"Ranked lists": ranking_measures(cutoffs), "Accepted codes": accepted_measures()}
    if outcome.closure:
        families["Codes and their ancestors"] = hierarchical_measures()
    if outcome.areas:
        families["Areas under curves"] = area_measures(complete=outcome.areas.complete)
    if outcome.train_documents:
        families["Rare codes weigh more"] = propensity_measures(cutoffs)
    return families


def measures_for(outcome: Outcome, cutoffs: Iterable[int] = CUTOFFS) -> tuple[Measure, ...]:
    """All measures that this outcome has the means for."""
    return tuple(measure for family in families_for(outcome, cutoffs).values() for measure in family)


def measure(name: str) -> Measure:
    """The measure of that name, such as `P@15`, `MAP`, `MAP@30` or `macro-F1 (mean of labels)`."""
    cut = re.fullmatch(r"(.+?)@([1-9]\d*)( .*)?", name)
    cutoffs = (int(cut[2]),) if cut else ()
    everything = (
        *(mean_average_precision(k) for k in cutoffs), *ranking_measures(cutoffs), *accepted_measures(),
        *propensity_measures(cutoffs), *hierarchical_measures(), *area_measures(), *area_measures(complete=False),
    )  # fmt: skip
    table = {measure.name: measure for measure in everything}
    if name not in table:
        raise InputError(unknown("measure", name, table))
    return table[name]


def divided(top: Numbers, bottom: Numbers | NDArray[np.int64], *, otherwise: float = 0.0) -> Numbers:
    """Quotients, and `otherwise` where the divisor is 0."""
    return np.divide(top, bottom, out=np.full(np.shape(top), otherwise), where=bottom != 0)


def _macro_measures(scope_name: str, scope: str, *, gold_only: bool) -> tuple[Measure, ...]:
    def named(name: str) -> str:
        if not scope_name:
            return name
        return f"{name[:-1]}, {scope_name})" if name.endswith(")") else f"{name} ({scope_name})"

    def macro(name: str, definition: str, value: Callable[[LabelCounts], Numbers]) -> Measure:
        averaged = partial(_mean_of_labels, value=value, gold_only=gold_only)
        return over_labels(named(name), f"{definition}; mean over {scope}.", averaged)

    precision = macro("macro-P", "Precision per label, 0 for one that is never accepted",
                      lambda counts: divided(counts.right, counts.accepted))  # fmt: skip
    recall = macro("macro-R", "Recall per label", lambda counts: divided(counts.right, counts.gold))
    f1 = macro(MACRO_F1, "F1 per label", lambda counts: divided(2 * counts.right, counts.accepted + counts.gold))
    other = f"Harmonic mean of macro-P and macro-R, both over {scope}."
    return precision, recall, f1, harmonic(named(MACRO_F1_HARMONIC), other, precision, recall)


def _mean_of_labels(counts: LabelCounts, *, value: Callable[[LabelCounts], Numbers], gold_only: bool) -> Numbers:
    values = value(counts)
    if not gold_only:
        return values.sum(axis=1) / max(1, counts.n_labels)
    gold = counts.gold > 0
    return divided(np.where(gold, values, 0.0).sum(axis=1), gold.sum(axis=1))


def _propensity_scored(k: int) -> tuple[Measure, Measure]:
    return (
        ratio(
            f"PSP@{k}",
            f"Sum of 1 / propensity over the right codes among the first {k}, divided by its greatest possible value, "
            "all documents together; propensities from training frequencies with A = 0.55, B = 1.5.",
            lambda o: discounted(o, k, gains=inverse_propensities(o), discount=False),
            lambda o: best_gains(o, k, gains=inverse_propensities(o), discount=False),
        ),
        ratio(
            f"PSnDCG@{k}",
            f"As PSP@{k}, with each right code divided by log2(place + 1) and each document by its ideal DCG@{k}.",
            lambda o: divided(discounted(o, k, gains=inverse_propensities(o)), ideal_discounted(o, k)),
            lambda o: divided(best_gains(o, k, gains=inverse_propensities(o)), ideal_discounted(o, k)),
        ),
    )


def _areas(sample: Sample) -> Areas:
    if sample.outcome.areas is None:
        raise InputError("areas under curves need scores, and these predictions have only an order")
    return sample.outcome.areas
