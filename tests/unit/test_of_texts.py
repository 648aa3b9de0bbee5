"""Scores as rows and as lists give the same answers."""

import sys
import typing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plant.codes.codebook import CodeBook
from plant.data.builder import build_corpus
from plant.data.corpus import Corpus, Role, gold_codes, held_out
from plant.evaluate.measures.table import measure
from plant.evaluate.scores.of_texts import Full, Sparse, Usual, sparse_of
from plant.evaluate.scores.outcome import outcome_of
from plant.recipe.schema import Choose, Prepare, Recipe
from plant.steps.fit import fit_coder
from plant.steps.predict import score_role
from plant.systems.blend import MembersReading
from plant.systems.bow import BowReading
from plant.systems.dictionary import DictionaryReading
from plant.systems.system import said
from plant.types import Note
from tests.made_up import corpus_of, notes_of

COARSE = np.arange(5, dtype=np.float32) / 4  # so that many scores are equal
THRESHOLDS = np.array([0.5, 0.25, 1.0, 0.75, 0.0, 0.5], np.float32)


@st.composite
def sparse_scores(draw: st.DrawFn) -> Sparse:
    labels = st.lists(st.integers(0, 5), unique=True).map(sorted)
    usual = Usual(np.array(draw(st.lists(st.sampled_from(COARSE), min_size=6, max_size=6)), np.float32), known=6)
    found = []
    for own in draw(st.lists(labels, min_size=1, max_size=3)):
        values = draw(st.lists(st.sampled_from(COARSE), min_size=len(own), max_size=len(own)))
        found.append((np.array(own, np.int32), np.array(values, np.float32)))
    return sparse_of(found, usual)


@given(sparse_scores(), st.integers(0, 8))
def test_lists_answer_as_rows_do(sparse: Sparse, most: int) -> None:
    full = Full(sparse.filled())
    for row in range(len(sparse.lists)):
        np.testing.assert_array_equal(sparse.best(row, most), full.best(row, most))
        np.testing.assert_array_equal(sparse.reaching(row, THRESHOLDS), full.reaching(row, THRESHOLDS))
        asked = np.array([5, 0, 3, 3])
        np.testing.assert_array_equal(sparse.of(row, asked), full.of(row, asked))
        halved, expected = sparse.changed(lambda scores: scores / 2), full.changed(lambda scores: scores / 2)
        np.testing.assert_array_equal(halved.of(row, asked), expected.of(row, asked))


@pytest.mark.parametrize("blend", ["mean", "weights"])
def test_members_that_speak_in_lists_are_joined_as_rows_are(blend: str) -> None:
    corpus = corpus_of(notes_of(60))
    recipe = Recipe(system="members", members=("dictionary", "plant-bow"), choose=Choose(blend=blend))
    fitted = fit_coder(corpus, recipe)
    reading = fitted.system.read(held_out(corpus, Role.REPORT, fitted.codes))
    found = said(reading)
    assert isinstance(found, Sparse)
    np.testing.assert_allclose(found.filled(), reading.scores, rtol=1e-6)


def _many_codes(n: int, *, fitted: int = 400, others: int = 60) -> Corpus:
    """Notes with ever other codes, each of which is named by a word; held-out notes have twenty of them."""
    words = {f"X{label}": "sign" + "".join(chr(97 + int(digit)) for digit in str(label)) for label in range(n)}
    random, codes = np.random.default_rng(0), np.array(list(words))
    shares = [(own.tolist(), "train") for own in np.array_split(random.permutation(codes), fitted)]
    shares += [(random.choice(codes, 20, replace=False).tolist(), ("dev", "test")[one % 2]) for one in range(others)]
    notes = [
        Note(f"n{number}", " ".join(words[code] for code in own), tuple(own), split=split)
        for number, (own, split) in enumerate(shares)
    ]
    return build_corpus(notes, CodeBook("other", tuple(words), words), Prepare(min_count=1))


def _nobody_asks(_: object) -> None:
    """Checks of annotations look whether the attribute is there, which is no question for scores."""
    if sys._getframe(1).f_code.co_filename != typing.__file__:
        pytest.fail("a row of scores")


@pytest.mark.parametrize("n_codes", [2_000, pytest.param(170_000, marks=pytest.mark.slow)])
def test_many_codes_are_fitted_judged_and_predicted_without_a_row_of_scores(
    n_codes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plant.evaluate.choosing.pairs.IN_LISTS", 10)
    monkeypatch.setattr("plant.steps.predict.MANY", 1_000)
    for reading in (BowReading, DictionaryReading, MembersReading):
        monkeypatch.setattr(reading, "scores", property(_nobody_asks))
    corpus = _many_codes(n_codes)
    recipe = Recipe(system="members", members=("dictionary", "plant-bow"), choose=Choose(blend="weights"))
    fitted = fit_coder(corpus, recipe)
    assert len(fitted.codes) == n_codes
    scored = score_role(fitted, corpus, Role.REPORT, system="members", splits={})
    assert measure("P@5")(outcome_of(scored, areas=False)) > 0.9
    documents = held_out(corpus, Role.REPORT, fitted.codes)
    [first, *_] = fitted.code(documents, top=5)
    assert {code.code for code in first.ranked[:5]} <= set(gold_codes(corpus, Role.REPORT)[0])
    assert fitted.accepted(documents)
