"""Variants of recipes, each fitted with every seed by `plant run`; what is there and unchanged stays."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from plant.cluster.pool import Pool
from plant.errors import InputError
from plant.recipe.reading import load_recipe
from plant.steps.fit import key_of_coder
from plant.studies.fittings import Cost, Fitting, Notes
from plant.studies.kept import Kept
from plant.studies.running import Call, fit_all, last_words, settings_of

SEED = "{seed}"  # in a change: the seed of the run
ENDS = ("low", "high")  # of an interval, behind the name of its measure in a row


@dataclass(frozen=True)
class Variant:
    """A recipe with changes, under a name of its own; `about` is what its rows say besides.

    `source`, a table of ours, stands in for the notes of the study where a variant is fitted on others.
    """

    name: str
    recipe: str
    changes: tuple[str, ...] = ()
    about: Mapping[str, str | float] = field(default_factory=lambda: MappingProxyType({}))
    source: str = ""


@dataclass(frozen=True)
class Run:
    """A variant that was fitted with a seed, and where its run lies."""

    variant: Variant
    seed: int
    folder: Path
    cost: Cost


Row = Mapping[str, Any]
RowsOf = Callable[[Run, Notes], Iterable[Row]]
"""Called as `rows_of(run, notes)`: what is measured of a run, as JSON can tell it."""


def rows_of_variants(
    variants: Sequence[Variant],
    seeds: Sequence[int],
    notes: Notes,
    out: Path,
    rows_of: RowsOf,
    *,
    overrides: Sequence[str] = (),
    say: Callable[[str], None] = lambda line: None,
    call: Call | None = None,
    pool: Pool | None = None,
    keep: Path | None = None,
    so_far: bool = False,
) -> tuple[list[Row], tuple[str, ...]]:
    """The rows of all runs that could be fitted, and the names of those that could not.

    Changes of a variant follow `overrides`. Seed by seed, so that what was stopped has rows of all variants. In `keep`
    are the rows of each run, which is not repeated where nothing but them was carried over.
    """
    _check_names(variants)
    planned = [(one, *_planned(one, seed, notes, out, overrides)) for seed in seeds for one in variants]
    variant_of = {fitting: one for one, fitting, _ in planned}
    shared = ["--shared", str(out / "shared")]

    def told(fitting: Fitting, cost: Cost) -> list[Row]:
        return list(rows_of(Run(variant_of[fitting], fitting.seed, fitting.folder, cost), notes))

    kept = Kept(told, keep)
    runs = [(fitting, [*words, *shared]) for _, fitting, words in planned]
    costs = fit_all(runs, kept, say, call=call, pool=pool, so_far=so_far)
    if not costs:
        raise InputError(f"no variant could be fitted: {last_words(planned[0][1].folder)}")
    rows = [row for fitting, cost in costs.items() for row in kept.get(fitting, cost)]
    return rows, tuple(str(fitting) for fitting, _ in runs if fitting not in costs)


def _planned(
    variant: Variant, seed: int, notes: Notes, out: Path, overrides: Sequence[str]
) -> tuple[Fitting, list[str]]:
    """The fitting of a variant with a seed, and the words of its `plant run`."""
    notes = Notes(variant.source, notes.options) if variant.source else notes
    changes = [change.replace(SEED, str(seed)) for change in (*overrides, *variant.changes)]
    made_from = key_of_coder(load_recipe(variant.recipe, [*changes, f"seed={seed}"]), notes.digest)
    fitting = Fitting(variant.recipe, seed, out / f"{variant.name}-seed{seed}", made_from, variant.name)
    return fitting, ["run", notes.source, *notes.words, *settings_of([*changes, f"seed={seed}"])]


def _check_names(variants: Sequence[Variant]) -> None:
    names = [variant.name for variant in variants]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two variants are called {twice!r}: their runs would share a folder")
