"""Names found in notes that were read before: with word vectors that do not change, nothing about them changes."""

import hashlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plant.nn.matching.search import Found
from plant.store.ragged import offsets, places

MOST = 16_000_000  # numbers that are kept: 128 MB


class Matches(NamedTuple):
    """All names found in some notes, one note after the other, and where their words stand."""

    counts: NDArray[np.int64]  # names of each note
    found: Found
    word_starts: NDArray[np.int64]  # the words of match i are word_starts[i]:word_starts[i + 1]
    words: NDArray[np.int64]  # their numbers among the words of all names
    positions: NDArray[np.int64]  # NOWHERE for a word that is not there

    @property
    def rows(self) -> NDArray[np.int64]:
        """The note of each match."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def words_of(self, chosen: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The words and positions of some matches, one match after the other."""
        entries = places(self.word_starts, chosen).values
        return self.words[entries], self.positions[entries]


def joined(notes: list[Matches]) -> Matches:
    """The matches of several notes."""
    fields = (np.concatenate(parts) for parts in zip(*(note.found for note in notes), strict=True))
    return Matches(
        counts=np.concatenate([note.counts for note in notes]),
        found=Found(*fields),
        word_starts=offsets(np.concatenate([np.diff(note.word_starts) for note in notes])),
        words=np.concatenate([note.words for note in notes]),
        positions=np.concatenate([note.positions for note in notes]),
    )


class KeptMatches:
    """The matches of notes read lately; when they are too many, the older half goes.

    Threads that read at once may do some work twice, no more.
    """

    def __init__(self, most: int = MOST) -> None:
        self.most, self._size = most, 0
        self._notes: dict[bytes, Matches] = {}

    def __len__(self) -> int:
        return len(self._notes)

    def of(self, tokens: NDArray[np.int64], kind: str, make: Callable[[], Matches]) -> Matches:
        """The matches of a note, made where they are not kept; `kind` parts those of one note."""
        key = hashlib.blake2b(tokens.tobytes(), digest_size=16, person=kind.encode()).digest()
        kept = self._notes.get(key)
        if kept is None:
            kept = self._notes[key] = make()
            self._size += _size(kept)
            if self._size > self.most:
                self._drop_older()
        return kept

    def forget(self) -> None:
        """Let go of all of them."""
        self._notes, self._size = {}, 0

    def _drop_older(self) -> None:
        notes = list(self._notes.items())
        self._notes = dict(notes[(len(notes) + 1) // 2 :])
        self._size = sum(_size(matches) for matches in self._notes.values())


def _size(matches: Matches) -> int:
    return 4 * len(matches.found.names) + 2 * len(matches.words) + 100  # and what an entry takes by itself
