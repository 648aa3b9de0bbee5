"""Texts to be coded: tables whose codes, if any, are not looked at, a text file, or standard input."""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from plant.data.notes import Skipped, checked
from plant.data.sources.columns import USUAL, Maker, find_columns, note_maker
from plant.data.sources.delimited import Dialect
from plant.data.sources.files import (
    BYTE_ORDER_MARK,
    MAX_ROW,
    NOT_UTF8,
    check_start,
    json_object,
    lines_of,
    named_rows,
    read_text,
    stem_of,
    suffix_of,
)
from plant.data.sources.options import SourceOptions
from plant.data.sources.records import by_column, records
from plant.errors import InputError, quoted, quoted_path
from plant.types import Note

STDIN = "standard input"
COLUMN = re.compile(r"[\w.-]+")
LIST = re.compile(r"\[\s*(\{|$)")  # the beginning of a list of JSON objects
Row = tuple[str, Mapping[str, Any] | InputError]
"""A place and what stands there, or why nobody can tell."""


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
        return checked(_from_stream(_Stream(stream or _standard_input()), options), skipped=skipped)
    if not path.is_file():
        raise InputError(f"no file {quoted_path(name)!r} of texts")
    if suffix_of(path) in ("txt", ""):
        return checked(iter([Note(stem_of(path), read_text(path))]), skipped=skipped)
    rows = _json_rows(lines_of(path), str(path)) if suffix_of(path) in ("jsonl", "ndjson") else records(path)
    return checked(_from_records(rows, options, name=stem_of(path)), skipped=skipped)


def _standard_input() -> "Bytes":
    if sys.stdin is None:  # closed by who started this
        raise InputError(f"{STDIN} is closed: name a file of notes")
    return sys.stdin.buffer


def _from_stream(stream: "_Stream", options: SourceOptions) -> Iterator[Note | InputError]:
    first = stream.first_line()
    if first.lstrip().startswith("{"):
        return _from_records(_json_rows(stream.lines(), STDIN), options, name="stdin")
    if LIST.match(first.strip()):
        raise InputError(f"{STDIN} is a list of JSON: write one object per line, without brackets around all of them")
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
        check_start(self.waiting[:4], STDIN)
        return self.waiting.decode("utf-8", "replace")

    def lines(self) -> Iterator[tuple[int, bytes]]:
        lines = enumerate(chain([self._rest()], iter(self._line, b"")), start=1)
        return ((number, line) for number, line in lines if not line.isspace())

    def text(self) -> str:
        rest = self._rest()
        content = rest + self.stream.read(MAX_ROW + 1 - len(rest))
        if len(content) > MAX_ROW:
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


def _from_records(rows: Iterator[Row], options: SourceOptions, *, name: str) -> Iterator[Note | InputError]:
    """Codes are dropped with their column: what is to be predicted must not get in the way."""

    @lru_cache(maxsize=64)
    def maker(present: tuple[str, ...], where: str) -> Maker:
        columns = find_columns(present, options, where=where)
        return note_maker(replace(columns, codes="", evidence="", split=""), options, name=name)

    place = ""  # of the first row, whose columns must do: a later one without a text is a bad note among good ones
    for number, (where, record) in enumerate(rows, start=1):
        if isinstance(record, InputError):
            yield record
            continue
        if not place:
            place = where
            maker(tuple(record), place)
        try:
            yield maker(tuple(record), place)(record, number, where)
        except InputError as error:
            yield error


def _json_rows(lines: Iterator[tuple[int, bytes]], where: str) -> Iterator[Row]:
    for number, line in lines:
        place = f"{where}, line {number}"
        try:
            yield place, json_object(line, place)
        except InputError as error:
            yield place, error
