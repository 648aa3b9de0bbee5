"""How a classifier of parts is fitted; apart from the fitted one, which is opened without all that training takes."""

from collections.abc import Sequence
from dataclasses import dataclass

from plant.data.corpus import Documents, TrainingView
from plant.evaluate.choosing.judge import judge_on
from plant.nn.classifier import Classifier
from plant.nn.parts.build import build_classifier
from plant.nn.parts.given import Given
from plant.recipe.schema import Recipe
from plant.train.classifier import Notes, train_classifier
from plant.train.history import ClassifierEpoch
from plant.train.loop import Runtime
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
    with seeded(recipe.seed):
        classifier = build_classifier(recipe, given)
    fitted, chosen = classifier.readable(view.documents), classifier.readable(choosing)
    notes = Notes(fitted, chosen, len(view.codes), judge_on(choosing, view.codes, gold))
    return TrainedClassifier(
        classifier, train_classifier(classifier, notes, recipe.fit, seed=recipe.seed, runtime=runtime)
    )
