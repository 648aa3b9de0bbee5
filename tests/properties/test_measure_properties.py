"""Whatever the scores: orders do not matter, the forms of scores agree, thresholds are the best."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from plant.evaluate.choosing.thresholds import best_threshold, tune_global_threshold, tune_label_thresholds
from plant.evaluate.measures.table import measure, measures_for
from plant.evaluate.scores.outcome import outcome_of
from plant.evaluate.scores.scored import scored_densely
from tests.scored_samples import codes_of

SHAPES = st.tuples(st.integers(1, 6), st.integers(2, 8))


@st.composite
def cases(draw, ties: bool = False):
    """Scores (all different unless ties are wanted) and targets."""
    shape = draw(SHAPES)
    size = shape[0] * shape[1]
    targets = draw(arrays(bool, shape))
    if ties:
        values = draw(arrays(np.float32, shape, elements=st.sampled_from([0.0, 0.25, 0.5, 1.0])))
    else:
        values = np.array(draw(st.permutations(range(size))), np.float32).reshape(shape) / size
    return values, targets


def outcome(values, targets, *, rows=None, columns=None):
    rows = range(len(values)) if rows is None else rows
    columns = range(values.shape[1]) if columns is None else columns
    codes = [f"c{label}" for label in columns]
    grid = np.ix_(list(rows), list(columns))
    return outcome_of(
        scored_densely(
            values[grid],
            ids=[f"d{row}" for row in rows],
            codes=codes,
            gold=codes_of(targets[grid], codes),
            thresholds=0.5,
            train_counts=np.array(list(columns)),
            train_documents=50,
        )
    )


@given(cases(), st.randoms())
def test_the_order_of_documents_and_labels_changes_nothing(case, random):
    values, targets = case
    rows, columns = (random.sample(range(size), size) for size in values.shape)
    plain, shuffled = outcome(values, targets), outcome(values, targets, rows=rows, columns=columns)
    for m in measures_for(plain):
        assert m(plain) == pytest.approx(m(shuffled), abs=1e-12, nan_ok=True), m.name


@given(cases(ties=True))
def test_shares_lie_between_0_and_1_with_ties_too(case):
    plain = outcome(*case)
    for m in measures_for(plain):
        value = m(plain)
        assert not m.share or np.isnan(value) or -1e-12 <= value <= 1 + 1e-12, m.name


@given(cases(ties=True))
def test_lists_of_everything_agree_with_the_matrix(case):
    values, targets = case
    codes = [f"c{label}" for label in range(values.shape[1])]
    ids = [f"d{row}" for row in range(len(values))]
    dense = scored_densely(values, ids=ids, codes=codes, gold=codes_of(targets, codes), thresholds=0.5)
    listed = replace(dense, scores=dense.scores.top(len(codes)))
    one, other = outcome_of(dense), outcome_of(listed)
    np.testing.assert_array_equal(one.ranks, other.ranks)
    np.testing.assert_allclose(one.areas.labels, other.areas.labels)
    assert one.areas.micro == pytest.approx(other.areas.micro, nan_ok=True)
    assert measure("micro-F1")(one) == measure("micro-F1")(other)


@given(cases(ties=True))
def test_the_harmonic_macro_f1_is_never_the_smaller(case):
    found = outcome(*case)
    means = measure("macro-F1 (mean of labels)")(found), measure("macro-F1 (of macro-P and macro-R)")(found)
    assert means[0] <= means[1] + 1e-12


def f1(values, targets, threshold):
    accepted = values >= np.float32(threshold)
    return 2 * (accepted & targets).sum() / max(1, accepted.sum() + targets.sum())


@given(cases(ties=True).filter(lambda case: case[1].any()))
def test_no_threshold_beats_the_tuned_one(case):
    values, targets = case
    tuned = f1(values, targets, tune_global_threshold(values, targets))
    assert tuned == pytest.approx(max(f1(values, targets, t) for t in np.unique(values)), abs=1e-12)


@given(cases().filter(lambda case: case[1].any()))
def test_without_shrinkage_no_label_threshold_beats_its_own(case):
    values, targets = case
    thresholds = tune_label_thresholds(values, targets, shrinkage=0)
    for label in np.flatnonzero(targets.any(axis=0)):
        column, gold = values[:, label], targets[:, label]
        assert f1(column, gold, thresholds[label]) == pytest.approx(max(f1(column, gold, t) for t in column), abs=1e-12)


@given(cases().filter(lambda case: case[1].any()))
def test_lists_are_tuned_to_the_same_threshold_as_the_matrix(case):
    values, targets = case
    codes = [f"c{label}" for label in range(values.shape[1])]
    dense = scored_densely(values, ids=["x"] * len(values), codes=codes, gold=codes_of(targets, codes), thresholds=0)
    tuned = [best_threshold(s, dense.gold, n_labels=len(codes)) for s in (dense.scores, dense.scores.top(len(codes)))]
    assert tuned[0] == tuned[1]
