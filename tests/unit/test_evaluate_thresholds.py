"""Thresholds and calibration: tuned to the goal, shrunk to the middle, honest probabilities."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import f1_score, log_loss

from plant.errors import InputError
from plant.evaluate.choosing.calibration import calibrated, fit_temperature, logits_of, reliability
from plant.evaluate.choosing.thresholds import best_threshold, tune_global_threshold, tune_label_thresholds
from plant.evaluate.scores.forms import ranked
from plant.evaluate.scores.lists import Lists
from plant.evaluate.scores.prior import prior_of, prior_scores, prior_threshold
from tests.scored_samples import matrix, scored

SCORES, TARGETS = matrix(documents=80)


def test_the_global_threshold_maximises_micro_f1():
    best = f1_score(TARGETS, np.greater_equal(SCORES, tune_global_threshold(SCORES, TARGETS)), average="micro")
    grid = [f1_score(TARGETS, np.greater_equal(SCORES, t), average="micro") for t in np.linspace(0.01, 0.99, 99)]
    assert best >= max(grid)


def test_the_threshold_for_macro_f1_beats_a_grid():
    threshold = tune_global_threshold(SCORES, TARGETS, measure="macro-F1")
    options = {"average": "macro", "zero_division": 0, "labels": np.flatnonzero(TARGETS.any(axis=0))}
    best = f1_score(TARGETS, np.greater_equal(SCORES, threshold), **options)
    assert (
        best
        >= max(f1_score(TARGETS, np.greater_equal(SCORES, t), **options) for t in np.linspace(0.02, 0.98, 25)) - 0.005
    )


def test_a_threshold_lies_midway_below_the_last_accepted_score():
    assert tune_global_threshold(np.array([[0.9, 0.1]]), np.array([[1, 0]])) == pytest.approx(0.5)


def test_heavy_shrinkage_gives_every_label_the_global_threshold():
    thresholds = tune_label_thresholds(SCORES, TARGETS, shrinkage=1e12)
    np.testing.assert_allclose(thresholds, tune_global_threshold(SCORES, TARGETS), rtol=1e-6)


def test_shrinkage_mixes_by_the_number_of_dev_notes():
    own, common = tune_label_thresholds(SCORES, TARGETS, shrinkage=0), tune_global_threshold(SCORES, TARGETS)
    n = TARGETS.sum(axis=0)
    expected = np.where(n > 0, (n * own + 10 * common) / (n + 10), common)
    np.testing.assert_allclose(tune_label_thresholds(SCORES, TARGETS, shrinkage=10), expected, rtol=1e-5)


def test_label_thresholds_raise_the_f1_that_they_are_tuned_on():
    options = {"average": "macro", "zero_division": 0}
    single = f1_score(TARGETS, np.greater_equal(SCORES, tune_global_threshold(SCORES, TARGETS)), **options)
    each = f1_score(TARGETS, np.greater_equal(SCORES, tune_label_thresholds(SCORES, TARGETS, shrinkage=0)), **options)
    assert each > single


def plain_threshold(scores: np.ndarray, gold: np.ndarray, average: str) -> float:
    """The first gold score, in reading order for micro and rising for macro, of the best F1; midway to the next."""
    options = {"average": average, "zero_division": 0, "labels": np.flatnonzero(gold.any(axis=0))}
    candidates = scores[gold > 0] if average == "micro" else np.unique(scores[gold > 0])
    f1 = [round(f1_score(gold, scores >= candidate, **options), 12) for candidate in candidates]
    best = candidates[int(np.argmax(f1))]
    below = scores[scores < best]
    return float(np.float32((best + below.max()) / 2)) if len(below) else float(best)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("average", ["micro", "macro"])
def test_thresholds_are_those_of_a_plain_search(average: str, seed: int):
    draw = np.random.default_rng(seed)
    gold = (draw.random((12, 4)) < 0.3).astype(np.int8)
    gold[0, 0] = 1
    scores = (0.3 * gold + draw.random((12, 4))).astype(np.float32).round(1)  # ties
    found = tune_global_threshold(scores, gold, measure=f"{average}-F1")
    assert found == pytest.approx(plain_threshold(scores, gold, average), abs=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_a_labels_own_threshold_is_that_of_a_plain_search(seed: int):
    draw = np.random.default_rng(seed)
    gold = (draw.random((15, 5)) < 0.3).astype(np.int8)
    scores = (0.3 * gold + draw.random((15, 5))).astype(np.float32).round(2)
    found = tune_label_thresholds(scores, gold, shrinkage=0.0)
    for label in np.flatnonzero(gold.any(axis=0)).tolist():
        own, positive = scores[:, label], np.sort(scores[gold[:, label] > 0, label])
        f1 = [2 * (positive >= t).sum() / ((own >= t).sum() + len(positive)) for t in positive]
        best = positive[int(np.argmax(f1))]
        below = own[own < best]
        expected = (best + below.max()) / 2 if len(below) else best
        assert found[label] == pytest.approx(expected, abs=1e-6)


def test_ten_notes_shrink_by_themselves():
    np.testing.assert_array_equal(
        tune_label_thresholds(SCORES, TARGETS), tune_label_thresholds(SCORES, TARGETS, shrinkage=10.0)
    )


def test_a_gold_code_that_no_list_has_is_never_the_threshold():
    lists = ranked(np.array([[0], [1]]), np.array([[0.9], [0.8]]), thresholds=np.zeros(3))
    gold = Lists(np.array([0, 2], np.int32), np.array([0, 1, 2]))
    assert best_threshold(lists, gold, n_labels=3) == pytest.approx(0.85)


def test_lists_have_thresholds_as_far_as_they_and_gold_codes_tell():
    lists = ranked(np.array([[0], [1]]), np.array([[0.9], [0.8]]), thresholds=np.zeros(4))
    gold = [Lists(np.array([0, label], np.int32), np.array([0, 1, 2])) for label in (1, 2)]
    assert [len(tune_label_thresholds(lists, one)) for one in gold] == [2, 3]
    assert len(tune_label_thresholds(lists, gold[0], n_labels=4)) == 4
    alone = ranked(np.array([[0]]), np.array([[0.9]]), thresholds=np.zeros(4))
    assert len(tune_label_thresholds(alone, Lists(np.array([0], np.int32), np.array([0, 1])))) == 1


def test_where_no_list_has_a_gold_code_only_certainty_is_accepted():
    lists = ranked(np.array([[0], [1]]), np.array([[0.9], [0.8]]), thresholds=np.zeros(3))
    assert best_threshold(lists, Lists(np.array([2, 2], np.int32), np.array([0, 1, 2])), n_labels=3) == 1.0


def test_where_everything_is_accepted_the_least_score_is_the_threshold():
    assert tune_global_threshold(np.array([[0.9, 0.4]]), np.array([[1, 1]])) == pytest.approx(0.4)


def test_neighbours_in_float32_leave_no_room_between_them():
    least = np.float32(0.5)
    scores = np.array([[np.nextafter(least, np.float32(1)), least]], np.float32)
    threshold = tune_global_threshold(scores, np.array([[1, 0]]))
    assert (scores >= np.float32(threshold)).tolist() == [[True, False]]


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_goal_is_refused():
    with pytest.raises(InputError, match="micro-F1"):
        tune_global_threshold(SCORES, TARGETS, measure="F2")


def test_notes_without_codes_tune_nothing():
    with pytest.raises(InputError, match="without codes"):
        tune_global_threshold(SCORES, np.zeros_like(TARGETS))


def test_reliability_equals_scikit_learns_curve():
    sample = scored(SCORES, TARGETS)
    row = reliability(sample.scores, sample.gold, bins=10)
    share, confidence = calibration_curve(TARGETS.ravel(), SCORES.ravel(), n_bins=10)
    np.testing.assert_allclose(row.share[row.counts > 0], share, atol=1e-9)
    np.testing.assert_allclose(row.confidence[row.counts > 0], confidence, atol=1e-6)


def test_calibration_error_equals_its_definition():
    sample = scored(SCORES, TARGETS)
    bins = np.minimum((SCORES.ravel() * 15).astype(int), 14)
    gaps = [abs(SCORES.ravel()[bins == b].mean() - TARGETS.ravel()[bins == b].mean()) for b in np.unique(bins)]
    expected = np.average(gaps, weights=[(bins == b).sum() for b in np.unique(bins)])
    assert reliability(sample.scores, sample.gold).error == pytest.approx(expected, abs=1e-7)


def test_pairs_below_the_floor_are_left_out():
    sample = scored(SCORES, TARGETS)
    assert reliability(sample.scores, sample.gold, floor=0.2).counts.sum() == np.count_nonzero(
        np.float32(0.2) <= SCORES
    )


def test_scores_that_are_no_probabilities_have_no_calibration():
    sample = scored(SCORES * 3, TARGETS)
    with pytest.raises(InputError, match="probabilities"):
        reliability(sample.scores, sample.gold)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_the_fitted_temperature_undoes_a_known_one(temperature):
    random = np.random.default_rng(0)
    logits = random.normal(scale=2, size=200_000)
    targets = random.random(200_000) < 1 / (1 + np.exp(-logits))
    assert fit_temperature(logits * temperature, targets) == pytest.approx(temperature, rel=0.02)


def test_no_other_temperature_is_more_likely():
    best = fit_temperature(logits_of(SCORES), TARGETS)
    losses = [log_loss(TARGETS.ravel(), calibrated(SCORES, t).ravel()) for t in (best, best * 0.97, best * 1.03)]
    assert losses[0] == min(losses)


def test_separable_scores_give_a_cold_temperature_and_no_endless_loop():
    assert 0.01 <= fit_temperature(np.array([-1.0, 1.0]), np.array([0, 1])) < 0.05


def test_the_prior_ranks_by_training_frequency_and_skips_unseen_codes():
    sample = scored(SCORES, TARGETS)
    prior = prior_of(sample)
    counts = sample.train_counts
    for label, rank in zip(sample.gold.labels, prior.scores.ranks(sample.gold), strict=True):
        seen = counts[label] > 0
        expected = 1 + np.count_nonzero(counts > counts[label]) + np.count_nonzero(counts[:label] == counts[label])
        assert (rank == expected) if seen else (rank > len(counts))


def test_the_prior_accepts_as_many_codes_as_pay_on_the_training_notes():
    counts, documents = np.array([80, 50, 10, 0]), 100
    f1 = [2 * counts[:n].sum() / (n * documents + counts.sum()) for n in (1, 2, 3)]
    best = int(np.argmax(f1)) + 1
    assert (prior_scores(counts, documents) >= np.float32(prior_threshold(counts, documents))).sum() == best


def test_without_training_notes_there_is_no_prior():
    assert prior_of(scored(SCORES, TARGETS, train_documents=0)) is None
