"""Every recipe on a plain table: notes and codes, no marks, no code book; Spanish and English.

    python benchmarks/plain_tables.py CORPORA/codiesp_d --out DIR [--languages es,en] [--report held-out|dev]
        [--recipes prior,tfidf,...] [--seeds 1,2,3] [--table table.csv]

Writes `id,text,codes,split` from the corpus into the folder and gives it to `plant run` as a user would. `held-out` is
a fifth of train, by the digests of ids: what advice is taken from; `dev` is for reporting alone. Names of codes are the
packaged ones, which are English. A run that is there is not made again, so that a long campaign may be cut into calls;
the table has all runs of the folder. Seconds are CPU seconds, user and system, of the whole `plant run`.
"""

import argparse
import csv
import hashlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

PLANT = (sys.executable, "-c", "from plant.cli.main import main; main()")
TEXTS = {"es": "text", "en": "text_en"}
LANGUAGES = {"es": "Spanish", "en": "English"}
RECIPES = "prior,tfidf,interaction,dictionary,plant-bow,candidates,plant-cnn,plant-interaction,plant-candidates"
MEASURES = ("MAP", "micro-F1", "macro-F1 (mean of labels)", "P@5")
HEADER = ("notes", "reported", "recipe", "runs", *MEASURES, "CPU seconds")
COLUMNS = ("id", "text", "codes", "split")
FOLDS = 5


def fold_of(identifier: str) -> int:
    """One of five parts, the same on every machine."""
    return int(hashlib.sha256(identifier.encode()).hexdigest()[:8], 16) % FOLDS


def rows_of(corpus: Path, language: str, report: str) -> Iterator[tuple[str, str, str, str]]:
    """Notes as a hospital would have them: an id, a text, codes, and whether they are reported."""
    for part in ("train", "dev") if report == "dev" else ("train",):
        for line in (corpus / f"{part}.jsonl").read_text(encoding="utf-8").splitlines():
            note: Mapping[str, Any] = json.loads(line)
            reported = part == "dev" or (report != "dev" and fold_of(note["id"]) == 0)
            split = "test" if reported else "train"
            yield note["id"], note[TEXTS[language]], ";".join(note["labels"]), split


def written(options: argparse.Namespace, language: str) -> Path:
    """The table of a language, in the folder of its runs."""
    notes = Path(options.out) / options.report / language / "notes.csv"
    notes.parent.mkdir(parents=True, exist_ok=True)
    with notes.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows_of(options.corpus, language, options.report)])
    return notes


def fit(notes: Path, recipe: str, seed: int, run: Path) -> None:
    """`plant run`, with what it cost beside its report."""
    before = os.times()
    command = (*PLANT, "run", str(notes), "--fit", "train", "--choose", "0.1", "--report", "test")
    run.mkdir(parents=True, exist_ok=True)
    with (run / "log").open("w", encoding="utf-8") as log:
        done = subprocess.run(
            (*command, "--recipe", recipe, "--set", f"seed={seed}", "--device", "cpu", "--out", str(run / "run")),
            check=False, stdout=log, stderr=log,
        )  # fmt: skip
    after = os.times()
    if done.returncode == 0:
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        (run / "seconds").write_text(f"{spent:.1f}\n")


def measured(folder: Path) -> Iterator[tuple[str, ...]]:
    """A row for each recipe of each table: means of its seeds."""
    for group in sorted({seconds.parents[1] for seconds in folder.glob("*/*/*/*/seconds")}):
        report, language, recipe = group.parts[-3:]
        runs = [run.parent for run in sorted(group.glob("*/seconds"))]
        reports = [json.loads((run / "run" / "report" / "report.json").read_text())["measures"] for run in runs]
        means = [statistics.mean(each[name]["value"] for each in reports) for name in MEASURES]
        seconds = statistics.mean(float((run / "seconds").read_text()) for run in runs)
        yield (
            LANGUAGES[language],
            report,
            recipe,
            str(len(runs)),
            *(f"{mean:.4f}" for mean in means),
            f"{seconds:.0f}",
        )


def by_map(row: Sequence[str]) -> tuple[bool, str, float]:
    return row[1] == "dev", row[0], -float(row[4])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("--out", default="", help="folder of the runs")
    parser.add_argument("--languages", default="es,en")
    parser.add_argument("--report", choices=("held-out", "dev"), default="held-out")
    parser.add_argument("--recipes", default=RECIPES)
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--table", default="", help="write the table as a CSV file")
    options = parser.parse_args(arguments)
    if options.corpus is None or not options.out:
        parser.print_usage()  # among all benchmarks: there is no corpus to make tables of
        return
    for language in options.languages.split(","):
        notes = written(options, language)
        for recipe, seed in product(filter(None, options.recipes.split(",")), map(int, options.seeds.split(","))):
            run = notes.parent / recipe / str(seed)
            if not (run / "seconds").exists():
                fit(notes, recipe, seed, run)
    rows = sorted(measured(Path(options.out)), key=by_map)
    for row in (HEADER, *rows):
        print("  ".join(f"{cell:>12}" for cell in row))
    if options.table:
        with Path(options.table).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])


if __name__ == "__main__":
    main()
