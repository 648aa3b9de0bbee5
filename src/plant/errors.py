"""Everything that can be the user's to mend: one clear line, exit code 2, no traceback."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

NAME = re.compile(r"[\w.-]+ [\w.-]+|\S+")
LONGEST_NAME = 60


class PlantError(Exception):
    """Something the user can mend; its text says what is wrong, where, and what to do, and never quotes a note."""


class InputError(PlantError):
    """A file, folder, column, note or option that cannot be used as given."""


class RecipeError(PlantError):
    """A recipe with an unknown key, a value of the wrong type, or parts that do not fit."""


class ArtifactError(PlantError):
    """A folder that is damaged, foreign, or written by a newer version."""


class CodeError(PlantError):
    """A code or coding system that cannot be understood."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that is not in a list: what was asked, what there is, and the likeliest slip."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    hint = f". Did you mean {near[0]!r}?" if near else ""
    return f"unknown {kind} {name!r}; known: {', '.join(names) or 'none'}{hint}"


def quotable(name: str) -> str:
    """A column or an id as an error may quote it; what does not read like one may be a note in the wrong place."""
    short = len(name) <= LONGEST_NAME and NAME.fullmatch(name)
    return name if short else f"a text of {len(name):,} characters"
