"""What callers hand to a coder, checked once: an error says at which place, and never quotes a text."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from numbers import Integral
from typing import Any

from plant.errors import InputError, quoted
from plant.types import Note, Span


def text_list(texts: Any) -> list[str]:
    """Texts as a list, also from a generator, an array or a column of a table."""
    if hasattr(texts, "columns"):  # iterating over a table gives the names of its columns
        raise InputError("texts is a table: give the one column that holds the texts, such as frame['text']")
    listed = _listed(texts, "texts", "texts")
    for place, text in enumerate(listed):
        one_text(text, f"texts[{place}]")
    return listed


def one_text(text: Any, name: str = "the text") -> str:
    """The text, if it is one."""
    if not isinstance(text, str):
        raise InputError(f"{name} is not a string but {type(text).__name__}")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InputError(f"{name} has half a surrogate pair: write it as UTF-8")
    return text


def code_rows(codes: Any, *, texts: int) -> list[tuple[str, ...]]:
    """The codes of each of so many texts, each once and without surrounding blanks."""
    rows = _listed(codes, "codes", "collections of codes, one for each text")
    _check_length(rows, texts, "collections of codes")
    return [_codes(row, f"codes[{place}]") for place, row in enumerate(rows)]


def evidence_rows(evidence: Any, codes: list[tuple[str, ...]]) -> list[dict[str, tuple[Span, ...]]]:
    """What was marked in each text, by code; nothing where nothing is given."""
    rows = [{}] * len(codes) if evidence is None else _listed(evidence, "evidence", "mappings, one for each text")
    _check_length(rows, len(codes), "mappings of evidence")
    return [_marks(row, own, f"evidence[{place}]") for place, (row, own) in enumerate(zip(rows, codes, strict=True))]


def _marks(row: Any, codes: tuple[str, ...], name: str) -> dict[str, tuple[Span, ...]]:
    if not isinstance(row, Mapping):
        raise InputError(f"{name} is not a mapping from codes to pairs of characters but {type(row).__name__}")
    marks: dict[str, tuple[Span, ...]] = {}
    for code, pairs in row.items():
        if not isinstance(code, str) or code.strip() not in codes:
            raise InputError(f"{name} marks {quoted(code)}, which is not among the codes of the text")
        marks[code.strip()] = tuple(sorted({_span(pair, name) for pair in _listed(pairs, name, "pairs (start, end)")}))
    return marks


def _span(pair: Any, name: str) -> Span:
    ends = (pair.start, pair.end) if isinstance(pair, Span) else tuple(_listed(pair, name, "pairs (start, end)"))
    if len(ends) != 2 or not all(isinstance(end, Integral) for end in ends):
        raise InputError(f"{name} has a mark that is no pair (start, end) of whole numbers")
    return Span(int(ends[0]), int(ends[1]))


def name_list(names: Any, what: str, *, texts: int) -> list[str]:
    """The ids or groups of so many texts; whole numbers are written as strings."""
    listed = _listed(names, what, "strings, one for each text")
    _check_length(listed, texts, what)
    for place, name in enumerate(listed):
        if not isinstance(name, str | Integral):
            raise InputError(f"{what}[{place}] is not a string but {type(name).__name__}")
    return [str(name) for name in listed]


def id_list(ids: Any, *, texts: int) -> list[str]:
    """The ids of so many texts, none twice; their numbers from 0 where none are given."""
    given = _listed(ids, "ids", "strings, one for each text")
    names = name_list(given or range(texts), "ids", texts=texts)
    name, times = next(iter(Counter(names).most_common(1)), ("", 0))
    if times > 1:
        raise InputError(f"{times:,} texts have the id {quoted(name)}: ids must differ")
    return names


def one_note(note: Any) -> Note:
    """The note, if it is one, with a text."""
    if not isinstance(note, Note):
        raise InputError(f"a Note is expected, not {type(note).__name__}; predict takes texts")
    one_text(note.text, f"the text of note {quoted(note.id)}")
    return note


def share_of_notes(share: Any) -> float:
    """The share of the notes that is held out for choosing."""
    if not isinstance(share, int | float) or not 0 <= share < 1:
        raise InputError(f"choose must be a share of the notes, at least 0 and below 1, not {quoted(share)}")
    return float(share)


def at_least_none(top: Any) -> int:
    """How many codes are asked for; 0: only those that are accepted."""
    if not isinstance(top, Integral) or isinstance(top, bool) or top < 0:
        raise InputError(f"top must be a whole number, 0 or more, not {quoted(top)}")
    return int(top)


def _listed(values: Any, name: str, expected: str) -> list[Any]:
    """The values in a list; a string is iterable too, letter by letter, which nobody means."""
    if isinstance(values, str | bytes):
        raise InputError(f"{name} must be a list of {expected}, not one string: wrap it in a list")
    if not isinstance(values, Iterable) or isinstance(values, Mapping | Set) or getattr(values, "ndim", 1) == 0:
        raise InputError(f"{name} must be a list of {expected}, not {type(values).__name__}")
    return list(values)


def _check_length(values: list[Any], texts: int, what: str) -> None:
    if len(values) != texts:
        raise InputError(f"{texts:,} texts but {len(values):,} {what}: give one for each text")


def _codes(row: Any, name: str) -> tuple[str, ...]:
    if isinstance(row, str | bytes):
        raise InputError(f"{name} is one string, not a collection of codes: wrap it in a list")
    if not isinstance(row, Iterable):
        raise InputError(f"{name} is not a collection of codes but {type(row).__name__}")
    codes = list(row)
    for code in codes:
        if not isinstance(code, str):
            raise InputError(f"{name} has a code that is not a string but {type(code).__name__}")
    written = tuple(dict.fromkeys(code.strip() for code in codes))
    if "" in written:
        raise InputError(f"{name} has an empty code: leave it out")
    return written
