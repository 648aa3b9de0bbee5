"""Acronyms that a note itself defines: "carcinoma renal de células claras (CRCC)", "CRCC (carcinoma renal ...)".

The algorithm of Schwartz and Hearst (A simple algorithm for identifying abbreviation definitions in biomedical text,
PSB 2003), in both orders: going from right to left, each letter of the short form is looked for in the words beside the
parenthesis, and its first letter must begin a word. Case and accents do not matter there.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from plant.text.folding import fold

BRACKETS = re.compile(r"[(\[]([^()\[\]]{2,200})[)\]]")
SHORT = re.compile(r"[^\W_](?:[\w./+-]|\s(?=\w)){1,9}")
WORD = re.compile(r"\S+")
SENTENCE = re.compile(r"[.;:!?]\s|[\n\r]|[()\[\]]")
BEFORE = re.compile(r"(?:^|[\s(\[])([^\s()\[\]]{2,10})\s*$")
CUT = re.compile(r"[,;:]\s")


@dataclass(frozen=True)
class Definition:
    """A short form, and where a text writes it out: characters of the short form and of the long one."""

    short: str
    short_start: int
    short_end: int
    long_start: int
    long_end: int


def defined_acronyms(text: str) -> tuple[Definition, ...]:
    """The acronyms that a text defines, in reading order.

    >>> text = "Carcinoma renal de células claras (CRCC)."
    >>> [(d.short, text[d.long_start : d.long_end]) for d in defined_acronyms(text)]
    [('CRCC', 'Carcinoma renal de células claras')]
    """
    found = (_short_inside(text, bracket) or _long_inside(text, bracket) for bracket in BRACKETS.finditer(text))
    return tuple(definition for definition in found if definition)


def _short_inside(text: str, bracket: re.Match[str]) -> Definition | None:
    """long form (SHORT)"""
    inside = bracket.group(1)
    short = CUT.split(inside, maxsplit=1)[0].strip()
    if not is_short_form(short):
        return None
    left = _words_before(text, bracket.start(), words=min(len(short) + 5, 2 * len(short)))
    begin = _matched(short, text[left : bracket.start()])
    if begin is None:
        return None
    start = bracket.start(1) + inside.index(short)
    end = left + len(text[left : bracket.start()].rstrip())
    return Definition(short, start, start + len(short), left + begin, end)


def _long_inside(text: str, bracket: re.Match[str]) -> Definition | None:
    """SHORT (long form)"""
    outside = BEFORE.search(text, max(0, bracket.start() - 12), bracket.start())
    if not outside or not is_short_form(outside[1]) or " " in outside[1]:
        return None
    inside = CUT.split(bracket.group(1), maxsplit=1)[0].rstrip()
    begin = _matched(outside[1], inside)
    if begin is None or inside[:begin].strip():  # what is written out begins the parenthesis
        return None
    start = bracket.start(1)
    return Definition(outside[1], outside.start(1), outside.end(1), start + begin, start + len(inside))


def is_short_form(text: str) -> bool:
    """Two to ten characters, at most two words, begun by a letter or digit, most letters capitals."""
    letters = [letter for letter in text if letter.isalpha()]
    capitals = sum(map(str.isupper, letters))
    return bool(SHORT.fullmatch(text)) and len(text.split()) <= 2 and 2 * capitals > len(letters) and capitals >= 2


def _words_before(text: str, stop: int, *, words: int) -> int:
    """Where the last `words` words before a place begin, within their sentence."""
    begin = max(0, stop - 40 * words)
    for border in SENTENCE.finditer(text, begin, stop):
        begin = border.end()
    starts = [word.start() for word in WORD.finditer(text, begin, stop)]
    return starts[-words] if len(starts) >= words else begin


def _matched(short: str, long: str) -> int | None:
    """Where the long form of a short one begins in some text that ends with it, or None."""
    letters = [fold(letter) for letter in short if letter.isalnum()]
    places = list(_folded_letters(long.rstrip()))
    place = len(places)
    for number, letter in reversed(list(enumerate(letters))):
        place -= 1
        while place >= 0 and not (places[place][0] == letter and (number or _begins_word(places, place))):
            place -= 1
        if place < 0:
            return None
    start = places[place][1]
    written = long[start:].rstrip()
    return start if _longer(short, written) else None


def _folded_letters(text: str) -> Iterator[tuple[str, int]]:
    """Letters, digits and the blanks between words, each with its place; a letter that folds to two is its first."""
    for place, letter in enumerate(text):
        yield (fold(letter)[:1] if letter.isalnum() else " "), place


def _begins_word(places: list[tuple[str, int]], place: int) -> bool:
    return place == 0 or places[place - 1][0] == " "


def _longer(short: str, long: str) -> bool:
    """Whether a long form is one: more letters than the short form, which is not among its words."""
    words = [fold(word) for word in re.findall(r"[\w./+-]+", long)]
    return len(long) > len(short) + 1 and fold(short) not in words
