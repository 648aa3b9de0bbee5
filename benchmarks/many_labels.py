"""Systems on short texts of tens of thousands of labels: what they find, what fitting takes, how fast they read.

    python benchmarks/many_labels.py CORPORA/yso --out DIR [--systems tfidf,plant-bow] [--seeds 1] [--table table.csv]

Fitted on train, of which 0.02 choose; dev is reported. Each system is fitted by `plant run` in a process of its own
with one thread; CPU seconds, minutes and memory are that process's, from the notes to the report. Titles a second:
`plant predict --no-evidence` of 3,000 titles beyond 500, by CPU. A run that is there is not made again.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from plant.data.sources import open_source
from plant.evaluate.measures.table import measure
from plant.evaluate.scores.outcome import outcome_of
from plant.evaluate.scores.scored import load_scored
from plant.store.artifact import atomic_file

PLANT = (sys.executable, "-c", "from plant.cli.main import main; main()")
READING = ("--id-column", "-", "--group-column", "id", "--fit", "train", "--choose", "0.02", "--report", "dev")
SYSTEMS: Mapping[str, tuple[str, ...]] = {  # the recipe of each, and what is changed for many labels of short texts
    "prior": ("prior",),
    "tfidf": ("tfidf", "tfidf.negatives=near", "tfidf.near=30", "tfidf.cost=10"),
    "xr-linear": ("xr-linear",),
    "parabel": ("parabel",),
    "bonsai": ("bonsai",),
    "plant-bow": ("plant-bow",),
    "fasttext": ("fasttext-small", "fit.batch=256", "fit.learning_rate=0.01"),
    "attentionxml": ("attentionxml-tree-small", "label_tree.branches=32", "label_tree.height=2",
                     "label_tree.average_from=0", "fit.batch=256", "fit.learning_rate=1e-2", "fit.epochs=3"),
}  # fmt: skip
MEASURES = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5", "MAP")
FEW, MANY = 500, 3_000
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


@dataclass(frozen=True)
class Spent:
    """What a command took."""

    minutes: float
    cpu_seconds: float
    peak_mb: float


def run(arguments: Sequence[str], log: Path) -> Spent:
    """`plant` with these arguments, in a process of its own."""
    start = time.monotonic()
    with log.open("a", encoding="utf-8") as file:
        child = subprocess.Popen((*PLANT, *arguments), stdout=file, stderr=file, env={**os.environ, **ONE_THREAD})
        _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{arguments[0]} failed: see {log}")
    return Spent((time.monotonic() - start) / 60, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def titles_of(corpus: Path, out: Path, count: int) -> Path:
    """The first texts of dev as a table."""
    path = out / f"titles-{count}.jsonl"
    if not path.exists():
        texts = [note.text for note in open_source(str(corpus)).notes() if note.split == "dev"][:count]
        rows = [json.dumps({"id": str(number), "text": text}) for number, text in enumerate(texts)]
        with atomic_file(path) as temporary:
            temporary.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def fit(corpus: Path, system: str, seed: int, out: Path, changes: Sequence[str]) -> None:
    """Fit a system and read titles by it, unless that was done; what it took lies beside it."""
    folder = out / f"{system}-seed{seed}"
    if (folder / "spent.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    recipe, *own = SYSTEMS[system]
    settings = [word for change in (*own, *changes, f"seed={seed}") for word in ("--set", change)]
    place = ["--recipe", recipe, "--out", str(folder / "run")]
    spent = run(["run", str(corpus), *READING, *settings, *place], folder / "log")
    reading = [
        run(["predict", str(folder / "run" / "coder"), str(titles_of(corpus, out, count)),
             "--no-evidence", "--out", str(folder / "coded.jsonl")],
            folder / "log").cpu_seconds
        for count in (FEW, MANY)
    ]  # fmt: skip
    told = {**asdict(spent), "titles_per_cpu_second": (MANY - FEW) / max(reading[1] - reading[0], 1e-3)}
    with atomic_file(folder / "spent.json") as temporary:
        temporary.write_text(json.dumps(told), encoding="utf-8")


def row_of(folder: Path) -> dict[str, str]:
    """A line of the table."""
    outcome = outcome_of(load_scored(folder / "run" / "predictions"), areas=False)
    spent = json.loads((folder / "spent.json").read_text(encoding="utf-8"))
    system, _, seed = folder.name.rpartition("-seed")
    return {
        "system": system,
        "seed": seed,
        **{name: f"{measure(name)(outcome):.4f}" for name in MEASURES},
        "minutes": f"{spent['minutes']:.1f}",
        "CPU s": f"{spent['cpu_seconds']:.0f}",
        "peak, MiB": f"{spent['peak_mb']:.0f}",
        "titles a CPU second": f"{spent['titles_per_cpu_second']:.0f}",
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, help="folder of the runs")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--set", dest="changes", action="append", default=[], help="change a knob of all systems")
    parser.add_argument("--table", type=Path, help="write the table as a CSV file")
    options = parser.parse_args(arguments)
    if options.corpus is None or options.out is None:
        parser.print_usage()  # among all benchmarks: there is no corpus to fit
        return
    systems = options.systems.split(",")
    for seed, system in product(map(int, options.seeds.split(",")), systems):
        fit(options.corpus, system, seed, options.out, options.changes)
    folders = [folder for system in systems for folder in sorted(options.out.glob(f"{system}-seed*"))]
    rows = [row_of(folder) for folder in folders if (folder / "spent.json").exists()]
    for row in ({name: name for name in rows[0]}, *rows):
        print("  ".join(f"{cell:>10}" for cell in row.values()))
    if options.table:
        with options.table.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, rows[0], lineterminator="\n")
            table.writeheader()
            table.writerows(rows)


if __name__ == "__main__":
    main()
