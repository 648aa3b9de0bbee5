"""Texts to be coded: tables whose codes, if any, are not looked at, a text file, or standard input."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from plant.data.notes import checked
from plant.data.sources.columns import find_columns, note_maker
from plant.data.sources.files import read_text, stem_of, suffix_of
from plant.data.sources.options import SourceOptions
from plant.data.sources.records import Placed, records
from plant.errors import InputError
from plant.types import Note


def read_texts(
    name: str, *, text_column: str = "", id_column: str = "", stream: TextIO | None = None
) -> Iterator[Note]:
    """The notes of a file, or of standard input where the name is `-`: JSON lines, or else one plain text."""
    options = SourceOptions(text_column=text_column, id_column=id_column)
    path = Path(name)
    if name == "-":
        return checked(_from_stream(stream or sys.stdin, options))
    if not path.is_file():
        raise InputError(f"no file {name!r} of texts")
    if suffix_of(path) in ("txt", ""):
        return checked(iter([Note(stem_of(path), read_text(path))]))
    return checked(_from_records(records(path), options, name=stem_of(path)))


def _from_stream(stream: TextIO, options: SourceOptions) -> Iterator[Note]:
    first = stream.readline()
    if not first.lstrip().startswith("{"):
        return iter([Note("stdin", first + stream.read())])
    return _from_records(_json_lines(chain([first], stream)), options, name="stdin")


def _from_records(rows: Iterator[Placed], options: SourceOptions, *, name: str) -> Iterator[Note]:
    """Codes are dropped with their column: what is to be predicted must not get in the way."""
    make = None
    for number, (where, record) in enumerate(rows, start=1):
        if make is None:
            columns = find_columns(list(record), options, where=where)
            make = note_maker(replace(columns, codes="", evidence="", split=""), options, name=name)
        yield make(record, number, where)


def _json_lines(lines: Iterator[str]) -> Iterator[Placed]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield f"standard input, line {number}", _parsed(line, number)


def _parsed(line: str, number: int) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise InputError(f"standard input, line {number} is not JSON: write one object per line") from error
    if not isinstance(record, dict):
        raise InputError(f"standard input, line {number} is not a JSON object")
    return record
