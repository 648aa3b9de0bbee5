"""Sets of labels so large that scores of all notes do not fit into memory."""

import numpy as np
import pytest

from plant.data.corpus import Role, held_out, training_view
from plant.evaluate.choosing.judge import cross_entropy
from plant.evaluate.choosing.thresholds import tune_global_threshold, tune_label_thresholds
from plant.evaluate.scores.forms import best_labels
from plant.evaluate.scores.lists import lists_of_mask
from plant.recipe.schema import Recipe
from plant.steps.fit import fit_coder
from plant.steps.predict import score_role
from plant.store.safetensors import room_for
from plant.systems.system import best_of_each
from tests.made_up import corpus_of, notes_of

RANDOM = np.random.default_rng(0)
SCORES = RANDOM.random((7, 5)).astype(np.float32)
TARGETS = RANDOM.random((7, 5)) < 0.4


def test_large_arrays_live_in_files_and_hold_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not isinstance(room_for(7, 5), np.memmap)
    monkeypatch.setattr("plant.store.safetensors.MAX_IN_MEMORY", 10)
    room = room_for(7, 5)
    room[:] = SCORES
    assert isinstance(room, np.memmap)
    assert np.array_equal(room, SCORES)


def test_scores_from_a_file_are_those_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = corpus_of(notes_of(40))
    fitted = fit_coder(corpus, Recipe(system="tfidf"))
    documents = held_out(corpus, Role.REPORT, training_view(corpus).codes)
    expected = fitted.probabilities(documents)
    monkeypatch.setattr("plant.store.safetensors.MAX_IN_MEMORY", 10)
    found = fitted.probabilities(documents)
    assert isinstance(found, np.memmap)
    assert np.array_equal(found, expected)


def test_the_loss_in_blocks_is_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = -np.log(np.where(TARGETS, SCORES, 1 - SCORES).astype(np.float64)).sum()
    monkeypatch.setattr("plant.evaluate.choosing.judge.BLOCK", 10)
    assert cross_entropy(SCORES, lists_of_mask(TARGETS)) == pytest.approx(plain, rel=1e-5)


def test_certain_and_wrong_is_very_bad_but_finite() -> None:
    scores, targets = np.array([[0.0, 1.0]], np.float32), np.array([[1, 0]])
    assert 20 < cross_entropy(scores, lists_of_mask(targets)) < 40


def test_thresholds_from_lists_are_those_from_a_matrix() -> None:
    gold = lists_of_mask(TARGETS)
    for goal in ("micro-F1", "macro-F1"):
        assert tune_global_threshold(SCORES, gold, measure=goal) == tune_global_threshold(SCORES, TARGETS, measure=goal)
    assert np.array_equal(tune_label_thresholds(SCORES, gold), tune_label_thresholds(SCORES, TARGETS))


def test_too_many_scores_are_kept_as_the_best_of_each_note(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = corpus_of(notes_of(40))
    fitted = fit_coder(corpus, Recipe(system="tfidf"))
    whole = score_role(fitted, corpus, Role.REPORT, system="tfidf", splits={})
    monkeypatch.setattr("plant.steps.predict.BEST", 2)
    monkeypatch.setattr("plant.steps.predict.MAX_IN_MEMORY", 10)
    short = score_role(fitted, corpus, Role.REPORT, system="tfidf", splits={})
    assert short.scores.list_length == 2
    assert "2 best codes" in short.frame.remarks[0]
    ranks, short_ranks = whole.scores.ranks(whole.gold), short.scores.ranks(short.gold)
    assert np.array_equal(short_ranks[ranks <= 2], ranks[ranks <= 2])
    expected = whole.scores.top(2)
    assert np.array_equal(short.scores.lists.labels, expected.lists.labels)
    assert np.array_equal(short.scores.values, expected.values)
    assert np.array_equal(short.scores.flags, expected.flags)


def test_many_codes_never_make_a_matrix_of_all_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = corpus_of(notes_of(40))
    fitted = fit_coder(corpus, Recipe(system="tfidf"))
    monkeypatch.setattr("plant.steps.predict.MANY", len(fitted.codes) - 1)
    monkeypatch.setattr("plant.systems.coder.probabilities", lambda *_, **__: pytest.fail("a matrix of all notes"))
    scored = score_role(fitted, corpus, Role.REPORT, system="tfidf", splits={})
    assert scored.scores.list_length == len(fitted.codes)


@pytest.mark.parametrize("k", [0, 1, 3, 4, 9, 10, 25])
@pytest.mark.parametrize("tied", [True, False])
def test_the_best_labels_are_the_first_of_a_stable_sort(k: int, tied: bool) -> None:
    scores = RANDOM.random(10).astype(np.float32)
    scores = np.round(scores * 3) if tied else scores
    assert np.array_equal(best_labels(scores, k), np.argsort(-scores, kind="stable")[:k])


def test_a_threshold_of_the_best_labels_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = corpus_of(notes_of(60))
    expected = fit_coder(corpus, Recipe(system="tfidf")).thresholds
    monkeypatch.setattr("plant.steps.fit.IN_LISTS", 10)
    np.testing.assert_allclose(fit_coder(corpus, Recipe(system="tfidf")).thresholds, expected, rtol=1e-6)


def test_the_best_labels_of_documents_are_the_first_of_all_sorted() -> None:
    corpus = corpus_of(notes_of(40))
    fitted = fit_coder(corpus, Recipe(system="tfidf"))
    documents = held_out(corpus, Role.REPORT, training_view(corpus).codes)
    scores = fitted.probabilities(documents)
    for most in (1, 3, scores.shape[1]):
        labels, values = best_of_each(fitted.system, documents, most=most)
        assert np.array_equal(values, -np.sort(-scores, axis=1)[:, :most])
        assert np.array_equal(np.take_along_axis(scores, labels.astype(np.int64), axis=1), values)
