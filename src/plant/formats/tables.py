"""Rows to a file as they come, with bounded memory."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from plant.errors import InputError, reads_like_a_name
from plant.store.temporary import temporary_file
from plant.types import Progress

KINDS = (".jsonl", ".ndjson", ".parquet")


def write_rows(rows: Iterable[dict[str, Any]], path: Path, *, suffix: str, progress: Progress) -> int:
    """Write predictions as JSON lines or Parquet, whichever `suffix` says; gives their number."""
    check_kind(suffix)
    if suffix != ".parquet":
        return _write_lines(rows, path, progress)
    with temporary_file(path) as lines:  # rows come one by one, Parquet wants columns
        count = _write_lines(rows, lines, progress)
        _to_parquet(lines, path)
    return count


def check_kind(suffix: str) -> None:
    """Refuse a kind of file that cannot be written, before hours of work."""
    if suffix not in KINDS:
        ending = suffix if reads_like_a_name(suffix) else "nothing"
        raise InputError(f"cannot write a file ending in {ending}: name it .jsonl or .parquet")


def _write_lines(rows: Iterable[dict[str, Any]], path: Path, progress: Progress) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for count, row in enumerate(rows, start=1):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            progress("coding notes", count, None)
    return count


def _to_parquet(lines: Path, path: Path) -> None:
    import polars as pl

    evidence = pl.Struct({"start": pl.Int32, "end": pl.Int32, "text": pl.String, "weight": pl.Float64})
    code = pl.Struct({
        "code": pl.String, "description": pl.String, "probability": pl.Float64, "accepted": pl.Boolean,
        "evidence": pl.List(evidence),
    })  # fmt: skip
    pl.scan_ndjson(lines, schema={"id": pl.String, "codes": pl.List(code)}).sink_parquet(path)
