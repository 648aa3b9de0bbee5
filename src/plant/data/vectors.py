"""Texts as sparse vectors: TF-IDF of their words, each text scaled to length 1."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents, TrainingView
from plant.store.ragged import offsets, owners
from plant.text.vocab import UNKNOWN


@dataclass(frozen=True)
class TextVectors:
    """Text d has the distinct words `tokens[starts[d]:starts[d + 1]]`, rising, each with its value."""

    starts: NDArray[np.int64]
    tokens: NDArray[np.int32]
    values: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def row(self, number: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The words of one text and their values."""
        own = slice(self.starts[number], self.starts[number + 1])
        return self.tokens[own], self.values[own]

    def by_token(self, n_tokens: int) -> "TextVectors":
        """The same turned around: per word the texts that have it, rising, in place of tokens."""
        order = np.argsort(self.tokens, kind="stable")
        texts = owners(self.starts)[order].astype(np.int32)
        return TextVectors(offsets(np.bincount(self.tokens, minlength=n_tokens)), texts, self.values[order])


def inverse_frequencies(token_counts: NDArray[np.integer], n_documents: int) -> NDArray[np.float32]:
    """ln((1 + documents) / (1 + documents with the word)) + 1."""
    return (np.log((1 + n_documents) / (1 + token_counts)) + 1).astype(np.float32)


def vectors_of(documents: Documents, inverse: NDArray[np.float32]) -> TextVectors:
    """(1 + ln count) * inverse frequency of every known word, each text scaled to length 1."""
    rows, tokens = owners(documents.token_starts), documents.tokens.astype(np.int64)
    known = tokens > UNKNOWN
    keys, counts = np.unique(rows[known] * len(inverse) + tokens[known], return_counts=True)
    rows, tokens = keys // len(inverse), keys % len(inverse)
    values = (1 + np.log(counts)) * inverse[tokens]
    lengths = np.sqrt(np.bincount(rows, weights=values * values, minlength=len(documents)))
    starts = offsets(np.bincount(rows, minlength=len(documents)))
    return TextVectors(starts, tokens.astype(np.int32), (values / lengths[rows]).astype(np.float32))


def fitted_vectors(view: TrainingView) -> tuple[NDArray[np.float32], TextVectors]:
    """The inverse frequency of each word among the fitted texts, and these texts."""
    documents, n_words = view.documents, len(view.vocab)
    ones = vectors_of(documents, np.ones(n_words, np.float32))
    inverse = inverse_frequencies(np.bincount(ones.tokens, minlength=n_words), len(documents))
    return inverse, vectors_of(documents, inverse)
