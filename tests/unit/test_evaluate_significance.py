"""Intervals cover, tests reject what they should and no more, corrections and spreads are what they say."""

import numpy as np
import pytest
from scipy import stats

from plant.evaluate.measures.table import MACRO_F1, measure, measures_for
from plant.evaluate.scores.outcome import outcome_of, pooled
from plant.evaluate.significance.compare import compare
from plant.evaluate.significance.resampling import holm, over_seeds, randomisation, valued
from plant.evaluate.significance.samples import Swapped, Weighted
from tests.scored_samples import matrix, scored

TESTED = [measure(name) for name in ("MAP", "micro-F1", MACRO_F1, "P@5")]


def outcome(seed=0, strength=1.0, documents=60):
    return outcome_of(scored(*matrix(documents=documents, seed=seed, strength=strength)), areas=False)


def with_same_gold(strength, noise_seed, documents=60):
    """Two systems share targets when only the noise differs."""
    _, targets = matrix(documents=documents, seed=1)
    random = np.random.default_rng(noise_seed)
    logits = -2 + strength * 2 * targets + random.normal(size=targets.shape)
    return outcome_of(scored((1 / (1 + np.exp(-logits))).astype(np.float32), targets), areas=False)


def test_weights_of_two_count_a_document_twice():
    twice = pooled(outcome(), outcome())
    for m in TESTED:
        weighted = m.value(Weighted(outcome(), np.full((1, 60), 2.0)))[0]
        assert weighted == pytest.approx(m(twice)) == pytest.approx(m(outcome())), m.name


def test_a_resampled_measure_equals_the_measure_of_the_resampled_documents():
    scores, targets = matrix(documents=12)
    drawn = np.random.default_rng(0).integers(0, 12, 12)
    weights = np.bincount(drawn, minlength=12).astype(float)[None]
    for m in TESTED:
        copied = m(outcome_of(scored(scores[drawn], targets[drawn]), areas=False))
        assert m.value(Weighted(outcome_of(scored(scores, targets)), weights))[0] == pytest.approx(copied), m.name


def test_swapping_equals_building_the_swapped_systems():
    one, other = with_same_gold(1.0, 1, documents=10), with_same_gold(0.5, 2, documents=10)
    swap = np.random.default_rng(0).integers(0, 2, (1, 10)).astype(float)
    both = pooled(one, other)
    for second in (False, True):
        weights = np.hstack([swap, 1 - swap] if second else [1 - swap, swap])
        for m in TESTED:
            expected = m.value(Weighted(both, weights))
            assert m.value(Swapped(both, swap, second=second)) == pytest.approx(expected, abs=1e-12), m.name


def test_an_interval_of_a_mean_is_as_wide_as_theory_says():
    values = valued(outcome(documents=400), [measure("P@5")], rounds=4000)["P@5"]
    hits = outcome(documents=400)
    per_document = hits.gold.sums(hits.ranks <= 5) / 5
    assert values.high - values.low == pytest.approx(2 * 1.96 * per_document.std() / 20, rel=0.05)
    assert values.low < values.value < values.high


@pytest.mark.parametrize("name", ["micro-F1", "MAP"])
def test_intervals_cover_the_truth_about_as_often_as_they_say(name):
    truth = measure(name)(outcome(seed=99, documents=20_000))
    found = [valued(outcome(seed=s, documents=60), [measure(name)], rounds=200)[name] for s in range(100)]
    assert 88 <= sum(v.low <= truth <= v.high for v in found) <= 100


@pytest.mark.parametrize("strength", [-3.0, 4.0])
def test_no_interval_of_a_share_goes_beyond_0_and_1(strength):
    found = outcome(strength=strength, documents=5)
    for name, value in valued(found, measures_for(found), rounds=300).items():
        if value.low is not None:
            assert value.low >= 0, name
            assert value.high <= 1 or name == "codes per document", name


def test_no_rounds_give_no_interval():
    assert valued(outcome(), [measure("MAP")], rounds=0)["MAP"].low is None


def test_the_same_seed_gives_the_same_interval():
    assert valued(outcome(), TESTED, rounds=50, seed=4) == valued(outcome(), TESTED, rounds=50, seed=4)


