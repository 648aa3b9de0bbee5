"""Words with their character spans.

A word is a run of letters, digits and combining marks with at least one letter. Its *surface* is what stands in the
text, its *form* what the vocabulary holds: lower case, one spelling per word whatever the Unicode composition.
Forms are worked out once for each distinct surface.
"""

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
    surfaces = map(text.__getitem__, map(slice, starts.tolist(), ends.tolist()))
    return Words(tuple(map(form, surfaces)), starts, ends)


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
    kinds = classes_for(text)[text]
    borders = np.flatnonzero(np.diff(kinds != OTHER, prepend=False, append=False)).astype(np.int32)
    starts, ends = borders[::2].copy(), borders[1::2].copy()
    if (kinds[starts] == MARK).any():  # a word does not begin with a mark: some way from it to a letter or a digit
        later = np.flatnonzero((kinds == LETTER) | (kinds == DIGIT))
        starts = np.append(later, len(text)).astype(np.int32)[np.searchsorted(later, starts)]
        starts, ends = starts[starts < ends], ends[starts < ends]
    if not keep_numbers:
        letters = np.flatnonzero(kinds == LETTER)
        worded = np.searchsorted(letters, starts) < np.searchsorted(letters, ends)
        starts, ends = starts[worded], ends[worded]
    return starts, ends


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
