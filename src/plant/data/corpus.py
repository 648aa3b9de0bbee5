"""A corpus: notes turned into numbers once, and the doors through which stages may look at them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.store.ragged import Ragged, offsets, owners, places
from plant.store.strings import Strings
from plant.text.vocab import Vocab


class Role(IntEnum):
    """What a note is used for; a split of the source gets its role when the corpus is prepared."""

    UNUSED = 0
    FIT = 1
    CHOOSE = 2  # thresholds, early stopping, model choice
    REPORT = 3
    UNLABELLED = 4  # text without codes, for language models only


@dataclass(frozen=True)
class FlatSubwords:
    """Sub-words as flat arrays: document d owns `numbers[starts[d]:starts[d + 1]]`; `words` are places in it."""

    numbers: NDArray[np.int32]
    words: NDArray[np.int32]
    starts: NDArray[np.int64]


@dataclass(frozen=True)
class FlatStructure:
    """For each word of all documents the number of its heading, and of its sentence within the document."""

    headings: NDArray[np.int32]
    sentences: NDArray[np.int32]


@dataclass(frozen=True)
class Documents:
    """Some documents as flat arrays: document d owns `tokens[token_starts[d]:token_starts[d + 1]]`, and so on.

    `labels` are sorted column numbers; `char_starts` and `char_ends` are the spans of the tokens in the text;
    evidence is one row per marked span: its document's rows lie between two `evidence_starts`.
    `text` is UTF-8, empty where the corpus was prepared without texts. Sub-words are there for encoders that read them.
    """

    ids: Sequence[str]  # flat arrays too, where there are many: `Strings`
    tokens: NDArray[np.int32]
    token_starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    label_starts: NDArray[np.int64]
    char_starts: NDArray[np.int32]
    char_ends: NDArray[np.int32]
    evidence_labels: NDArray[np.int32]
    evidence_spans: NDArray[np.int32]  # [rows, 2], characters
    evidence_starts: NDArray[np.int64]
    text: NDArray[np.uint8]
    text_starts: NDArray[np.int64]
    subwords: FlatSubwords | None = None
    structure: FlatStructure | None = None  # for parts that read it

    def __len__(self) -> int:
        return len(self.ids)

    def tokens_of(self, document: int) -> NDArray[np.int32]:
        """The token numbers of a document, in reading order."""
        return self.tokens[self.token_starts[document] : self.token_starts[document + 1]]

    def labels_of(self, document: int) -> NDArray[np.int32]:
        """The sorted label numbers of a document."""
        return self.labels[self.label_starts[document] : self.label_starts[document + 1]]

    def text_of(self, document: int) -> str:
        """The text as it was given; empty where the corpus keeps no texts."""
        return self.text[self.text_starts[document] : self.text_starts[document + 1]].tobytes().decode("utf-8")

    def targets(self, n_labels: int) -> NDArray[np.float32]:
        """The labels as a dense 0/1 matrix, documents x labels; for evaluation of small sets."""
        dense = np.zeros((len(self), n_labels), np.float32)
        dense[owners(self.label_starts), self.labels] = 1
        return dense

    def label_counts(self, n_labels: int) -> NDArray[np.int64]:
        """How many documents have each label."""
        return np.bincount(self.labels, minlength=n_labels).astype(np.int64, copy=False)


@dataclass(frozen=True)
class Corpus:
    """All notes of a source; `labels` number the columns of `codes`, the codes that any note has, in order."""

    vocab: Vocab
    codebook: CodeBook
    codes: tuple[str, ...]
    documents: Documents
    splits: tuple[str, ...]  # names, as the source gave them
    split: NDArray[np.int8]  # per document, a number into `splits`
    role: NDArray[np.int8]  # per document, a `Role`
    groups: Sequence[str]  # patients by number, per document; empty where unknown
    tokens_lost: int = 0  # to an explicit limit on length
    notes_cut: int = 0  # by that limit


@dataclass(frozen=True)
class TrainingView:
    """What fitting stages see: the fitted notes and nothing else.

    It holds copies of the fitted rows, not the corpus, so no method of it can reach another row.
    `codes` are the codes that at least one fitted note has; `labels` are renumbered to them.
    """

    vocab: Vocab
    codebook: CodeBook
    codes: tuple[str, ...]
    documents: Documents

    def label_counts(self) -> NDArray[np.int64]:
        """How many fitted notes have each label."""
        return self.documents.label_counts(len(self.codes))

    def label_shares(self) -> NDArray[np.float32]:
        """The share of fitted notes that have each label."""
        return (self.label_counts() / max(1, len(self.documents))).astype(np.float32)


def training_view(corpus: Corpus, labels: NDArray[np.int64] | None = None) -> TrainingView:
    """The only door through which a fitting stage sees a corpus; of a shard, with the labels of all fitted notes."""
    documents = take(corpus.documents, np.flatnonzero(corpus.role == Role.FIT))
    kept = np.unique(documents.labels).astype(np.int64) if labels is None else labels
    return TrainingView(
        vocab=corpus.vocab,
        codebook=corpus.codebook,
        codes=tuple(corpus.codes[label] for label in kept),
        documents=renumber_labels(documents, kept, n_labels=len(corpus.codes)),
    )


def held_out(corpus: Corpus, role: Role, codes: tuple[str, ...]) -> Documents:
    """Notes of another role, labels renumbered to `codes`; labels outside of `codes` are dropped (count them first)."""
    if role == Role.FIT:
        raise ValueError("fitted notes come through training_view")
    position = {code: label for label, code in enumerate(corpus.codes)}
    kept = np.array([position.get(code, -1) for code in codes], dtype=np.int64)
    documents = take(corpus.documents, np.flatnonzero(corpus.role == role))
    return renumber_labels(documents, kept, n_labels=len(corpus.codes))


def gold_codes(corpus: Corpus, role: Role) -> list[tuple[str, ...]]:
    """All codes of the notes of a role, those that no fitted note has included."""
    rows = np.flatnonzero(corpus.role == role).tolist()
    return [tuple(corpus.codes[label] for label in corpus.documents.labels_of(row)) for row in rows]


def take(documents: Documents, rows: NDArray[np.intp]) -> Documents:
    """Copies of the documents in `rows`, in that order."""
    tokens = places(documents.token_starts, rows)
    labels = Ragged(documents.labels, documents.label_starts).take(rows)
    evidence = places(documents.evidence_starts, rows)
    text = Ragged(documents.text, documents.text_starts).take(rows)
    return Documents(
        ids=Strings.of(documents.ids).take(rows),
        tokens=documents.tokens[tokens.values],
        token_starts=tokens.starts,
        labels=labels.values,
        label_starts=labels.starts,
        char_starts=documents.char_starts[tokens.values],
        char_ends=documents.char_ends[tokens.values],
        evidence_labels=documents.evidence_labels[evidence.values],
        evidence_spans=documents.evidence_spans[evidence.values],
        evidence_starts=evidence.starts,
        text=text.values,
        text_starts=text.starts,
        subwords=None if documents.subwords is None else _take_subwords(documents.subwords, rows),
        structure=None if documents.structure is None else _take_structure(documents.structure, tokens.values),
    )


def _take_structure(structure: FlatStructure, tokens: NDArray[np.int64]) -> FlatStructure:
    return FlatStructure(structure.headings[tokens], structure.sentences[tokens])


def _take_subwords(subwords: FlatSubwords, rows: NDArray[np.intp]) -> FlatSubwords:
    kept = places(subwords.starts, rows)
    return FlatSubwords(subwords.numbers[kept.values], subwords.words[kept.values], kept.starts)


def renumber_labels(documents: Documents, kept: NDArray[np.int64], *, n_labels: int) -> Documents:
    """Number labels by their place in `kept`; what is not kept is dropped, from the evidence too."""
    new = np.full(n_labels + 1, -1, dtype=np.int32)
    new[kept] = np.arange(len(kept), dtype=np.int32)
    new[n_labels] = -1  # where `kept` asks for a code that no note has (-1)
    return _filtered(documents, new)


def _filtered(documents: Documents, new: NDArray[np.int32]) -> Documents:
    labels, label_starts = _keep(new[documents.labels], documents.label_starts)
    keep = new[documents.evidence_labels] >= 0
    evidence_labels, evidence_starts = _keep(new[documents.evidence_labels], documents.evidence_starts)
    order = _sorted_within(labels, label_starts)
    return replace(
        documents,
        labels=labels[order],
        label_starts=label_starts,
        evidence_labels=evidence_labels,
        evidence_spans=documents.evidence_spans[keep],
        evidence_starts=evidence_starts,
    )


def _keep(values: NDArray[np.int32], starts: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    kept = values >= 0
    return values[kept], offsets(kept)[starts]


def _sorted_within(values: NDArray[np.int32], starts: NDArray[np.int64]) -> NDArray[np.intp]:
    return np.lexsort((values, owners(starts)))
