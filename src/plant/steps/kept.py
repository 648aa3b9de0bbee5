"""The step to a system that re-ranks by prompts; apart, since it loads torch."""

from plant.evaluate.choosing.judge import judge_on
from plant.steps.step import Work
from plant.steps.transform import head_of, shape_of
from plant.systems.fit_kept import fit_kept
from plant.systems.kept import KeptSystem
from plant.systems.system import FittedSystem
from plant.train.history import ClassifierEpoch
from plant.train.loop import Runtime


def make_kept(work: Work, first: FittedSystem | None) -> tuple[KeptSystem, tuple[ClassifierEpoch, ...]]:
    """A transformer trained to answer prompts, over the system whose best codes it re-ranks, and how that went."""
    view, choosing, recipe, settings = work["view"], work["choosing"], work.recipe, work.settings
    name = work.planned.name.partition("/")[0]
    return fit_kept(
        view,
        choosing.documents,
        recipe,
        work["transformer"].transformer,
        first=first,
        head={} if recipe.masked.epochs else head_of(shape_of(recipe)["folder"]),
        judge=judge_on(choosing.documents, view.codes, choosing.gold),
        runtime=Runtime(work.checkpoint, settings.device, lambda epoch: settings.log(name, epoch), work.progress),
    )
