"""Texts to be coded: tables whose codes, if any, are not looked at, a text file, or standard input."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from plant.data.notes import checked
from plant.data.sources.columns import USUAL, find_columns, note_maker
from plant.data.sources.delimited import Dialect
from plant.data.sources.files import named_rows, read_text, stem_of, suffix_of
from plant.data.sources.options import SourceOptions
from plant.data.sources.records import Placed, by_column, records
from plant.errors import InputError
from plant.types import Note

STDIN = "standard input"
COLUMN = re.compile(r"[\w.-]+")


def read_texts(
    name: str, *, text_column: str = "", id_column: str = "", stream: TextIO | None = None
) -> Iterator[Note]:
    """The notes of a file, or of standard input where the name is `-`.

    Standard input is JSON lines, a CSV or TSV table with a line of column names, or else one plain text.
    """
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
    if first.lstrip().startswith("{"):
        return _from_records(_json_lines(chain([first], stream)), options, name="stdin")
    if delimiter := _delimiter(first, options):
        rows = named_rows(_Encoded(first, stream), Dialect(delimiter), where=STDIN)
        return _from_records(by_column(rows, where=STDIN), options, name="stdin")
    if options.text_column or options.id_column:
        asked = options.text_column or options.id_column
        raise InputError(f"{STDIN} has no column {asked!r}: its first line is neither JSON nor names of columns")
    return iter([Note("stdin", first + stream.read())])


def _delimiter(line: str, options: SourceOptions) -> str:
    """What separates the columns that a line names; empty where it is no such line but the beginning of a text."""
    named = {options.text_column} if options.text_column else set(USUAL["text"])
    for delimiter in (",", "\t"):
        names = [name.strip('"') for name in line.strip("\ufeff\r\n").split(delimiter)]
        alone = len(names) == 1 and names[0] not in ("text", options.text_column)  # a text may begin with "Note"
        like_names = bool(options.text_column) or all(map(COLUMN.fullmatch, names))
        if not alone and like_names and named & {*names, *(name.lower() for name in names)}:
            return delimiter
    return ""


@dataclass
class _Encoded:
    """The bytes of a text stream whose first line was read already."""

    first: str
    stream: TextIO

    def read(self, size: int, /) -> bytes:
        start, self.first = self.first.removeprefix("\ufeff"), ""
        return (start or self.stream.read(size)).encode("utf-8", "surrogatepass")


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
            yield f"{STDIN}, line {number}", _parsed(line, number)


def _parsed(line: str, number: int) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise InputError(f"{STDIN}, line {number} is not JSON: write one object per line") from error
    if not isinstance(record, dict):
        raise InputError(f"{STDIN}, line {number} is not a JSON object")
    return record
