"""One step by itself, in a folder of its own: what `plant relate`, `rank` and `pretrain` carry out."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from plant.data.store import load_corpus
from plant.recipe.schema import Recipe
from plant.steps.step import Root, Step, WalkSettings, planned, walk
from plant.steps.views import VIEWS
from plant.store.artifact import read_manifest
from plant.store.keeper import InFolder, Notify, key_of, unheard
from plant.types import Progress, silent


def opened(path: Path | str, kind: str, load: Callable[[Path | str], Any]) -> Root:
    """An artifact as the start of a walk, known by what it was made from."""
    return Root(load(path), key_of(read_manifest(path, kind)))


def opened_corpus(path: Path | str) -> dict[str, Root]:
    """A corpus as the start of a walk, known by what it holds, whatever it was read from."""
    return {"corpus": Root(load_corpus(path), read_manifest(path, "corpus").digest)}


def made_at(
    out: Path,
    step: Step,
    recipe: Recipe,
    given: Mapping[str, Root],
    *,
    device: str = "cpu",
    progress: Progress = silent,
    notify: Notify = unheard,
) -> Any:
    """The thing of a step, kept at `out`; what `plant run` would make there is the same, and not made again."""
    earlier = [planned(view, recipe) for view in VIEWS if "corpus" in given]
    plan = [*earlier, planned(step, recipe, folder=out.name)]
    return walk(plan, given, WalkSettings(InFolder(out.parent, notify), device, progress=progress))[step.name]
