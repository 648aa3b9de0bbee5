"""How a classifier of parts is fitted; apart from the fitted one, which is opened without all that training takes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from plant.data.corpus import Documents, TrainingView, renumber_labels
from plant.evaluate.choosing.judge import Judge, judge_on
from plant.nn.classifier import Classifier
from plant.nn.parts.build import build_classifier
from plant.nn.parts.given import Given
from plant.recipe.schema import Recipe
from plant.train.classifier import Notes, train_classifier
from plant.train.history import ClassifierEpoch
from plant.train.loop import Runtime
from plant.train.ranges import agreed_checkpoint, check_ranges, ranged_classifier
from plant.train.seed import seeded


@dataclass(frozen=True)
class TrainedClassifier:
    """A trained classifier, and how its training went."""

    classifier: Classifier
    history: tuple[ClassifierEpoch, ...]


def fit_classifier(
    view: TrainingView,
    choosing: Documents,
    recipe: Recipe,
    given: Given,
    *,
    gold: Sequence[Sequence[str]],
    runtime: Runtime[ClassifierEpoch] = Runtime(),  # noqa: B008  # frozen
) -> TrainedClassifier:
    """Train the classifier of a recipe; `gold` are all codes of the choosing notes, those without a label too."""
    if runtime.together.by_labels:
        return _fit_ranges(view, choosing, recipe, given, judge_on(choosing, view.codes, gold), runtime)
    with seeded(recipe.seed):
        classifier = build_classifier(recipe, given)
    fitted, chosen = classifier.readable(view.documents), classifier.readable(choosing)
    notes = Notes(fitted, chosen, len(view.codes), judge_on(choosing, view.codes, gold))
    return TrainedClassifier(
        classifier, train_classifier(classifier, notes, recipe.fit, seed=recipe.seed, runtime=runtime)
    )


def _fit_ranges(
    view: TrainingView,
    choosing: Documents,
    recipe: Recipe,
    given: Given,
    judge: Judge,
    runtime: Runtime[ClassifierEpoch],
) -> TrainedClassifier:
    """The same by processes each of which trains the decoder of some labels; all end with the whole."""
    check_ranges(recipe)
    ours, group = ranged_classifier(recipe, given, runtime.together), runtime.together
    fitted, chosen = ours.part.readable(view.documents), ours.part.readable(choosing)
    own = renumber_labels(fitted, np.array(ours.labels, np.int64), n_labels=ours.n_labels)
    notes = Notes(own, chosen, len(ours.labels), judge, ours.n_labels, ours.columns)
    quiet = runtime if group.rank == 0 else replace(runtime, log=lambda epoch: None)
    here = replace(quiet, checkpoint=agreed_checkpoint(runtime.checkpoint, group), together=ours.together)
    history = train_classifier(ours.part, notes, recipe.fit, seed=recipe.seed, runtime=here)
    with seeded(recipe.seed):
        whole = build_classifier(recipe, given)
    return TrainedClassifier(ours.rejoin(whole).to(runtime.device), history)
