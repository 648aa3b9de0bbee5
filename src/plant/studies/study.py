"""A study: recipes x seeds on the same splits, one after the other, and one table."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from plant.cluster import pool as cluster
from plant.cluster.pool import Pool
from plant.errors import InputError
from plant.evaluate.measures.bins import Group, all_together, by_frequency
from plant.evaluate.scores.outcome import outcome_of
from plant.evaluate.scores.scored import Scored, load_scored
from plant.evaluate.significance.compare import COMPARED, Comparison, compare
from plant.recipe.reading import load_recipe
from plant.steps.fit import key_of_coder
from plant.store.artifact import atomic_file, read_arrays, read_manifest
from plant.store.fingerprint import fingerprint
from plant.store.keeper import digest_of
from plant.studies.processes import Spent, in_own_process

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
CLAIMED = ("low-shot", "overfit", "ablation", "rare", "tokens", "case-study", "leak")  # plant.studies.claims

TRACEBACK = "Traceback (most recent call last):"
SPENT = "spent.json"
SPARE, UNKNOWN = 1.2, 4.0  # times the peak of an earlier run; gigabytes where there was none

Call = Callable[[Sequence[str], Path], Spent | None]
"""Called as `call(arguments, log)`: runs `plant` with these; what it used, None if it failed."""


@dataclass(frozen=True)
class Cost:
    """What one run took, all stages that it made itself together, and what it was made from."""

    minutes: float
    peak_megabytes: float
    parameters: int
    made_from: str = ""
    cpu_minutes: float = 0.0  # of all threads, in the attempt that ended well


@dataclass(frozen=True)
class Fitting:
    """One recipe with one seed, the folder of its run, what that is made from; a changed recipe has its own name."""

    recipe: str
    seed: int
    folder: Path
    made_from: str = ""
    variant: str = ""

    @property
    def name(self) -> str:
        return self.variant or self.recipe

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}"


@dataclass(frozen=True)
class Study:
    """The comparison, the first recipe being the reference, what the runs of each recipe cost, and which failed.

    `groups` are all codes and those of each training frequency, by recipe, a tuple for each of its runs.
    """

    comparison: Comparison
    costs: Mapping[str, Cost]
    groups: Mapping[str, tuple[tuple[Group, ...], ...]]
    failed: tuple[str, ...] = ()


def recipes_of(study: str, *, gpu: bool) -> tuple[str, ...]:
    """The recipes of a named study; without a GPU the published systems in their sizes for two cores."""
    if study not in STUDIES:
        raise InputError(f"there is no study {study!r}; there are {', '.join((*STUDIES, *CLAIMED))}")
    return tuple(f"{name}-small" if name in PUBLISHED and not gpu else name for name in STUDIES[study])


def study(
    recipes: Sequence[str],
    seeds: Sequence[int],
    source: str,
    options: Sequence[str],
    out: Path,
    *,
    overrides: Sequence[str] = (),
    say: Callable[[str], None] = lambda line: None,
    call: Call | None = None,
    pool: Pool | None = None,
) -> Study:
    """Fit every recipe with every seed by `plant run source` with `options`; what is there and unchanged stays.

    Seed by seed, so that a study that was stopped has rows of all recipes. A recipe that fails does not stop the rest.
    `call` carries out one run, by itself in a process of its own; a `pool` carries out several side by side.
    """
    recipes, seeds = tuple(dict.fromkeys(recipes)), tuple(dict.fromkeys(seeds))
    _check_names(recipes)
    about = [fingerprint(source), *options]
    fittings = [planned(recipe, seed, out, overrides, about) for seed in seeds for recipe in recipes]
    if source != "demo" and not Path(source).exists():
        raise InputError(f"there is no file or folder {source!r} ('demo' is the embedded corpus)")
    shared = ["--shared", str(out / "shared"), *settings_of(overrides)]
    runs = [(one, ["run", source, *options, *shared, *settings_of([f"seed={one.seed}"])]) for one in fittings]
    costs = fit_all(runs, say, call=call, pool=pool)
    return _compared(recipes, fittings, costs)


Runs = Sequence[tuple[Fitting, Sequence[str]]]
"""What is fitted, and the options of `plant` that do it."""


def fit_all(
    runs: Runs, say: Callable[[str], None], *, call: Call | None = None, pool: Pool | None = None
) -> dict[Fitting, Cost]:
    """What each run that could be fitted cost: one after the other by `call`, or side by side in a `pool`."""
    return _fit_each(runs, call or in_own_process, say) if pool is None else _fit_beside(runs, pool, say)


def _fit_each(runs: Runs, call: Call, say: Callable[[str], None]) -> dict[Fitting, Cost]:
    """One run after the other."""
    costs: dict[Fitting, Cost] = {}
    for place, (fitting, arguments) in enumerate(runs, start=1):
        say(f"{place} of {len(runs)}: {fitting} (log: {fitting.folder / 'run.log'})")
        cost = run_once(fitting, arguments, call)
        if cost is None:
            say(f"    failed: {last_words(fitting.folder)}")
            continue
        costs[fitting] = cost
        left = minutes_left([fitting for fitting, _ in runs[place:]], costs)
        say(f"    {told_cost(cost)}; about {left:.0f} minutes left")
    return costs


def _fit_beside(runs: Runs, pool: Pool, say: Callable[[str], None]) -> dict[Fitting, Cost]:
    """Runs side by side, after the first, which makes what they share; their minutes are those of a shared machine."""
    costs: dict[Fitting, Cost] = {}
    work = cluster.Call(run_apart, (os.getcwd(),))
    for some in (runs[:1], runs[1:]):
        for number, cost in pool.each(work, some, needs=cluster.Needs(gigabytes=gigabytes_of(runs, some))):
            fitting = some[number][0]
            if cost is None:
                say(f"{fitting} failed: {last_words(fitting.folder)}")
                continue
            costs[fitting] = cost
            say(f"{len(costs)} of {len(runs)}: {fitting}, beside others {told_cost(cost)}")
    return {fitting: costs[fitting] for fitting, _ in runs if fitting in costs}  # in their order, whoever was first


def gigabytes_of(runs: Runs, some: Runs) -> float:
    """What the largest of some runs takes: what its recipe took with any seed and a fifth, otherwise four."""
    peaks: dict[str, float] = {}
    for fitting, _ in runs:
        if cost := _cost(fitting.folder):
            peaks[fitting.name] = max(peaks.get(fitting.name, 0.0), cost.peak_megabytes / 1e3 * SPARE)
    return max((peaks.get(fitting.name, UNKNOWN) for fitting, _ in some), default=UNKNOWN)


def told_cost(cost: Cost) -> str:
    """A run's time and memory in a few words."""
    return f"{cost.minutes:.1f} minutes ({cost.cpu_minutes:.1f} of CPU), {cost.peak_megabytes:,.0f} MB"


