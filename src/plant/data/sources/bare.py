"""Texts to be coded: tables whose codes, if any, are not looked at, a text file, or standard input."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from plant.data.notes import Skipped, checked
from plant.data.sources.columns import USUAL, find_columns, note_maker
from plant.data.sources.delimited import Dialect
from plant.data.sources.files import BYTE_ORDER_MARK, MAX_ROW, NOT_UTF8, named_rows, read_text, stem_of, suffix_of
from plant.data.sources.options import SourceOptions
from plant.data.sources.records import Placed, by_column, records
from plant.errors import InputError, quoted, quoted_path
from plant.types import Note

STDIN = "standard input"
COLUMN = re.compile(r"[\w.-]+")


def read_texts(
    name: str,
    *,
    text_column: str = "",
    id_column: str = "",
    stream: "Bytes | None" = None,
    skipped: Skipped | None = None,
) -> Iterator[Note]:
    """The notes of a file, or of standard input where the name is `-`; `skipped` is told of notes that are no use.

    Standard input is JSON lines, a CSV or TSV table with a line of column names, or else one plain text.
    """
    options = SourceOptions(text_column=text_column, id_column=id_column)
    path = Path(name)
    if name == "-":
        return checked(_from_stream(_Stream(stream or sys.stdin.buffer), options), skipped=skipped)
    if not path.is_file():
        raise InputError(f"no file {quoted_path(name)!r} of texts")
    if suffix_of(path) in ("txt", ""):
        return checked(iter([Note(stem_of(path), read_text(path))]), skipped=skipped)
    return checked(_from_records(records(path), options, name=stem_of(path)), skipped=skipped)


def _from_stream(stream: "_Stream", options: SourceOptions) -> Iterator[Note]:
    first = stream.first_line()
    if first.lstrip().startswith("{"):
        return _from_records(_json_lines(stream.lines()), options, name="stdin")
    if delimiter := _delimiter(first, options):
        rows = named_rows(stream, Dialect(delimiter), where=STDIN)
        return _from_records(by_column(rows, where=STDIN), options, name="stdin")
    if options.text_column or options.id_column:
        asked = options.text_column or options.id_column
        raise InputError(f"{STDIN} has no column {quoted(asked)}: its first line is neither JSON nor names of columns")
    return iter([Note("stdin", stream.text())])


def _delimiter(line: str, options: SourceOptions) -> str:
    """What separates the columns that a line names; empty where it is no such line but the beginning of a text."""
    named = {options.text_column} if options.text_column else set(USUAL["text"])
    for delimiter in (",", "\t"):
        names = [name.strip('"') for name in line.strip("\r\n").split(delimiter)]
        alone = len(names) == 1 and names[0] not in ("text", options.text_column)  # a text may begin with "Note"
        like_names = bool(options.text_column) or all(map(COLUMN.fullmatch, names))
        if not alone and like_names and named & {*names, *(name.lower() for name in names)}:
            return delimiter
    return ""


@runtime_checkable
class Bytes(Protocol):
    """Where bytes come from, by lines or by numbers."""

    def readline(self, size: int, /) -> bytes: ...
    def read(self, size: int, /) -> bytes: ...


@dataclass
class _Stream:
    """Bytes without a byte order mark, whose first line can be looked at before they are read."""

    stream: Bytes
    waiting: bytes = b""  # read from the stream, and not yet from here

    def first_line(self) -> str:
        self.waiting = self.stream.readline(MAX_ROW).removeprefix(BYTE_ORDER_MARK)
        return self.waiting.decode("utf-8", "replace")

    def lines(self) -> Iterator[str]:
        for number, line in enumerate(chain([self._rest()], iter(self._line, b"")), start=1):
            yield _decoded(line, number)

    def text(self) -> str:
        content = self._rest() + self.stream.read(MAX_ROW)
        if self.stream.read(1):
            raise InputError(f"{STDIN} is longer than {MAX_ROW:,} bytes: too long for one note")
        return _decoded(content, 1)

    def read(self, size: int, /) -> bytes:
        return self._rest() or self.stream.read(size)

    def _rest(self) -> bytes:
        rest, self.waiting = self.waiting, b""
        return rest

    def _line(self) -> bytes:
        return self.stream.readline(MAX_ROW)


def _decoded(content: bytes, line: int) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = line + content.count(b"\n", 0, error.start)
        raise InputError(f"{STDIN}, line {bad} {NOT_UTF8}") from error


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
    except (ValueError, RecursionError) as error:
        raise InputError(f"{STDIN}, line {number} is not JSON: write one object per line") from error
    if not isinstance(record, dict):
        raise InputError(f"{STDIN}, line {number} is not a JSON object")
    return record
