"""The words of a note as readers of mentions need them: letters, digits and marks apart, each folded and stemmed.

Unlike the words of `plant.text.tokenizer`, these keep numbers and punctuation, since a mention can end at either.
"""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from threading import Lock

import numpy as np
from numba import njit
from numpy.typing import NDArray

from plant.errors import RecipeError, unknown
from plant.text.tokenizer import DIGIT, LETTER, MARK, character_classes, code_points, form

SPACE, LINE_END = 4, 5  # further classes of characters, beside those of the tokenizer
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
SENTENCE_ENDS = frozenset(".!?…")
REMEMBERED = 1 << 17  # distinct words whose stem or folded form is kept


@dataclass(frozen=True)
class NoteWords:
    """The words of a text with their places: runs of letters, runs of digits, single marks."""

    starts: NDArray[np.int32]  # characters
    ends: NDArray[np.int32]
    surfaces: tuple[str, ...]  # as written
    folded: tuple[str, ...]  # lower case, without accents
    stems: tuple[str, ...]  # folded too; the folded word where the language has no stemmer
    sentences: NDArray[np.int32]  # word at which each sentence starts, and the number of words at the end

    def __len__(self) -> int:
        return len(self.surfaces)


def words_of(text: str, stem: Callable[[str], str]) -> NoteWords:
    """The words of a text in reading order; `stem` is a `stemmer`."""
    characters = code_points(text)
    starts, ends = np.empty(len(characters), np.int32), np.empty(len(characters), np.int32)
    after_line = np.empty(len(characters), np.bool_)
    found = _scan(characters, _classes(), starts, ends, after_line)
    starts, ends = starts[:found].copy(), ends[:found].copy()
    surfaces = tuple([_one(text[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)])
    sentences = _sentences(surfaces, starts, ends, after_line[:found])
    return NoteWords(starts, ends, surfaces, tuple(map(folded, surfaces)), tuple(map(stem, surfaces)), sentences)


@lru_cache(maxsize=REMEMBERED)
def _one(word: str) -> str:
    """The same string for equal words: of the words of a corpus few are distinct."""
    return word


@lru_cache(maxsize=REMEMBERED)
def folded(word: str) -> str:
    """Lower case, composed characters taken apart and their accents left out; a word of nothing else stays itself."""
    letters = unicodedata.normalize("NFKD", form(word))
    return "".join([letter for letter in letters if not unicodedata.combining(letter)]).strip() or word


def stemmer(language: str) -> Callable[[str], str]:
    """From a word as it is written to its folded Snowball stem; no language, no stem: folded words."""
    if not language:
        return folded
    stem, lock = _snowball(language), Lock()  # a Snowball stemmer writes into itself

    @lru_cache(maxsize=REMEMBERED)
    def stemmed(word: str) -> str:
        with lock:
            return folded(stem(form(word)) if word[:1].isalpha() else word)

    return stemmed


def _snowball(language: str) -> Callable[[str], str]:
    import snowballstemmer  # slow to import, and needed only by readers of a language that has a stemmer

    if language not in snowballstemmer.algorithms():
        raise RecipeError(unknown("language of stems", language, snowballstemmer.algorithms()))
    return snowballstemmer.stemmer(language).stemWord


@cache
def _classes() -> NDArray[np.uint8]:
    """For each Unicode character: letter, mark, digit, space, end of a line or other."""
    classes = character_classes().copy()
    spaces = [number for number in range(0x3001) if chr(number).isspace()]  # Unicode has none above
    classes[spaces] = SPACE
    classes[[ord(end) for end in LINE_ENDS]] = LINE_END
    return classes


@njit(cache=True)
def _scan(text, classes, starts, ends, after_line):  # type: ignore[no-untyped-def]
    """Letters and digits run on and take combining marks with them; anything else but space stands alone."""
    found, position, new_line = 0, 0, False
    while position < len(text):
        kind = classes[text[position]]
        start = position
        position += 1
        if kind in (SPACE, LINE_END):
            new_line |= kind == LINE_END
            continue
        if kind in (LETTER, DIGIT):
            while position < len(text) and (classes[text[position]] == kind or classes[text[position]] == MARK):
                position += 1
        starts[found], ends[found], after_line[found] = start, position, new_line
        found += 1
        new_line = False
    return found


def _sentences(
    surfaces: tuple[str, ...], starts: NDArray[np.int32], ends: NDArray[np.int32], after_line: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """A sentence starts on a new line, and with a capital after a full stop and a space."""
    if not surfaces:
        return np.zeros(1, np.int32)
    opens = after_line.copy()
    opens[0] = True
    for word in np.flatnonzero(starts[1:] > ends[:-1]).tolist():
        if surfaces[word] in SENTENCE_ENDS and surfaces[word + 1][0].isupper():
            opens[word + 1] = True
    return np.append(np.flatnonzero(opens), len(surfaces)).astype(np.int32)
