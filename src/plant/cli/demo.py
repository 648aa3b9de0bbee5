"""`plant demo`: the main job on the embedded corpus, from notes to explained codes."""

import argparse
import os
import shutil
import sys
from pathlib import Path

from plant.cli.console import print_table, progress, say

RECIPES = ("prior", "tfidf", "plant-demo")
MEASURES = ("MAP", "micro-F1", "macro-F1 (mean of labels)", "P@5", "P@15")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="runs/demo", metavar="DIR", help="folder of the runs (default: runs/demo)")


def run(arguments: argparse.Namespace) -> None:
    from plant.evaluate.report.render import write_report
    from plant.recipe.reading import load_recipe
    from plant.steps.prepare import Request
    from plant.steps.run import run as run_all

    out = Path(arguments.out)
    reports = {}
    say("The demo corpus: 3,000 discharge summaries that a program wrote, with about 600 ICD-10-CM codes.")
    for name in RECIPES:
        say(f"fitting {name} ...")
        _copy_corpus(out / RECIPES[0] / "corpus", out / name / "corpus")
        with progress() as tell:
            done = run_all(Request("demo"), load_recipe(name), out / name, name=name, progress=tell)
        assert done.report is not None  # the demo corpus has a test split
        reports[name] = done.report
    print("Test notes that no stage of fitting saw; thresholds were chosen on dev notes.\n")
    rows = [[name, *(report.measures[measure].value for measure in MEASURES)] for name, report in reports.items()]
    print_table(["recipe", *MEASURES], rows)
    _explain_one(done.coder, out / RECIPES[-1])
    say(f"\nreport: {write_report(reports[RECIPES[-1]], out / 'report')}")
    coder = out / RECIPES[-1] / "coder"
    say(f"code your own notes: {called()} predict {coder} notes.jsonl")
    say(f"open the desk for people who code: {called()} serve {coder} --notes demo")


def called() -> str:
    """How this program is called from here: by its name, or by its path where no PATH leads to it."""
    beside = Path(sys.executable).with_name("plant")
    if shutil.which("plant") or not beside.is_file():
        return "plant"
    return os.path.relpath(beside)


def _copy_corpus(prepared: Path, target: Path) -> None:
    """The corpus is the same for all recipes, and copying it is faster than preparing it again."""
    if prepared.exists() and not target.exists():
        half = target.with_name(".corpus.tmp")
        shutil.copytree(prepared, half, dirs_exist_ok=True)
        half.rename(target)


def _explain_one(coder, folder: Path) -> None:  # type: ignore[no-untyped-def]
    """The first reported note with the words lit that speak for its accepted codes."""
    from plant.cli.highlight import terminal_text
    from plant.data.corpus import Role, gold_codes, held_out
    from plant.data.store import load_corpus

    corpus = load_corpus(folder / "corpus")
    documents = held_out(corpus, Role.REPORT, coder.codes)
    gold = ", ".join(gold_codes(corpus, Role.REPORT)[0])
    prediction = coder.code(coder.encode([documents.text_of(0)], [documents.ids[0]]), top=0)[0]
    print(f"\nOne unseen note; its gold codes are {gold}.\n")
    print(terminal_text(documents.text_of(0), prediction, colour=sys.stdout.isatty()))
