"""Random labels: the same notes with codes that mean nothing, apart, and with the reported notes among the fitted."""

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from plant.errors import InputError
from plant.store.artifact import atomic_file
from plant.studies.fittings import Notes
from plant.types import Note, Span

APART, LEAKED = "apart", "leaked"
WORD = re.compile(r"[^\W\d_]+")


def random_sources(notes: Notes, out: Path) -> Mapping[str, str]:
    """Two files in the study's folder: notes under each other's codes, and these with copies of the reported ones.

    The copies are fitted on: that is the leak. Marks are drawn anew among the words of the note.
    """
    report, fit = _option(notes, "--report", "test"), _option(notes, "--fit", "train")[:1]
    shuffled = list(_shuffled(list(notes.open().notes())))
    copies = [replace(note, id=f"{note.id} again", split=fit[0], group="") for note in shuffled if note.split in report]
    if not copies:
        raise InputError(f"no note is of split {', '.join(report)}: say with --report which splits are reported")
    for name, rows in ((APART, shuffled), (LEAKED, [*shuffled, *copies])):
        _write(rows, out / f"{name}.jsonl")
    return {name: str(out / f"{name}.jsonl") for name in (APART, LEAKED)}


def _option(notes: Notes, name: str, usual: str) -> list[str]:
    options = dict(zip(notes.options[::2], notes.options[1::2], strict=True))
    return options.get(name, usual).split(",")


def _shuffled(notes: list[Note]) -> Iterator[Note]:
    """Each note with the codes of another of its split, each code marked at some word of its text."""
    draw = random.Random(0)
    by_split: dict[str, list[int]] = {}
    for place, note in enumerate(notes):
        by_split.setdefault(note.split, []).append(place)
    for places in by_split.values():
        for place, other in zip(places, draw.sample(places, len(places)), strict=True):
            codes, words = notes[other].codes, [Span(*match.span()) for match in WORD.finditer(notes[place].text)]
            marks = {code: (draw.choice(words),) for code in codes} if words else {}
            yield replace(notes[place], codes=codes, evidence=marks, group="")


def _write(notes: list[Note], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for note in notes:
            spans = [(code, span) for code, own in note.evidence.items() for span in own]
            marks = [{"start": span.start, "end": span.end, "label": code} for code, span in spans]
            row = {"id": note.id, "text": note.text, "codes": list(note.codes), "split": note.split, "evidence": marks}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
