"""How often tokens and labels meet: document counts of pairs, for some labels at a time, that can be added."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int32, UInt16
from numba import njit
from numpy.typing import NDArray

from plant.data.corpus import Documents
from plant.store.ragged import offsets, owners
from plant.text.vocab import SPECIAL

_STRIDE = 16  # most labels meet few tokens, so a row is read in strides and empty ones are passed by
Tokens = UInt16[np.ndarray, "..."] | Int32[np.ndarray, "..."]  # which of them says `token_type`


@dataclass(frozen=True)
class PairCounts:
    """Document counts: of all tokens, of some labels, and of their pairs.

    The tokens that occur with label l stand in rising order between `starts[l]` and `starts[l + 1]` of `tokens`;
    `together` says in how many documents. Counts of different documents and the same labels add up.
    """

    n_documents: int
    token_counts: NDArray[np.int64]
    label_counts: NDArray[np.int64]
    starts: NDArray[np.int64]
    tokens: Tokens
    together: NDArray[np.int32]

    def __add__(self, other: "PairCounts") -> "PairCounts":
        most = len(self.tokens) + len(other.tokens)
        tokens, together = np.empty(most, dtype=self.tokens.dtype), np.empty(most, dtype=np.int32)
        mine, theirs = (self.starts, self.tokens, self.together), (other.starts, other.tokens, other.together)
        starts = _merge_pairs(*mine, *theirs, tokens, together)
        return PairCounts(
            n_documents=self.n_documents + other.n_documents,
            token_counts=self.token_counts + other.token_counts,
            label_counts=self.label_counts + other.label_counts,
            starts=starts,
            tokens=tokens[: starts[-1]],
            together=together[: starts[-1]],
        )


@dataclass(frozen=True)
class Incidence:
    """Which tokens a document has and which documents a label has, each once; and in how many documents a token is."""

    token_starts: NDArray[np.int64]  # per document
    tokens: Tokens
    document_starts: NDArray[np.int64]  # per label
    documents: NDArray[np.int32]
    token_counts: NDArray[np.int64]

    @property
    def n_tokens(self) -> int:
        return len(self.token_counts)

    @property
    def n_documents(self) -> int:
        return len(self.token_starts) - 1

    @property
    def n_labels(self) -> int:
        return len(self.document_starts) - 1

    @cached_property
    def most_pairs(self) -> NDArray[np.int64]:
        """A bound on the number of tokens that occur with each label."""
        lengths = np.diff(self.token_starts)[self.documents]
        return np.minimum(np.diff(offsets(lengths)[self.document_starts]), self.n_tokens)


def token_type(n_tokens: int) -> type[np.uint16] | type[np.int32]:
    """The narrower integer that holds every token: lists for 170,000 labels are a gigabyte, so two bytes matter."""
    return np.uint16 if n_tokens <= np.iinfo(np.uint16).max + 1 else np.int32


def incidence(documents: Documents, *, n_tokens: int, n_labels: int) -> Incidence:
    """The distinct tokens of each document, without padding and unknown words, and the documents of each label."""
    lengths = _distinct_lengths(documents.tokens, documents.token_starts, n_tokens, len(SPECIAL))
    token_starts = offsets(lengths)
    tokens = np.empty(token_starts[-1], dtype=token_type(n_tokens))
    token_counts = _fill_distinct(documents.tokens, documents.token_starts, n_tokens, len(SPECIAL), tokens)
    labelled = owners(documents.label_starts).astype(np.int32)
    return Incidence(
        token_starts=token_starts,
        tokens=tokens,
        document_starts=offsets(documents.label_counts(n_labels)),
        documents=labelled[np.argsort(documents.labels, kind="stable")],
        token_counts=token_counts,
    )


def joined(parts: Sequence[Incidence]) -> Incidence:
    """The incidence of all notes from those of shards, in their order; the same as if they had been read as one."""
    if len(parts) == 1:
        return parts[0]
    before = offsets([part.n_documents for part in parts])
    labels = np.concatenate([owners(part.document_starts) for part in parts])
    documents = np.concatenate([part.documents + base for part, base in zip(parts, before, strict=False)])
    return Incidence(
        token_starts=offsets(np.concatenate([np.diff(part.token_starts) for part in parts])),
        tokens=np.concatenate([part.tokens for part in parts]),
        document_starts=offsets(np.bincount(labels, minlength=parts[0].n_labels)),
        documents=documents[np.argsort(labels, kind="stable")].astype(np.int32),
        token_counts=np.sum([part.token_counts for part in parts], axis=0),
    )


def count(found: Incidence, labels: range | None = None) -> PairCounts:
    """The counts of a run of neighbouring labels, of all without `labels`."""
    labels = range(found.n_labels) if labels is None else labels
    starts = found.document_starts[labels.start : labels.stop + 1]
    most = int(found.most_pairs[labels.start : labels.stop].sum())
    tokens = np.empty(most, dtype=found.tokens.dtype)
    together = np.empty(most, dtype=np.int32)
    ends = _count_pairs(found.token_starts, found.tokens, starts, found.documents, found.n_tokens, tokens, together)
    return PairCounts(
        n_documents=found.n_documents,
        token_counts=found.token_counts,
        label_counts=np.diff(starts),
        starts=ends,
        tokens=tokens[: ends[-1]],
        together=together[: ends[-1]],
    )


def label_blocks(found: Incidence, *, most_pairs: int = 1_000_000) -> list[range]:
    """Runs of labels whose counts take bounded memory; a label that alone exceeds the bound stands alone."""
    blocks, first, pairs = [], 0, 0
    for label, more in enumerate(found.most_pairs.tolist()):
        if pairs + more > most_pairs and label > first:
            blocks.append(range(first, label))
            first, pairs = label, 0
        pairs += more
    return [*blocks, range(first, found.n_labels)] if found.n_labels else []


@njit(cache=True, nogil=True)
def _distinct_lengths(tokens, starts, n_tokens, first):  # type: ignore[no-untyped-def]
    lengths = np.zeros(len(starts) - 1, dtype=np.int64)
    seen_in = np.full(n_tokens, -1, dtype=np.int64)
    for document in range(len(starts) - 1):
        for place in range(starts[document], starts[document + 1]):
            token = tokens[place]
            if token >= first and seen_in[token] != document:
                seen_in[token] = document
                lengths[document] += 1
    return lengths


@njit(cache=True, nogil=True)
def _fill_distinct(tokens, starts, n_tokens, first, distinct):  # type: ignore[no-untyped-def]
    seen_in = np.full(n_tokens, -1, dtype=np.int64)
    counts = np.zeros(n_tokens, dtype=np.int64)
    filled = 0
    for document in range(len(starts) - 1):
        for place in range(starts[document], starts[document + 1]):
            token = tokens[place]
            if token >= first and seen_in[token] != document:
                seen_in[token] = document
                distinct[filled] = token
                counts[token] += 1
                filled += 1
    return counts


@njit(cache=True, nogil=True)
def _count_pairs(token_starts, tokens, document_starts, documents, n_tokens, pair_tokens, together):  # type: ignore[no-untyped-def]
    """Add up the token sets of each label's documents in one row, then read the row out and wipe it."""
    row = np.zeros((n_tokens + _STRIDE - 1) // _STRIDE * _STRIDE, dtype=np.int32)
    starts = np.zeros(len(document_starts), dtype=np.int64)
    filled = 0
    for label in range(len(document_starts) - 1):
        for place in range(document_starts[label], document_starts[label + 1]):
            document = documents[place]
            for at in range(token_starts[document], token_starts[document + 1]):
                row[tokens[at]] += 1
        for first in range(0, len(row), _STRIDE):
            total = 0
            for token in range(first, first + _STRIDE):
                total += row[token]
            if total == 0:
                continue
            for token in range(first, first + _STRIDE):
                if row[token] > 0:
                    pair_tokens[filled] = token
                    together[filled] = row[token]
                    row[token] = 0
                    filled += 1
        starts[label + 1] = filled
    return starts


@njit(cache=True, nogil=True)
def _merge_pairs(starts, tokens, counts, other_starts, other_tokens, other_counts, pair_tokens, together):  # type: ignore[no-untyped-def]
    """Walk along two sorted rows of each label at once: linear, where sorting them again was 40 times slower."""
    ends = np.zeros(len(starts), dtype=np.int64)
    filled = 0
    for label in range(len(starts) - 1):
        here, end = starts[label], starts[label + 1]
        there, other_end = other_starts[label], other_starts[label + 1]
        while here < end or there < other_end:
            mine = here < end and (there == other_end or tokens[here] <= other_tokens[there])
            theirs = there < other_end and (here == end or other_tokens[there] <= tokens[here])
            pair_tokens[filled] = tokens[here] if mine else other_tokens[there]
            together[filled] = (counts[here] if mine else 0) + (other_counts[there] if theirs else 0)
            here += mine
            there += theirs
            filled += 1
        ends[label + 1] = filled
    return ends
