"""One step by itself, in a folder of its own: what `plant relate`, `rank` and `pretrain` carry out."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plant.data.shards import key_of_shards, open_shards
from plant.data.store import load_corpus
from plant.recipe.schema import Recipe
from plant.steps.step import Root, Step, WalkSettings, planned, walk
from plant.steps.together import is_kept
from plant.steps.views import VIEWS
from plant.store.artifact import read_manifest
from plant.store.keeper import Following, InFolder, Notify, key_of, unheard
from plant.types import Progress, silent

if TYPE_CHECKING:
    from plant.train.together import Together


def opened(path: Path | str, kind: str, load: Callable[[Path | str], Any]) -> Root:
    """An artifact as the start of a walk, known by what it was made from."""
    return Root(load(path), key_of(read_manifest(path, kind)))


def opened_corpus(path: Path | str) -> dict[str, Root]:
    """A corpus as the start of a walk, known by what it holds, whatever it was read from."""
    return {"corpus": Root(load_corpus(path), read_manifest(path, "corpus").digest)}


def opened_shards(paths: Sequence[Path | str]) -> dict[str, Root]:
    """A corpus in shards as the start of a walk."""
    return {"shards": Root(open_shards(paths), key_of_shards(paths))}


def made_at(
    out: Path,
    step: Step,
    recipe: Recipe,
    given: Mapping[str, Root],
    *,
    device: str = "cpu",
    progress: Progress = silent,
    notify: Notify = unheard,
    together: "Together | None" = None,
) -> Any:
    """The thing of a step, kept at `out`; what `plant run` would make there is the same, and not made again.

    Of processes that train `together` the first keeps it; the others leave with None where it was there.
    """
    earlier = [planned(view, recipe) for view in VIEWS if "corpus" in given]
    plan = [*earlier, planned(step, recipe, folder=out.name)]
    keeper, helps = InFolder(out.parent, notify), together is not None and together.rank > 0
    settings = WalkSettings(
        Following(keeper, (out.name,)) if helps else keeper, device, progress=progress, together=together
    )
    steps = walk(plan, given, settings)
    return None if is_kept(steps, step.name, together) and helps else steps[step.name]
