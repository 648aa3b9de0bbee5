"""Coders of processes that share labels: each writes the rows of its own, and the first makes one artifact of them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plant.steps.step import Planned, Step, Work
from plant.store.artifact import Manifest
from plant.store.keeper import Kind
from plant.systems.coder import CODER, FittedCoder, save_coder, save_rows

if TYPE_CHECKING:
    from plant.train.together import Together


def coders_in_parts(plan: Iterable[Planned], together: "Together | None", rooms: Path) -> Iterator[Planned]:
    """The same plan; where processes share labels, each writes the rows of some, and the first puts them together."""
    for one in plan:
        shares = together is not None and together.by_labels and one.step.kind is CODER
        yield replace(one, step=_in_parts(one.step, together, rooms)) if shares and together else one


def _in_parts(step: Step, together: "Together", rooms: Path) -> Step:
    from plant.train.ranges import label_range

    places = [rooms / f"{step.name}-{rank}-of-{together.size}.rows" for rank in range(together.size)]

    def make(work: Work) -> FittedCoder:
        fitted: FittedCoder = step.make(work)
        save_rows(fitted, places[together.rank], label_range(len(fitted.codes), together.rank, together.size))
        together.totals([0.0])  # all parts are written when this is known
        return fitted

    def save(fitted: FittedCoder, path: Path, /, **about: Any) -> Manifest:
        return save_coder(fitted, path, parts=places, **about)

    return replace(step, make=make, kind=Kind(CODER.name, save, CODER.load))
