"""Measures of the choosing notes while a classifier is trained: what early stopping looks at."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents
from plant.evaluate.choosing.thresholds import tune_global_threshold
from plant.evaluate.measures.table import measure
from plant.evaluate.scores.forms import BLOCK, blocks
from plant.evaluate.scores.lists import Lists
from plant.evaluate.scores.outcome import outcome_of
from plant.evaluate.scores.scored import scored_densely

TINY = 1e-7  # the least surprise that a probability may hold
Judge = Callable[[NDArray[np.float32]], Mapping[str, float]]
"""From the probabilities of the choosing notes to measures by name."""


def judge_on(choosing: Documents, codes: tuple[str, ...], gold: Sequence[Sequence[str]]) -> Judge:
    """Measures of probabilities on the choosing notes, as early stopping asks for them; F1 at its best threshold."""
    own = Lists(choosing.labels, choosing.label_starts)
    wanted = [measure(name) for name in ("MAP", "micro-F1", "P@5", "P@8", "P@15")]

    def judge(probabilities: NDArray[np.float32]) -> dict[str, float]:
        threshold = tune_global_threshold(probabilities, own)
        scored = scored_densely(probabilities, ids=choosing.ids, codes=codes, gold=gold, thresholds=threshold)
        outcome = outcome_of(scored, areas=False)
        return {m.name: m(outcome) for m in wanted} | {"loss": cross_entropy(probabilities, own) / max(1, len(own))}

    return judge


def cross_entropy(probabilities: NDArray[np.float32], gold: Lists) -> float:
    """The sum over documents and labels, some documents at a time."""
    surprise = 0.0
    for rows in blocks(len(probabilities), BLOCK // max(1, probabilities.shape[1])):
        surprise -= float(np.log1p(-np.minimum(probabilities[rows], 1 - TINY)).sum(dtype=np.float64))
    own = np.clip(probabilities[gold.documents, gold.labels].astype(np.float64), TINY, 1 - TINY)
    return surprise + float((np.log1p(-own) - np.log(own)).sum())
