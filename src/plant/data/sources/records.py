"""Records: the rows of a table of any kind, each with the place to name in an error."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from plant.data.sources.delimited import Row
from plant.data.sources.files import MAX_ROW, csv_rows, json_rows, suffix_of
from plant.errors import InputError, unknown

OTHERS = (";", "\t", "|", ",")  # what parts columns where programs do not write what the name of their file says
BATCH = 512  # rows of a Parquet file in memory at a time

Placed = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Table:
    """A kind of file that holds notes in rows: how they are read, and counted where the file says how many."""

    read: Callable[[Path, int], Iterator[Placed]]
    count: Callable[[Path], int] | None = None
    packs: bool = True  # it may be gzipped
    makes_folders: bool = True  # such files of a folder are a corpus


def records(path: Path, *, limit: int = MAX_ROW) -> Iterator[Placed]:
    """The rows of a file by column; a row of more than `limit` bytes is an error."""
    return _table(path).read(path, limit)


def count_records(path: Path) -> int | None:
    """The number of rows where a file says it, as Parquet does."""
    count = _table(path).count
    return None if count is None else count(path)


def by_column(rows: Iterator[Row], *, where: str) -> Iterator[Placed]:
    """Rows by the names in the first of them."""
    _, header = next(rows, (0, []))
    if len(header) == 1 and (other := next((mark for mark in OTHERS if mark in header[0]), "")):
        raise InputError(
            f"{where}: its columns seem to be parted by {other!r}: save it with commas as .csv, or with tabs as .tsv"
        )
    if len(set(header)) < len(header):
        raise InputError(f"{where}: two columns have the same name in the first line")
    for line, row in rows:
        if len(row) != len(header):
            raise InputError(f"{where}, line {line}: the row has {len(row)} cells, the first line names {len(header)}")
        yield f"{where}, line {line}", dict(zip(header, row, strict=True))


def _table(path: Path) -> Table:
    kind = suffix_of(path)
    if kind not in TABLES:
        raise InputError(f"{path}: {unknown('kind of file', kind, TABLES)}")
    if path.name.lower().endswith(".gz") and not TABLES[kind].packs:
        raise InputError(f"{path} is gzipped, which {kind} files cannot be: unpack it")
    return TABLES[kind]


def _delimited(path: Path, limit: int, *, delimiter: str) -> Iterator[Placed]:
    return by_column(csv_rows(path, delimiter=delimiter, limit=limit), where=str(path))


def _json_lines(path: Path, limit: int) -> Iterator[Placed]:
    return ((f"{path}, line {line}", record) for line, record in json_rows(path, limit=limit))


def _parquet(path: Path, limit: int) -> Iterator[Placed]:
    import polars

    with _readable(path):
        number = 0
        for batch in polars.scan_parquet(path).collect_batches(chunk_size=BATCH, maintain_order=True):
            for record in batch.iter_rows(named=True):
                number += 1
                if _is_longer(record, limit):
                    raise InputError(f"{path}, row {number} is longer than {limit:,} bytes: is this a file of notes?")
                yield f"{path}, row {number}", record


def _is_longer(record: Mapping[str, Any], limit: int) -> bool:
    """Whether the texts of a record have more bytes; they are counted only where they may."""
    texts = [value for value in record.values() if isinstance(value, str)]
    widest = 4  # bytes of a character
    return widest * sum(map(len, texts)) > limit and sum(len(text.encode("utf-8")) for text in texts) > limit


def _parquet_rows(path: Path) -> int:
    import polars

    with _readable(path):
        return int(polars.scan_parquet(path).select(polars.len()).collect().item())


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    from polars.exceptions import PolarsError

    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except PolarsError as error:
        raise InputError(f"{path} is no readable Parquet file: write it again") from error


TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "csv": Table(partial(_delimited, delimiter=",")),
        "tsv": Table(partial(_delimited, delimiter="\t"), makes_folders=False),  # in a folder it is a code book
        "jsonl": Table(_json_lines),
        "ndjson": Table(_json_lines),
        "parquet": Table(_parquet, _parquet_rows, packs=False),
    }
)
"""Every kind of table by the suffix of its files."""
