"""Fit: from the fitted notes to a model that scores codes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents, TrainingView
from plant.evaluate.choosing.thresholds import tune_global_threshold, tune_label_thresholds
from plant.evaluate.measures.table import measure
from plant.evaluate.scores.forms import BLOCK, blocks
from plant.evaluate.scores.lists import Lists
from plant.evaluate.scores.outcome import outcome_of
from plant.evaluate.scores.scored import scored_densely
from plant.nn.classifier import Classifier
from plant.nn.parts.build import Given, build_classifier
from plant.recipe.schema import Choose, Recipe
from plant.train.classifier import ClassifierEpoch, Judge, Notes, train_classifier
from plant.train.loop import Runtime
from plant.train.seed import seeded

TINY = 1e-7  # the least surprise that a probability may hold


@dataclass(frozen=True)
class Fitted:
    """A trained classifier, what it was built from, and how its training went."""

    classifier: Classifier
    given: Given
    history: tuple[ClassifierEpoch, ...]


def fit(
    view: TrainingView,
    choosing: Documents,
    recipe: Recipe,
    given: Given,
    *,
    gold: Sequence[Sequence[str]],
    runtime: Runtime[ClassifierEpoch] = Runtime(),  # noqa: B008  # frozen
) -> Fitted:
    """Train the classifier of a recipe; `gold` are all codes of the choosing notes, those without a label too."""
    with seeded(recipe.seed):
        classifier = build_classifier(recipe, given)
    fitted, chosen = classifier.readable(view.documents), classifier.readable(choosing)
    notes = Notes(fitted, chosen, len(view.codes), judge_on(choosing, view.codes, gold))
    history = train_classifier(classifier, notes, recipe.fit, seed=recipe.seed, runtime=runtime)
    return Fitted(classifier, given, history)


def frequencies(view: TrainingView) -> NDArray[np.float32]:
    """The share of fitted notes that have each label."""
    counts = np.bincount(view.documents.labels, minlength=len(view.codes))
    return (counts / max(1, len(view.documents))).astype(np.float32)


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


def thresholds(
    probabilities: NDArray[np.float32], choosing: Documents, recipe: Choose, *, n_labels: int
) -> NDArray[np.float32]:
    """One threshold per label, tuned on the choosing notes."""
    targets = Lists(choosing.labels, choosing.label_starts)
    if recipe.thresholds == "per-label":
        return tune_label_thresholds(probabilities, targets, shrinkage=recipe.shrinkage)
    best = tune_global_threshold(probabilities, targets, measure=recipe.goal)
    return np.full(n_labels, best, np.float32)
