"""Candidates of another system, re-ranked by a transformer that reads their titles before the note (KEPT).

A candidate scores sigma(z) by what is guessed at its mask (`plant.nn.language.prompts`). Other codes keep the order
that the first system gave them, below all candidates: with p what it said, min sigma(z) * p / (1 + p).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.data.corpus import Documents
from plant.data.subwords import with_subwords
from plant.errors import ArtifactError, InputError
from plant.nn.language.prompts import (
    NotePieces,
    Pages,
    Pieces,
    PromptedModel,
    PromptPlan,
    load_parameters,
    pages_of,
    title_pieces,
)
from plant.nn.language.transformer import Transformer
from plant.store.checks import check_finite
from plant.systems.system import FittedSystem, Growth, Known, PackedSystem, Reading, said, under
from plant.systems.widened import WidenedSystem, widened
from plant.text.subwords import SubwordTokenizer, tokenizer_from_json

TAG = "kept"
GRADIENT = "gradient"


@dataclass(frozen=True)
class KeptReading:
    """What the first system says of some notes, and the answers for its best codes."""

    system: "KeptSystem"
    documents: Documents
    first: Reading | None

    @property
    def known(self) -> int:
        return len(self.system.titles) if self.first is None else self.first.known

    @cached_property
    def candidates(self) -> list[list[int]]:
        """The labels that each note's prompt asks for."""
        return self.system.candidates(self.first, len(self.documents))

    @cached_property
    def scores(self) -> NDArray[np.float32]:
        with torch.no_grad():
            answers = self.system.model(self._pages).sigmoid().cpu().numpy()
        ends = np.cumsum([len(labels) for labels in self.candidates])
        others = np.zeros((len(self.documents), len(self.system.titles))) if self.first is None else self.first.scores
        rows = zip(others, self.candidates, np.split(answers, ends[:-1]), strict=True)
        return np.array([reranked(*row) for row in rows], np.float32).reshape(others.shape)

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        """Gradients of a candidate's score; what the first system looked at for codes that were no candidates."""
        if explainer not in ("", GRADIENT):
            raise InputError(f"answers to prompts are explained by {GRADIENT!r} only, not by {explainer!r}")
        n_words = int(self.documents.token_starts[row + 1] - self.documents.token_starts[row])
        weights = np.zeros((len(labels), n_words), np.float32)
        places = {label: place for place, label in enumerate(self.candidates[row])}
        asked = [number for number, label in enumerate(labels) if label in places]
        if asked:
            pages = self.system.pages(self.documents, [row], [self.candidates[row]])
            pairs = [places[labels[number]] for number in asked]
            weights[asked] = self.system.model.weigh(pages, pairs, n_words=n_words).cpu().numpy()
        others = [number for number in range(len(labels)) if number not in asked]
        if others and self.first is not None:
            weights[others] = self.first.weigh(row, [labels[number] for number in others], explainer="")
        return weights

    @cached_property
    def _pages(self) -> Pages:
        return self.system.pages(self.documents, range(len(self.documents)), self.candidates)


@dataclass(frozen=True)
class KeptSystem:
    """A transformer that answers prompts, the titles as its sub-words, and the system whose best codes it re-ranks."""

    model: PromptedModel
    transformer: Transformer  # its shape and its tokenizer
    titles: tuple[Pieces, ...]
    plan: PromptPlan
    first: FittedSystem | None
    most: int  # candidates of a note
    device: str = "cpu"

    matches_names = takes_codes = False

    def read(self, documents: Documents, *, evidence: bool = False) -> KeptReading:
        self.model.eval()
        first = None if self.first is None else self.first.read(documents, evidence=evidence)
        return KeptReading(self, self.readable(documents), first)

    def readable(self, documents: Documents) -> Documents:
        """The documents with their sub-words."""
        return with_subwords(documents, self.transformer.tokenizer) if documents.subwords is None else documents

    def candidates(self, first: Reading | None, n_documents: int) -> list[list[int]]:
        """The best labels of each document, best first; all labels where there is no first system."""
        if first is None:
            return [list(range(len(self.titles)))] * n_documents
        scores, most = said(first), min(self.most, len(self.titles))
        return [scores.best(row, most).tolist() for row in range(n_documents)]

    def pages(self, documents: Documents, rows: Sequence[int], candidates: Sequence[Sequence[int]]) -> Pages:
        """What the transformer reads of some documents and their candidates."""
        cut = documents.subwords
        assert cut is not None  # or they are not readable
        places = [slice(cut.starts[row], cut.starts[row + 1]) for row in rows]
        notes = [NotePieces(cut.numbers[place], cut.words[place]) for place in places]
        return pages_of(notes, candidates, self.titles, self.transformer.tokenizer, self.plan).to(self.device)

    def unread(self, documents: Documents) -> int:
        return 0 if self.first is None else self.first.unread(documents)

    def quantized(self) -> "KeptSystem":
        return self

    def with_codes(self, growth: Growth) -> WidenedSystem:
        return widened(self, growth)

    def pack(self) -> PackedSystem:
        options = {
            "config": dict(self.transformer.config),
            "tokenizer": self.transformer.tokenizer.to_json(),
            "plan": asdict(self.plan),
            "answers": [self.model.yes, self.model.no],
            "most": self.most,
        }
        weights = {f"weights.{name}": value.detach().cpu().numpy() for name, value in self.model.named_parameters()}
        return PackedSystem(TAG, options, weights, () if self.first is None else (self.first.pack(),))


def reranked(
    others: NDArray[np.floating], candidates: Sequence[int], answers: NDArray[np.floating]
) -> NDArray[np.floating]:
    """The scores of all labels of a note: the answers for candidates, and the others below them in their order."""
    scores = others / (1 + others) * min(answers.tolist(), default=1.0)
    scores[list(candidates)] = answers
    return scores


def titles_of(
    codes: Sequence[str], book: CodeBook, tokenizer: SubwordTokenizer, plan: PromptPlan
) -> tuple[Pieces, ...]:
    """The titles of codes as sub-words; a code without one is its own title."""
    return title_pieces([book.description(code) or code for code in codes], tokenizer, plan)


def unpack_kept(packed: PackedSystem, known: Known, parts: tuple[FittedSystem, ...]) -> KeptSystem:
    """The system that `pack` took apart."""
    options, plan = packed.options, PromptPlan(**packed.options["plan"])
    transformer = Transformer(options["config"], tokenizer_from_json(options["tokenizer"]))
    model = PromptedModel(transformer, yes=options["answers"][0], no=options["answers"][1])
    check_finite(packed.arrays)
    kept = {name: torch.from_numpy(np.array(array)) for name, array in under(packed.arrays, "weights.").items()}
    shapes = {name: value.shape for name, value in model.named_parameters()}
    if {name: value.shape for name, value in kept.items()} != shapes or len(parts) > 1:
        raise ArtifactError("the weights of the folder are not those of its transformer: fit the coder again")
    load_parameters(model, kept)
    titles = titles_of(known.codes, known.codebook, transformer.tokenizer, plan)
    return KeptSystem(model.eval(), transformer, titles, plan, parts[0] if parts else None, options["most"])
