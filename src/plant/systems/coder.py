"""A fitted coder: everything that is needed to code raw text, in memory and as a folder."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.codes.files import codebook_from_jsonl, codebook_to_jsonl
from plant.codes.parts import recombined, title_of_parts
from plant.codes.synonyms import spoken, with_synonyms
from plant.data.batches import together
from plant.data.corpus import Documents, TrainingView
from plant.data.encode import encode_texts
from plant.errors import ArtifactError, InputError
from plant.evaluate.choosing.calibration import calibrated
from plant.evaluate.scores.forms import BLOCK, blocks
from plant.evaluate.scores.of_texts import TextScores
from plant.recipe.reading import recipe_from, recipe_table
from plant.recipe.schema import Recipe
from plant.store.artifact import Artifact, Manifest, atomic_file, open_artifact, save_artifact
from plant.store.checks import check_length, well_formed
from plant.store.keeper import Kind
from plant.store.safetensors import write_tensors
from plant.systems.blend import MembersSystem
from plant.systems.system import (
    FittedSystem,
    Growth,
    Known,
    Reading,
    best_of_each,
    flattened,
    phrases_in,
    probabilities,
    readings,
    said,
    under,
    unflattened,
)
from plant.systems.table import unpack_system
from plant.systems.widened import WidenedSystem
from plant.text.tokenizer import tokenize
from plant.text.vocab import Vocab
from plant.types import Prediction, Progress, ScoredCode, silent

KIND, SYSTEM = "coder", "system.json"


@dataclass(frozen=True)
class FittedCoder:
    """What `fit` leaves and a folder holds: all that is needed to code raw text."""

    recipe: Recipe
    vocab: Vocab
    codebook: CodeBook
    codes: tuple[str, ...]
    system: FittedSystem
    thresholds: NDArray[np.float32]
    temperature: float
    train_counts: NDArray[np.int64]
    train_documents: int
    facts: Mapping[str, Any]  # how it was fitted: splits, history, origin of the thresholds

    def encode(self, texts: Sequence[str], ids: Sequence[str] = ()) -> Documents:
        """Texts as documents of the coder's vocabulary."""
        return encode_texts(texts, self.vocab, self.recipe.prepare, ids=ids)

    def reread(self, documents: Documents) -> Documents:
        """Documents of the corpus in the coder's words, some of which may have been added after it was prepared."""
        if not documents.text.size:
            return documents
        fresh = self.encode([documents.text_of(row) for row in range(len(documents))], documents.ids)
        places = ("tokens", "token_starts", "char_starts", "char_ends")
        return replace(documents, **{name: getattr(fresh, name) for name in places})

    def probabilities(self, documents: Documents, *, progress: Progress = silent) -> NDArray[np.float32]:
        """Calibrated probabilities, documents x codes."""
        found = probabilities(self.system, documents, n_labels=len(self.codes), progress=progress)
        for rows in blocks(len(found), BLOCK // max(1, len(self.codes))):
            found[rows] = self._calibrated(found[rows])
        return found

    def best(
        self, documents: Documents, *, most: int, progress: Progress = silent
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The labels of the best codes of each document, best first, and their calibrated probabilities."""
        labels, found = best_of_each(self.system, documents, most=most, n_labels=len(self.codes), progress=progress)
        return labels, self._calibrated(found)

    def probabilities_of(self, label: int, documents: Documents) -> NDArray[np.float32]:
        """The calibrated probability of one label for each document."""
        found = np.zeros(len(documents), np.float32)
        for rows, reading in readings(self.system, documents, size=together(len(self.codes))):
            scores = said(reading)
            found[rows] = [scores.of(place, np.array([label]))[0] for place in range(len(rows))]
        return self._calibrated(found)

    def accepted(self, documents: Documents) -> list[tuple[int, int]]:
        """The pairs of a document's row and an accepted label, by row and label."""
        found: list[tuple[int, int]] = []
        for rows, reading in readings(self.system, documents, size=together(len(self.codes))):
            scores = said(reading).changed(self._calibrated)
            for place, row in enumerate(rows.tolist()):
                found += [(row, label) for label in scores.reaching(place, self.thresholds).tolist()]
        return sorted(found)

    def code(
        self, documents: Documents, *, top: int = 15, evidence: bool = True, explainer: str = ""
    ) -> list[Prediction]:
        """The best codes of each document, and every accepted one; with the words that speak for them."""
        found: dict[int, Prediction] = {}
        for rows, reading in readings(self.system, documents, evidence=evidence, size=together(len(self.codes))):
            scores = said(reading).changed(self._calibrated)
            for place, row in enumerate(rows.tolist()):
                ranked = self._ranked(scores, place, top)
                if evidence:
                    ranked = self._explained(documents, row, ranked, reading, place, explainer=explainer)
                found[row] = Prediction(documents.ids[row], tuple(ranked))
        return [found[row] for row in range(len(documents))]

    def weigh(self, documents: Documents, label: int, *, explainer: str = "") -> NDArray[np.float32]:
        """How much each token of the first document speaks for a label."""
        return self.system.read(documents, evidence=True).weigh(0, [label], explainer=explainer)[0]

    def explained(self, documents: Documents, codes: Sequence[str], *, explainer: str = "") -> Prediction:
        """Some codes of the first document, best first, with their evidence."""
        reading = self.system.read(documents, evidence=True)
        labels = np.array(sorted({self._labels[code] for code in codes if code in self._labels}), np.intp)
        scores = said(reading).changed(self._calibrated).of(0, labels)
        order = np.argsort(-scores, kind="stable")
        ranked = self._scored(labels[order], scores[order])
        explained = self._explained(documents, 0, ranked, reading, 0, explainer=explainer)
        return Prediction(documents.ids[0], tuple(explained))

    def quantized(self) -> "FittedCoder":
        """The same coder for CPUs with the encoder's weights in eight bits; an error where nothing would change."""
        system = self.system.quantized()
        if _is_same(system, self.system):
            raise InputError("this coder has no form in eight bits: only coders with an awd-lstm encoder have one")
        return replace(self, system=system)

    def _calibrated(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        return scores if self.temperature == 1 else calibrated(scores, self.temperature).astype(np.float32)

    def _ranked(self, scores: TextScores, place: int, top: int) -> list[ScoredCode]:
        """The `top` best codes of a document, or as many as are accepted where those are more."""
        accepted = len(scores.reaching(place, self.thresholds))
        labels = scores.best(place, max(top, accepted))
        return self._scored(labels, scores.of(place, labels))

    def _scored(self, labels: NDArray[np.intp], scores: NDArray[np.float32]) -> list[ScoredCode]:
        return [
            ScoredCode(
                code=self.codes[label],
                description=self.codebook.description(self.codes[label]),
                probability=float(score),
                accepted=bool(score >= self.thresholds[label]),
            )
            for label, score in zip(labels.tolist(), scores, strict=True)
        ]

    def _explained(
        self,
        documents: Documents,
        row: int,
        ranked: Sequence[ScoredCode],
        reading: Reading,
        place_in_reading: int,
        *,
        explainer: str,
    ) -> list[ScoredCode]:
        """The codes of a document with the phrases that speak for them."""
        if not ranked:
            return []
        labels = [self._labels[scored.code] for scored in ranked]
        found = phrases_in(reading, place_in_reading, labels, documents, row, explainer=explainer)
        return [replace(scored, evidence=own) for scored, own in zip(ranked, found, strict=True)]

    @cached_property
    def _labels(self) -> dict[str, int]:
        return {code: label for label, code in enumerate(self.codes)}


def _is_same(one: FittedSystem, other: FittedSystem) -> bool:
    """Whether two systems are one, or are made of the same ones."""
    if isinstance(one, MembersSystem) and isinstance(other, MembersSystem):
        return all(_is_same(*pair) for pair in zip(one.members, other.members, strict=True))
    if isinstance(one, WidenedSystem) and isinstance(other, WidenedSystem):
        return _is_same(one.system, other.system)
    return one is other


def renamed_codes(fitted: FittedCoder, book: CodeBook) -> int:
    """How many codes that the coder knows have names in a book which the coder has not heard."""
    known = set(fitted.codes).intersection(book.codes)
    return sum(not set(book.names(code)) <= set(fitted.codebook.names(code)) for code in known)


def add_codes(fitted: FittedCoder, book: CodeBook, view: TrainingView | None = None) -> FittedCoder:
    """The coder with the book's further codes at the end; the scores of the codes it knew stay as they were.

    Where the fitted notes are at hand, names that stand in them are believed the less: their codes were not given.
    """
    new = tuple(code for code in book.codes if code not in set(fitted.codes) and book.names(code))
    if not new:
        raise InputError("the table names no code that is new to this coder: nothing to add")
    if not fitted.system.takes_codes:
        raise InputError(
            "this coder does not match names, so it cannot learn a code from its name alone: fit one with a recipe "
            "such as 'interaction' or 'label-descriptions', or with decoder.interaction={} set"
        )
    return _grown(fitted, _growth(fitted, book, new, view))


def add_recombined(fitted: FittedCoder, like: Iterable[str]) -> FittedCoder:
    """The coder with codes that have the first part of one of its codes and later parts of one of `like`.

    Nobody has named them: what the system makes of them it makes of their parts.
    """
    book = fitted.codebook
    new = recombined(book.system, fitted.codes, like)
    if not new:
        return fitted
    grown = _grown(fitted, _growth(fitted, CodeBook(book.system, new), new, None))
    titles = {code: title_of_parts(book.system, code, book.descriptions) for code in new}
    return replace(grown, codebook=replace(grown.codebook, descriptions={**titles, **book.descriptions}))


def _grown(fitted: FittedCoder, growth: Growth) -> FittedCoder:
    further = np.full(growth.further, np.median(fitted.thresholds), np.float32)
    return replace(
        fitted,
        vocab=growth.known.vocab,
        codes=growth.known.codes,
        codebook=growth.known.codebook,
        system=fitted.system.with_codes(growth),
        thresholds=np.concatenate([fitted.thresholds, further]),
        train_counts=growth.counts,
        facts={**fitted.facts, "codes_added": fitted.facts.get("codes_added", 0) + growth.further},
    )


def _growth(fitted: FittedCoder, book: CodeBook, new: tuple[str, ...], view: TrainingView | None) -> Growth:
    vocab = _vocab_with(fitted.vocab, book, new) if fitted.system.matches_names else fitted.vocab
    return Growth(
        known=Known(vocab, fitted.codes + new, _merged(fitted.codebook, book, new)),
        n_words=len(fitted.vocab),
        n_codes=len(fitted.codes),
        counts=np.concatenate([fitted.train_counts, np.zeros(len(new), np.int64)]),
        n_documents=fitted.train_documents,
        view=view,
    )


def _vocab_with(vocab: Vocab, book: CodeBook, codes: tuple[str, ...]) -> Vocab:
    """The vocabulary with the words of new names at its end."""
    names = (form for code in codes for name in book.names(code) for form in spoken(name))
    words = dict.fromkeys(word for name in names for word in tokenize(name).forms)
    return Vocab((*vocab.tokens, *(word for word in words if word not in vocab.numbers)))


def _merged(book: CodeBook, further: CodeBook, codes: tuple[str, ...]) -> CodeBook:
    """The old book with the new codes of another, their titles, synonyms and parents."""
    chosen = set(codes)
    return replace(
        with_synonyms(book, replace(further, codes=codes)).with_codes(codes),
        descriptions={**{c: d for c, d in further.descriptions.items() if c in chosen}, **book.descriptions},
        parents={**{c: p for c, p in further.parents.items() if c in chosen}, **book.parents},
    )


def save_coder(
    fitted: FittedCoder,
    path: Path | str,
    *,
    recipe: Mapping[str, Any] | None = None,
    inputs: Mapping[str, str] | None = None,
    parts: Sequence[Path] = (),
) -> Manifest:
    """Write a coder: system, thresholds, vocabulary, code book, recipe (its own, whatever it is told), and a card.

    Of `parts`, which `save_rows` wrote, each has the rows of the next labels.
    """
    from plant.systems.card import card_files, card_of  # which speaks of coders, and so imports this

    tree, tensors = _taken_apart(fitted)
    rows = _rows_of_labels(fitted, tensors) if parts else {}
    return save_artifact(
        path,
        KIND,
        tensors={name: array for name, array in tensors.items() if name not in rows},
        parts=parts,
        files={
            "vocab.txt": "\n".join(fitted.vocab.tokens) + "\n",
            "codes.json": json.dumps(fitted.codes, ensure_ascii=False),
            "codebook.jsonl": codebook_to_jsonl(fitted.codebook),
            SYSTEM: json.dumps(tree),
        },
        recipe=recipe_table(fitted.recipe),
        inputs=inputs,
        beside=card_files(card_of(fitted)),
        facts={
            **fitted.facts,
            "codes": len(fitted.codes),
            "temperature": fitted.temperature,
            "train_documents": fitted.train_documents,
        },
    )


def save_rows(fitted: FittedCoder, path: Path, labels: range) -> None:
    """Write what a coder has a row for each label of, for some of them; `save_coder` makes a coder of all parts."""
    rows = _rows_of_labels(fitted, _taken_apart(fitted)[1])
    with atomic_file(path) as temporary:
        write_tensors(temporary, {name: array[labels.start : labels.stop] for name, array in rows.items()})


def _taken_apart(fitted: FittedCoder) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    tree, arrays = flattened(fitted.system.pack(), "system.")
    return tree, {"thresholds": fitted.thresholds, "train_counts": fitted.train_counts, **arrays}


def _rows_of_labels(fitted: FittedCoder, tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Arrays with as many rows as there are labels; one that has them by chance is as whole again when it is read."""
    return {name: array for name, array in tensors.items() if array.ndim and len(array) == len(fitted.codes)}


def load_coder(path: Path | str) -> FittedCoder:
    """Open a coder for prediction."""
    artifact = open_artifact(path, KIND)
    if SYSTEM not in artifact.manifest.files:
        raise ArtifactError(
            f"{path} was written by plant {artifact.manifest.plant_version}, whose coders this version does not read: "
            "fit it again with plant run, or open it with that version"
        )
    with well_formed(path):
        coder = _opened(artifact)
        _check(coder)
    return coder


def _opened(artifact: Artifact) -> FittedCoder:
    codes = tuple(artifact.table("codes.json"))
    known = Known(
        Vocab(tuple(artifact.text("vocab.txt").splitlines())),
        codes,
        codebook_from_jsonl(artifact.text("codebook.jsonl")),
    )
    packed = unflattened(artifact.table(SYSTEM), under(artifact.tensors, "system."))
    facts = artifact.manifest.facts
    return FittedCoder(
        recipe=recipe_from(artifact.manifest.recipe, where=f"{artifact.path}"),
        vocab=known.vocab,
        codebook=known.codebook,
        codes=codes,
        system=unpack_system(packed, known),
        thresholds=np.array(artifact.tensors["thresholds"]),
        temperature=float(facts["temperature"]),
        train_counts=np.array(artifact.tensors["train_counts"]),
        train_documents=int(facts["train_documents"]),
        facts=facts,
    )


def _check(coder: FittedCoder) -> None:
    """Refuse what no fitting leaves behind."""
    check_length("thresholds", coder.thresholds, len(coder.codes), finite=True)
    check_length("train_counts", coder.train_counts, len(coder.codes), finite=True)
    if not all(isinstance(code, str) for code in coder.codes) or len(set(coder.codes)) < len(coder.codes):
        raise ArtifactError("the codes of the folder are no distinct strings: make it again")
    if not 0 < coder.temperature < float("inf"):
        raise ArtifactError("the temperature of the folder is not above 0: make it again")
    numbers = (type(coder.facts["temperature"]) in (int, float), type(coder.facts["train_documents"]) is int)
    named = isinstance(coder.facts.get("threshold_origin", ""), str)
    if not named or not all(numbers) or coder.train_documents < 0:
        raise ArtifactError("the facts of the folder are of wrong kinds: make it again")


CODER = Kind(KIND, save_coder, load_coder)
