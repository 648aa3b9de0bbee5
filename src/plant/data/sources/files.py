"""Files as streams: plain or gzipped, decoded line by line so that an error can name its line."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from plant.errors import InputError

MAX_CELL = 50_000_000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
FREE_BYTES = 1 << 28  # a small file may be as well packed as it likes
BUFFER = 1 << 20
MAX_RATIO = 200  # notes pack 3 to 10 times; gzip's best, on nothing but zeros, is 1,030

Row = tuple[int, list[str]]


def suffix_of(path: Path) -> str:
    """The kind of a file by its name, `.gz` aside: `notes.CSV.gz` is 'csv'."""
    name = path.name.lower().removesuffix(".gz")
    return name.rpartition(".")[2] if "." in name else ""


def stem_of(path: Path) -> str:
    """The name of a file without its kind: `dev1.jsonl.gz` is 'dev1'."""
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    return Path(name).stem


def read_text(path: Path, *, limit: int = MAX_CELL) -> str:
    """A whole small file, every character as it stands, since evidence counts characters."""
    with open_bytes(path) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise InputError(f"{path} is longer than {limit:,} bytes: too long for one note")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(_undecodable(path, line)) from error


def csv_rows(path: Path, *, delimiter: str = ",", limit: int = MAX_CELL) -> Iterator[Row]:
    """The rows of a table with the lines they begin at; cells may hold line breaks and doubled quotes."""
    csv.field_size_limit(max(csv.field_size_limit(), limit))  # one for the process, so it is only ever raised
    with open_bytes(path) as stream:
        reader = csv.reader(_decoded(stream, path, limit), delimiter=delimiter, strict=True)
        line = 1
        try:
            for row in reader:
                if row:
                    yield line, _fitting(row, limit, f"{path}, line {line}")
                line = reader.line_num + 1
        except UnicodeDecodeError as error:
            raise InputError(_broken_line(path, reader.line_num + 1, error, limit)) from error
        except csv.Error as error:
            raise InputError(_broken_table(path, line, str(error), limit)) from error


def json_rows(path: Path, *, limit: int = MAX_CELL) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file of JSON lines with their line numbers; empty lines are passed over."""
    with open_bytes(path) as stream:
        lines = _decoded(stream, path, 2 * limit)
        number = 0
        try:
            for number, line in enumerate(lines, start=1):
                if not line.isspace():
                    yield number, _json_object(line, f"{path}, line {number}")
        except UnicodeDecodeError as error:
            raise InputError(_broken_line(path, number + 1, error, 2 * limit)) from error


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """A file as bytes, unpacked where its name ends in .gz; what goes wrong while it is read becomes an InputError."""
    try:
        with path.open("rb", buffering=BUFFER) as packed:
            yield _unpacked(packed) if path.name.lower().endswith(".gz") else packed
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is a damaged or incomplete gzip file: fetch it again") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def _unpacked(packed: BinaryIO) -> BinaryIO:
    return io.BufferedReader(gzip.GzipFile(fileobj=packed), buffer_size=BUFFER)


def _decoded(stream: BinaryIO, path: Path, limit: int) -> Iterator[str]:
    """The lines of a stream as text; all of it runs in C, which is what makes reading fast."""
    if stream.peek(3)[:3] == BYTE_ORDER_MARK:  # type: ignore[attr-defined]
        stream.read(3)
    elif not stream.peek(1):  # type: ignore[attr-defined]
        raise InputError(f"{path} is empty")
    readline: Callable[[int], bytes] = stream.readline
    if path.name.lower().endswith(".gz"):
        readline = _capped(readline, path)
    return map(bytes.decode, iter(partial(readline, limit), b""))


def _capped(readline: Callable[[int], bytes], path: Path) -> Callable[[int], bytes]:
    """The same lines up to the size that a file of this size can honestly unpack to."""
    left = max(FREE_BYTES, path.stat().st_size * MAX_RATIO)

    def capped(limit: int) -> bytes:
        nonlocal left
        line = readline(limit)
        left -= len(line)
        if left < 0:
            raise InputError(
                f"{path} unpacks to more than {MAX_RATIO} times its size: unpack it by hand if you trust it"
            )
        return line

    return capped


def _json_object(line: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        what = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else "too deep"
        raise InputError(f"{where} is not valid JSON: {what}") from error
    if not isinstance(value, dict):
        raise InputError(f"{where} holds no JSON object: each line is one note, such as {{'id': ..., 'text': ...}}")
    return value


def _fitting(row: list[str], limit: int, where: str) -> list[str]:
    if max(map(len, row)) > limit:
        raise InputError(f"{where}: a cell is longer than {limit:,} characters; is a quote never closed?")
    return row


def _broken_line(path: Path, line: int, error: UnicodeDecodeError, limit: int) -> str:
    if len(error.object) >= limit:
        return f"{path}, line {line} is longer than {limit:,} bytes: is this a file of notes?"
    return _undecodable(path, line)


def _undecodable(path: Path, line: int) -> str:
    return f"{path}, line {line} is not UTF-8: convert the file, for example with iconv -f latin1 -t utf-8"


def _broken_table(path: Path, line: int, error: str, limit: int) -> str:
    where = f"{path}, row that begins at line {line}"
    if "field limit" in error:
        return f"{where}: a cell is longer than {limit:,} characters; is a quote never closed?"
    if "unexpected end of data" in error:
        return f"{where}: a quote is opened and never closed"
    return f"{where}: a quote stands where none may stand; quotes inside of a quoted cell are doubled"
