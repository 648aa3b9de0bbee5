"""Corpora of one file per note, as shared tasks publish them: a folder per split, codes in a table beside the texts."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from plant.codes.codebook import CodeBook
from plant.data.notes import Source, Spans
from plant.data.sources.files import MAX_ROW, read_text
from plant.data.sources.repeats import REPEATS, without_repeats
from plant.errors import InputError, quoted
from plant.types import Note

HEADERS = ("file", "filename", "articleid", "clinical_case")  # how the first line of a table begins if it names columns

Codes = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Split:
    """The texts of a split by the id of their note, in order, with the codes and the evidence of each."""

    name: str
    texts: Mapping[str, Path]
    codes: Codes
    evidence: Callable[[str], Spans]


def texts_in(folder: Path) -> Mapping[str, Path]:
    """The text files of a folder by their names without `.txt`."""
    return {path.stem: path for path in sorted(folder.glob("*.txt"))}


def table_lines(path: Path, *, cells: int) -> Iterator[tuple[str, list[str]]]:
    """The cells of a tab-separated file without quoting, each line with its place; a line of names is passed over."""
    for number, line in enumerate(read_text(path).removeprefix("\ufeff").split("\n"), start=1):
        row = line.rstrip("\r").split("\t")
        if not line.strip() or (number == 1 and row[0].lower() in HEADERS):
            continue
        if len(row) < cells:
            raise InputError(f"{path}, line {number}: {len(row)} cells where {cells} belong, separated by tabs")
        yield f"{path}, line {number}", row


def read_codes_of(texts: Collection[str], table: Path, spell: Callable[[str], str]) -> Codes:
    """The codes of each note from a table of notes and codes; every note of it must have a text."""
    by_note: dict[str, dict[str, None]] = {}
    for place, (note, code, *_) in table_lines(table, cells=2):
        if note.strip() not in texts:
            raise InputError(f"{place}: note {quoted(note.strip())} has no text file: is the download complete?")
        by_note.setdefault(note.strip(), {})[spell(code.strip())] = None
    return {note: tuple(codes) for note, codes in by_note.items()}


def codes_in(splits: Sequence[Split]) -> set[str]:
    """All codes of all splits."""
    return {code for split in splits for codes in split.codes.values() for code in codes}


def open_splits(name: str, splits: Sequence[Split], codebook: CodeBook | None, *, limit: int = MAX_ROW) -> Source:
    """All notes, those of the splits that have codes first; a text of more than `limit` bytes is an error."""
    coded = partial(_notes, [split for split in splits if split.codes], limit)
    bare = partial(_notes, [split for split in splits if not split.codes], limit)
    notes, repeats = without_repeats(coded, bare)
    total = sum(len(split.texts) for split in splits) - repeats
    return Source(name, notes, codebook, total, facts={REPEATS: repeats} if repeats else {})


def _notes(splits: Sequence[Split], limit: int) -> Iterator[Note]:
    for split in splits:
        for identifier, path in split.texts.items():
            yield _note(split, identifier, read_text(path, limit=limit))


def _note(split: Split, identifier: str, text: str) -> Note:
    codes = split.codes.get(identifier, ())
    evidence = {code: spans for code, spans in split.evidence(identifier).items() if code in codes}
    return Note(id=identifier, text=text, codes=codes, split=split.name, evidence=evidence)
