"""A code as the parts that it is written from, and back: what is learned of one code's part serves every code with it.

| system | parts | example |
|---|---|---|
| `icdo3` | histology, behaviour, grade, qualifier | 8140/33/H: 8140, 3, 3, H |
| `icd10cm` | category, fourth character, rest | C50.911: C50, 9, 11 |
| `icd10pcs` | its seven axes | 0DB68ZX: 0, D, B, 6, 8, Z, X |
| `icd9-diagnosis`, `icd9-procedure` | category, subdivision | 250.02: 250, 02 |
| `icd9`, `icd10` | the parts of the one system, then those of the other | 36.15: -, -, 36, 15 |
| any other (MeSH, YSO, ...) | the code itself | D003920 |

A part that a code does not have is empty. A code that is not written as its system writes codes is its own first part.

The parts of ICD-O-3 are free: any behaviour and grade may stand behind any histology, and no list has all that coders
write. In the other systems a code exists because it is listed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from types import MappingProxyType

from plant.codes.systems import JOINED
from plant.errors import CodeError


@dataclass(frozen=True)
class Written:
    """How codes are written: for each part a name, a group of `pattern`, and the mark that stands before it."""

    names: tuple[str, ...]
    pattern: re.Pattern[str]
    marks: tuple[str, ...]
    free: bool = False  # whether later parts may stand behind any first part

    def split(self, code: str) -> tuple[str, ...] | None:
        """The parts of a code, or None where it is not written so."""
        found = self.pattern.fullmatch(code)
        return found and tuple(part or "" for part in found.groups())

    def join(self, parts: Sequence[str]) -> str:
        """The parts that are there, each behind its mark; not always a code."""
        return "".join(mark + part for mark, part in zip(self.marks, parts, strict=True) if part)


@dataclass(frozen=True)
class CodeParts:
    """The parts of the codes of a system; every code has as many as there are `names`, some of them empty.

    `join(split(code))` is the code, whatever the code.
    """

    names: tuple[str, ...]
    written: tuple[Written, ...]  # of two joined systems each has parts of its own: a part means one thing only

    @property
    def free(self) -> bool:
        """Whether later parts may stand behind any first part, listed or not."""
        return all(written.free for written in self.written)

    def split(self, code: str) -> tuple[str, ...]:
        """The parts of a code."""
        filled, done = [""] * len(self.names), 0
        for written in self.written:
            if found := written.split(code):
                filled[done : done + len(found)] = found
                return tuple(filled)
            done += len(written.names)
        return (code, *filled[1:])

    def join(self, parts: Sequence[str]) -> str:
        """The code of these parts; a `CodeError` where they do not go together, such as a grade without a behaviour."""
        code = self._joined(parts)
        if self.split(code) != tuple(parts):
            raise CodeError(f"{len(parts)} parts that make no code; a code has {', '.join(self.names)}")
        return code

    def go_together(self, parts: Sequence[str]) -> bool:
        """Whether `join` makes a code of them."""
        return self.split(self._joined(parts)) == tuple(parts)

    def _joined(self, parts: Sequence[str]) -> str:
        done, codes = 0, []
        for written in self.written:
            codes.append(written.join(parts[done : (done := done + len(written.names))]))
        return "".join(codes)


@cache
def code_parts(system: str) -> CodeParts:
    """The parts of the codes of a system; one part, the code itself, where the system is not known to have any.

    >>> code_parts("icdo3").split("8140/3/H")
    ('8140', '3', '', 'H')
    >>> code_parts("icdo3").join(("8140", "3", "2", ""))
    '8140/32'
    """
    written = tuple(WRITTEN.get(name, WHOLE) for name in JOINED.get(system, (system,)))
    return CodeParts(names=tuple(name for kind in written for name in kind.names), written=written)


def recombined(system: str, codes: Iterable[str], like: Iterable[str]) -> tuple[str, ...]:
    """Codes with the first part of one of `codes` and the later parts of one of `like`; none where parts are not free.

    >>> recombined("icdo3", ["8140/3", "8500/3"], ["8140/3", "8140/32"])
    ('8140/32', '8500/32')
    """
    parts, known = code_parts(system), set(codes)
    if not parts.free:
        return ()
    firsts = sorted({parts.split(code)[0] for code in known})
    rests = sorted({parts.split(code)[1:] for code in like})
    joined = (parts.join((first, *rest)) for first, rest in product(firsts, rests) if parts.go_together((first, *rest)))
    return tuple(code for code in joined if code not in known)


def title_of_parts(system: str, code: str, titles: Mapping[str, str]) -> str:
    """The title of the code with the most equal first parts that has one, and what the further parts are; or nothing.

    >>> title_of_parts("icdo3", "8140/32", {"8140/3": "Adenocarcinoma"})
    'Adenocarcinoma; grade 2'
    """
    parts, split = code_parts(system), parts_of(system, code)
    for kept in range(len(split) - 1, 0, -1):
        shorter = (*split[:kept], *[""] * (len(split) - kept))
        if parts.go_together(shorter) and (title := titles.get(parts.join(shorter), "")):
            further = zip(parts.names[kept:], split[kept:], strict=True)
            return "; ".join([title, *(f"{name} {value}" for name, value in further if value)])
    return ""


def parts_of(system: str, code: str) -> tuple[str, ...]:
    """The parts of one code of a system."""
    return code_parts(system).split(code)


def join_parts(system: str, parts: Sequence[str]) -> str:
    """The code of a system that has these parts."""
    return code_parts(system).join(parts)


WHOLE = Written(names=("code",), pattern=re.compile("(.+)", re.DOTALL), marks=("",))
WRITTEN: Mapping[str, Written] = MappingProxyType(
    {
        "icdo3": Written(
            names=("histology", "behaviour", "grade", "qualifier"),
            pattern=re.compile(r"([89]\d{3})(?:/([012369])([1-9])?(?:/(H))?)?", re.ASCII),
            marks=("", "/", "", "/"),
            free=True,
        ),
        "icd10cm": Written(
            names=("category", "fourth character", "rest"),
            pattern=re.compile(r"([A-Z][0-9A][0-9AB])(?:\.([0-9A-Z])([0-9A-Z]{1,3})?)?"),
            marks=("", ".", ""),
        ),
        "icd10pcs": Written(
            names=("section", "body system", "operation", "body part", "approach", "device", "qualifier"),
            # four characters and fewer are the beginning of a code, which is a code where the approach is not told
            pattern=re.compile(
                r"(?=.{1,4}$|.{7}$)([0-9B-DF-HX])" + r"([0-9A-HJ-NP-Z])?" * 6,
            ),
            marks=("",) * 7,
        ),
        "icd9-diagnosis": Written(
            names=("category", "subdivision"),
            pattern=re.compile(r"(\d{3}|V\d\d|E\d{3}(?!\.\d\d))(?:\.(\d{1,2}))?", re.ASCII),
            marks=("", "."),
        ),
        "icd9-procedure": Written(
            names=("procedure category", "procedure subdivision"),
            pattern=re.compile(r"(\d\d)(?:\.(\d{1,2}))?", re.ASCII),
            marks=("", "."),
        ),
    }
)
