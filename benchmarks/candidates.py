"""The cost of fitting and reading by candidates against the number of notes, and what it comes to at 50,000.

    python benchmarks/candidates.py [--notes 250 500 1000] [--words 1500] [--codes 8929] [--json]

Made-up notes (seed 1): words of a Zipf vocabulary, 16 codes a note by the same law, each by one of three wordings of
its own that is marked. CPU seconds of each stage in one process; exponents by least squares of logarithms; stages that
learn from at most so many notes are extrapolated up to that number and no further.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from plant.candidates.judge import teach
from plant.candidates.listing import Lister, list_rows
from plant.candidates.places import FinderOptions
from plant.candidates.words import words_of
from plant.codes.codebook import CodeBook
from plant.data.builder import build_corpus
from plant.data.corpus import training_view
from plant.data.roles import Plan
from plant.recipe.reading import load_recipe
from plant.steps.candidates import MOST_JUDGED, lessons_of
from plant.steps.fit import plan_of
from plant.steps.step import Root, WalkSettings, walk
from plant.systems.candidates import columns_of
from plant.types import Note, Span

CODES_OF_A_NOTE = 16
WORDINGS = 3
GOAL = 50_000
CAPS = {"readers": FinderOptions().most_notes * 3 / 2, "listing": MOST_JUDGED, "judge": MOST_JUDGED}


@dataclass(frozen=True)
class Made:
    """Made-up words, and the wordings of each code."""

    words: list[str]
    wordings: list[list[str]]


def made_up(n_codes: int, rng: np.random.Generator) -> Made:
    letters = np.array(list("abcdefghijklmnoprstuv"))
    words = ["".join(rng.choice(letters, rng.integers(4, 10))) for _ in range(20_000)]
    drawn = rng.integers(500, len(words), (n_codes, WORDINGS, 3))
    return Made(words, [[" ".join(words[word] for word in wording) for wording in own] for own in drawn])


def note_of(made: Made, number: int, length: int, rng: np.random.Generator) -> Note:
    codes = np.unique(np.minimum(rng.zipf(1.3, CODES_OF_A_NOTE), len(made.wordings)) - 1)
    filler = np.minimum(rng.zipf(1.2, length), len(made.words)) - 1
    stretches = np.array_split(filler, len(codes) + 1)
    text, evidence = "", {}
    for code, stretch in zip([*codes.tolist(), -1], stretches, strict=True):
        text += " ".join(made.words[word] for word in stretch) + ".\n"
        if code >= 0:
            wording = made.wordings[code][rng.integers(WORDINGS)]
            evidence[f"C{code:05}"] = (Span(len(text), len(text) + len(wording)),)
            text += wording + ". "
    return Note(f"n{number}", text, tuple(sorted(evidence)), "train", evidence=evidence)


def timed(seconds: dict[str, float], stage: str, make: Callable[[], Any]) -> Any:
    before = time.process_time()
    made = make()
    seconds[stage] = seconds.get(stage, 0.0) + time.process_time() - before
    return made


def measured(n_notes: int, *, length: int, n_codes: int) -> dict[str, float]:
    """CPU seconds of the stages, milliseconds of reading a new note, and the peak of memory so far."""
    rng = np.random.default_rng(1)
    made = made_up(n_codes, rng)
    notes = [note_of(made, number, length, rng) for number in range(n_notes)]
    recipe = load_recipe("candidates", ["candidates.language="])
    corpus = build_corpus(notes, CodeBook("other", ()), recipe.prepare, plan=Plan(("train",), 0.0, ()))
    view = training_view(corpus)
    steps = walk(plan_of(recipe), {"corpus": Root(corpus)}, WalkSettings())
    seconds: dict[str, float] = {}
    for name in ("reader0", "reader1", "reader2", "reader"):
        timed(seconds, "readers", lambda name=name: steps[name])
    found = timed(seconds, "listing", lambda: steps["candidates"])
    reader = steps["reader"]
    lessons = lessons_of(view, found, language=reader.language, seed=1)
    lister = Lister(reader, view.codes)
    timed(seconds, "judge", lambda: teach(lessons, columns_of(lister, "other"), seed=1))
    new = [note_of(made, -1, length, rng).text for _ in range(10)]
    nothing = np.empty((0, len(view.codes)), np.float32)
    timed(seconds, "reading", lambda: [list_rows(lister, text, words_of(text, reader.stem), nothing) for text in new])
    seconds["reading"] *= 100  # milliseconds a note
    return {**seconds, "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "rows": len(found.rows)}


def extrapolated(notes: list[int], found: list[dict[str, float]]) -> dict[str, tuple[float, float]]:
    """For each stage the exponent and the CPU seconds at the goal; a capped one grows with what it learns from."""
    reached = {}
    for stage, cap in CAPS.items():
        slope, level = np.polyfit(np.log(notes), np.log([one[stage] for one in found]), 1)
        at_cap = float(np.exp(level + slope * np.log(min(GOAL, cap))))
        beyond = GOAL / min(GOAL, cap) if stage == "readers" else 1.0  # counting goes on over all notes
        reached[stage] = (float(slope), at_cap * beyond)
    return reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notes", type=int, nargs="+", default=[250, 500, 1000])
    parser.add_argument("--words", type=int, default=1500)
    parser.add_argument("--codes", type=int, default=8929)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = []
    for count in arguments.notes:
        found.append(measured(count, length=arguments.words, n_codes=arguments.codes))
        print(json.dumps({"notes": count, **found[-1]}), flush=True)
    reached = extrapolated(arguments.notes, found)
    total = sum(seconds for _, seconds in reached.values())
    if arguments.json:
        print(json.dumps({"stages": reached, "hours at 50,000 notes": total / 3600}))
        return
    for stage, (slope, seconds) in reached.items():
        print(f"{stage}: grows with notes ** {slope:.2f}, at {GOAL:,} notes {seconds / 3600:.2f} CPU hours")
    print(f"together {total / 3600:.1f} CPU hours on one core")


if __name__ == "__main__":
    main()
