"""Fit: from the fitted notes to a model that scores codes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents, TrainingView
from plant.evaluate.measures import measure
from plant.evaluate.outcome import outcome_of
from plant.evaluate.scored import scored_densely
from plant.evaluate.thresholds import tune_global_threshold, tune_label_thresholds
from plant.nn.build import Given, build_classifier
from plant.nn.classifier import Classifier
from plant.recipe import Choose, Recipe
from plant.train.classifier import Epoch, Judge, Notes, train_classifier
from plant.train.seed import seeded
from plant.types import Progress, silent


@dataclass(frozen=True)
class Fitted:
    """A trained classifier, what it was built from, and how its training went."""

    classifier: Classifier
    given: Given
    history: tuple[Epoch, ...]


def fit(
    view: TrainingView,
    choosing: Documents,
    recipe: Recipe,
    given: Given,
    *,
    gold: Sequence[Sequence[str]],
    checkpoint: Path | None = None,
    device: str = "cpu",
    log: Callable[[Epoch], None] = lambda epoch: None,
    progress: Progress = silent,
) -> Fitted:
    """Train the classifier of a recipe; `gold` are all codes of the choosing notes, those without a label too."""
    with seeded(recipe.seed):
        classifier = build_classifier(recipe, given)
    notes = Notes(view.documents, choosing, len(view.codes), judge_on(choosing, view.codes, gold))
    history = train_classifier(
        classifier,
        notes,
        recipe.fit,
        seed=recipe.seed,
        checkpoint=checkpoint,
        device=device,
        log=log,
        progress=progress,
    )
    return Fitted(classifier, given, history)


def frequencies(view: TrainingView) -> NDArray[np.float32]:
    """The share of fitted notes that have each label."""
    counts = np.bincount(view.documents.labels, minlength=len(view.codes))
    return (counts / max(1, len(view.documents))).astype(np.float32)


def judge_on(choosing: Documents, codes: tuple[str, ...], gold: Sequence[Sequence[str]]) -> Judge:
    """Measures of probabilities on the choosing notes, as early stopping asks for them; F1 at its best threshold."""
    targets = choosing.targets(len(codes))
    wanted = [measure(name) for name in ("MAP", "micro-F1", "P@5", "P@8", "P@15")]

    def judge(probabilities: NDArray[np.float32]) -> dict[str, float]:
        threshold = tune_global_threshold(probabilities, targets)
        scored = scored_densely(probabilities, ids=choosing.ids, codes=codes, gold=gold, thresholds=threshold)
        outcome = outcome_of(scored, areas=False)
        loss = -np.log(np.clip(np.where(targets.astype(bool), probabilities, 1 - probabilities), 1e-7, 1)).sum(1).mean()
        return {m.name: m(outcome) for m in wanted} | {"loss": float(loss)}

    return judge


def thresholds(
    probabilities: NDArray[np.float32], choosing: Documents, recipe: Choose, *, n_labels: int
) -> NDArray[np.float32]:
    """One threshold per label, tuned on the choosing notes."""
    targets = choosing.targets(n_labels)
    if recipe.thresholds == "per-label":
        return tune_label_thresholds(probabilities, targets, shrinkage=recipe.shrinkage)
    best = tune_global_threshold(probabilities, targets, measure=recipe.goal)
    return np.full(n_labels, best, np.float32)
