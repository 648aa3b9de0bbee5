"""Files as streams: plain or gzipped, in rows or lines that an error can name."""

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from plant.data.sources.delimited import Dialect, Readable, Row, RowError, read_rows
from plant.errors import InputError

MAX_ROW = 50_000_000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BUFFER = 1 << 20
FREE_BYTES = 1 << 26  # a small file may be as well packed as it likes
MAX_RATIO = 200  # notes pack 3 to 10 times; gzip's best, on nothing but zeros, is 1,030
UTF16_MARKS, GZIP_MARK, ZIP_MARK = (b"\xff\xfe", b"\xfe\xff"), b"\x1f\x8b", b"PK\x03\x04"
NOT_UTF8 = "is not UTF-8: convert the file, for example with iconv -f latin1 -t utf-8"


def suffix_of(path: Path) -> str:
    """The kind of a file by its name, `.gz` aside: `notes.CSV.gz` is 'csv'."""
    name = path.name.lower().removesuffix(".gz")
    return name.rpartition(".")[2] if "." in name else ""


def stem_of(path: Path) -> str:
    """The name of a file without its kind: `dev1.jsonl.gz` is 'dev1'."""
    return Path(path.stem).stem if path.name.lower().endswith(".gz") else path.stem


def read_text(path: Path, *, limit: int = MAX_ROW) -> str:
    """A whole small file, every character as it stands, since evidence counts characters."""
    with open_bytes(path) as stream:
        content = b"".join(_blocks(stream, limit + 1))
    check_start(content[:4], str(path))
    if len(content) > limit:
        raise InputError(f"{path} is longer than {limit:,} bytes: too long for one note")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line} {NOT_UTF8}") from error


def _blocks(stream: Readable, size: int) -> Iterator[bytes]:
    """At most `size` bytes, in blocks, since one `read` would take memory for all of `size` beforehand."""
    while size > 0 and (block := stream.read(min(size, BUFFER))):
        yield block
        size -= len(block)


def csv_rows(path: Path, *, delimiter: str = ",", limit: int = MAX_ROW) -> Iterator[Row]:
    """The rows of a table with the lines they begin at; cells may hold line breaks and doubled quotes."""
    with open_bytes(path) as stream:
        _skip_mark(stream, path)
        yield from named_rows(stream, Dialect(delimiter, limit), where=str(path))


def named_rows(stream: Readable, dialect: Dialect, *, where: str) -> Iterator[Row]:
    """The rows of a stream; what is wrong with one becomes an InputError that names its line."""
    try:
        yield from read_rows(stream, dialect)
    except RowError as error:
        raise InputError(f"{where}, line {error.line}: {error}") from error


def json_rows(path: Path, *, limit: int = MAX_ROW) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file of JSON lines with their line numbers; empty lines are passed over."""
    for number, line in lines_of(path, limit=limit):
        yield number, json_object(line, f"{path}, line {number}")


def lines_of(path: Path, *, limit: int = MAX_ROW) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not empty, with their numbers."""
    with open_bytes(path) as stream:
        _skip_mark(stream, path)
        for number, line in enumerate(iter(partial(stream.readline, limit + 1), b""), start=1):
            if len(line) > limit:
                raise InputError(f"{path}, line {number} is longer than {limit:,} bytes: is this a file of notes?")
            if not line.isspace():
                yield number, line


@contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedReader]:
    """A file as bytes, unpacked where its name ends in .gz; what goes wrong while it is read becomes an InputError."""
    try:
        with path.open("rb", buffering=BUFFER) as packed:
            yield io.BufferedReader(_Unpacked(packed, path), BUFFER) if path.name.lower().endswith(".gz") else packed
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is a damaged or incomplete gzip file, or none: fetch it again") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


class _Unpacked(io.RawIOBase):
    """What a gzipped file holds, up to the size that a file of its size can honestly hold."""

    def __init__(self, packed: BinaryIO, path: Path) -> None:
        self._unpacked = gzip.GzipFile(fileobj=packed)
        self._path = path
        self._left = max(FREE_BYTES, path.stat().st_size * MAX_RATIO)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._unpacked.read(len(buffer))
        self._left -= len(content)
        if self._left < 0:
            problem = f"unpacks to more than {MAX_RATIO} times its size: unpack it by hand if you trust it"
            raise InputError(f"{self._path} {problem}")
        buffer[: len(content)] = content
        return len(content)


def check_start(start: bytes, where: str) -> None:
    """Refuse what is no UTF-8 by its first bytes, so that the remedy is the right one."""
    if start.startswith(UTF16_MARKS):
        raise InputError(f"{where} is UTF-16: convert it, for example with iconv -f utf-16 -t utf-8")
    if start.startswith(GZIP_MARK):
        raise InputError(f"{where} is gzipped: unpack it, or let the name of its file end in .gz (once)")
    if start.startswith(ZIP_MARK):
        raise InputError(f"{where} is a ZIP archive or a workbook: unpack it, or save it as CSV in UTF-8")


def _skip_mark(stream: io.BufferedReader, path: Path) -> None:
    """Pass over a byte order mark; an empty file is an error."""
    start = stream.peek(len(BYTE_ORDER_MARK))
    if not start:
        raise InputError(f"{path} is empty")
    check_start(start, str(path))
    if start.startswith(BYTE_ORDER_MARK):
        stream.read(len(BYTE_ORDER_MARK))


def json_object(line: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{where} {NOT_UTF8}") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where} is not valid JSON: {error.msg} at column {error.colno}; write one object per line"
        ) from error
    except ValueError as error:  # a whole number of thousands of digits
        raise InputError(f"{where} is not valid JSON: a number is too long") from error
    except RecursionError as error:
        raise InputError(f"{where} is not valid JSON: brackets in brackets without end") from error
    if not isinstance(value, dict):
        raise InputError(f"{where} holds no JSON object: each line is one note, such as {{'id': ..., 'text': ...}}")
    return value
