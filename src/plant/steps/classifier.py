"""The steps to a network: what its parts ask for by name, and the classifier itself; apart, since they load torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from plant.nn.matching.naming import name_labels
from plant.nn.parts import given as parts
from plant.nn.parts.build import asked_for
from plant.recipe.schema import Recipe
from plant.steps.label_graph import HYPERBOLIC, LABEL_PAIRS
from plant.steps.pretrain import PRETRAIN
from plant.steps.rank import RANK
from plant.steps.step import EVERYTHING, Step, Work, always
from plant.steps.transform import TRANSFORM
from plant.steps.vectors import VECTORS
from plant.systems.classifier import ClassifierSystem, ready
from plant.systems.fit_classifier import fit_classifier
from plant.systems.fit_label_tree import fit_label_tree
from plant.systems.system import FittedSystem
from plant.train.history import ClassifierEpoch
from plant.train.loop import Runtime
from plant.train.together import ALONE, Together


@dataclass(frozen=True)
class Asked:
    """What parts may ask for by name, and the step that makes it."""

    step: str
    unwrapped: Callable[[Any], Any]


ASKED: Mapping[str, Asked] = {
    "relevance": Asked("relevance", lambda named: named.thing),
    "ranker": Asked("ranker", lambda named: named.thing.ranker),
    "language_model": Asked("language-model", lambda pretrained: pretrained.model),
    "transformer": Asked("transformer", lambda transformed: transformed.transformer),
    "word_vectors": Asked("word-vectors", lambda named: named.thing),
    "names": Asked("names", lambda names: names),
    "hyperbolic": Asked("hyperbolic", lambda points: points),
    "label_pairs": Asked("label-pairs", lambda pairs: pairs),
}


def asked_of(recipe: Recipe) -> tuple[str, ...]:
    """What the parts of a recipe ask for, of all that steps make."""
    asked = asked_for(recipe)
    return tuple(name for name in ASKED if name in asked and (name != "word_vectors" or recipe.vectors.train))


def make_classifier(work: Work) -> tuple[FittedSystem, tuple[ClassifierEpoch, ...]]:
    """A classifier of parts, trained, and how its training went."""
    view, choosing, recipe = work["view"], work["choosing"], work.recipe
    given, runtime = _given(work), _runtime(work, work.settings.together or ALONE)
    fitted = fit_classifier(view, choosing.documents, recipe, given, gold=choosing.gold, runtime=runtime)
    return ready(ClassifierSystem(recipe, fitted.classifier, given, work.settings.device)), fitted.history


def make_label_tree(work: Work) -> tuple[FittedSystem, tuple[ClassifierEpoch, ...]]:
    """A tree with a classifier of parts for each level, and how its training went."""
    view, choosing = work["view"], work["choosing"]
    return fit_label_tree(
        view, choosing.documents, work.recipe, _given(work), gold=choosing.gold, runtime=_runtime(work, ALONE)
    )


def _given(work: Work) -> parts.Given:
    """What the parts ask for."""
    view, recipe = work["view"], work.recipe
    made = {name: ASKED[name].unwrapped(work[ASKED[name].step]) for name in asked_of(recipe)}
    return parts.Given(view.vocab, view.codes, view.codebook, view.label_shares(), **made)


def _runtime(work: Work, together: Together) -> Runtime[ClassifierEpoch]:
    name, settings = work.planned.name.partition("/")[0], work.settings
    return Runtime[ClassifierEpoch](
        work.checkpoint, settings.device, lambda epoch: settings.log(name, epoch), work.progress, together
    )


def needs_of_classifier(recipe: Recipe) -> tuple[str, ...]:
    """The steps that make what the parts of a recipe ask for, and the notes."""
    return "view", "choosing", *(ASKED[name].step for name in asked_of(recipe))


NAMES = Step(
    "names",
    lambda work: name_labels(work["view"], work.recipe, work.progress),
    always("view"),
    sections=EVERYTHING,
    files=lambda recipe: (recipe.naming.synonyms,),
)
OF_NETWORKS = (RANK, PRETRAIN, TRANSFORM, VECTORS, HYPERBOLIC, LABEL_PAIRS, NAMES)
