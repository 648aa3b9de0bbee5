"""Runs of a study, each by `plant run` in a process of its own: one after the other, or side by side."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from plant.cluster import pool as cluster
from plant.cluster.pool import Pool
from plant.errors import InputError
from plant.store.artifact import atomic_file, read_arrays, read_manifest
from plant.studies.fittings import Cost, Fitting
from plant.studies.kept import Kept
from plant.studies.processes import Spent, in_own_process

TRACEBACK = "Traceback (most recent call last):"
SPENT = "spent.json"
SPARE, UNKNOWN = 1.2, 4.0  # times the peak of an earlier run; gigabytes where there was none

Call = Callable[[Sequence[str], Path], Spent | None]
"""Called as `call(arguments, log)`: runs `plant` with these; what it used, None if it failed."""

Runs = Sequence[tuple[Fitting, Sequence[str]]]
"""What is fitted, and the options of `plant` that do it."""


def fit_all(
    runs: Runs,
    kept: Kept,
    say: Callable[[str], None],
    *,
    call: Call | None = None,
    pool: Pool | None = None,
    so_far: bool = False,
) -> dict[Fitting, Cost]:
    """What each run that could be fitted cost: one after the other by `call`, or side by side in a `pool`.

    A run that was kept is not fitted; each that ends is kept at once. With `so_far` only those count that are there.
    """
    there = {fitting: cost for fitting, _ in runs if (cost := kept.cost(fitting)) is not None}
    if there:
        say(f"{len(there)} of {len(runs)} runs were kept")
    missing = [run for run in runs if run[0] not in there]
    if so_far:
        say(f"{sum(not is_there(fitting) for fitting, _ in missing)} of {len(runs)} runs are not there yet")
        missing = [run for run in missing if is_there(run[0])]
        if not there and not missing:
            raise InputError("no run of the study is there yet")
    fit = partial(_fit_each, call=call or in_own_process) if pool is None else partial(_fit_beside, pool=pool)
    costs = {**there, **fit(missing, kept, say)}
    return {fitting: costs[fitting] for fitting, _ in runs if fitting in costs}  # in their order, whoever was first


def _fit_each(runs: Runs, kept: Kept, say: Callable[[str], None], *, call: Call) -> dict[Fitting, Cost]:
    """One run after the other."""
    costs: dict[Fitting, Cost] = {}
    for place, (fitting, arguments) in enumerate(runs, start=1):
        say(f"{place} of {len(runs)}: {fitting} (log: {fitting.folder / 'run.log'})")
        cost = run_once(fitting, arguments, call)
        if cost is None:
            say(f"    failed: {last_words(fitting.folder)}")
            continue
        costs[fitting] = cost
        kept.put(fitting, cost)
        left = minutes_left([fitting for fitting, _ in runs[place:]], costs)
        say(f"    {told_cost(cost)}; about {left:.0f} minutes left")
    return costs


def _fit_beside(runs: Runs, kept: Kept, say: Callable[[str], None], *, pool: Pool) -> dict[Fitting, Cost]:
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
            kept.put(fitting, cost)
            say(f"{len(costs)} of {len(runs)}: {fitting}, beside others {told_cost(cost)}")
    return costs


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


def run_once(fitting: Fitting, arguments: Sequence[str], call: Call) -> Cost | None:
    """One run, unless it is there; None where it failed."""
    folder = fitting.folder
    if is_there(fitting):
        return _cost(folder)
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


def is_there(fitting: Fitting) -> bool:
    """Whether the run is in its folder, made from what it would be made from now."""
    found = _cost(fitting.folder)
    return found is not None and found.made_from == fitting.made_from


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
