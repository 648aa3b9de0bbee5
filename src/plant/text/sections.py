"""Sections of a note: where headings stand, and what each is called whatever the language and the spelling.

A heading is a line of its own in capitals, a Markdown heading, a line that is a heading the language knows, or some
words and a colon at the start of a line. A heading that the language knows gets its one name ("diagnosis"), any other a
number made of its folded words, the same in all notes. What stands before the first heading is in section "".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from plant.text.folding import fold
from plant.text.languages import language_table

LONGEST = 8  # words of a heading
LETTERS = 3  # capitals that a line must have: fewer are a unit or a value
LINE = re.compile(r"[^\n\r]+")
MARKDOWN = re.compile(r"#{1,6}\s+(?P<title>.+?)\s*#*|(?P<mark>\*\*|__)(?P<bold>[^*_]+?):?(?P=mark):?(?P<rest>.*)")
MARKS = ("#", "**", "__")  # with which those begin
COLON = re.compile(r"(?P<title>[^:.,;()?!]{2,60}):(?P<rest>.*)")
LEAD = re.compile(r"\A[\s\d.)»•*>-]*")  # bullets and numbers before a heading
WORD = re.compile(r"[^\W_]+")
DIGEST = 4  # bytes


@dataclass(frozen=True)
class Sections:
    """Where the sections of a text begin (characters, their headings included), and what each is called."""

    starts: NDArray[np.int32]
    names: tuple[str, ...]

    def at(self, characters: NDArray[np.integer]) -> NDArray[np.int32]:
        """The number of the section in which each character stands."""
        return (np.searchsorted(self.starts, characters, side="right") - 1).astype(np.int32)


def sections_of(text: str, language: str = "") -> Sections:
    """The sections of a text.

    >>> sections_of("Varón de 60 años.\\nDIAGNÓSTICO\\nNeumonía.", "es").names
    ('', 'diagnosis')
    """
    known, lines = _headings(language), list(LINE.finditer(text))
    capitals = not _mostly_capitals([line.group() for line in lines])  # or capitals say nothing here
    found = [(line.start(), heading) for line in lines if (heading := _heading(line.group(), known, capitals))]
    starts = [0, *(start for start, _ in found)]
    return Sections(np.array(starts, np.int32), ("", *(_name(heading, known.names) for _, heading in found)))


@cache
def known_headings(language: str) -> Mapping[str, str]:
    """The name of each heading that a language knows, by its folded words."""
    table = language_table(language).get("headings", {})
    return MappingProxyType({_folded(heading): name for name, headings in table.items() for heading in headings})


@dataclass(frozen=True)
class _Headings:
    """The headings that a language knows: names by folded words, and the words with which headings begin."""

    names: Mapping[str, str]
    begins: frozenset[str]

    def known(self, line: str) -> str:
        """A line as folded words, if it is a heading; most lines are none by their first word."""
        if line.isascii() and ((first := WORD.search(line)) is None or first.group().lower() not in self.begins):
            return ""
        folded = _folded(line)
        return folded if folded in self.names else ""


@cache
def _headings(language: str) -> _Headings:
    names = known_headings(language)
    return _Headings(names, frozenset(heading.partition(" ")[0] for heading in names))


def _heading(line: str, known: _Headings, capitals: bool) -> str:
    """The heading of a line as folded words; empty where it has none."""
    if line.lstrip().startswith(MARKS) and (marked := MARKDOWN.fullmatch(line.strip())):
        return _short(marked["title"] or marked["bold"])
    bare = LEAD.sub("", line, count=1).strip()
    if heading := known.known(bare):
        return heading
    if (titled := COLON.fullmatch(bare)) and (titled["title"][0].isupper() or known.known(titled["title"])):
        return _short(titled["title"])
    is_title = capitals and bare.isupper() and sum(map(str.isalpha, bare)) >= LETTERS
    return _short(bare) if is_title else ""


def _short(title: str) -> str:
    folded = _folded(title)
    return folded if 0 < len(folded.split()) <= LONGEST else ""


def _folded(text: str) -> str:
    return " ".join(WORD.findall(fold(text)))


def _name(heading: str, known: Mapping[str, str]) -> str:
    return known.get(heading) or blake2b(heading.encode(), digest_size=DIGEST).hexdigest()


def _mostly_capitals(lines: list[str]) -> bool:
    upper = sum(len(line) for line in lines if line.isupper())
    return upper > sum(map(len, lines)) / 2
