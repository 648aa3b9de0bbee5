"""Measuring explanations, on a model that looks at one word per code and says so."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from plant.data.corpus import Corpus, Documents, Role, held_out
from plant.errors import InputError
from plant.evaluate.choosing.blend import Blend
from plant.recipe.schema import Recipe
from plant.steps.explanations import RANDOM, applicable, explained_codes, measure_explainer
from plant.systems.blend import MembersReading, MembersSystem
from plant.systems.coder import FittedCoder
from plant.text.vocab import Vocab
from plant.types import Note, Span
from tests.made_up import ReadingAlone, corpus_of, documents_of, notes_of

CODES = tuple(f"C{label}" for label in range(5))


@dataclass(frozen=True)
class SignReading:
    scores: np.ndarray
    signs: np.ndarray
    documents: Documents
    known: int = 5

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> np.ndarray:
        if explainer not in ("true", "wrong"):
            raise InputError("no such explainer")
        looked_at = self.signs[list(labels)][:, None] == self.documents.tokens_of(row)
        return (looked_at if explainer == "true" else ~looked_at).astype(np.float32)


@dataclass(frozen=True)
class SignModel(ReadingAlone):
    """Gives a code 0.9 where its sign is in the note, and 0.1 elsewhere."""

    vocab: Vocab

    def read(self, documents: Documents, *, evidence: bool = False) -> SignReading:
        signs = self.vocab.encode([f"sign{code.lower()}x" for code in CODES])
        found = [np.isin(signs, documents.tokens_of(row)) for row in range(len(documents))]
        return SignReading(np.where(found, 0.9, 0.1).astype(np.float32), np.asarray(signs), documents)


def marked_notes(*, marks: bool = True) -> list[Note]:
    """Each code's sign is marked as the evidence for it."""
    notes = []
    for note in notes_of(60):
        places = {code: note.text.index(f"sign{code.lower()}x") for code in note.codes}
        evidence = {code: (Span(start, start + 7),) for code, start in places.items()}
        notes.append(replace(note, evidence=evidence if marks else {}))
    return notes


def coder_of(corpus: Corpus) -> FittedCoder:
    return FittedCoder(
        recipe=Recipe(), vocab=corpus.vocab, codebook=corpus.codebook, codes=CODES,
        system=SignModel(corpus.vocab), thresholds=np.full(5, 0.5, np.float32), temperature=1.0,
        train_counts=np.ones(5, np.int64), train_documents=36, facts={},
    )  # fmt: skip


def measured(name: str, *, marks: bool = True, notes: int = 100) -> dict[str, float]:
    corpus = corpus_of(marked_notes(marks=marks))
    fitted = coder_of(corpus)
    sets = [explained_codes(fitted, held_out(corpus, role, CODES), notes=notes) for role in (Role.CHOOSE, Role.REPORT)]
    return measure_explainer(fitted, name, *sets)


def test_the_words_that_a_model_looks_at_are_found_to_be_right() -> None:
    found = measured("true")
    assert [found[name] for name in ("precision", "recall", "f1", "iou", "auprc")] == pytest.approx([1.0] * 5)
    assert found["comprehensiveness"] == pytest.approx(0.8)  # without the sign the code falls from 0.9 to 0.1
    assert found["sufficiency"] == pytest.approx(0.0, abs=1e-6)  # the sign alone is enough


def test_words_that_a_model_does_not_look_at_are_found_to_be_wrong() -> None:
    found, random = measured("wrong"), measured(RANDOM)
    assert found["f1"] < random["f1"] < 0.5
    assert found["comprehensiveness"] == pytest.approx(0.0, abs=1e-6)
    assert found["comprehensiveness"] < random["comprehensiveness"] < 0.8
    assert found["sufficiency"] == pytest.approx(0.8)


def test_a_corpus_without_marks_has_faithfulness_only() -> None:
    found = measured("true", marks=False)
    assert "f1" not in found
    assert found["comprehensiveness"] == pytest.approx(0.8)


def test_only_as_many_notes_are_explained_as_asked_for() -> None:
    corpus = corpus_of(marked_notes())
    explained = explained_codes(coder_of(corpus), held_out(corpus, Role.REPORT, CODES), notes=3)
    assert len(explained.documents) == 3
    assert {example.row for example in explained.examples} <= {0, 1, 2}


def test_random_weights_are_the_same_every_time() -> None:
    first, second = measured(RANDOM), measured(RANDOM)
    assert first | {"seconds a note": 0} == second | {"seconds a note": 0}


def test_an_explainer_that_does_not_go_with_the_model_is_not_applicable() -> None:
    corpus = corpus_of(marked_notes())
    explained = explained_codes(coder_of(corpus), held_out(corpus, Role.REPORT, CODES), notes=3)
    assert applicable(coder_of(corpus), "true", explained)
    assert not applicable(coder_of(corpus), "planted", explained)


def test_a_corpus_without_texts_is_refused() -> None:
    corpus = corpus_of(marked_notes())
    documents = replace(held_out(corpus, Role.REPORT, CODES), text=np.empty(0, np.uint8))
    with pytest.raises(InputError, match="without"):
        explained_codes(coder_of(corpus), documents, notes=3)


def test_a_corpus_in_the_words_of_another_coder_is_read_anew() -> None:
    corpus = corpus_of(marked_notes())
    fitted, reported = coder_of(corpus), held_out(corpus, Role.REPORT, CODES)
    other = replace(reported, tokens=reported.tokens + 1)
    right, found = (explained_codes(fitted, documents, notes=3) for documents in (reported, other))
    assert found.documents.tokens.tolist() == right.documents.tokens.tolist()
    assert len(found.examples) == len(right.examples) > 0


@dataclass(frozen=True)
class Words:
    """A reading that gives every word the same weight, for explainers that it knows."""

    weight: float
    knows: tuple[str, ...] = ("both",)
    scores: np.ndarray = field(default_factory=lambda: np.zeros((1, 1), np.float32))
    known: int = 1

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> np.ndarray:
        if explainer not in self.knows:
            raise InputError("cannot be explained so")
        return np.full((len(labels), 3), self.weight, np.float32)


@dataclass(frozen=True)
class Reader(ReadingAlone):
    """A system that reads anything in one way."""

    reading: Words

    def read(self, documents: Documents, *, evidence: bool = False) -> Words:
        return self.reading


def together(kind: str, *members: Words) -> MembersReading:
    blend = Blend(np.array([3.0, 1.0], np.float32), 1.0, 0.0) if kind == "blend" else None
    system = MembersSystem(tuple(map(Reader, members)), np.zeros(1, np.float32), blend)
    return system.read(documents_of([[2, 3, 4]], labels=[[]]))


@pytest.mark.parametrize(("kind", "both"), [("mean", 4.0), ("blend", 3.0)])
def test_members_that_cannot_be_explained_in_a_way_are_left_out(kind: str, both: float) -> None:
    reading = together(kind, Words(2.0), Words(6.0, ("both", "one")))
    assert (reading.weigh(0, [0], explainer="both") == both).all()
    assert (reading.weigh(0, [0], explainer="one") == 6.0).all()
    with pytest.raises(InputError, match="cannot be explained so"):
        reading.weigh(0, [0], explainer="none")
