"""The members of a recipe: the recipes that are fitted one after the other and joined."""

from collections.abc import Iterable
from dataclasses import replace

from plant.errors import RecipeError
from plant.recipe.reading import load_recipe
from plant.recipe.schema import Recipe

PROMPTED = ("folder", "pieces", "hidden", "layers", "heads", "window", "overlap")  # options of system 'kept''s encoder


def member_recipes(recipe: Recipe) -> tuple[Recipe, ...]:
    """The recipes of a recipe's members, with its seed and its [prepare]; the recipe itself where it names none.

    Their parts are checked: what a recipe has wrong is told before anything is read.
    """
    members = (recipe,) if recipe.system != "members" else _members(recipe)
    _check(members)
    return members


def scorer_recipes(recipe: Recipe) -> tuple[Recipe, ...]:
    """The recipes whose scores a judge of candidates weighs, with its seed and its [prepare]."""
    loaded = [load_recipe(name) for name in recipe.candidates.scorers]
    for scorer, name in zip(loaded, recipe.candidates.scorers, strict=True):
        if scorer.system in ("members", "candidates"):
            raise RecipeError(f"candidates.scorers: {name!r} is made of other recipes: name those")
    _check(loaded)
    return tuple(replace(scorer, seed=recipe.seed, prepare=recipe.prepare) for scorer in loaded)


def first_recipe(recipe: Recipe) -> Recipe | None:
    """The recipe whose best codes are re-ranked, with the seed and the [prepare] of the one that does; None for all."""
    if recipe.system != "kept" or not recipe.kept.first:
        return None
    first = load_recipe(recipe.kept.first)
    if first.system in ("members", "candidates", "kept"):
        raise RecipeError(f"kept.first: {recipe.kept.first!r} is made of other recipes: name one of those")
    _check([first])
    return replace(first, seed=recipe.seed, prepare=recipe.prepare)


def _check_kept(recipe: Recipe) -> None:
    """An error for what a transformer that answers prompts does not take."""
    from plant.nn.parts.table import ENCODERS

    first_recipe(recipe)
    if recipe.encoder.name != "transformer":
        raise RecipeError(f"system 'kept' reads titles by encoder 'transformer', not by {recipe.encoder.name!r}")
    ENCODERS.check(recipe.encoder.name, recipe.encoder.options)
    for option in recipe.encoder.options:
        if option not in PROMPTED:
            taken = ", ".join(PROMPTED)
            raise RecipeError(f"encoder.{option} counts for nothing in system 'kept', which takes {taken}")
    if recipe.fit.frozen_epochs or recipe.fit.unfreezing_epochs:
        raise RecipeError("system 'kept' trains all of its network: set fit.frozen_epochs and unfreezing_epochs to 0")


def _check_tree(recipe: Recipe) -> None:
    """An error for parts of which a tree can make no levels."""
    from plant.nn.parts.build import check_parts

    check_parts(recipe)
    if (recipe.decoder.name, recipe.loss.name) != ("attention-xml", "bce"):
        raise RecipeError("system 'label-tree' has decoder 'attention-xml' and loss 'bce', and no others")
    if recipe.fit.frozen_epochs or recipe.fit.unfreezing_epochs or recipe.fit.segment:
        knobs = "fit.frozen_epochs, fit.unfreezing_epochs and fit.segment"
        raise RecipeError(f"system 'label-tree' trains whole networks: set {knobs} to 0")


def _check(recipes: Iterable[Recipe]) -> None:
    """An error for parts of networks that are not known or do not take their options."""
    for recipe in recipes:
        if recipe.system == "kept":
            _check_kept(recipe)
        if recipe.system == "label-tree":
            _check_tree(recipe)
        if recipe.system == "classifier":
            from plant.nn.parts.build import check_parts  # torch, for those that need it

            check_parts(recipe)


def _members(recipe: Recipe) -> tuple[Recipe, ...]:
    """The members, each with those changes of the recipe that are for what it has."""
    taken = [_taken(name, recipe.changes) for name in recipe.members]
    for change in recipe.changes:
        if not any(change in changes for changes in taken):
            names, key = ", ".join(recipe.members), change.partition("=")[0]
            raise RecipeError(f"this recipe is made of members ({names}), none of which has {key.strip()!r} to set")
    members = tuple(
        replace(load_recipe(name, changes), seed=recipe.seed, prepare=recipe.prepare)
        for name, changes in zip(recipe.members, taken, strict=True)
    )
    if not members or any(member.system == "members" for member in members):
        raise RecipeError("a recipe of members needs the names of at least one recipe, none of them with members")
    return members


def _taken(name: str, changes: tuple[str, ...]) -> tuple[str, ...]:
    """The changes that a member takes; an earlier one may bring the part that a later one is for."""
    from plant.nn.parts.build import takes

    taken: tuple[str, ...] = ()
    for change in changes:
        if takes(load_recipe(name, taken), change):
            taken = (*taken, change)
    return taken
