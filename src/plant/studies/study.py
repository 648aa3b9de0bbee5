"""A study: recipes x seeds on the same splits, one after the other, and one table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plant.cluster.pool import Pool
from plant.errors import InputError
from plant.evaluate.measures.bins import Group, all_together, by_frequency
from plant.evaluate.measures.table import measure
from plant.evaluate.scores.result import Result, result_as_json, result_from_json, result_of
from plant.evaluate.scores.scored import load_scored
from plant.evaluate.significance.compare import COMPARED, Comparison, compare_results
from plant.recipe.reading import load_recipe
from plant.steps.fit import key_of_coder
from plant.studies.fittings import Cost, Fitting, Notes, usual
from plant.studies.kept import Kept
from plant.studies.running import Call, fit_all, last_words, settings_of

PUBLISHED = ("fasttext", "text-cnn", "bigru", "xml-cnn", "caml", "dr-caml", "multirescnn", "laat", "joint-laat",
             "effective-can", "lsan", "msatt-kg", "hypercore", "isd", "msmn", "discnet", "attentionxml")  # fmt: skip
STUDIES: Mapping[str, tuple[str, ...]] = {
    "baselines": (
        "plant",
        "prior",
        "tfidf",
        *PUBLISHED,
        "plant-learned",
        "plant-cnn",
        "plant-cnn-learned",
        "plant-bilstm",
        "dictionary",
        "interaction",
        "plant-interaction",
        "candidates",
    ),
    "planting": ("plant", "plant-learned", "prior", "tfidf"),
}
QUICK_RECIPES = ("tfidf", "prior")  # of a comparison that only shows that it runs
CLAIMED = ("low-shot", "overfit", "ablation", "rare", "tokens", "case-study", "leak")  # plant.studies.claims


@dataclass(frozen=True)
class Study:
    """The comparison, the first recipe being the reference, what the runs of each recipe cost, and which failed.

    `groups` are all codes and those of each training frequency, by recipe, a tuple for each of its runs; `runs` says
    what was measured of each run by itself.
    """

    comparison: Comparison
    costs: Mapping[str, Cost]
    groups: Mapping[str, tuple[tuple[Group, ...], ...]]
    failed: tuple[str, ...] = ()
    runs: tuple[Mapping[str, str | float], ...] = ()


def recipes_of(study: str, *, gpu: bool) -> tuple[str, ...]:
    """The recipes of a named study; without a GPU the published systems in their sizes for two cores."""
    if study not in STUDIES:
        raise InputError(f"there is no study {study!r}; there are {', '.join((*STUDIES, *CLAIMED))}")
    return tuple(f"{name}-small" if name in PUBLISHED and not gpu else name for name in STUDIES[study])


def study(
    recipes: Sequence[str],
    seeds: Sequence[int],
    notes: Notes,
    out: Path,
    *,
    overrides: Sequence[str] = (),
    say: Callable[[str], None] = lambda line: None,
    call: Call | None = None,
    pool: Pool | None = None,
    keep: Path | None = None,
    so_far: bool = False,
) -> Study:
    """Fit every recipe with every seed on the same notes by `plant run`; what is there and unchanged stays.

    Seed by seed, so that a study that was stopped has rows of all recipes. A recipe that fails does not stop the rest.
    `call` carries out one run, by itself in a process of its own; a `pool` carries out several side by side. In `keep`
    is what the table needs of each run, so that runs are not repeated where nothing but it was carried over. With
    `so_far` nothing is fitted: the table is that of the runs which are there.
    """
    recipes, seeds = tuple(dict.fromkeys(recipes)), tuple(dict.fromkeys(seeds))
    _check_names(recipes)
    digest = notes.digest
    fittings = [planned(recipe, seed, out, overrides, digest) for seed in seeds for recipe in recipes]
    notes.check()
    common = ["run", notes.source, *notes.words, "--shared", str(out / "shared"), *settings_of(overrides)]
    runs = [(one, [*common, *settings_of([f"seed={one.seed}"])]) for one in fittings]
    kept = Kept(_result_of, keep)
    costs = fit_all(runs, kept, say, call=call, pool=pool, so_far=so_far)
    return _compared(recipes, fittings, costs, kept)


def _result_of(fitting: Fitting, cost: Cost) -> dict[str, Any]:
    return result_as_json(result_of(load_scored(fitting.folder / "predictions")))


def planned(recipe: str, seed: int, out: Path, overrides: Sequence[str], notes: str) -> Fitting:
    """The run of a recipe with a seed; `notes` is the digest of what all runs are made from."""
    made_from = key_of_coder(load_recipe(recipe, [*overrides, f"seed={seed}"]), notes)
    return Fitting(recipe, seed, out / f"{Path(recipe).stem}-seed{seed}", made_from)


def _check_names(recipes: Sequence[str]) -> None:
    """Refuse recipes whose runs would lie in the same folder."""
    by_stem: dict[str, str] = {}
    for recipe in recipes:
        if other := by_stem.get(Path(recipe).stem):
            raise InputError(f"the runs of {other} and {recipe} would share a folder: rename one of the recipe files")
        by_stem[Path(recipe).stem] = recipe


def _compared(recipes: Sequence[str], planned: Sequence[Fitting], costs: Mapping[Fitting, Cost], kept: Kept) -> Study:
    done = {recipe: [fitting for fitting in costs if fitting.recipe == recipe] for recipe in recipes}
    done = {recipe: runs for recipe, runs in done.items() if runs}
    if not done:
        raise InputError(f"no recipe could be fitted: {last_words(planned[0].folder)}")
    results = {name: [result_from_json(kept.get(run, costs[run])) for run in runs] for name, runs in done.items()}
    return Study(
        compare_results(results, measures=COMPARED),
        {recipe: usual([costs[run] for run in runs]) for recipe, runs in done.items()},
        {recipe: tuple(map(_groups, runs)) for recipe, runs in results.items()},
        tuple(str(fitting) for fitting in planned if fitting not in costs),
        tuple(
            _told(run, costs[run], result)
            for name, runs in done.items()
            for run, result in zip(runs, results[name], strict=True)
        ),
    )


def _told(run: Fitting, cost: Cost, result: Result) -> Mapping[str, str | float]:
    measures = {name: measure(name)(result.outcome) for name in COMPARED}
    return {"system": run.recipe, "seed": run.seed, **measures, "CPU minutes": round(cost.cpu_minutes, 2)}


def _groups(result: Result) -> tuple[Group, ...]:
    outcome = result.outcome
    return (all_together(outcome), *(group for group in by_frequency(outcome) if group.gold))
