"""Everything that can be the user's to mend: one clear line, exit code 2, no traceback."""

from collections.abc import Iterable
from difflib import get_close_matches


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
