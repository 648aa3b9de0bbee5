"""Distinct surfaces of a whole corpus, numbered in order of first sight by a compiled hash table."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from plant.text.tokenizer import DIGIT, LETTER, OTHER, classes_for, form

EMPTY = -1


def scan_words(text: NDArray[np.uint32], *, keep_numbers: bool) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """`find_words` of the tokenizer, compiled: for corpora of millions of words."""
    starts = np.empty(len(text) // 2 + 1, np.int32)  # two words cannot touch
    ends = np.empty_like(starts)
    found = _scan(text, classes_for(text), keep_numbers, starts, ends)
    return starts[:found], ends[:found]


@dataclass
class Surfaces:
    """A growing list of distinct words as they stand in texts; one pass over a corpus owns it."""

    count: int = 0
    starts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1 << 12, np.int64))
    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(1 << 12, np.uint64))
    characters: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(1 << 16, np.uint32))
    slots: NDArray[np.int32] = field(default_factory=lambda: np.full(1 << 13, EMPTY, np.int32))

    def number(self, text: NDArray[np.uint32], starts: NDArray[np.int32], ends: NDArray[np.int32]) -> NDArray[np.int32]:
        """The number of each word of a text; words not met before get the next numbers."""
        self._make_room(words=len(starts), characters=len(text))
        numbers = np.empty(len(starts), np.int32)
        table = (self.slots, self.hashes, self.starts, self.characters)
        self.count = _number(text, starts, ends, *table, self.count, numbers)
        return numbers

    def forms(self) -> list[str]:
        """The vocabulary's spelling of each surface, by number."""
        text = self.characters[: self.starts[self.count]].tobytes().decode("utf-32-le", "surrogatepass")
        bounds = self.starts[: self.count + 1].tolist()
        return [form(text[bounds[i] : bounds[i + 1]]) for i in range(self.count)]

    def _make_room(self, *, words: int, characters: int) -> None:
        """Grow so that the next text fits even if all of its words are new."""
        self.starts = _grown(self.starts, self.count + words + 2)
        self.hashes = _grown(self.hashes, self.count + words + 2)
        self.characters = _grown(self.characters, int(self.starts[self.count]) + characters)
        if 2 * (self.count + words) > len(self.slots):
            self.slots = np.full(_power_of_two(4 * (self.count + words)), EMPTY, np.int32)
            _refill(self.slots, self.hashes, self.count)


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    if size <= len(array):
        return array
    larger = np.zeros(_power_of_two(size), array.dtype)
    larger[: len(array)] = array
    return larger


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


@njit(cache=True)
def _number(text, starts, ends, slots, hashes, surface_starts, characters, count, numbers):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(slots) - 1)
    for word in range(len(starts)):
        start, end = starts[word], ends[word]
        code = np.uint64(14695981039346656037)  # FNV-1a
        for position in range(start, end):
            code = (code ^ np.uint64(text[position])) * np.uint64(1099511628211)
        code ^= code >> np.uint64(29)
        slot = code & mask
        while True:
            number = slots[slot]
            if number == EMPTY:
                begin = surface_starts[count]
                for offset in range(end - start):
                    characters[begin + offset] = text[start + offset]
                surface_starts[count + 1] = begin + end - start
                hashes[count] = code
                slots[slot] = count
                number = count
                count += 1
                break
            if hashes[number] == code and _same(
                text, start, end, characters, surface_starts[number], surface_starts[number + 1]
            ):
                break
            slot = (slot + np.uint64(1)) & mask
        numbers[word] = number
    return count


@njit(cache=True)
def _same(text, start, end, characters, begin, stop):  # type: ignore[no-untyped-def]
    if end - start != stop - begin:
        return False
    for offset in range(end - start):  # noqa: SIM110 - numba compiles loops, not generators
        if text[start + offset] != characters[begin + offset]:
            return False
    return True


@njit(cache=True)
def _refill(slots, hashes, count):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(slots) - 1)
    for number in range(count):
        slot = hashes[number] & mask
        while slots[slot] != EMPTY:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = number


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
