"""Everything that can be the user's to mend: one clear line, exit code 2, no traceback."""

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches

WORD = re.compile(r"\S+")
VALUE = re.compile(r"[A-Za-z]?\d[\w.,:/-]*")  # a number, a date or a code: a cell, not the name of a column
LONGEST_NAME = 40
LONGEST_PATH, MOST_BLANKS = 255, 2
# kana and Han, Thai and Lao, Burmese, Khmer: whole sentences of these scripts have no blank
UNBROKEN = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
)
LONGEST_UNBROKEN_NAME, LONGEST_UNBROKEN_PATH = 4, 12  # letters of such scripts
MEMORY_SIGNS = ("can't allocate memory", "not enough memory", "out of memory", "storage size calculation overflowed",
                "bad allocation", "std::bad_alloc")  # fmt: skip


class PlantError(Exception):
    """Something the user can mend; its text says what is wrong, where, and what to do, and never quotes a note."""


class InputError(PlantError, ValueError):
    """A file, folder, column, note or option that cannot be used as given."""


class RecipeError(PlantError, ValueError):
    """A recipe with an unknown key, a value of the wrong type, or parts that do not fit."""


class ArtifactError(PlantError):
    """A folder that is damaged, foreign, or written by a newer version."""


class CodeError(PlantError, ValueError):
    """A code or coding system that cannot be understood."""


def lacks_memory(error: BaseException) -> bool:
    """Whether an allocation failed; torch says so in a RuntimeError."""
    if not isinstance(error, RuntimeError):
        return isinstance(error, MemoryError)
    said = str(error).lower()
    return any(sign in said for sign in MEMORY_SIGNS)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that is not in a list: what was asked, what there is, and the likeliest slip."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    hint = f". Did you mean {near[0]!r}?" if near else ""
    return f"unknown {kind} {quoted(name)}; known: {', '.join(names) or 'none'}{hint}"


def quoted(value: object) -> str:
    """A value from outside as an error may show it; what does not read like a name may be a note in the wrong place."""
    if isinstance(value, str):
        return repr(value) if reads_like_a_name(value) else f"(a text of {len(value):,} characters)"
    plain = value is None or isinstance(value, bool | int | float) or value in ([], {}, ())
    return shortened(repr(value)) if plain else f"a value of type {type(value).__name__}"


def quoted_columns(names: Iterable[str]) -> str:
    """The columns of a table, unless its first line holds values: then the names would be cells of a note."""
    listed = list(names)
    if all(reads_like_a_name(name) and not VALUE.fullmatch(name) for name in listed):
        return ", ".join(map(repr, listed)) or "no columns"
    return f"{len(listed):,} columns whose names read like values (is the line of names missing?)"


def unknown_column(name: str, present: Iterable[str]) -> str:
    """The sentence for a column that a table does not have."""
    listed = list(present)
    near = get_close_matches(name, filter(reads_like_a_name, listed), n=1)
    hint = f". Did you mean {near[0]!r}?" if near else ""
    return f"unknown column {quoted(name)}; it has {quoted_columns(listed)}{hint}"


def quoted_list(names: Iterable[str], *, most: int = 12) -> str:
    """Some names of a file, such as those of splits; none where one of them does not read like a name."""
    listed = sorted(names)
    if not all(map(reads_like_a_name, listed)) or len(listed) > most:
        return f"{len(listed):,} names that read like text or are too many to show"
    return ", ".join(listed) or "none"


def quoted_path(path: str | os.PathLike[str]) -> str:
    """A path that an error names, unless it reads like a note that was pasted in its place."""
    name = os.fspath(path)
    return name if reads_like_a_path(name) else f"a text of {len(name):,} characters"


def reads_like_a_path(text: str) -> bool:
    """Whether a text can be a path: short and of few words, or the name of something that is there."""
    if not text.isprintable() or len(text) > LONGEST_PATH:
        return False
    few = text.count(" ") <= MOST_BLANKS and len(UNBROKEN.findall(text)) <= LONGEST_UNBROKEN_PATH
    return few or os.path.lexists(text)


def without_texts(sentence: str, arguments: Iterable[str]) -> str:
    """A sentence in which what somebody pasted in the place of a name or a path is not repeated."""
    for argument in sorted(arguments, key=len, reverse=True):
        for part in (argument, argument.partition("=")[2]):
            if part and not reads_like_a_path(part):
                said = f"a text of {len(part):,} characters"
                for written in (part, repr(part)[1:-1], os.path.normpath(part)):
                    sentence = sentence.replace(written, said)
    return sentence


def reads_like_a_name(text: str) -> bool:
    """Whether a text is one short word, as ids, codes, columns and splits are, and sentences are not."""
    if len(text) > LONGEST_NAME or not WORD.fullmatch(text) or not text.isprintable():
        return False
    return len(UNBROKEN.findall(text)) <= LONGEST_UNBROKEN_NAME


def shortened(text: str) -> str:
    """The beginning of a text that cannot be a note's, such as a number of a thousand digits."""
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}..."
