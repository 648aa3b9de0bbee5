"""The code book: what each code means, what else it is called, and what it belongs to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType


def _empty() -> Mapping[str, str]:
    return MappingProxyType({})


def _no_synonyms() -> Mapping[str, tuple[str, ...]]:
    return MappingProxyType({})


@dataclass(frozen=True)
class CodeBook:
    """Codes in a fixed order with descriptions, synonyms and parents; `system` names the coding system.

    A parent may be a code that stands in no note (a category or a chapter); it is then still a key of `descriptions`.
    """

    system: str
    codes: tuple[str, ...]
    descriptions: Mapping[str, str] = field(default_factory=_empty)
    synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=_no_synonyms)
    parents: Mapping[str, str] = field(default_factory=_empty)

    def description(self, code: str) -> str:
        """The title of a code, empty where the book has none."""
        return self.descriptions.get(code, "")

    def names(self, code: str) -> tuple[str, ...]:
        """Title and synonyms of a code, without repeats."""
        names = (self.description(code), *self.synonyms.get(code, ()))
        return tuple(dict.fromkeys(name for name in names if name))

    def ancestors(self, code: str) -> tuple[str, ...]:
        """Parents of a code from the nearest to the root."""
        path: list[str] = []
        while (parent := self.parents.get(code, "")) and parent != code and parent not in path:
            path.append(parent)
            code = parent
        return tuple(path)

    def with_codes(self, codes: Iterable[str]) -> "CodeBook":
        """The book with further codes at its end, in the order given."""
        return replace(self, codes=tuple(dict.fromkeys((*self.codes, *codes))))
