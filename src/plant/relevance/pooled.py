"""Counts that may travel where notes may not: how often words and codes meet in the notes of one place."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.errors import InputError
from plant.relevance.counts import PairCounts, token_type
from plant.relevance.store import CODES, VOCAB, Named, name_files
from plant.store.artifact import Manifest, open_artifact, save_artifact
from plant.store.checks import check_length, check_numbers, check_starts
from plant.store.ragged import offsets, owners
from plant.text.vocab import SPECIAL, Vocab, build_vocab

KIND = "counts"
ARRAYS = ("token_counts", "label_counts", "starts", "tokens", "together")


def save_counts(named: Named[PairCounts], path: Path | str, *, recipe: Mapping[str, Any] | None = None) -> Manifest:
    """Write counts with the words and codes that they are of."""
    counts = named.thing
    facts = {"notes": counts.n_documents, "codes": len(counts.label_counts), "vocabulary": len(counts.token_counts)}
    tensors = {name: getattr(counts, name) for name in ARRAYS}
    return save_artifact(path, KIND, tensors=tensors, files=named.files, recipe=recipe, facts=facts)


def load_counts(path: Path | str) -> Named[PairCounts]:
    """Open what `save_counts` wrote, perhaps elsewhere: every number is checked."""
    artifact = open_artifact(path, KIND)
    arrays: dict[str, Any] = {name: np.asarray(artifact.tensors[name]) for name in ARRAYS}
    counts = PairCounts(int(artifact.manifest.facts["notes"]), **arrays)
    named = Named(counts, {name: artifact.text(name) for name in (VOCAB, CODES)})
    n_tokens = len(named.vocab)
    check_length("token_counts", counts.token_counts, n_tokens)
    check_length("label_counts", counts.label_counts, len(named.codebook.codes))
    check_starts("starts", counts.starts, len(counts.tokens), rows=len(counts.label_counts))
    check_numbers("tokens", counts.tokens, n_tokens)
    check_length("together", counts.together, len(counts.tokens))
    return named


def of_frequent_words(named: Named[PairCounts], *, least: int) -> Named[PairCounts]:
    """Without the words of fewer notes: a rare word may be somebody's name."""
    kept = named.thing.token_counts >= least
    kept[: len(SPECIAL)] = True
    vocab = Vocab(tuple(word for word, keep in zip(named.vocab.tokens, kept, strict=True) if keep))
    numbers = np.where(kept, np.cumsum(kept) - 1, -1)
    book, n_labels = named.codebook, len(named.codebook.codes)
    counts = _renumbered(named.thing, numbers, np.arange(n_labels), n_tokens=len(vocab), n_labels=n_labels)
    return Named(counts, name_files(vocab, book, book.codes))


def pooled(parts: Sequence[Named[PairCounts]]) -> Named[PairCounts]:
    """The counts of several places as one: words and codes are those of all, known by their spelling."""
    systems = {part.codebook.system for part in parts}
    if len(systems) > 1:
        raise InputError(f"counts of different coding systems ({', '.join(sorted(systems))}) cannot be added")
    seen: dict[str, int] = {}
    for part in parts:
        for word, notes in zip(part.vocab.tokens, part.thing.token_counts.tolist(), strict=True):
            seen[word] = seen.get(word, 0) + notes
    vocab = build_vocab(seen, min_count=0, max_size=len(seen) + len(SPECIAL))
    book = _joined_books([part.codebook for part in parts])
    place = {code: label for label, code in enumerate(book.codes)}
    sizes = {"n_tokens": len(vocab), "n_labels": len(book.codes)}
    first, *others = (
        _renumbered(
            part.thing,
            np.array([vocab.numbers[word] for word in part.vocab.tokens]),
            np.array([place[code] for code in part.codebook.codes], np.int64),
            **sizes,
        )
        for part in parts
    )
    return Named(sum(others, start=first), name_files(vocab, book, book.codes))


def of_labels(counts: PairCounts, labels: range) -> PairCounts:
    """The counts of a run of neighbouring labels."""
    starts = counts.starts[labels.start : labels.stop + 1]
    pairs = slice(int(starts[0]), int(starts[-1]))
    return replace(
        counts,
        label_counts=counts.label_counts[labels.start : labels.stop],
        starts=starts - starts[0],
        tokens=counts.tokens[pairs],
        together=counts.together[pairs],
    )


def _joined_books(books: Sequence[CodeBook]) -> CodeBook:
    """All codes in order; the first book that describes a code is believed."""
    codes = tuple(sorted({code for book in books for code in book.codes}))
    described: dict[str, str] = {}
    for book in reversed(books):
        described |= {code: book.description(code) for code in book.codes if book.description(code)}
    return CodeBook(books[0].system, codes, described)


def _renumbered(
    counts: PairCounts,
    tokens: NDArray[np.integer],
    labels: NDArray[np.integer],
    *,
    n_tokens: int,
    n_labels: int,
) -> PairCounts:
    """With other numbers of tokens and labels; tokens whose number is -1 are left out."""
    pairs = tokens[counts.tokens]
    kept = pairs >= 0
    keys = labels[owners(counts.starts)][kept] * np.int64(n_tokens) + pairs[kept]
    order = np.argsort(keys, kind="stable")
    token_counts, label_counts = np.zeros(n_tokens, np.int64), np.zeros(n_labels, np.int64)
    token_counts[tokens[tokens >= 0]] = counts.token_counts[tokens >= 0]
    label_counts[labels] = counts.label_counts
    return PairCounts(
        n_documents=counts.n_documents,
        token_counts=token_counts,
        label_counts=label_counts,
        starts=offsets(np.bincount(keys // n_tokens, minlength=n_labels)),
        tokens=(keys[order] % n_tokens).astype(token_type(n_tokens)),
        together=counts.together[kept][order],
    )
