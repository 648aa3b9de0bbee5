"""The vocabulary: words of the fitted notes, by number."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

PADDING, UNKNOWN = 0, 1
SPECIAL = ("<pad>", "<unk>")


@dataclass(frozen=True)
class Vocab:
    """Words in order of falling frequency, ties in order of the alphabet; 0 pads, 1 is every unknown word."""

    tokens: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Word -> number."""
        return {token: number for number, token in enumerate(self.tokens)}

    def encode(self, words: Iterable[str]) -> NDArray[np.int32]:
        """The numbers of words; words outside the vocabulary become `UNKNOWN`."""
        return np.fromiter(map(self.numbers.get, words, repeat(UNKNOWN)), dtype=np.int32)


def build_vocab(counts: Mapping[str, int], *, min_count: int = 3, max_size: int = 60_000) -> Vocab:
    """The most frequent words with at least `min_count` occurrences; `max_size` counts the two special tokens."""
    frequent = [(-count, word) for word, count in counts.items() if count >= min_count and word not in SPECIAL]
    words = [word for _, word in sorted(frequent)][: max_size - len(SPECIAL)]
    return Vocab((*SPECIAL, *words))
