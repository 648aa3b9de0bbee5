"""Lists given as files: which note belongs to which split, which codes make a label set."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from plant.data.notes import Source
from plant.data.sources.files import csv_rows
from plant.data.sources.options import LabelSet
from plant.data.sources.records import records
from plant.errors import InputError, quoted
from plant.types import Note

PUBLISHED = {"full": ("full",), "top50": ("50", "top50"), "rare50": ("rare50", "50l")}
"""How published id lists name a label set: `train_50_hadm_ids.csv`."""

SPLITS = ("train", "dev", "val", "test")
SUFFIXES = (".csv", ".txt", ".csv.gz")
ID_COLUMNS = ("id", "_id", "hadm_id", "note_id")
CODE_COLUMNS = ("code", "codes", "icd9_code", "icd_code", "label")


def read_splits(path: Path, label_set: LabelSet) -> dict[str, str]:
    """The split of each id: from a folder of published id lists, or from a table with an id and a split column."""
    if not path.exists():
        raise InputError(f"there is no file or folder {path} of splits")
    splits: dict[str, str] = {}
    for place, identifier, split in _from_lists(path, label_set) if path.is_dir() else _from_table(path):
        if splits.setdefault(identifier, split) != split:
            raise InputError(
                f"{place}: id {quoted(identifier)} is in split {quoted(splits[identifier])} and in {quoted(split)}"
            )
    if not splits:
        names = ", ".join(f"{split}_{PUBLISHED[label_set][0]}_hadm_ids.csv" for split in ("train", "dev", "test"))
        raise InputError(f"{path} holds no splits; expected are {names}, or one table with the columns id and split")
    return splits


def find_lists(folder: Path, label_set: LabelSet) -> dict[str, Path]:
    """The published id lists of a label set that lie in a folder, by split."""
    found: dict[str, Path] = {}
    for split in SPLITS:
        stems = [f"{split}_{name}_{ids}" for name in PUBLISHED[label_set] for ids in ("hadm_ids", "ids")]
        files = (folder / f"{stem}{suffix}" for stem in stems for suffix in SUFFIXES)
        if existing := next(filter(Path.is_file, files), None):
            found[split] = existing
    return found


def read_codes(path: Path) -> tuple[str, ...]:
    """The codes of a list, one to a line, with or without a line that names the column."""
    return tuple(dict.fromkeys(cell for _, cell in _first_cells(path, CODE_COLUMNS)))


def split_by_list(source: Source, splits: Mapping[str, str]) -> Source:
    """The notes whose ids a list names, in the splits it says; others are left out."""

    def notes() -> Iterator[Note]:
        number = found = 0
        for number, note in enumerate(source.notes(), start=1):  # noqa: B007
            if note.id in splits:
                found += 1
                yield replace(note, split=splits[note.id])
        if number and not found:
            raise InputError(
                f"none of the {number:,} notes is in the list of splits, which has {len(splits):,} ids: are they the "
                "same ids?"
            )

    return replace(source, notes=notes, total=None)


def _from_lists(folder: Path, label_set: LabelSet) -> Iterator[tuple[str, str, str]]:
    for split, path in find_lists(folder, label_set).items():
        for place, identifier in _first_cells(path, ID_COLUMNS):
            yield place, identifier, split


def _from_table(path: Path) -> Iterator[tuple[str, str, str]]:
    for place, record in records(path):
        folded = {name.lower(): value for name, value in record.items()}
        column = next((name for name in ID_COLUMNS if name in folded), None)
        if column is None or "split" not in folded:
            needed = f"an id column ({', '.join(ID_COLUMNS)}) and a column 'split'"
            raise InputError(f"{path} is no list of splits: it needs {needed}")
        yield place, str(folded[column]).strip(), str(folded["split"]).strip()


def _first_cells(path: Path, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The first cell of each row that is neither empty nor the name of its column."""
    for line, row in csv_rows(path):
        cell = row[0].partition("\t")[0].strip()
        if cell and not (line == 1 and cell.lower() in names):
            yield f"{path}, line {line}", cell
