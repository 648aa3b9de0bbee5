"""Words with their character spans.

A word is a run of letters, digits and combining marks with at least one letter. Its *surface* is what stands in the
text, its *form* what the vocabulary holds: lower case, one spelling per word whatever the Unicode composition.
Surfaces are found by a compiled scan; forms are worked out once for each distinct surface.
"""

import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

OTHER, LETTER, MARK, DIGIT = range(4)
JOINERS = "\u00ad\u200b\u200c\u200d\u2060\ufeff"  # invisible inside a word: soft hyphen, zero-width characters


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text: forms and where each stands."""

    forms: tuple[str, ...]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.forms)


def tokenize(text: str, *, keep_numbers: bool = False) -> Words:
    """The words of a text in reading order; `keep_numbers` keeps runs of digits too."""
    starts, ends = find_words(code_points(text), keep_numbers=keep_numbers)
    forms = tuple(form(text[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True))
    return Words(forms, starts, ends)


@lru_cache(maxsize=1 << 17)
def form(surface: str) -> str:
    """The vocabulary's spelling of a word: composed, ligatures undone, lower case, without invisible characters."""
    visible = surface.translate(_NO_JOINERS)
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", visible).lower())


def code_points(text: str) -> NDArray[np.uint32]:
    """The characters of a text as numbers."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def find_words(text: NDArray[np.uint32], *, keep_numbers: bool) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Where the words of a text begin and end."""
    starts = np.empty(len(text) // 2 + 1, np.int32)  # two words cannot touch
    ends = np.empty_like(starts)
    found = _scan(text, character_classes(), keep_numbers, starts, ends)
    return starts[:found], ends[:found]


@cache
def character_classes() -> NDArray[np.uint8]:
    """For each Unicode character: letter, mark, digit or other."""
    by_category = defaultdict(lambda: OTHER, {"Nd": DIGIT, "Nl": LETTER, "Mn": MARK, "Mc": MARK, "Me": MARK})
    by_category |= dict.fromkeys(("Lu", "Ll", "Lt", "Lm", "Lo"), LETTER)
    categories = map(unicodedata.category, map(chr, range(0x110000)))
    classes = np.fromiter(map(by_category.__getitem__, categories), np.uint8, 0x110000)
    classes[[ord(joiner) for joiner in JOINERS]] = MARK
    return classes


_NO_JOINERS = dict.fromkeys(map(ord, JOINERS))


@njit(cache=True)
def _scan(text, classes, keep_numbers, starts, ends):  # type: ignore[no-untyped-def]
    found = 0
    position = 0
    length = len(text)
    while position < length:
        kind = classes[text[position]]
        if kind != LETTER and kind != DIGIT:
            position += 1
            continue
        start = position
        has_letter = False
        while kind != OTHER:
            has_letter |= kind == LETTER
            position += 1
            kind = classes[text[position]] if position < length else OTHER
        if has_letter or keep_numbers:
            starts[found] = start
            ends[found] = position
            found += 1
    return found
