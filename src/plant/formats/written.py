"""Notes with their predictions, written as they come in one of the forms that other programs read."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from plant.formats.brat import CONFIGURATION, TABLE, Names, marks
from plant.formats.fhir import bundle
from plant.formats.lines import as_json, header, rows
from plant.formats.tables import write_rows
from plant.store.artifact import atomic_folder
from plant.types import Note, Prediction, Progress, silent

Coded = tuple[Note, Prediction]
SUFFIXES = {"jsonl": ".jsonl", "parquet": ".parquet", "csv": ".csv", "fhir": ".ndjson"}
"""How files of each form end, where we name them; brat is a folder."""


def lines_of(coded: Iterable[Coded], form: str, system: str) -> Iterator[str]:
    """What is written, as it comes: one line for each note, or in a table for each code."""
    if form == "csv":
        yield header()
    for note, prediction in coded:
        if form == "csv":
            yield rows(prediction)
        else:
            content = bundle([(note, prediction)], system=system) if form == "fhir" else as_json(prediction)
            yield json.dumps(content, ensure_ascii=False) + "\n"


def write_coded(
    coded: Iterable[Coded], path: Path, *, form: str, suffix: str, system: str, progress: Progress = silent
) -> int:
    """Write one file; gives the number of notes."""
    if form in ("jsonl", "parquet"):
        return write_rows((as_json(found) for _, found in coded), path, suffix=suffix, progress=progress)
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        for count, line in enumerate(lines_of(coded, form, system), start=0 if form == "csv" else 1):  # names first
            file.write(line)
            progress("coding notes", count, None)
    return count


def write_brat(coded: Iterable[Coded], path: Path, progress: Progress = silent) -> int:
    """Write a folder of texts with marks; gives the number of notes."""
    names, count = Names(set()), 0
    with atomic_folder(path) as folder, (folder / TABLE).open("w", encoding="utf-8", newline="") as table:
        (folder / "annotation.conf").write_text(CONFIGURATION, encoding="utf-8")
        table.write(header())
        for count, (note, prediction) in enumerate(coded, start=1):
            name = names.of(note.id, count)
            (folder / f"{name}.txt").write_bytes(note.text.encode("utf-8"))
            (folder / f"{name}.ann").write_bytes(marks(note, prediction).encode("utf-8"))
            table.write(rows(prediction))
            progress("coding notes", count, None)
    return count
