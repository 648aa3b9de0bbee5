"""What processes that train one model agree on before they do: whether there is something to train, and what first."""

from typing import TYPE_CHECKING

from plant.recipe.schema import Pretrain
from plant.steps.step import Walk

if TYPE_CHECKING:
    from plant.train.together import Together

LANGUAGE_MODEL = "language-model"


def shares_streams(recipe: Pretrain, together: "Together | None") -> bool:
    """Whether all processes read streams of a language model; otherwise the first trains it, and the others wait."""
    return together is not None and 1 < together.size <= recipe.accumulate


def is_kept(steps: Walk, name: str, together: "Together | None") -> bool:
    """Whether a thing is there, as the first process sees it: all must know whether there is something to train."""
    if together is None or together.size == 1:
        return False
    one = steps.plan[name]
    assert one.step.kind is not None
    found = together.rank == 0 and steps.settings.keeper.has(one.folder, steps.origin(name), one.step.kind)
    return together.totals([float(found)])[0] > 0


def shared_language_models(steps: Walk) -> list[str]:
    """The language models of a walk that all processes would train, in the order of the plan."""
    return [
        name
        for name, one in steps.plan.items()
        if one.step.name == LANGUAGE_MODEL and shares_streams(one.recipe.pretrain, steps.settings.together)
    ]


def train_language_models(steps: Walk, goal: str) -> None:
    """Train those on the way to a goal before all else: nobody then waits for what is made from them."""
    together, names = steps.settings.together, shared_language_models(steps)
    if together is None or not names:
        return
    missing = {one.name for one in steps.missing(goal)} if together.rank == 0 else set()
    for name, is_missing in zip(names, together.totals([float(name in missing) for name in names]), strict=True):
        if is_missing and not is_kept(steps, name, together):  # that of an earlier name may be the same
            steps[name]
