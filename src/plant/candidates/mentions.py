"""Mentions: words that a coder marked for a code."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.candidates.words import NoteWords


@dataclass(frozen=True, slots=True, order=True)
class Mention:
    """Words `first` to `last` (excluded) of a note, marked for the code of column `label`."""

    first: int
    last: int
    label: int


def mentions_of(words: NoteWords, spans: NDArray[np.int32], labels: NDArray[np.int32]) -> tuple[Mention, ...]:
    """Marked characters as words, in reading order and each once; a word of which a part is marked counts whole."""
    first = np.searchsorted(words.ends, spans[:, 0], side="right").tolist()
    last = np.searchsorted(words.starts, spans[:, 1], side="left").tolist()
    marked = {Mention(a, b, label) for a, b, label in zip(first, last, labels.tolist(), strict=True) if a < b}
    return tuple(sorted(marked))
