"""What heeding negation and family around evidence does to the accepted codes of the embedded corpus.

    python benchmarks/cues.py [--recipes tfidf,dictionary] [--notes 1000] [--out table.csv]

Fits each recipe on the first notes of the corpus, codes the reported ones once, and counts with and without the cues.
The ranking is the same in both, and so is MAP; what differs is which codes are accepted.
"""

import argparse
import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from plant.coder import Coder
from plant.data.sources import open_source
from plant.explain.around import with_cues
from plant.types import Note, Prediction


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipes", default="tfidf,dictionary")
    parser.add_argument("--notes", type=int, default=1000)
    parser.add_argument("--out", default="", help="write the table as a CSV file")
    options = parser.parse_args(arguments)
    notes = list(islice(open_source("demo").notes(), options.notes))
    rows = [row for recipe in options.recipes.split(",") for row in measured(recipe, notes)]
    header = ("recipe", "cues", "accepted", "precision", "recall", "micro-F1", "MAP")
    for row in (header, *rows):
        print("  ".join(f"{cell:>12}" if isinstance(cell, str) else f"{cell:>12.4f}" for cell in row))
    if options.out:
        with Path(options.out).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *([_cell(cell) for cell in row] for row in rows)])


def measured(recipe: str, notes: Sequence[Note]) -> Iterator[tuple[str | float, ...]]:
    """A row without the cues and one with them."""
    fitted = [note for note in notes if note.split != "test"]
    reported = [note for note in notes if note.split == "test"]
    coder = Coder(recipe).fit(
        [note.text for note in fitted],
        [note.codes for note in fitted],
        groups=[note.group or note.id for note in fitted],
        evidence=[note.evidence for note in fitted],
    )
    predictions = coder.predict([note.text for note in reported], top=100)
    for heed in (False, True):
        found = [with_cues(p, note.text, heed=heed) for p, note in zip(predictions, reported, strict=True)]
        yield (recipe, "heeded" if heed else "passed over", *counted(found, reported))


def counted(found: Sequence[Prediction], notes: Sequence[Note]) -> tuple[str | float, ...]:
    """Accepted codes, precision, recall and F1 of all notes together; mean average precision of the lists."""
    accepted = sum(len(prediction.accepted) for prediction in found)
    gold = sum(len(note.codes) for note in notes)
    hits = sum(len(set(p.accepted) & set(note.codes)) for p, note in zip(found, notes, strict=True))
    averages = [average(p, set(note.codes)) for p, note in zip(found, notes, strict=True) if note.codes]
    return str(accepted), hits / accepted, hits / gold, 2 * hits / (accepted + gold), sum(averages) / len(averages)


def average(prediction: Prediction, gold: set[str]) -> float:
    """Average precision of a list."""
    right = [place for place, scored in enumerate(prediction.ranked, start=1) if scored.code in gold]
    return sum(number / place for number, place in enumerate(right, start=1)) / len(gold)


def _cell(cell: str | float) -> str:
    return cell if isinstance(cell, str) else f"{cell:.4f}"


if __name__ == "__main__":
    main()
