"""From a record to a note: which column is what, and how codes and evidence are written."""

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from plant.codes.icd import KNOWN_SYSTEMS, normalise
from plant.data.notes import Spans, gather_spans
from plant.data.sources.options import SourceOptions
from plant.errors import (
    LONGEST_NAME,
    MOST_BLANKS,
    CodeError,
    InputError,
    quoted,
    quoted_columns,
    unknown_column,
)
from plant.types import Note, Span

USUAL = MappingProxyType(
    {
        "id": ("id", "note_id", "hadm_id", "doc_id", "document_id", "_id"),
        "text": ("text", "note", "note_text"),
        "codes": ("labels", "codes", "target", "icd_codes"),
        "split": ("split",),
        "group": ("group", "subject_id", "patient_id", "patient"),
        "evidence": ("evidence",),
    }
)
"""Names under which a column is found without being named, best first; upper and lower case are the same."""

NUMBERED = "-"
"""In place of a column of ids: the rows are numbered, whatever ids the table has."""

LONGEST_CODE = 200  # characters; more is a text in the wrong column

TOO_LARGE = 10**LONGEST_CODE

Maker = Callable[[Mapping[str, Any], int, str], Note]


@dataclass(frozen=True)
class Columns:
    """The column of each part of a note; empty where the table has none."""

    id: str
    text: str
    codes: str
    split: str
    group: str
    evidence: str


def find_columns(present: Sequence[str], options: SourceOptions, *, where: str) -> Columns:
    """The columns that the options name, or else those of the usual names; only the text must be there."""
    text = _translated(options) or _column("text", options.text_column, present, where)
    if not text:
        raise InputError(
            f"{where} has no column of texts; it has {quoted_columns(present)}: name it with --text-column"
        )
    if text not in present:
        raise InputError(f"{where}: {unknown_column(text, present)}")
    columns = Columns(
        id="" if options.id_column == NUMBERED else _column("id", options.id_column, present, where),
        text=text,
        codes=_column("codes", options.codes_column, present, where),
        split=_column("split", options.split_column, present, where),
        group=_column("group", options.group_column, present, where),
        evidence="" if options.language else _column("evidence", "", present, where),  # spans count original characters
    )
    _check_text_apart(columns, where)
    return columns


def note_maker(columns: Columns, options: SourceOptions, *, name: str, split: str = "") -> Maker:
    """A function from a record, its number and its place to a note.

    Notes without ids are numbered after `name`; those without a split have `split`.
    """

    def note(record: Mapping[str, Any], number: int, where: str) -> Note:
        codes = _codes(_value(record, columns.codes), options.separator, where)
        evidence = _value(record, columns.evidence)
        return Note(
            id=_text(record, columns.id, where) if columns.id else f"{name}:{number}",
            text=_text(record, columns.text, where),
            codes=tuple(dict.fromkeys(_spelled(code, options.system, where) for code in codes)),
            split=_text(record, columns.split, where) or split,
            group=_text(record, columns.group, where),
            evidence=_evidence(evidence, options.system, where) if evidence else MappingProxyType({}),
        )

    return note


def _check_text_apart(columns: Columns, where: str) -> None:
    """Refuse texts as ids, codes, splits or patients: errors, reports and predictions would show them."""
    others = {"ids": columns.id, "codes": columns.codes, "splits": columns.split, "patients": columns.group}
    for what, name in others.items():
        if name == columns.text:
            raise InputError(f"{where}: {quoted(name)} cannot be both the column of texts and the column of {what}")


def _translated(options: SourceOptions) -> str:
    return f"{options.text_column or 'text'}_{options.language}" if options.language else ""


def _column(part: str, named: str, present: Sequence[str], where: str) -> str:
    if named:
        if named not in present:
            raise InputError(f"{where}: {unknown_column(named, present)}")
        return named
    folded = {name.lower(): name for name in reversed(present)}
    return next((folded[name] for name in USUAL[part] if name in folded), "")


def _value(record: Mapping[str, Any], column: str) -> Any:
    return record.get(column) if column else None


def _text(record: Mapping[str, Any], column: str, where: str) -> str:
    value = _value(record, column)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return _digits(value, where)
    raise InputError(f"{where}: {quoted(column)} holds {type(value).__name__}, not a string")


def _codes(value: Any, separator: str, where: str) -> list[str]:
    if isinstance(value, str):
        value = _json_list(value, where) if value.startswith("[") else value.split(separator)
    if value is None:
        return []
    if not isinstance(value, list):
        value = [value]
    codes = [_code(code, where) for code in value]
    return [code for code in codes if code]


def _code(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise InputError(f"{where}: a code is {type(value).__name__}, not a string")
    return value.strip() if isinstance(value, str) else _digits(value, where)


def _digits(value: int, where: str) -> str:
    if abs(value) >= TOO_LARGE:
        raise InputError(f"{where}: a number is too long for an id or a code")
    return str(value)


def _json_list(cell: str, where: str) -> Any:
    try:
        return json.loads(cell)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: a cell begins with '[' but is no JSON list") from error


def _spelled(code: str, system: str, where: str) -> str:
    """A code as its system spells it; a code of the house's own stays as it is, a sentence is no code."""
    if len(code) > LONGEST_CODE:
        raise InputError(f"{where}: a code has {len(code):,} characters: is this the column of codes?")
    if not system:
        return code
    try:
        return normalise(code, system)
    except CodeError as error:
        if system in KNOWN_SYSTEMS and _is_local(code):
            return code
        column = "" if system not in KNOWN_SYSTEMS else ": is this the column of codes, and what parts them?"
        raise InputError(f"{where}: {error}{column}") from error


def _is_local(code: str) -> bool:
    """Whether this can be a code of the house's own, such as `OPS 5 470`: words without a number are none."""
    blanks = MOST_BLANKS if any(map(str.isdigit, code)) else 1
    return len(code) <= LONGEST_NAME and code.isprintable() and code.count(" ") <= blanks


def _evidence(value: Any, system: str, where: str) -> Spans:
    if isinstance(value, str) and value.startswith("["):
        value = _json_list(value, where)
    try:
        return gather_spans(_mark(mark, system, where) for mark in value)
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        shape = '[{"start": 0, "end": 7, "label": "I10"}, ...]'
        raise InputError(f"{where}: evidence is not written as {shape}") from error


def _mark(mark: Mapping[str, Any], system: str, where: str) -> tuple[str, Span]:
    code = mark["label"] if "label" in mark else mark["code"]
    return _spelled(str(code).strip(), system, where), Span(operator.index(mark["start"]), operator.index(mark["end"]))
