"""Values that come from outside, checked against the annotation of what they are for."""

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args, get_origin

from plant.errors import RecipeError, quoted, unknown

LARGEST = sys.float_info.max
PLAIN = (bool, int, float, str)


@dataclass(frozen=True)
class Range:
    """Bounds of a number; `above` and `below` are not reached, `least` and `most` are."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def fault(self, value: float) -> str:
        """What the value must be, or nothing where it is; a value that is no number is never."""
        bounds: tuple[tuple[str, float | None, Callable[[float, float], bool]], ...] = (
            ("at least", self.least, operator.ge),
            ("above", self.above, operator.gt),
            ("at most", self.most, operator.le),
            ("below", self.below, operator.lt),
        )
        given = [(words, bound, holds) for words, bound, holds in bounds if bound is not None]
        if all(holds(value, bound) for _, bound, holds in given):
            return ""
        return " and ".join(f"{words} {bound}" for words, bound, _ in given)


@dataclass(frozen=True)
class Filled:
    """A sequence with something in it."""

    def fault(self, value: Sequence[Any]) -> str:
        """What the value must be, or nothing where it is."""
        return "" if len(value) else "a list that is not empty"


Count = Annotated[int, Range(least=1)]
Natural = Annotated[int, Range(least=0)]
Seed = Annotated[int, Range(least=0, most=2**32 - 1)]  # what every generator of random numbers takes
Amount = Annotated[float, Range(least=0)]
Positive = Annotated[float, Range(above=0)]
Share = Annotated[float, Range(least=0, most=1)]
Dropout = Annotated[float, Range(least=0, below=1)]
Cosine = Annotated[float, Range(least=-1, most=1)]
Counts = Annotated[Sequence[Count], Filled()]


def small(**options: Any) -> Mapping[str, Any]:
    """Options with which a part is small and quick, for tests."""
    return MappingProxyType(options)


def settable(kind: Any) -> bool:
    """Whether a recipe can write such a value down: numbers, strings, choices, and lists and tables of them."""
    origin = get_origin(kind)
    if origin in (Annotated, tuple, Sequence):
        return settable(get_args(kind)[0])
    return origin is Literal or kind in PLAIN or _is_table(kind)


def checked(kind: Any, value: Any, *, name: str, where: str = "") -> Any:
    """The value as `kind`; an int passes as a float and a list as a tuple, nothing else is converted.

    `where` begins the message of an error: "recipe 'mine.toml': ".
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        plain = checked(arguments[0], value, name=name, where=where)
        wanted = next((fault for bound in arguments[1:] if (fault := bound.fault(plain))), "")
        if wanted:
            raise RecipeError(f"{where}{name} must be {wanted}, not {quoted(value)}")
        return plain
    if origin is Literal:
        if value not in arguments:
            raise RecipeError(where + unknown(f"value of {name}:", str(value), arguments))
        return value
    if origin in (tuple, Sequence) and isinstance(value, list | tuple):
        return tuple(checked(arguments[0], item, name=name, where=where) for item in value)
    if _is_table(kind) and isinstance(value, Mapping):
        return dict(value)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _finite(value, name=name, where=where)
    if not isinstance(kind, type) or not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RecipeError(f"{where}{name} must be {_spelled(kind)}, not {quoted(value)}")
    return value


def _finite(value: float, *, name: str, where: str) -> float:
    """A number with which something can be computed."""
    if not -LARGEST <= value <= LARGEST:  # nor is one that is none; whole numbers have no end
        raise RecipeError(f"{where}{name} must be a finite number, not {quoted(value)}")
    return float(value)


def _is_table(kind: Any) -> bool:
    return get_origin(kind) in (dict, Mapping) or kind in (dict, Mapping)


def _spelled(kind: Any) -> str:
    if get_origin(kind) in (tuple, Sequence):
        item = get_args(kind)[0]
        return f"a list of {_spelled(get_args(item)[0] if get_origin(item) is Annotated else item)}"
    return "a table of options" if _is_table(kind) else getattr(kind, "__name__", str(kind))
