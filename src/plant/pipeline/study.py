"""A study: recipes x seeds on the same splits, one after the other, and one table."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from plant.artifact import TENSORS, atomic_file, read_tensors
from plant.errors import InputError
from plant.evaluate.compare import COMPARED, Comparison, compare
from plant.evaluate.scored import load_scored

BASELINES = (
    "plant", "prior", "tfidf", "fasttext-small", "text-cnn-small", "bigru-small", "xml-cnn-small", "caml-small",
    "dr-caml-small", "multirescnn-small", "laat-small", "joint-laat-small", "effective-can-small", "lsan-small",
    "plant-cnn", "plant-bilstm",
)  # fmt: skip
PLANTING = ("plant", "plant-learned", "prior", "tfidf")
STUDIES: Mapping[str, tuple[str, ...]] = {"baselines": BASELINES, "planting": PLANTING}


@dataclass(frozen=True)
class Cost:
    """What one run took, all stages together."""

    minutes: float
    peak_megabytes: float
    parameters: int


@dataclass(frozen=True)
class Study:
    """The comparison, the first recipe being the reference, and what each recipe's runs cost on average."""

    comparison: Comparison
    costs: Mapping[str, Cost]


def study(
    recipes: Sequence[str],
    seeds: Iterable[int],
    arguments: Sequence[str],
    out: Path,
    *,
    told: Callable[[str], None] = lambda line: None,
) -> Study:
    """Fit every recipe with every seed by `plant run` with `arguments`; what is already there is not fitted again."""
    folders: dict[str, list[Path]] = {}
    for recipe in recipes:
        for seed in seeds:
            folder = out / f"{recipe}-seed{seed}"
            folders.setdefault(recipe, []).append(folder)
            cost = _run(recipe, seed, arguments, folder)
            told(f"{recipe}, seed {seed}: {cost.minutes:.1f} minutes, {cost.peak_megabytes:,.0f} MB")
    scored = {recipe: [load_scored(folder / "predictions") for folder in runs] for recipe, runs in folders.items()}
    costs = {recipe: _mean([_cost(folder) for folder in runs]) for recipe, runs in folders.items()}
    return Study(compare(scored, measures=COMPARED), costs)


def _run(recipe: str, seed: int, arguments: Sequence[str], folder: Path) -> Cost:
    """One run in a process of its own, so that its memory is its own."""
    if (folder / "cost.json").is_file():
        return _cost(folder)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", "from plant.cli.main import main; main()", "run", *arguments]
    command += ["--recipe", recipe, "--set", f"seed={seed}", "--out", str(folder)]
    started = time.monotonic()
    with (folder / "run.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        last = (folder / "run.log").read_text(encoding="utf-8").strip().splitlines()[-1:]
        raise InputError(f"recipe {recipe!r} failed: {' '.join(last)} (see {folder / 'run.log'})")
    cost = Cost((time.monotonic() - started) / 60, usage.ru_maxrss / 1024, _parameters(folder / "coder"))
    with atomic_file(folder / "cost.json") as temporary:
        temporary.write_text(json.dumps(asdict(cost)), encoding="utf-8")
    return cost


def _cost(folder: Path) -> Cost:
    return Cost(**json.loads((folder / "cost.json").read_text(encoding="utf-8")))


def _parameters(coder: Path) -> int:
    """Numbers that were learned: all tensors of the model but the relevance that it was planted from."""
    tensors = read_tensors(coder / TENSORS)
    return sum(t.size for name, t in tensors.items() if name.startswith("model.") and "relevance." not in name)


def _mean(costs: Sequence[Cost]) -> Cost:
    n = len(costs)
    return Cost(
        sum(cost.minutes for cost in costs) / n,
        sum(cost.peak_megabytes for cost in costs) / n,
        costs[0].parameters,
    )
