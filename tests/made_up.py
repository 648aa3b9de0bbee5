"""Small made-up data for tests."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from plant.codes.codebook import CodeBook
from plant.data.builder import build_corpus
from plant.data.corpus import Corpus, Documents
from plant.data.roles import Plan
from plant.recipe.schema import Prepare
from plant.store.ragged import Ragged
from plant.systems.prior import PriorReading
from plant.systems.system import Growth, PackedSystem
from plant.types import Note, Span


def documents_of(tokens: Sequence[Sequence[int]], *, labels: Sequence[Sequence[int]]) -> Documents:
    """Documents of token numbers and label numbers; each token is one character long."""
    words = Ragged.of(tokens, np.int32)
    marked = Ragged.of([sorted(row) for row in labels], np.int32)
    places = Ragged.of([range(len(row)) for row in tokens], np.int32).values
    nothing = np.zeros(len(tokens) + 1, np.int64)
    return Documents(
        ids=tuple(f"note-{row}" for row in range(len(tokens))),
        tokens=words.values,
        token_starts=words.starts,
        labels=marked.values,
        label_starts=marked.starts,
        char_starts=places,
        char_ends=places + 1,
        evidence_labels=np.empty(0, np.int32),
        evidence_spans=np.empty((0, 2), np.int32),
        evidence_starts=nothing,
        text=np.empty(0, np.uint8),
        text_starts=nothing,
    )


def notes_of(n: int, *, seed: int = 0, n_codes: int = 5, random_codes: bool = False) -> list[Note]:
    """Notes of random words; each code of a note has a word of its own in the text, unless codes are random."""
    random = np.random.default_rng(seed)
    notes = []
    for number in range(n):
        codes = [f"C{label}" for label in range(n_codes) if random.random() < 0.4]
        words = [f"word{chr(97 + int(letter))}" for letter in random.integers(0, 26, int(random.integers(5, 40)))]
        words += [] if random_codes else [f"sign{code.lower()}x" for code in codes]
        random.shuffle(words)
        split = ("train", "train", "train", "dev", "test")[number % 5]
        notes.append(Note(f"n{number}", " ".join(words), tuple(codes), split=split))
    return notes


def marked_by_chance(n: int, *, n_codes: int, seed: int = 0) -> tuple[list[Note], CodeBook]:
    """Notes whose codes mean nothing, though all have spans and names: what is learned of them is chance or a leak.

    Every code is named by a word that stands in many notes. A note has a word that no other has, marked for all its
    codes, and begins with one that others have, marked for its first. Who read a note before knows it by its own word.
    """
    notes = []
    for note, own in zip(notes_of(n, seed=seed, n_codes=n_codes, random_codes=True), _own_words(n), strict=True):
        text = f"{note.text} {own}"
        first, last = Span(0, text.index(" ")), Span(len(note.text) + 1, len(text))
        evidence = dict.fromkeys(note.codes, (last,)) | dict.fromkeys(note.codes[:1], (first, last))
        notes.append(replace(note, text=text, evidence=evidence))
    titles = {f"C{label}": f"word{chr(97 + label % 26)}" for label in range(n_codes)}
    return notes, CodeBook("other", tuple(titles), titles)


def _own_words(n: int) -> list[str]:
    return ["own" + "".join(chr(97 + int(digit)) for digit in f"{number:04d}") for number in range(n)]


def corpus_of(notes: Sequence[Note], *, plan: Plan | None = None, min_count: int = 1) -> Corpus:
    """A corpus in memory."""
    book = CodeBook("other", (), {f"C{label}": f"the sign c{label}x" for label in range(100)})
    return build_corpus(notes, book, Prepare(min_count=min_count), plan=plan)


class ReadingAlone:
    """A system for tests that only reads: all else that systems can do, so that annotations hold."""

    matches_names = takes_codes = False

    def read(self, documents: Documents, *, evidence: bool = False) -> Any:
        return PriorReading(np.zeros((len(documents), 1), np.float32), documents)

    def unread(self, documents: Documents) -> int:
        return 0

    def quantized(self) -> "ReadingAlone":
        return self

    def with_codes(self, growth: Growth) -> "ReadingAlone":
        return self

    def pack(self) -> PackedSystem:
        return PackedSystem("alone")