def run_apart(folder: str, run: tuple[Fitting, Sequence[str]]) -> Cost | None:
    """What a worker does: one run in a process of its own; `folder` is where relative paths start."""
    os.chdir(folder)
    return run_once(*run, in_own_process)


def planned(recipe: str, seed: int, out: Path, overrides: Sequence[str], about: Sequence[str]) -> Fitting:
    """The run of a recipe with a seed; `about` is what all runs are made from."""
    made_from = key_of_coder(load_recipe(recipe, [*overrides, f"seed={seed}"]), digest_of(list(about)))
    return Fitting(recipe, seed, out / f"{Path(recipe).stem}-seed{seed}", made_from)


def _check_names(recipes: Sequence[str]) -> None:
    """Refuse recipes whose runs would lie in the same folder."""
    by_stem: dict[str, str] = {}
    for recipe in recipes:
        if other := by_stem.get(Path(recipe).stem):
            raise InputError(f"the runs of {other} and {recipe} would share a folder: rename one of the recipe files")
        by_stem[Path(recipe).stem] = recipe


def minutes_left(waiting: Sequence[Fitting], costs: Mapping[Fitting, Cost]) -> float:
    """A guess from what is done: a recipe takes what it took with other seeds, a new one the mean of all."""
    by_name = {fitting.name: cost.minutes for fitting, cost in costs.items()}
    mean = sum(by_name.values()) / max(1, len(by_name))
    return sum(by_name.get(fitting.name, mean) for fitting in waiting if fitting not in costs)


