"""TF-IDF of word n-grams, counted from token numbers."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, vstack

from plant.data.corpus import Documents
from plant.errors import InputError
from plant.store.ragged import owners
from plant.text.vocab import UNKNOWN

DOCUMENTS_PER_BLOCK = 1024  # keeps the n-grams of a large corpus out of memory


@dataclass(frozen=True)
class Ngrams:
    """Occurrences of n-grams of one length: in which document, from which of its tokens on, and the n-gram's key."""

    length: int
    documents: NDArray[np.int64]
    positions: NDArray[np.int64]
    keys: NDArray[np.int64]


@dataclass(frozen=True)
class NgramTable:
    """The n-grams of 1 to `longest` words that are counted: sorted keys and their inverse document frequencies.

    A key is the tokens of its n-gram read as digits to the base `vocab_size`.
    """

    vocab_size: int
    longest: int
    keys: NDArray[np.int64]
    idf: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.keys)

    def columns(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of keys in the table; -1 where the table lacks them."""
        if len(self) == 0:
            return np.full(len(keys), -1)
        places = np.searchsorted(self.keys, keys).clip(max=len(self) - 1)
        return np.where(self.keys[places] == keys, places, -1)

    def features(self, documents: Documents) -> csr_array:
        """(1 + ln count) * idf, each document scaled to length 1; documents x n-grams."""
        blocks = [self._block(documents, first, last) for first, last in _blocks(len(documents))]
        return csr_array(vstack(blocks, format="csr")) if blocks else csr_array((0, len(self)), dtype=np.float32)

    def _block(self, documents: Documents, first: int, last: int) -> csr_array:
        found = list(find_ngrams(documents, first, last, longest=self.longest, vocab_size=self.vocab_size))
        rows = np.concatenate([ngrams.documents for ngrams in found])
        columns = self.columns(np.concatenate([ngrams.keys for ngrams in found]))
        counts = _counts(rows[columns >= 0], columns[columns >= 0], shape=(last - first, len(self)))
        counts.data = (1 + np.log(counts.data)) * self.idf[counts.indices]
        norms = np.sqrt(counts.multiply(counts).sum(axis=1))
        return csr_array(diags_array(1 / np.where(norms > 0, norms, 1)) @ counts).astype(np.float32)


def count_ngrams(
    documents: Documents, *, vocab_size: int, longest: int, min_documents: int, max_ngrams: int
) -> NgramTable:
    """The n-grams of at least `min_documents` documents, the most frequent first where there are too many."""
    if longest * np.log2(max(2, vocab_size)) >= 63:
        raise InputError(
            f"n-grams of {longest} words over {vocab_size} tokens do not fit into 63 bits: take fewer words"
        )
    keys, counts = _document_counts(documents, vocab_size=vocab_size, longest=longest)
    frequent = np.flatnonzero(counts >= min_documents)
    kept = np.sort(frequent[np.argsort(-counts[frequent], kind="stable")][:max_ngrams])
    idf = np.log((1 + len(documents)) / (1 + counts[kept])) + 1
    return NgramTable(vocab_size, longest, keys[kept], idf.astype(np.float32))


def find_ngrams(documents: Documents, first: int, last: int, *, longest: int, vocab_size: int) -> Iterator[Ngrams]:
    """All n-grams of documents `first` to `last` (excluded), numbered from zero; none with an unknown word."""
    starts = documents.token_starts[first : last + 1]
    tokens = documents.tokens[starts[0] : starts[-1]].astype(np.int64)
    rows = owners(starts)
    known = tokens > UNKNOWN
    keys, whole = tokens, known
    for length in range(1, longest + 1):
        if length > 1:
            keys = keys[:-1] * vocab_size + tokens[length - 1 :]
            whole = whole[:-1] & known[length - 1 :]
        begins = np.flatnonzero(whole & (rows[: len(keys)] == rows[length - 1 :]))
        yield Ngrams(length, rows[begins], begins - (starts - starts[0])[rows[begins]], keys[begins])


def _document_counts(
    documents: Documents, *, vocab_size: int, longest: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each n-gram's key and the number of documents it stands in."""
    keys, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for first, last in _blocks(len(documents)):
        for ngrams in find_ngrams(documents, first, last, longest=longest, vocab_size=vocab_size):
            unique, columns = np.unique(ngrams.keys, return_inverse=True)
            occurrences = _counts(ngrams.documents, columns, shape=(last - first, len(unique)))
            keys.append(unique)
            counts.append(np.bincount(occurrences.indices, minlength=len(unique)))
    unique, places = np.unique(np.concatenate(keys), return_inverse=True)
    totals = np.zeros(len(unique), np.int64)
    np.add.at(totals, places, np.concatenate(counts))
    return unique, totals


def _counts(rows: NDArray[np.int64], columns: NDArray[np.int64], *, shape: tuple[int, int]) -> csr_array:
    counts = csr_array((np.ones(len(rows)), (rows.astype(np.int32), columns.astype(np.int32))), shape=shape)
    counts.sum_duplicates()
    return counts


def _blocks(n_documents: int) -> Iterator[tuple[int, int]]:
    for first in range(0, n_documents, DOCUMENTS_PER_BLOCK):
        yield first, min(first + DOCUMENTS_PER_BLOCK, n_documents)
