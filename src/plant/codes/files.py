"""Code books in files: tables that people write, and the JSON lines that artifacts keep."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from plant.codes.codebook import CodeBook
from plant.errors import ArtifactError, InputError, quoted, quoted_columns, quoted_path

SYNONYM_SEPARATOR = "|"
GZIP_MARK = b"\x1f\x8b"
COLUMNS = "code, description, parent, synonyms (the last two may be missing, synonyms are separated by |)"


@dataclass(frozen=True)
class Entry:
    """One row of a table of codes."""

    code: str
    names: tuple[str, ...]  # the description first
    parent: str


def read_codebook(path: Path | str, *, system: str = "other", language: str = "") -> CodeBook:
    """The code book of a TSV or CSV file with the columns code, description, parent, synonyms, or of a `.jsonl` file.

    `description_xx` and `synonyms_xx` are names in other languages: synonyms of the description, or the description
    itself where `language` asks for them or `description` is empty. Codes are kept as they are written.

    >>> _ = (folder / "codes.csv").write_text("code,description,synonyms\\nR05,Cough,tussis\\n")
    >>> read_codebook(folder / "codes.csv").names("R05")
    ('Cough', 'tussis')
    """
    path = Path(path)
    text = _decoded(path)
    if path.suffix == ".jsonl":
        return codebook_from_jsonl(text)
    entries = _entries(text, path, language)
    return CodeBook(
        system=system,
        codes=tuple(entries),
        descriptions={code: entry.names[0] for code, entry in entries.items() if entry.names},
        synonyms={code: entry.names[1:] for code, entry in entries.items() if entry.names[1:]},
        parents={code: entry.parent for code, entry in entries.items() if entry.parent},
    )


def codebook_to_jsonl(book: CodeBook) -> str:
    """A line for the book and one for each of its codes; then the parents that are no codes of it, marked as nodes."""
    codes = set(book.codes)
    nodes = dict.fromkeys(node for node in (*book.descriptions, *book.synonyms, *book.parents) if node not in codes)
    head = {"system": book.system, "codes": len(book.codes), "nodes": len(nodes)}
    lines = (head, *(_line(book, "code", code) for code in book.codes), *(_line(book, "node", node) for node in nodes))
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def codebook_from_jsonl(text: str) -> CodeBook:
    """The code book that `codebook_to_jsonl` wrote."""
    head, *lines = [_parsed(line, number) for number, line in enumerate(text.split("\n"), start=1) if line] or [{}]
    codes = tuple(line["code"] for line in lines if "code" in line)
    counted = {"codes": len(codes), "nodes": len(lines) - len(codes)}
    if head != {"system": head.get("system"), **counted}:
        raise ArtifactError(
            "the code book is cut short or foreign: its first line does not count the lines that follow"
        )
    named = {line.get("code", line.get("node")): line for line in lines}
    if not all(isinstance(name, str) for name in (head["system"], *named)):
        raise ArtifactError("the code book has a code that is no string")
    return CodeBook(
        system=head["system"],
        codes=codes,
        descriptions={name: line["description"] for name, line in named.items() if "description" in line},
        synonyms={name: tuple(line["synonyms"]) for name, line in named.items() if "synonyms" in line},
        parents={name: line["parent"] for name, line in named.items() if "parent" in line},
    )


def _line(book: CodeBook, kind: str, name: str) -> dict[str, Any]:
    parts: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("description", book.descriptions),
        ("synonyms", book.synonyms),
        ("parent", book.parents),
    )
    return {kind: name} | {key: mapping[name] for key, mapping in parts if name in mapping}


def _parsed(line: str, number: int) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"line {number} of the code book is no JSON") from error
    if not isinstance(parsed, dict):
        raise ArtifactError(f"line {number} of the code book is no JSON object")
    return parsed


def _decoded(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the code file {quoted_path(path)}: {error.strerror}") from error
    except ValueError as error:  # a path cannot hold every character
        raise InputError("the name of the code file is none that a file can have") from error
    if content.startswith(GZIP_MARK):
        raise InputError(f"{quoted_path(path)} is gzipped: unpack it first")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: bytes that are no UTF-8; save the file as UTF-8") from error


def _entries(text: str, path: Path, language: str) -> dict[str, Entry]:
    rows = _rows(text, path)
    _, header = next(rows, (0, []))
    columns = [name.strip().lower() for name in header]
    _check_columns(columns, path, language)
    entries: dict[str, Entry] = {}
    for line, row in rows:
        entry = _entry(dict(zip(columns, row, strict=False)), language)
        if not entry.code or len(row) > len(columns):
            problem = "no code" if not entry.code else f"{len(row)} cells under {len(columns)} columns"
            raise InputError(f"{path}, line {line}: {problem}")
        if entry.code in entries:
            raise InputError(f"{path}, line {line}: the code {quoted(entry.code)} stands in an earlier line too")
        entries[entry.code] = entry
    if not entries:
        raise InputError(f"{path}: no codes below the column names")
    return entries


def _rows(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each row that is not blank."""
    first_line = text.partition("\n")[0]
    tabs = path.suffix == ".tsv" or (path.suffix != ".csv" and "\t" in first_line)
    reader = csv.reader(StringIO(text, newline=""), delimiter="\t" if tabs else ",", strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}; are the quotes balanced?") from error


def _check_columns(columns: Sequence[str], path: Path, language: str) -> None:
    wanted = ["code", f"description_{language}"] if language else ["code"]
    missing = [name for name in wanted if name not in columns]
    if missing:
        found = quoted_columns(columns) if columns else "none: the file is empty"
        raise InputError(f"{path}: no column {' and no column '.join(missing)}; found: {found}; expected: {COLUMNS}")
    if len(set(columns)) < len(columns):
        raise InputError(f"{path}: two columns have the same name; found: {quoted_columns(columns)}")


def _entry(cells: Mapping[str, str], language: str) -> Entry:
    """Descriptions before synonyms, the language asked for before the others, each name once."""
    described = [f"description_{language}", "description", *(name for name in cells if name.startswith("description_"))]
    also = [f"synonyms_{language}", *(name for name in cells if name.split("_")[0] == "synonyms")]
    names = [cells.get(column, "") for column in described]
    names += [name for column in dict.fromkeys(also) for name in cells.get(column, "").split(SYNONYM_SEPARATOR)]
    return Entry(
        code=cells["code"].strip(),
        names=tuple(dict.fromkeys(stripped for name in names if (stripped := name.strip()))),
        parent=cells.get("parent", "").strip(),
    )
