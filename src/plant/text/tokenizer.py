"""Words with their character spans.

A word is a run of letters, digits and combining marks with at least one letter. Its *surface* is what stands in the
text, its *form* what the vocabulary holds: lower case, one spelling per word whatever the Unicode composition.
Forms are worked out once for each distinct surface.
"""

import re
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
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
    """Where the words of a text begin and end; `plant.text.surfaces` has a compiled form for whole corpora."""
    kinds = classes_for(text)[text].tobytes()
    places = [match.span() for match in _WORD.finditer(kinds) if keep_numbers or _HAS_LETTER(match.group())]
    starts, ends = np.array(places, np.int32).reshape(-1, 2).T
    return np.ascontiguousarray(starts), np.ascontiguousarray(ends)


def classes_for(text: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """The classes of all characters up to the greatest that a text has, or a few more."""
    return character_classes(max(8, int(text.max(initial=0)).bit_length()))


@cache
def character_classes(bits: int = 21) -> NDArray[np.uint8]:
    """For each Unicode character of up to `bits` bits: letter, mark, digit or other. All of them take a while."""
    by_category = defaultdict(lambda: OTHER, {"Nd": DIGIT, "Nl": LETTER, "Mn": MARK, "Mc": MARK, "Me": MARK})
    by_category |= dict.fromkeys(("Lu", "Ll", "Lt", "Lm", "Lo"), LETTER)
    size = min(1 << bits, 0x110000)
    categories = map(unicodedata.category, map(chr, range(size)))
    classes = np.fromiter(map(by_category.__getitem__, categories), np.uint8, size)
    classes[[ord(joiner) for joiner in JOINERS if ord(joiner) < size]] = MARK
    return classes


_NO_JOINERS = dict.fromkeys(map(ord, JOINERS))
_WORD = re.compile(rb"[%c%c][%c%c%c]*" % (LETTER, DIGIT, LETTER, DIGIT, MARK))  # over classes of characters
_HAS_LETTER = re.compile(rb"[%c]" % LETTER).search
