"""Rows of JSON lines and of tab-separated tables, with errors that name the line and never quote it."""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from plant.errors import InputError

HEADINGS = frozenset({"code", "codes", "label", "labels"})  # of a table's second column


def list_of(row: Mapping[str, Any], key: str, path: Path, number: int) -> list[Any]:
    """The list under a key of a row."""
    if not isinstance(row.get(key), list):
        raise InputError(f"{path}, line {number}: there is no list {key!r}")
    return list(row[key])


def identifier_of(row: Mapping[str, Any], path: Path, number: int) -> str:
    """The id of a row, as text."""
    if not isinstance(row.get("id"), str | int) or row["id"] == "":
        raise InputError(f"{path}, line {number}: there is no 'id'")
    return str(row["id"])


def number_of(value: Any, path: Path, number: int) -> float:
    """A value as a number."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}, line {number}: the score is not a number") from error


def json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file of JSON lines, with their line numbers."""
    for number, line in _lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(
                f"{path}, line {number}: not a line of JSON (a table is tab-separated and ends in .tsv)"
            ) from error
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: not a JSON object")
        yield number, row


def table_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of a tab-separated file of documents and codes, with their line numbers; a heading is left out."""
    for number, line in _lines(path):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) < 2 or not cells[0] or not cells[1]:
            raise InputError(f"{path}, line {number}: expected document, code and perhaps a score, between tabs")
        if not (number == 1 and cells[1].lower() in HEADINGS):
            yield number, cells


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    if not path.is_file():
        raise InputError(f"no file {path}")
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise InputError(f"{path}, line {number}: not UTF-8") from error
            if text.strip():
                yield number, text.rstrip("\r\n")


def is_table(path: Path) -> bool:
    """Whether the name says tab-separated text rather than JSON lines."""
    return Path(path.name.removesuffix(".gz")).suffix in (".tsv", ".txt", ".ann")
