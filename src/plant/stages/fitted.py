"""A fitted coder: everything that is needed to code raw text, in memory and as a folder."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.artifact import Manifest, open_artifact, save_artifact
from plant.codes.codebook import CodeBook
from plant.codes.files import codebook_from_jsonl, codebook_to_jsonl
from plant.data.corpus import Documents
from plant.data.encode import encode_texts
from plant.evaluate.calibration import calibrated
from plant.explain.spans import evidence_spans
from plant.nn.build import Given
from plant.recipe import Recipe, recipe_from, recipe_table
from plant.stages.models import Model, unpack_model
from plant.text.vocab import Vocab
from plant.types import Evidence, Prediction, Progress, ScoredCode, silent

KIND = "coder"


@dataclass(frozen=True)
class FittedCoder:
    """What `fit` leaves and a folder holds: all that is needed to code raw text."""

    recipe: Recipe
    members: tuple[Recipe, ...]  # one, or those whose probabilities are averaged
    vocab: Vocab
    codebook: CodeBook
    codes: tuple[str, ...]
    model: Model
    thresholds: NDArray[np.float32]
    temperature: float
    train_counts: NDArray[np.int64]
    train_documents: int
    facts: Mapping[str, Any]  # how it was fitted: splits, history, origin of the thresholds

    def encode(self, texts: Sequence[str], ids: Sequence[str] = ()) -> Documents:
        """Texts as documents of the coder's vocabulary."""
        return encode_texts(texts, self.vocab, self.members[0].prepare, ids=ids)

    def probabilities(self, documents: Documents, *, progress: Progress = silent) -> NDArray[np.float32]:
        """Calibrated probabilities, documents x codes."""
        raw = self.model.probabilities(documents, progress=progress)
        return raw if self.temperature == 1 else calibrated(raw, self.temperature).astype(np.float32)

    def code(
        self, documents: Documents, *, top: int = 15, evidence: bool = True, explainer: str = ""
    ) -> list[Prediction]:
        """The best codes of each document, and every accepted one; with the words that speak for them."""
        scores = self.probabilities(documents)
        return [
            self._prediction(documents, row, scores[row], top, evidence, explainer) for row in range(len(documents))
        ]

    def quantized(self) -> "FittedCoder":
        """The same coder for CPUs with the encoder's weights in eight bits."""
        return replace(self, model=self.model.quantized())

    def explained(self, documents: Documents, scored: Sequence[ScoredCode], explainer: str) -> Prediction:
        """Codes of the first document with their evidence."""
        labels = np.array([self.codes.index(one.code) for one in scored])
        found = self._evidence(documents, 0, labels, explainer)
        ranked = [replace(one, evidence=spans) for one, spans in zip(scored, found, strict=True)]
        return Prediction(documents.ids[0], tuple(ranked))

    def _prediction(
        self, documents: Documents, row: int, scores: NDArray[np.float32], top: int, evidence: bool, explainer: str
    ) -> Prediction:
        accepted = scores >= self.thresholds
        order = np.argsort(-scores, kind="stable")
        labels = order[: max(top, int(accepted.sum()))] if top else order[: int(accepted.sum())]
        found = self._evidence(documents, row, labels, explainer) if evidence and len(labels) else [()] * len(labels)
        ranked = [
            ScoredCode(
                code=self.codes[label],
                description=self.codebook.description(self.codes[label]),
                probability=float(scores[label]),
                accepted=bool(accepted[label]),
                evidence=spans,
            )
            for label, spans in zip(labels, found, strict=True)
        ]
        return Prediction(documents.ids[row], tuple(ranked))

    def _evidence(
        self, documents: Documents, row: int, labels: NDArray[np.intp], explainer: str
    ) -> list[tuple[Evidence, ...]]:
        weights = self.model.weigh(documents, row, labels.tolist(), explainer=explainer)
        place = slice(documents.token_starts[row], documents.token_starts[row + 1])
        starts, ends = documents.char_starts[place], documents.char_ends[place]
        text = documents.text_of(row)
        return [evidence_spans(weight, starts, ends, text) for weight in weights]


def save_coder(fitted: FittedCoder, path: Path | str, inputs: Mapping[str, str] | None = None) -> Manifest:
    """Write a coder: weights, thresholds, vocabulary, code book, recipes."""
    own: dict[str, NDArray[Any]] = {"thresholds": fitted.thresholds, "train_counts": fitted.train_counts}
    learned = {f"model.{name}": array for name, array in fitted.model.pack().items()}
    return save_artifact(
        path,
        KIND,
        tensors={**own, **learned},
        files={
            "vocab.txt": "\n".join(fitted.vocab.tokens) + "\n",
            "codes.json": json.dumps(fitted.codes, ensure_ascii=False),
            "codebook.jsonl": codebook_to_jsonl(fitted.codebook),
            "members.json": json.dumps([recipe_table(recipe) for recipe in fitted.members]),
        },
        recipe=recipe_table(fitted.recipe),
        inputs=inputs,
        facts={
            **fitted.facts,
            "codes": len(fitted.codes),
            "temperature": fitted.temperature,
            "train_documents": fitted.train_documents,
        },
    )


def load_coder(path: Path | str) -> FittedCoder:
    """Open a coder for prediction."""
    artifact = open_artifact(path, KIND)
    vocab = Vocab(tuple(artifact.text("vocab.txt").splitlines()))
    codes = tuple(json.loads(artifact.text("codes.json")))
    codebook = codebook_from_jsonl(artifact.text("codebook.jsonl"))
    members = tuple(recipe_from(table, where=f"{path}") for table in json.loads(artifact.text("members.json")))
    arrays = {
        name.removeprefix("model."): array for name, array in artifact.tensors.items() if name.startswith("model.")
    }
    given = Given(vocab, codes, codebook, np.zeros(len(codes), np.float32))
    facts = artifact.manifest.facts
    return FittedCoder(
        recipe=recipe_from(artifact.manifest.recipe, where=f"{path}"),
        members=members,
        vocab=vocab,
        codebook=codebook,
        codes=codes,
        model=unpack_model(members, arrays, given),
        thresholds=np.array(artifact.tensors["thresholds"]),
        temperature=facts["temperature"],
        train_counts=np.array(artifact.tensors["train_counts"]),
        train_documents=facts["train_documents"],
        facts=facts,
    )
