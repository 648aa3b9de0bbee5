"""Where any of many phrases stands in a note: a tree of words, walked from every place.

A short word in capitals alone ("SE", a tumour) is another phrase than the same word in small letters ("se", a pronoun).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from plant.candidates.keys import FREE, free_slots, slot_of
from plant.candidates.packing import Arrays, packed_strings, unpacked_strings
from plant.candidates.words import NoteWords, folded
from plant.store.checks import check_numbers, check_starts
from plant.store.ragged import Ragged

Phrase = tuple[str, ...]
NO_WORD = -1
SHORT = 4  # letters of a word whose capitals tell it from a word of the language


@dataclass(frozen=True)
class Tokens:
    """The words of a note as phrases have them: within a phrase of many words, and as a phrase of one."""

    within: tuple[str, ...]
    alone: tuple[str, ...]

    def phrase(self, first: int, last: int) -> Phrase:
        """The words of a span as a phrase."""
        return self.within[first:last] if last - first > 1 else self.alone[first:last]


def folded_tokens(words: NoteWords) -> Tokens:
    """Words folded, except that a short word in capitals stays so where it stands alone."""
    return Tokens(words.folded, _alone(words, words.folded))


def stemmed_tokens(words: NoteWords) -> Tokens:
    """Stems, except that a short word in capitals stays so where it stands alone."""
    return Tokens(words.stems, _alone(words, words.stems))


def _alone(words: NoteWords, tokens: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([_capitals(surface, token) for surface, token in zip(words.surfaces, tokens, strict=True)])


def _capitals(surface: str, token: str) -> str:
    return folded(surface).upper() if len(surface) <= SHORT and surface.isupper() else token


@dataclass(frozen=True)
class Matches:
    """Phrases that stand in a note, by first word and then by length: words `first` to `last` (excluded)."""

    first: NDArray[np.int32]
    last: NDArray[np.int32]
    phrase: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class Phrases:
    """Distinct phrases in the order of the alphabet, as numbers of their sorted distinct words."""

    vocabulary: tuple[str, ...]
    words: NDArray[np.int32]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def listed(self) -> list[Phrase]:
        """The phrases themselves."""
        words = [self.vocabulary[word] for word in self.words.tolist()]
        return [tuple(words[a:b]) for a, b in zip(self.starts.tolist(), self.starts[1:].tolist(), strict=False)]

    def find(self, tokens: Tokens) -> Matches:
        """Every place of every phrase."""
        return Matches(*_find(self._numbers(tokens.within), self._numbers(tokens.alone), *self._tree))

    def pack(self) -> Arrays:
        """Everything, as arrays."""
        return {**packed_strings("vocabulary", self.vocabulary), "words": self.words, "starts": self.starts}

    def _numbers(self, tokens: Sequence[str]) -> NDArray[np.int32]:
        get = self._number_of.get
        return np.array([get(token, NO_WORD) for token in tokens], np.int32)

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.vocabulary)}

    @cached_property
    def _tree(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """A hash table from (node, word) to the next node, and the phrase that ends at each node."""
        keys = free_slots(len(self.words))
        nodes = np.zeros(len(keys), np.int32)
        ends = np.full(len(self.words) + 1, -1, np.int32)
        n_nodes = _grow(self.words, self.starts, keys, nodes, ends)
        return keys, nodes, ends[:n_nodes].copy()


def gather_phrases(phrases: Iterable[Phrase]) -> Phrases:
    """Each phrase once; phrases without words are left out."""
    distinct = sorted({phrase for phrase in phrases if phrase})
    vocabulary = tuple(sorted({word for phrase in distinct for word in phrase}))
    number_of = {word: number for number, word in enumerate(vocabulary)}
    rows = Ragged.of(([number_of[word] for word in phrase] for phrase in distinct), np.int32)
    return Phrases(vocabulary, rows.values, rows.starts)


def unpack_phrases(arrays: Mapping[str, NDArray[Any]]) -> Phrases:
    """What `pack` took apart."""
    vocabulary = unpacked_strings("vocabulary", arrays)
    check_starts("starts", arrays["starts"], len(arrays["words"]))
    check_numbers("words", arrays["words"], len(vocabulary))
    return Phrases(vocabulary, arrays["words"], arrays["starts"])


@njit(cache=True)
def _grow(words, starts, keys, nodes, ends):  # type: ignore[no-untyped-def]
    """Add every phrase to an empty tree; the number of its nodes."""
    n_nodes = 1
    for phrase in range(len(starts) - 1):
        node = 0
        for place in range(starts[phrase], starts[phrase + 1]):
            key = (np.int64(node) << 32) | np.int64(words[place])
            slot = slot_of(keys, key)
            if keys[slot] == FREE:
                keys[slot], nodes[slot] = key, n_nodes
                n_nodes += 1
            node = nodes[slot]
        ends[node] = phrase
    return n_nodes


@njit(cache=True)
def _child(node, word, keys, nodes):  # type: ignore[no-untyped-def]
    if word < 0:
        return -1
    key = (np.int64(node) << 32) | np.int64(word)
    slot = slot_of(keys, key)
    return nodes[slot] if keys[slot] == key else -1


@njit(cache=True)
def _find(within, alone, keys, nodes, ends):  # type: ignore[no-untyped-def]
    rows = [(np.int32(0), np.int32(0), np.int32(0)) for _ in range(0)]  # empty, but its type is known
    for start in range(len(within)):
        node = _child(0, alone[start], keys, nodes)
        if node >= 0 and ends[node] >= 0:
            rows.append((np.int32(start), np.int32(start + 1), ends[node]))
        node = _child(0, within[start], keys, nodes)
        end = start + 1
        while node >= 0 and end < len(within):
            node = _child(node, within[end], keys, nodes)
            end += 1
            if node >= 0 and ends[node] >= 0:
                rows.append((np.int32(start), np.int32(end), ends[node]))
    found = np.empty((3, len(rows)), np.int32)
    for row in range(len(rows)):
        found[0, row], found[1, row], found[2, row] = rows[row]
    return found
