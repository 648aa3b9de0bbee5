"""Cold starts: `plant parts`, and `plant predict` of one note by small coders, beside Python with numpy alone.

    python benchmarks/start.py [--runs 3] [--json]

CPU seconds, user and system, of a process of its own, medians of interleaved runs; a first one, which compiles
kernels, is not counted. The notes are made up, seed 1; the coders are fitted on 60 of them.
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

FEW = ("fit.epochs=1", "rank.epochs=1")
RECIPES = {"tfidf": (), "plant-cnn": FEW, "plant-interaction": FEW}
PLANT = (sys.executable, "-c", "from plant.cli.main import main; main()")
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


def cpu_seconds(command: tuple[str, ...]) -> float:
    """User and system time of a process and its children, which must succeed."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def measured(runs: int) -> dict[str, float]:
    """The median CPU seconds of each command."""
    with TemporaryDirectory() as folder:
        timed = commands(Path(folder))
        rounds = [{name: cpu_seconds(command) for name, command in timed.items()} for _ in range(runs + 1)]
    return {name: statistics.median(each[name] for each in rounds[1:]) for name in timed}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seconds = measured(options.runs)
    if options.json:
        print(json.dumps(seconds))
        return
    for name, value in seconds.items():
        print(f"{name:28} {value:6.2f} s, {value / seconds['numpy']:5.1f} x numpy")


if __name__ == "__main__":
    main()
