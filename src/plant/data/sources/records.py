"""Records: the rows of a table of any kind, each with the place to name in an error."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plant.data.sources.delimited import Row
from plant.data.sources.files import MAX_ROW, csv_rows, json_rows, suffix_of
from plant.errors import InputError, unknown

KINDS = ("csv", "tsv", "jsonl", "ndjson", "parquet")
BATCH = 512  # rows of a Parquet file in memory at a time

Placed = tuple[str, Mapping[str, Any]]


def records(path: Path, *, limit: int = MAX_ROW) -> Iterator[Placed]:
    """The rows of a file by column; CSV, TSV and JSON lines may be gzipped."""
    kind = suffix_of(path)
    if kind not in KINDS:
        raise InputError(f"{path}: {unknown('kind of file', kind, KINDS)}")
    if kind == "parquet":
        return _parquet_records(path)
    if kind in ("jsonl", "ndjson"):
        return ((f"{path}, line {line}", record) for line, record in json_rows(path, limit=limit))
    return by_column(csv_rows(path, delimiter="," if kind == "csv" else "\t", limit=limit), where=str(path))


def count_records(path: Path) -> int | None:
    """The number of rows where a file says it, as Parquet does."""
    if suffix_of(path) != "parquet":
        return None
    import polars

    with _readable(path):
        return int(polars.scan_parquet(path).select(polars.len()).collect().item())


def by_column(rows: Iterator[Row], *, where: str) -> Iterator[Placed]:
    """Rows by the names in the first of them."""
    _, header = next(rows, (0, []))
    if len(set(header)) < len(header):
        raise InputError(f"{where}: two columns have the same name in the first line")
    for line, row in rows:
        if len(row) != len(header):
            raise InputError(f"{where}, line {line}: the row has {len(row)} cells, the first line names {len(header)}")
        yield f"{where}, line {line}", dict(zip(header, row, strict=True))


def _parquet_records(path: Path) -> Iterator[Placed]:
    import polars

    with _readable(path):
        number = 0
        for batch in polars.scan_parquet(path).collect_batches(chunk_size=BATCH, maintain_order=True):
            for record in batch.iter_rows(named=True):
                number += 1
                yield f"{path}, row {number}", record


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    from polars.exceptions import PolarsError

    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except PolarsError as error:
        raise InputError(f"{path} is no readable Parquet file: write it again") from error
