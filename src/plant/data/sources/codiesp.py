"""CodiEsp as published: Spanish clinical cases with ICD-10-CM diagnoses or ICD-10-PCS procedures and their evidence."""

from functools import partial
from pathlib import Path

from plant.data.notes import Source, Spans, gather_spans
from plant.data.sources.books import given_book, official_book, spelled
from plant.data.sources.brat import parse_spans
from plant.data.sources.folders import Split, codes_in, open_splits, read_codes_of, table_lines, texts_in
from plant.data.sources.labels import limit_codes
from plant.data.sources.options import SourceOptions
from plant.errors import InputError, unknown
from plant.types import Progress, Span

TRACKS = {"icd10cm": ("D", "DIAGNOSTICO"), "icd10pcs": ("P", "PROCEDIMIENTO")}
"""Of each coding system, the letter of its table and the name of its rows in the table of evidence."""

SPLITS = ("train", "dev", "test", "background")


def open_codiesp(folder: Path, options: SourceOptions, progress: Progress) -> Source:
    """The notes of all splits that are there: diagnoses, or procedures if the options name ICD-10-PCS."""
    system = options.system or "icd10cm"
    if system not in TRACKS:
        raise InputError(f"codiesp: {unknown('coding system', system, TRACKS)}")
    splits = [_split(folder / name, system, options.language) for name in SPLITS if (folder / name).is_dir()]
    book = given_book(options, folder=folder, system=system) or official_book(codes_in(splits), system)
    return limit_codes(open_splits(f"codiesp {system}", splits, book, limit=options.max_row), options)


def is_codiesp(folder: Path) -> bool:
    """Whether the folder has the texts and the codes of a split of CodiEsp."""
    return any((folder / name / "text_files").is_dir() and _table(folder / name, "D").is_file() for name in SPLITS)


def _split(folder: Path, system: str, language: str) -> Split:
    letter, kind = TRACKS[system]
    texts = texts_in(folder / (f"text_files_{language}" if language else "text_files"))
    if not texts:
        raise InputError(f"{folder} has no texts" + (f" in the language {language!r}" if language else ""))
    table, marks = _table(folder, letter), _table(folder, "X")
    codes = read_codes_of(texts, table, partial(spelled, system=system)) if table.is_file() else {}
    wanted = marks.is_file() and not language  # spans count the characters of the original
    evidence = _evidence(marks, kind, system) if wanted else {}
    return Split(folder.name, texts, codes, lambda note: evidence.get(note, {}))


def _table(folder: Path, letter: str) -> Path:
    return folder / f"{folder.name}{letter}.tsv"


def _evidence(table: Path, kind: str, system: str) -> dict[str, Spans]:
    marked: dict[str, list[tuple[str, Span]]] = {}
    for place, (note, named, code, _, positions, *_) in table_lines(table, cells=5):
        if named.strip().upper() == kind:
            spans = parse_spans(positions, where=place)
            marked.setdefault(note.strip(), []).extend((spelled(code.strip(), system), span) for span in spans)
    return {note: gather_spans(marks) for note, marks in marked.items()}
