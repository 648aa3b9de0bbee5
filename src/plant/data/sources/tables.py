"""Notes in tables: one file of CSV, TSV, JSON lines or Parquet, or a folder of such files with one split each."""

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path

from plant.codes.codebook import CodeBook
from plant.data.notes import Source
from plant.data.sources.books import given_book
from plant.data.sources.columns import Maker, find_columns, note_maker
from plant.data.sources.files import stem_of, suffix_of
from plant.data.sources.labels import limit_codes
from plant.data.sources.lists import read_splits, split_by_list
from plant.data.sources.options import SourceOptions
from plant.data.sources.records import TABLES, count_records, records
from plant.data.sources.repeats import REPEATS, without_repeats
from plant.errors import InputError
from plant.types import Note


def open_table(path: Path, options: SourceOptions) -> Source:
    """The notes of one file."""
    return _opened(str(path), {path: ""}, options, codebook=given_book(options))


def open_folder(folder: Path, options: SourceOptions) -> Source:
    """The notes of all tables of a folder as one corpus: a note that names no split has that of its file's name."""
    splits = {path: stem_of(path) for path in tables_of(folder)}
    return _opened(str(folder), splits, options, codebook=given_book(options, folder=folder))


def tables_of(folder: Path) -> list[Path]:
    """The files of a folder that hold notes, by name; they must be of one kind."""
    kept = {kind for kind, table in TABLES.items() if table.makes_folders}
    files = sorted(file for file in folder.iterdir() if file.is_file() and suffix_of(file) in kept)
    kinds = sorted({suffix_of(file) for file in files})
    if len(kinds) > 1:
        raise InputError(f"{folder} holds notes as {' and as '.join(kinds)}: name one file, or keep one kind")
    return files


def _opened(name: str, splits: dict[Path, str], options: SourceOptions, *, codebook: CodeBook | None) -> Source:
    has_codes = {path: _check_first(path, options) for path in splits}

    def notes(*, coded: bool) -> Iterator[Note]:
        for path, split in splits.items():
            if has_codes[path] == coded:
                yield from _notes(path, split, options)

    distinct, repeats = without_repeats(partial(notes, coded=True), partial(notes, coded=False))
    facts = {REPEATS: repeats} if repeats else {}
    source = Source(name, distinct, codebook, None if repeats else _total(list(splits)), facts)
    if options.splits:
        source = split_by_list(source, read_splits(Path(options.splits), options.label_set))
    return limit_codes(source, options)


def _notes(path: Path, split: str, options: SourceOptions) -> Iterator[Note]:
    @lru_cache(maxsize=64)
    def maker(present: tuple[str, ...]) -> Maker:
        return note_maker(find_columns(present, options, where=str(path)), options, name=stem_of(path), split=split)

    for number, (place, record) in enumerate(records(path, limit=options.max_row), start=1):
        yield maker(tuple(record))(record, number, place)  # lines of JSON need not all have the same keys


def _check_first(path: Path, options: SourceOptions) -> bool:
    """Whether a table has codes; a missing file, column or row is told now rather than after an hour of reading."""
    first = next(records(path, limit=options.max_row), None)
    if first is None:
        raise InputError(f"{path} holds no notes")
    return bool(find_columns(tuple(first[1]), options, where=str(path)).codes)


def _total(paths: Sequence[Path]) -> int | None:
    counts = [count_records(path) for path in paths]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
