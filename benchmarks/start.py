"""Cold starts: `plant predict` of one note by small coders, looks and errors, beside Python with numpy alone.

    python benchmarks/start.py [--runs 3] [--quick] [--json]

CPU seconds, user and system, of a process of its own, medians of interleaved runs; a first one, which compiles
kernels, is not counted. The notes are made up, seed 1; the coders are fitted on 60 of them. `--quick` times looks and
errors alone: `plant show`, `plant evaluate` from files, and of every verb an option that is none and a missing file.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from plant import Coder
from plant.cli.main import VERBS

FEW = ("fit.epochs=1", "rank.epochs=1")
RECIPES = {"tfidf": (), "plant-cnn": FEW, "plant-interaction": FEW}
PLANT = (sys.executable, "-c", "from plant.cli.main import main; main()")
MISSING: dict[str, tuple[str, ...]] = {
    "prepare": ("{nothing}", "--out", "{out}"),
    "relate": ("{nothing}", "--out", "{out}"),
    "rank": ("{nothing}", "--out", "{out}"),
    "pretrain": ("{nothing}", "--out", "{out}"),
    "run": ("{nothing}", "--out", "{out}"),
    "predict": ("{nothing}", "{nothing}"),
    "explain": ("{nothing}", "{nothing}"),
    "serve": ("{nothing}",),
    "evaluate": ("{nothing}",),
    "compare": ("{nothing}", "{nothing}"),
    "study": ("--corpus", "{nothing}", "--recipes", "nothing", "--out", "{out}"),
    "tune": ("{nothing}", "--recipe", "tfidf", "--range", "tfidf.cost=1..2", "--out", "{out}"),
    "show": ("{nothing}",),
    "codes": ("add", "{nothing}", "{nothing}", "--out", "{out}"),
    "export": ("{nothing}", "--out", "{out}"),
    "recipe": ("show", "nothing"),
}
NUMPY = (sys.executable, "-c", "import numpy")


def made_up(count: int) -> tuple[list[str], list[list[str]]]:
    """Notes of 200 words, and codes that some of the words stand for."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(4, 10))) for _ in range(300)]
    texts = [rng.choices(words, k=200) for _ in range(count)]
    codes = [[f"C{words.index(word) % 20:02}" for word in text[:3]] for text in texts]
    return [" ".join(text) for text in texts], codes


def commands(folder: Path) -> dict[str, tuple[str, ...]]:
    """What is timed; coders and note are left in the folder."""
    texts, codes = made_up(60)
    (folder / "note.txt").write_text(texts[0], encoding="utf-8")
    found = {"numpy": NUMPY, "plant parts": (*PLANT, "parts")}
    for recipe, changes in RECIPES.items():
        Coder(recipe, *changes).fit(texts, codes).save(folder / recipe)
        found[f"plant predict, {recipe}"] = (*PLANT, "predict", str(folder / recipe), str(folder / "note.txt"))
    return found


def quick_commands(folder: Path) -> dict[str, tuple[str, ...]]:
    """Looks, measures from files, and errors; what they look at is left in the folder."""
    texts, codes = made_up(60)
    rows = [f"{number},{text},{';'.join(own)}" for number, (text, own) in enumerate(zip(texts, codes, strict=True))]
    (folder / "notes.csv").write_text("\n".join(["id,text,codes", *rows]) + "\n", encoding="utf-8")
    subprocess.run(
        (*PLANT, "run", "notes.csv", "--recipe", "tfidf", "--out", "run"), cwd=folder, check=True, capture_output=True
    )
    for name, score in (("gold", ""), ("found", "\t0.5")):
        pairs = [f"{number}\t{code}{score}" for number, own in enumerate(codes) for code in own]
        header = "id\tcode\tscore" if score else "id\tcode"
        (folder / f"{name}.tsv").write_text("\n".join([header, *pairs]) + "\n", encoding="utf-8")
    measured_files = ("--gold", str(folder / "gold.tsv"), "--predictions", str(folder / "found.tsv"))
    found = {
        "numpy": NUMPY,
        "plant parts": (*PLANT, "parts"),
        "plant show RUN": (*PLANT, "show", str(folder / "run")),
        "plant evaluate, files": (*PLANT, "evaluate", *measured_files),
    }
    found |= {f"plant {verb}, option that is none": (*PLANT, verb, "--no-such-option") for verb in VERBS}
    nothing, out = str(folder / "nothing"), str(folder / "out")
    for verb, rest in MISSING.items():
        found[f"plant {verb}, no such file"] = (*PLANT, verb, *(word.format(nothing=nothing, out=out) for word in rest))
    return found


def cpu_seconds(command: tuple[str, ...]) -> float:
    """User and system time of a process and its children, which must succeed or say what is to be mended."""
    before = os.times()
    done = subprocess.run(command, check=False, capture_output=True)
    if done.returncode not in (0, 2):
        raise RuntimeError(f"{command[3:]} ended with {done.returncode}")
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def measured(runs: int, *, quick: bool) -> dict[str, float]:
    """The median CPU seconds of each command."""
    with TemporaryDirectory() as folder:
        timed = (quick_commands if quick else commands)(Path(folder))
        rounds = [{name: cpu_seconds(command) for name, command in timed.items()} for _ in range(runs + 1)]
    return {name: statistics.median(each[name] for each in rounds[1:]) for name in timed}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="looks and errors alone")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seconds = measured(options.runs, quick=options.quick)
    if options.json:
        print(json.dumps(seconds))
        return
    for name, value in seconds.items():
        print(f"{name:42} {value:6.2f} s, {value / seconds['numpy']:5.1f} x numpy")


if __name__ == "__main__":
    main()
