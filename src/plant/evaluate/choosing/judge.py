"""Measures of the choosing notes while a classifier is trained: what early stopping looks at."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents
from plant.evaluate.choosing.thresholds import tune_global_threshold
from plant.evaluate.measures.table import measure
from plant.evaluate.scores.forms import BLOCK, best_labels, blocks, ranked
from plant.evaluate.scores.lists import Lists
from plant.evaluate.scores.outcome import outcome_of
from plant.evaluate.scores.scored import Scored, scored_by_lists, scored_densely

TINY = 1e-7  # the least surprise that a probability may hold
BEST = 1000  # labels of a note among which its own are looked for where there are very many


@dataclass(frozen=True)
class BestScores:
    """The best labels of each note, best first, and what all their labels cost."""

    labels: NDArray[np.int32]  # [document, place]
    values: NDArray[np.float32]  # [document, place]
    cross_entropy: float  # the sum over documents and labels


Judge = Callable[[NDArray[np.float32] | BestScores], Mapping[str, float]]
"""From the probabilities of the choosing notes, or the best of them, to measures by name."""


def judge_on(choosing: Documents, codes: tuple[str, ...], gold: Sequence[Sequence[str]]) -> Judge:
    """Measures of probabilities on the choosing notes, as early stopping asks for them; F1 at its best threshold."""
    own = Lists(choosing.labels, choosing.label_starts)
    wanted = [measure(name) for name in ("MAP", "micro-F1", "P@5", "P@8", "P@15")]

    def judge(found: NDArray[np.float32] | BestScores) -> dict[str, float]:
        outcome = outcome_of(by_lists(found) if isinstance(found, BestScores) else densely(found), areas=False)
        loss = found.cross_entropy if isinstance(found, BestScores) else cross_entropy(found, own)
        return {m.name: m(outcome) for m in wanted} | {"loss": loss / max(1, len(own))}

    def densely(probabilities: NDArray[np.float32]) -> Scored:
        threshold = tune_global_threshold(probabilities, own)
        return scored_densely(probabilities, ids=choosing.ids, codes=codes, gold=gold, thresholds=threshold)

    def by_lists(found: BestScores) -> Scored:
        threshold = tune_global_threshold(ranked(found.labels, found.values, thresholds=np.zeros(len(codes))), own)
        lists = (found.labels, found.values)
        return scored_by_lists(*lists, ids=choosing.ids, codes=codes, gold=gold, thresholds=threshold)

    return judge


def best_scores(parts: Iterable[tuple[NDArray[np.intp], NDArray[np.float32]]], gold: Lists) -> BestScores:
    """The best labels of notes whose probabilities come some rows at a time."""
    labels, values, surprise = {}, {}, 0.0
    for rows, probabilities in parts:
        for row, scores in zip(rows.tolist(), probabilities, strict=True):
            labels[row] = best_labels(scores, BEST)
            values[row] = scores[labels[row]]
            surprise += cross_entropy(scores[None], gold.within(row, row + 1))
    order = sorted(labels)
    best = np.stack([labels[row] for row in order]).astype(np.int32)
    return BestScores(best, np.stack([values[row] for row in order]), surprise)


def cross_entropy(probabilities: NDArray[np.float32], gold: Lists) -> float:
    """The sum over documents and labels, some documents at a time."""
    surprise = 0.0
    for rows in blocks(len(probabilities), BLOCK // max(1, probabilities.shape[1])):
        surprise -= float(np.log1p(-np.minimum(probabilities[rows], 1 - TINY)).sum(dtype=np.float64))
    own = np.clip(probabilities[gold.documents, gold.labels].astype(np.float64), TINY, 1 - TINY)
    return surprise + float((np.log1p(-own) - np.log(own)).sum())
