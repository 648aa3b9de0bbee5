"""Word vectors from spelling alone: words that share letters are near each other before anything is learned."""

import unicodedata
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LENGTHS = (2, 3, 4)


def letter_vectors(words: Sequence[str], size: int) -> NDArray[np.float32]:
    """Counts of runs of 2 to 4 letters, hashed with signs into `size` numbers; accents do not count."""
    vectors = np.zeros((len(words), size), np.float32)
    for number, word in enumerate(words):
        for run in _runs(word):
            hashed = zlib.crc32(run.encode())
            vectors[number, (hashed >> 1) % size] += 1 if hashed & 1 else -1
    return vectors


def _runs(word: str) -> list[str]:
    plain = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
    marked = f"<{plain}>"
    return [marked[at : at + length] for length in LENGTHS for at in range(len(marked) - length + 1)]