def test_a_system_does_not_differ_from_itself():
    assert set(randomisation(outcome(), outcome(), TESTED, rounds=200).values()) == {1.0}


def test_a_clearly_better_system_is_significantly_better():
    p = randomisation(with_same_gold(2.0, 1), with_same_gold(0.3, 2), TESTED, rounds=2000)
    assert max(p.values()) < 0.01


def test_the_p_value_of_a_mean_equals_that_of_a_sign_flip_test():
    one, other = with_same_gold(1.0, 1), with_same_gold(0.8, 2)
    first, second = (o.gold.sums(o.ranks <= 5) / 5 for o in (one, other))
    expected = stats.permutation_test(
        (first, second), lambda a, b, axis: np.mean(a - b, axis=axis), permutation_type="samples", vectorized=True,
        n_resamples=9999, rng=np.random.default_rng(0),
    ).pvalue  # fmt: skip
    assert randomisation(one, other, [measure("P@5")], rounds=9999)["P@5"] == pytest.approx(expected, abs=0.02)


def test_micro_f1_is_randomised_by_sums_not_by_means():
    one, other = with_same_gold(1.0, 3, documents=8), with_same_gold(0.6, 4, documents=8)
    counts = [np.stack([o.right, o.accepted_counts, o.gold_counts]) for o in (one, other)]

    def difference(swap):
        a, b = np.where(swap, counts[1], counts[0]).sum(1), np.where(swap, counts[0], counts[1]).sum(1)
        return abs(2 * a[0] / (a[1] + a[2]) - 2 * b[0] / (b[1] + b[2]))

    swaps = (np.arange(256)[:, None] >> np.arange(8)) & 1  # all of them: the exact test
    exact = np.mean([difference(swap == 1) >= difference(np.zeros(8, bool)) - 1e-12 for swap in swaps])
    assert randomisation(one, other, [measure("micro-F1")], rounds=20_000)["micro-F1"] == pytest.approx(
        exact, abs=0.015
    )


def test_false_alarms_are_as_rare_as_they_should_be():
    p = [randomisation(with_same_gold(1, s), with_same_gold(1, s + 500), TESTED, rounds=100)["MAP"] for s in range(100)]
    assert np.mean(np.array(p) < 0.05) <= 0.12


def test_holm_equals_its_textbook_example():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    )


def test_spread_is_the_sample_deviation():
    spread = over_seeds([0.1, 0.2, 0.3])
    assert (spread.mean, spread.deviation, spread.runs) == pytest.approx((0.2, 0.1, 3))


def test_one_run_has_no_spread():
    assert over_seeds([0.5]).deviation is None


def systems():
    scores, targets = matrix(documents=50)
    worse = np.random.default_rng(5).random(scores.shape, np.float32)
    return {
        "good": [scored(scores, targets)],
        "chance": [scored(worse, targets), scored(worse[:, ::-1].copy(), targets)],
    }


def test_a_comparison_marks_what_differs_from_the_first():
    comparison = compare(systems(), measures=["MAP", "micro-F1"], rounds=500)
    assert comparison.reference == "good"
    assert comparison.rows["good"]["MAP"].p is None
    assert comparison.rows["chance"]["MAP"].significant
    assert comparison.rows["chance"]["MAP"].spread.runs == 2


def test_documents_are_matched_by_their_ids_not_by_their_places():
    from dataclasses import replace

    from plant.evaluate.scores.lists import taken

    first = systems()["good"][0]
    rows = np.arange(len(first))[::-1]
    turned = replace(
        first,
        ids=first.ids[::-1],
        gold=taken(first.gold, rows)[0],
        scores=replace(first.scores, values=first.scores.values[rows]),
    )
    cell = compare({"a": [first], "b": [turned]}, measures=["MAP"], rounds=100).rows["b"]["MAP"]
    assert cell.p == 1.0


def test_systems_on_different_documents_are_refused():
    from plant.errors import InputError

    with pytest.raises(InputError, match="different documents"):
        compare({"a": [scored(*matrix(documents=5))], "b": [scored(*matrix(documents=6))]})


def test_systems_with_different_gold_are_refused():
    from plant.errors import InputError

    scores, targets = matrix(documents=5)
    with pytest.raises(InputError, match="different gold"):
        compare({"a": [scored(scores, targets)], "b": [scored(scores, ~targets)]})
