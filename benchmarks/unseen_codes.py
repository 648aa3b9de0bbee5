"""Codes that no fitted note has: how a coder by candidates finds them in the reported notes, or why it does not.

    python benchmarks/unseen_codes.py RUN [--json]

RUN is the folder of a `plant run ... --recipe candidates --set naming.codes=TABLE` that reports some notes. One line
for each way: in how many pairs of a note and a code that it has the best candidate was found so, how many of these are
among the first 15 and how many are accepted; and how many are accepted that the note does not have.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plant.candidates.listing import why_of
from plant.data.corpus import Role, gold_codes, held_out
from plant.data.store import load_corpus
from plant.systems.candidates import CandidatesReading
from plant.systems.coder import FittedCoder, load_coder

FIRST = 15
WAYS = {"a name": "equal to a name", "a name in another order": "equal to a name",
        "words like a name": "nearest name", "parts of names": "put together from parts",
        "": "the note as a whole"}  # fmt: skip
UNLISTED, UNKNOWN = "no candidate", "no code of the coder"


@dataclass(frozen=True)
class Pair:
    """A note and a code without a fitted note: how its best candidate was found, and what became of it."""

    way: str
    right: bool
    first: bool
    accepted: bool


def pairs_of(coder: FittedCoder, reading: CandidatesReading, gold: list[tuple[str, ...]]) -> Iterator[Pair]:
    numbers = {code: number for number, code in enumerate(coder.codes)}
    unseen = coder.train_counts == 0
    for row, (note, codes) in enumerate(zip(reading.notes, gold, strict=True)):
        scores = reading.scores[row]
        first = set(np.argsort(-scores, kind="stable")[:FIRST].tolist())
        accepted = set(np.flatnonzero(scores >= coder.thresholds).tolist())
        best = dict(zip(note.found.codes.tolist(), note.found.best.tolist(), strict=True))
        asked = {numbers[code] for code in codes if code in numbers and unseen[numbers[code]]}
        for label in sorted(asked | {label for label in accepted if unseen[label]}):
            way = UNLISTED
            if label in best:
                told = why_of(reading.system.lister, note.rows.features[best[label]])
                way = WAYS.get(told, told)
            yield Pair(way, label in asked, label in first, label in accepted)
        for _ in (code for code in codes if code not in numbers):
            yield Pair(UNKNOWN, True, False, False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.run is None:
        parser.print_usage()  # among all benchmarks: there is no run to look at
        return
    coder, corpus = load_coder(arguments.run / "coder"), load_corpus(arguments.run / "corpus")
    documents = coder.reread(held_out(corpus, Role.REPORT, coder.codes))
    reading = coder.system.read(documents)
    assert isinstance(reading, CandidatesReading)
    pairs = list(pairs_of(coder, reading, gold_codes(corpus, Role.REPORT)))
    counts = Counter(pair.way for pair in pairs if pair.right)
    order = sorted({pair.way for pair in pairs}, key=lambda way: (way in (UNLISTED, UNKNOWN), -counts[way], way))
    lines = []
    for way in (*order, "all"):
        own = [pair for pair in pairs if way in (pair.way, "all")]
        gold = [pair for pair in own if pair.right]
        lines.append({
            "found": way, "gold": len(gold), f"first {FIRST}": sum(pair.first for pair in gold),
            "accepted": sum(pair.accepted for pair in gold),
            "wrongly accepted": sum(pair.accepted for pair in own if not pair.right),
        })  # fmt: skip
    if arguments.json:
        print(json.dumps(lines))
        return
    print("| " + " | ".join(lines[0]) + " |")
    for line in lines:
        print("| " + " | ".join(str(value) for value in line.values()) + " |")


if __name__ == "__main__":
    main()