def last_words(folder: Path) -> str:
    """The last line of a run's log; where it ends in a traceback, the line that names the error, and where to look."""
    log = folder / "run.log"
    said = log.read_text(encoding="utf-8") if log.is_file() else ""  # what fails at once has not begun a log
    _, traceback, after = said.strip().rpartition(TRACEBACK)
    if traceback:
        error = next((line for line in after.splitlines() if line and not line.startswith(" ")), "an error")
        return f"{error} (a bug: its traceback is in {log})"
    return after.splitlines()[-1] if after else "without a word"


def _compared(recipes: Sequence[str], planned: Sequence[Fitting], costs: Mapping[Fitting, Cost]) -> Study:
    done = {recipe: [fitting for fitting in costs if fitting.recipe == recipe] for recipe in recipes}
    done = {recipe: runs for recipe, runs in done.items() if runs}
    if not done:
        raise InputError(f"no recipe could be fitted: {last_words(planned[0].folder)}")
    scored = {recipe: [load_scored(run.folder / "predictions") for run in runs] for recipe, runs in done.items()}
    return Study(
        compare(scored, measures=COMPARED),
        {recipe: _usual([costs[run] for run in runs]) for recipe, runs in done.items()},
        {recipe: tuple(map(_groups, runs)) for recipe, runs in scored.items()},
        tuple(str(fitting) for fitting in planned if fitting not in costs),
    )


def _groups(scored: Scored) -> tuple[Group, ...]:
    outcome = outcome_of(replace(scored, codebook=None), areas=False)
    return (all_together(outcome), *(group for group in by_frequency(outcome) if group.gold))


def run_once(fitting: Fitting, arguments: Sequence[str], call: Call) -> Cost | None:
    """One run, unless it is there; None where it failed."""
    folder = fitting.folder
    if (found := _cost(folder)) and found.made_from == fitting.made_from:
        return found
    folder.mkdir(parents=True, exist_ok=True)
    before, started = minutes_spent(folder, fitting.made_from), time.monotonic()
    _write_json(folder / SPENT, {"made_from": fitting.made_from, "minutes": before, "started": time.time()})
    spent = call([*arguments, "--replace", "--recipe", fitting.recipe, "--out", str(folder)], folder / "run.log")
    if spent is None:
        return None
    minutes = before + (time.monotonic() - started) / 60
    parameters = _parameters(folder / "coder")
    cost = Cost(minutes, spent.peak_megabytes, parameters, fitting.made_from, spent.cpu_seconds / 60)
    _write_json(folder / "cost.json", asdict(cost))
    (folder / SPENT).unlink()
    return cost


def minutes_spent(folder: Path, made_from: str) -> float:
    """What earlier attempts at a run took that were cut short: from their start to the last line of their log."""
    path, log = folder / SPENT, folder / "run.log"
    spent = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if spent.get("made_from") != made_from:
        return 0.0
    last = log.stat().st_mtime if log.is_file() else 0.0
    return float(spent["minutes"] + max(0.0, last - spent["started"]) / 60)


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(content), encoding="utf-8")


def settings_of(changes: Sequence[str]) -> list[str]:
    """Changes of a recipe as options of `plant run`."""
    return [word for change in changes for word in ("--set", change)]


def _cost(folder: Path) -> Cost | None:
    path = folder / "cost.json"
    return Cost(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


def _parameters(coder: Path) -> int:
    """Numbers that were learned: all arrays of the system but what its parts were given and the constants of them."""
    tensors = read_arrays(coder, read_manifest(coder))
    learned = {name: array for name, array in tensors.items() if name.startswith("system.")}
    return sum(array.size for name, array in learned.items() if not {"given", "constants"} & set(name.split(".")))


def _usual(costs: Sequence[Cost]) -> Cost:
    """Of several runs the median time, since the first one makes what they share, and the largest peak."""
    return Cost(
        median(cost.minutes for cost in costs),
        max(cost.peak_megabytes for cost in costs),
        costs[0].parameters,
        cpu_minutes=median(cost.cpu_minutes for cost in costs),
    )
