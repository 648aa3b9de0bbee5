"""A system that cannot take codes by name, in a coder to which some were added."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents
from plant.evaluate.scores.of_texts import Full, Sparse, TextScores, Usual
from plant.systems.system import FittedSystem, Growth, Known, PackedSystem, Reading, said, usual_of
from plant.text.vocab import UNKNOWN, Vocab

TAG = "widened"


@dataclass(frozen=True)
class WidenedReading:
    """What a system says, and the same small share for each of the labels that it does not know."""

    reading: Reading
    known: int
    share: float
    further: int
    usual: Usual | None

    @property
    def text_scores(self) -> TextScores:
        inside = said(self.reading)
        if self.usual is None or not isinstance(inside, Sparse):
            return Full(self.scores)
        return Sparse(inside.lists, inside.values, self.usual)

    @property
    def scores(self) -> NDArray[np.float32]:
        known = self.reading.scores
        return np.concatenate([known, np.full((len(known), self.further), self.share, np.float32)], axis=1)

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        asked = np.asarray(labels)
        weights = self.reading.weigh(row, np.where(asked < self.known, asked, 0).tolist(), explainer=explainer)
        return np.where((asked < self.known)[:, None], weights, 0).astype(np.float32)


@dataclass(frozen=True)
class WidenedSystem:
    """A system beside `further` labels, and words from `n_words` on, that it does not know."""

    system: FittedSystem
    n_words: int
    n_labels: int
    share: float
    further: int

    matches_names = takes_codes = False

    def read(self, documents: Documents, *, evidence: bool = False) -> WidenedReading:
        tokens = np.where(documents.tokens < self.n_words, documents.tokens, UNKNOWN).astype(documents.tokens.dtype)
        reading = self.system.read(replace(documents, tokens=tokens), evidence=evidence)
        return WidenedReading(reading, self.n_labels, self.share, self.further, self.usual)

    @cached_property
    def usual(self) -> Usual | None:
        """That of the system inside, and the share of the labels that it does not know."""
        inside = usual_of(self.system)
        share = np.full(self.further, self.share, np.float32)
        return None if inside is None else Usual(np.concatenate([inside.values, share]), known=self.n_labels)

    def unread(self, documents: Documents) -> int:
        return self.system.unread(documents)

    def quantized(self) -> "WidenedSystem":
        return replace(self, system=self.system.quantized())

    def with_codes(self, growth: Growth) -> "WidenedSystem":
        return replace(self, further=self.further + growth.further)

    def pack(self) -> PackedSystem:
        sizes = {"n_words": self.n_words, "n_labels": self.n_labels, "share": self.share, "further": self.further}
        return PackedSystem(TAG, sizes, parts=(self.system.pack(),))


def widened(system: FittedSystem, growth: Growth) -> WidenedSystem:
    """A system that stays as it is while codes are added to its coder."""
    return WidenedSystem(system, growth.n_words, growth.n_codes, growth.share, growth.further)


def inner(sizes: Mapping[str, Any], known: Known) -> Known:
    """What the system inside knows."""
    vocab = Vocab(known.vocab.tokens[: sizes["n_words"]])
    return replace(known, vocab=vocab, codes=known.codes[: sizes["n_labels"]])
