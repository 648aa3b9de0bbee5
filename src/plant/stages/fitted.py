"""A fitted coder: everything that is needed to code raw text, in memory and as a folder."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.codes.files import codebook_from_jsonl, codebook_to_jsonl
from plant.data.corpus import Documents
from plant.data.encode import encode_texts
from plant.evaluate.choosing.calibration import calibrated
from plant.evaluate.scores.forms import BLOCK, blocks
from plant.explain.spans import evidence_spans
from plant.nn.parts.build import Given
from plant.recipe.reading import recipe_from, recipe_table
from plant.recipe.schema import Recipe
from plant.stages.models import Model, probabilities, readings, unpack_model
from plant.store.artifact import Manifest, open_artifact, save_artifact
from plant.text.vocab import Vocab
from plant.types import Prediction, Progress, ScoredCode, silent

KIND = "coder"
Weigh = Callable[[Sequence[int]], NDArray[np.float32]]
"""How much each token of a document speaks for each of some labels."""


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

    def reread(self, documents: Documents) -> Documents:
        """Documents of the corpus in the coder's words, some of which may have been added after it was prepared."""
        if not documents.text.size:
            return documents
        fresh = self.encode([documents.text_of(row) for row in range(len(documents))], documents.ids)
        places = ("tokens", "token_starts", "char_starts", "char_ends")
        return replace(documents, **{name: getattr(fresh, name) for name in places})

    def probabilities(self, documents: Documents, *, progress: Progress = silent) -> NDArray[np.float32]:
        """Calibrated probabilities, documents x codes."""
        found = probabilities(self.model, documents, n_labels=len(self.codes), progress=progress)
        for rows in blocks(len(found), BLOCK // max(1, len(self.codes))):
            found[rows] = self._calibrated(found[rows])
        return found

    def code(
        self, documents: Documents, *, top: int = 15, evidence: bool = True, explainer: str = ""
    ) -> list[Prediction]:
        """The best codes of each document, and every accepted one; with the words that speak for them."""
        found: dict[int, Prediction] = {}
        for rows, reading in readings(self.model, documents, evidence=evidence):
            scores = self._calibrated(reading.scores)
            for place, row in enumerate(rows.tolist()):
                ranked = self._ranked(scores[place], top)
                if evidence:
                    ranked = self._explained(documents, row, ranked, partial(reading.weigh, place, explainer=explainer))
                found[row] = Prediction(documents.ids[row], tuple(ranked))
        return [found[row] for row in range(len(documents))]

    def weigh(self, documents: Documents, label: int, *, explainer: str = "") -> NDArray[np.float32]:
        """How much each token of the first document speaks for a label."""
        return self.model.read(documents, evidence=True).weigh(0, [label], explainer=explainer)[0]

    def explained(self, documents: Documents, codes: Sequence[str], *, explainer: str = "") -> Prediction:
        """Some codes of the first document, best first, with their evidence."""
        reading = self.model.read(documents, evidence=True)
        ranked = [
            scored
            for scored in self._ranked(self._calibrated(reading.scores)[0], len(self.codes))
            if scored.code in codes
        ]
        explained = self._explained(documents, 0, ranked, partial(reading.weigh, 0, explainer=explainer))
        return Prediction(documents.ids[0], tuple(explained))

    def quantized(self) -> "FittedCoder":
        """The same coder for CPUs with the encoder's weights in eight bits."""
        return replace(self, model=self.model.quantized())

    def _calibrated(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        return scores if self.temperature == 1 else calibrated(scores, self.temperature).astype(np.float32)

    def _ranked(self, scores: NDArray[np.float32], top: int) -> list[ScoredCode]:
        """The `top` best codes of a document, or as many as are accepted where those are more."""
        accepted = scores >= self.thresholds
        labels = np.argsort(-scores, kind="stable")[: max(top, int(accepted.sum()))]
        return [
            ScoredCode(
                code=self.codes[label],
                description=self.codebook.description(self.codes[label]),
                probability=float(scores[label]),
                accepted=bool(accepted[label]),
            )
            for label in labels
        ]

    def _explained(
        self, documents: Documents, row: int, ranked: Sequence[ScoredCode], weigh: Weigh
    ) -> list[ScoredCode]:
        """The codes of a document with the phrases that speak for them."""
        if not ranked:
            return []
        weights = weigh([self._labels[scored.code] for scored in ranked])
        place = slice(documents.token_starts[row], documents.token_starts[row + 1])
        starts, ends, text = documents.char_starts[place], documents.char_ends[place], documents.text_of(row)
        return [
            replace(scored, evidence=evidence_spans(weight, starts, ends, text))
            for scored, weight in zip(ranked, weights, strict=True)
        ]

    @cached_property
    def _labels(self) -> dict[str, int]:
        return {code: label for label, code in enumerate(self.codes)}


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
