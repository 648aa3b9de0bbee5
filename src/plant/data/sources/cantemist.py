"""CANTEMIST as published: Spanish oncology cases with ICD-O-3 morphology codes, and every mention marked in brat."""

from functools import partial
from pathlib import Path

from plant.data.notes import Source, Spans, gather_spans
from plant.data.sources.books import given_book, official_book
from plant.data.sources.brat import read_marks
from plant.data.sources.folders import Split, codes_in, open_splits, read_codes_of, texts_in
from plant.data.sources.labels import limit_codes
from plant.data.sources.options import SourceOptions
from plant.errors import InputError
from plant.types import Progress

SYSTEM = "icdo3"
SPLITS = {
    "train-set": "train",
    "dev-set1": "dev1",
    "dev-set2": "dev2",
    "test-set": "test",
    "background-set": "background",
    "test-background-set": "background",
}
TEXTS = ("cantemist-norm", "cantemist-ner", "cantemist-coding/txt", ".")  # spans count the characters of the first


def open_cantemist(folder: Path, options: SourceOptions, progress: Progress) -> Source:
    """The notes of all sets that are there; codes keep their published spelling."""
    splits = [_split(path, name) for path, name in _sets(folder)]
    if not splits:
        raise InputError(f"{folder} has none of the folders {', '.join(SPLITS)} of CANTEMIST")
    book = given_book(options, folder=folder, system=SYSTEM) or official_book(codes_in(splits), SYSTEM)
    return limit_codes(open_splits("cantemist", splits, book, limit=options.max_row), options)


def is_cantemist(folder: Path) -> bool:
    """Whether the folder has a set of CANTEMIST with its annotations."""
    return any(any(path.glob("cantemist-*")) for path, _ in _sets(folder))


def _sets(folder: Path) -> list[tuple[Path, str]]:
    """The folders of sets with the names of their splits; earlier releases end their names in '-to-publish'."""
    paths = [folder / f"{name}{end}" for name in SPLITS for end in ("", "-to-publish")]
    return [(path, SPLITS[path.name.removesuffix("-to-publish")]) for path in paths if path.is_dir()]


def _split(path: Path, name: str) -> Split:
    texts = next((texts for place in TEXTS if (texts := texts_in(path / place))), {})
    if not texts:
        raise InputError(f"{path} has no texts: is the download complete?")
    tables = sorted((path / "cantemist-coding").glob("*.tsv"))
    codes = read_codes_of(texts, tables[0], str) if tables else {}
    return Split(name, texts, codes, partial(_evidence, path / "cantemist-norm"))


def _evidence(folder: Path, note: str) -> Spans:
    path = folder / f"{note}.ann"
    return gather_spans(read_marks(path)) if path.is_file() else {}
