"""Accepted codes as brat's standoff files: a text and its marks, the code of each in an annotator's note.

`plant.data.sources.brat` reads the marks back. A mark that crosses a line is written in fragments, as brat wants it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from plant.types import Note, Prediction

CONFIGURATION = "[entities]\nCode\n\n[relations]\n\n[events]\n\n[attributes]\n"
"""What brat must know of these marks, in a file `annotation.conf` beside them."""
TABLE = "codes.csv"  # all ranked codes, also those without a mark
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")
WORDS_OF_LINE = re.compile(r"[^\r\n]+")
BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")  # that some readers take for the end of a line


@dataclass(frozen=True)
class Names:
    """Names of files for notes: their ids where these are plain words, else numbers; none comes twice."""

    taken: set[str]

    def of(self, note: str, number: int) -> str:
        """The name for a note, without an ending."""
        plain = FILE_NAME.fullmatch(note) and note.lower() not in self.taken
        name = note if plain else f"note-{number:06}"
        while name.lower() in self.taken:
            name += "-"
        self.taken.add(name.lower())
        return name


def marks(note: Note, prediction: Prediction) -> str:
    """The marks of a note's accepted codes."""
    found = (
        (scored.code, place)
        for scored in prediction.ranked
        if scored.accepted
        for one in scored.evidence
        if (place := list(_within_lines(note.text, one.start, one.end)))
    )
    return "".join(_mark(note.text, number, code, place) for number, (code, place) in enumerate(found, start=1))


def _mark(text: str, number: int, code: str, place: list[tuple[int, int]]) -> str:
    spans = ";".join(f"{start} {end}" for start, end in place)
    words = " ".join(BREAKS.sub(" ", text[start:end]) for start, end in place)
    return f"T{number}\tCode {spans}\t{words}\n#{number}\tAnnotatorNotes T{number}\t{BREAKS.sub(' ', code)}\n"


def _within_lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The words of each line between two places, without the blanks around them."""
    for words in WORDS_OF_LINE.finditer(text, start, end):
        first, last = words.span()
        while first < last and text[first].isspace():
            first += 1
        while last > first and text[last - 1].isspace():
            last -= 1
        if first < last:
            yield first, last
