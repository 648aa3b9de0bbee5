"""Names of codes in another language than the notes: noticed, told, and believed only if the choosing notes say so.

Few such names stand in a note, and those that do mislead what weighs words by them. Where a corpus is like that and the
recipe would believe names, the recipe is fitted both ways, and the choosing notes decide.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from plant.data.corpus import Corpus, Role
from plant.errors import InputError
from plant.recipe.reading import change_recipe
from plant.recipe.schema import Recipe
from plant.steps.evaluate import Settings, evaluate
from plant.steps.predict import score_role
from plant.systems.coder import FittedCoder
from plant.systems.members import member_recipes
from plant.text.language import language_of, other_language
from plant.text.tokenizer import tokenize
from plant.types import Progress, silent

NOTES = 300  # whose words tell their language
WITHOUT = "naming.book=false"
MATCHING = ("dictionary", "candidates")  # systems that look for names
NAMED_PARTS = ("interaction", "joined", "label-descriptions", "described")  # decoders that do

Fit = Callable[[Recipe, str], FittedCoder]
"""Fits a recipe; the second word says which of the two ways it is: `with-names` or `without-names`."""


@dataclass(frozen=True)
class Languages:
    """The language of the notes and that of the names of their codes."""

    notes: str
    names: str


@dataclass(frozen=True)
class Decided:
    """The recipe that was chosen, its coder, and the MAP of the choosing notes with names and without."""

    recipe: Recipe
    coder: FittedCoder
    with_names: float
    without_names: float


def foreign_names(corpus: Corpus) -> Languages | None:
    """The two languages, where the names of a corpus's codes are not in that of its notes; None where they are."""
    rows = islice(np.flatnonzero(np.isin(corpus.role, (Role.FIT, Role.CHOOSE))).tolist(), NOTES)
    words = [corpus.vocab.tokens[token] for row in rows for token in corpus.documents.tokens_of(row).tolist()]
    names = [word for code in corpus.codes for name in corpus.codebook.names(code) for word in tokenize(name).forms]
    other = other_language(names, than=language_of(words))
    return Languages(language_of(words), other) if other else None


def believes_names(recipe: Recipe) -> bool:
    """Whether a recipe, or one of its members, looks for the names of the code book."""
    return any(one.naming.book and _looks(one) for one in member_recipes(recipe))


def in_doubt(corpus: Corpus, recipe: Recipe) -> bool:
    """Whether names are foreign, would be believed, and there are notes to decide by."""
    return believes_names(recipe) and bool((corpus.role == Role.CHOOSE).any()) and foreign_names(corpus) is not None


def decide(corpus: Corpus, recipe: Recipe, fit: Fit, *, progress: Progress = silent) -> Decided:
    """Fit with the names of the book and without them; the better MAP of the choosing notes wins, names a tie."""
    other = without_names(recipe)
    named, unnamed = fit(recipe, "with-names"), fit(other, "without-names")
    scores = [_judged(coder, corpus, progress) for coder in (named, unnamed)]
    best = (other, unnamed) if scores[1] > scores[0] else (recipe, named)
    return Decided(*best, *scores)


def without_names(recipe: Recipe) -> Recipe:
    """The recipe that does not look into the code book."""
    return change_recipe(recipe, [WITHOUT])


def _looks(recipe: Recipe) -> bool:
    if recipe.system != "classifier":
        return recipe.system in MATCHING
    return recipe.decoder.name in NAMED_PARTS or "interaction" in recipe.decoder.options or recipe.relate.named > 0


def _judged(coder: FittedCoder, corpus: Corpus, progress: Progress) -> float:
    scored = score_role(coder, corpus, Role.CHOOSE, system="", splits={}, progress=progress)
    found = evaluate(scored, Settings(rounds=0, without_frequent=())).measures
    if "MAP" not in found:
        raise InputError("the choosing notes have no codes to decide by: name others")
    return float(found["MAP"].value)
