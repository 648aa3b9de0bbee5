"""Sets of labels so large that scores of all notes do not fit into memory."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from plant.codes.codebook import CodeBook
from plant.data.corpus import Documents, Role, gold_codes, held_out, training_view
from plant.evaluate.choosing.judge import best_scores, cross_entropy, judge_on
from plant.evaluate.choosing.thresholds import tune_global_threshold, tune_label_thresholds
from plant.evaluate.measures.table import measure
from plant.evaluate.scores.forms import best_labels
from plant.evaluate.scores.lists import Lists, lists_of_mask
from plant.evaluate.scores.outcome import outcome_of
from plant.recipe.schema import Choose, Recipe
from plant.steps.fit import fit_coder, joined, tuned
from plant.steps.predict import score_role
from plant.store.safetensors import room_for
from plant.systems.prior import PriorReading
from plant.systems.system import best_of_each
from tests.made_up import ReadingAlone, corpus_of, notes_of

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
    monkeypatch.setattr("plant.evaluate.choosing.pairs.IN_LISTS", 10)
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


WAYS = {
    "blend": Choose(blend="weights"),
    "macro-F1": Choose(goal="macro-F1"),
    "per label, calibrated": Choose(thresholds="per-label", calibrate=True, blend="weights"),
}


@pytest.mark.parametrize("choose", WAYS.values(), ids=WAYS.keys())
def test_a_blend_chosen_on_lists_is_that_of_all_scores(choose: Choose, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = corpus_of(notes_of(60))
    recipe = Recipe(system="members", members=("prior", "tfidf"), choose=choose)
    whole = fit_coder(corpus, recipe)
    monkeypatch.setattr("plant.evaluate.choosing.pairs.IN_LISTS", 10)
    monkeypatch.setattr("plant.steps.fit.probabilities", lambda *_, **__: pytest.fail("a matrix of all notes"))
    monkeypatch.setattr("plant.systems.blend.probabilities", lambda *_, **__: pytest.fail("a matrix of all notes"))
    listed = fit_coder(corpus, recipe)
    documents = held_out(corpus, Role.REPORT, whole.codes)
    np.testing.assert_allclose(listed.thresholds, whole.thresholds, rtol=1e-3)
    np.testing.assert_allclose(listed.probabilities(documents), whole.probabilities(documents), rtol=1e-3)


def test_early_stopping_judges_lists_as_it_judges_all_scores() -> None:
    corpus = corpus_of(notes_of(60))
    codes = training_view(corpus).codes
    choosing = held_out(corpus, Role.CHOOSE, codes)
    scores = RANDOM.random((len(choosing), len(codes))).astype(np.float32)
    judge = judge_on(choosing, codes, gold_codes(corpus, Role.CHOOSE))
    rows = np.arange(len(choosing))
    parts = [(rows[first::2], scores[first::2]) for first in (1, 0)]
    found = judge(best_scores(parts, Lists(choosing.labels, choosing.label_starts)))
    assert found == pytest.approx(judge(scores), rel=1e-6)


class OneWordALabel(ReadingAlone):
    """A system whose labels are likely where a word of their number stands."""

    def __init__(self, n_labels: int, chance: float) -> None:
        self.n_labels, self.chance = n_labels, chance

    def read(self, documents: Documents, *, evidence: bool = False) -> PriorReading:
        scores = np.full((len(documents), self.n_labels), 1e-4, np.float32)
        scores[:, :3] = 0.5
        for row, own in enumerate(np.split(documents.tokens, documents.token_starts[1:-1])):
            scores[row, own * 37 % self.n_labels] = self.chance
        return PriorReading(scores, documents)


def test_a_blend_of_many_labels_never_holds_the_scores_of_all_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blend, thresholds, predictions and a measure of 170,000 labels, in less memory than one matrix of the notes."""
    n_labels = 170_000
    corpus = corpus_of(notes_of(250))
    view = training_view(corpus)
    codes = (*view.codes, *(f"X{number}" for number in range(n_labels - len(view.codes))))
    counts = np.ones(n_labels, np.int64)
    monkeypatch.setattr("plant.evaluate.choosing.pairs.IN_LISTS", 10)
    monkeypatch.setattr(type(view), "label_counts", lambda self: counts)
    choosing = held_out(corpus, Role.CHOOSE, view.codes)
    view = replace(view, codes=codes, codebook=CodeBook(view.codebook.system, codes))
    recipe = Recipe(choose=Choose(blend="weights"))
    pytest.importorskip("scipy.optimize")  # what is imported on the way is no score
    tracemalloc.start()
    try:
        system = joined([OneWordALabel(n_labels, chance) for chance in (0.9, 0.3)], recipe.choose, view, choosing)
        coder = tuned(system, recipe, view, choosing, {})
        scored = score_role(coder, corpus, Role.REPORT, system="blend", splits={})
        precision = measure("P@5")(outcome_of(replace(scored, codebook=None), areas=False))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert precision > 0
    assert peak < 4 * n_labels * min(len(choosing), len(scored))
