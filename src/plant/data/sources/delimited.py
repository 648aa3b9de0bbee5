"""Rows of delimited text (RFC 4180), found in whole blocks of bytes, since notes are long cells full of line breaks.

Python's csv module walks character by character, takes cells of more than 131,072 characters only through a setting
of the whole process, and reads to the end of the file before it tells that a quote was left open.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable

NEVER_CLOSED = "a quote is opened and never closed"
STRAY_QUOTE = "a quote stands where none may stand; quotes inside of a quoted cell are doubled"
NOT_UTF8 = "the line is not UTF-8: convert the file, for example with iconv -f latin1 -t utf-8"
AHEAD = 1 << 16  # bytes to look ahead for lines without quotes
UNFINISHED = -1

Row = tuple[int, list[str]]


@runtime_checkable
class Readable(Protocol):
    """Where bytes come from."""

    def read(self, size: int, /) -> bytes: ...


class RowError(Exception):
    """What is wrong with the row that begins at `line`, or with that line of it."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True)
class Dialect:
    """What separates cells, how many bytes a row may have, and how many are read at a time."""

    delimiter: str = ","
    limit: int = 50_000_000
    block: int = 1 << 20


def read_rows(stream: Readable, dialect: Dialect) -> Iterator[Row]:
    """The rows that are not blank, each with the line it begins at; lines end in \\n, \\r\\n or \\r."""
    content, line, finished = b"", 1, False
    while not finished:
        block = stream.read(max(dialect.block, len(content)))  # ever more, so that a long row takes linear time
        content, finished = content + block, not block
        start = 0
        while start < len(content):
            rows, end = _rows_at(content, start, line, dialect, finished=finished)
            if end == UNFINISHED:
                break
            yield from rows
            line += content.count(b"\n", start, end)
            start = end
        content = content[start:]
        _check_length(len(content), line, dialect)


def _rows_at(content: bytes, start: int, line: int, dialect: Dialect, *, finished: bool) -> tuple[list[Row], int]:
    """The next row, or some rows without quotes, and where they end."""
    try:
        if (end := _plain_end(content, start, dialect)) > start:
            return _plain_rows(content[start:end], line, dialect), end
        cells, end = _cells_at(content, start, line, dialect, finished=finished)
    except UnicodeDecodeError as error:
        raise RowError(_first_bad_line(content[start:], line), NOT_UTF8) from error
    _check_length(end - start, line, dialect)
    return [(line, cells)] if cells != [""] else [], end


def _plain_end(content: bytes, start: int, dialect: Dialect) -> int:
    """The end of the lines ahead that have neither quotes nor carriage returns; `start` if the next one has."""
    stop = min(len(content), start + min(AHEAD, dialect.limit))
    for mark in (b'"', b"\r"):
        if (found := content.find(mark, start, stop)) >= 0:
            stop = found
    return content.rfind(b"\n", start, stop) + 1 or start


def _plain_rows(lines: bytes, line: int, dialect: Dialect) -> list[Row]:
    rows = enumerate(lines.decode().split("\n")[:-1], start=line)
    return [(number, row.split(dialect.delimiter)) for number, row in rows if row]


def _cells_at(content: bytes, start: int, line: int, dialect: Dialect, *, finished: bool) -> tuple[list[str], int]:
    """The cells of the row at `start` and where it ends: UNFINISHED if more of the file is needed to tell."""
    delimiter, bare = dialect.delimiter.encode(), _bare_cell(dialect.delimiter)
    last = len(content) if finished else len(content) - 2  # a line end may be of two bytes
    cells: list[str] = []
    position = start
    while True:
        quoted = content.startswith(b'"', position)
        cell, position = _quoted(content, position) if quoted else _bare(content, position, bare)
        if not 0 <= position <= last:
            if finished:
                raise RowError(line, NEVER_CLOSED)
            return cells, UNFINISHED
        cells.append(cell.decode())
        following = content[position : position + 1]
        if following != delimiter:
            break
        position += 1
    if following not in (b"\n", b"\r", b""):
        raise RowError(line, STRAY_QUOTE)
    return cells, position + (2 if content.startswith(b"\r\n", position) else len(following))


def _quoted(content: bytes, start: int) -> tuple[bytes, int]:
    """What stands between the quotes, doubled ones made single, and where it ends."""
    pieces: list[bytes] = []
    position = start + 1
    while (end := content.find(b'"', position)) >= 0:
        pieces.append(content[position:end])
        if not content.startswith(b'"', end + 1):
            return b'"'.join(pieces), end + 1
        position = end + 2
    return b"", UNFINISHED


def _bare(content: bytes, start: int, pattern: re.Pattern[bytes]) -> tuple[bytes, int]:
    match = pattern.match(content, start)
    assert match is not None  # nothing at all is a cell too
    return match[0], match.end()


@cache
def _bare_cell(delimiter: str) -> re.Pattern[bytes]:
    return re.compile(rb"[^%s\r\n]*" % re.escape(delimiter.encode()))


def _first_bad_line(content: bytes, line: int) -> int:
    """The line of the first bytes that are not UTF-8, which content that begins at `line` is known to hold."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line += content.count(b"\n", 0, error.start)
    return line


def _check_length(length: int, line: int, dialect: Dialect) -> None:
    if length > dialect.limit:
        raise RowError(line, f"the row is longer than {dialect.limit:,} bytes; is a quote never closed?")
