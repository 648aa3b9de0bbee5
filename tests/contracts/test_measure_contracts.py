"""What every measure keeps: perfect is 1, bounds, and answers where there is nothing to count."""

import numpy as np
import pytest

from plant.errors import InputError
from plant.evaluate.measures.table import measure, measures_for
from plant.evaluate.scores.outcome import outcome_of
from plant.evaluate.scores.scored import scored_by_lists, scored_densely
from tests.scored_samples import matrix, scored

NAMES = [m.name for m in measures_for(outcome_of(scored(*matrix())))]
SHARES = [name for name in NAMES if measure(name).share]


def test_every_measure_is_found_by_its_name():
    assert [measure(name).name for name in NAMES] == NAMES


def test_an_unknown_measure_lists_the_known_ones():
    with pytest.raises(InputError, match="Did you mean 'micro-F1'"):
        measure("mikro-F1")


@pytest.mark.parametrize("name", SHARES)
def test_perfect_scores_give_one(name):
    codes = int(name.partition("@")[2].split(" ")[0] or 5)  # with k codes a document, both P@k and R@k can reach 1
    targets = np.zeros((40, 40), bool)
    for row in range(40):
        targets[row, np.arange(row, row + codes) % 40] = True
    rarer_first = np.arange(40) / 1000
    scores = (np.where(targets, 0.9, 0.1) + rarer_first).astype(np.float32)
    assert measure(name)(outcome_of(scored(scores, targets))) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", SHARES)
@pytest.mark.parametrize("seed", range(3))
def test_a_share_lies_between_0_and_1(name, seed):
    scores, targets = matrix(seed=seed, strength=-1.0)
    assert 0 <= measure(name)(outcome_of(scored(scores, targets))) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_no_accepted_code_is_no_error(name):
    scores, targets = matrix()
    assert np.isfinite(measure(name)(outcome_of(scored(scores, targets, thresholds=2.0))))


@pytest.mark.parametrize("name", [name for name in NAMES if "AUC" not in name])
def test_no_gold_code_is_no_error(name):
    scores, targets = matrix()
    assert np.isfinite(measure(name)(outcome_of(scored(scores, np.zeros_like(targets)))))


@pytest.mark.parametrize("name", ["micro-AUC", "macro-AUC"])
def test_an_area_without_positives_is_not_a_number(name):
    scores, targets = matrix()
    assert np.isnan(measure(name)(outcome_of(scored(scores, np.zeros_like(targets)))))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "macro-AUC"])
def test_a_single_document_is_enough(name):
    scores, targets = matrix(documents=1)
    assert np.isfinite(measure(name)(outcome_of(scored(scores, targets))))


def test_empty_lists_are_no_error():
    nothing = np.zeros((3, 0))
    lists = scored_by_lists(nothing.astype(int), nothing, ids="abc", codes="xy", gold=["x", "y", ""], thresholds=0.5)
    asked = ("MAP", "P@5", "micro-F1", "micro-AUC (of lists)")
    assert [measure(name)(outcome_of(lists)) for name in asked] == [0, 0, 0, 0.5]


def test_nan_scores_are_refused_by_the_name_of_their_row():
    scores, targets = matrix(documents=5)
    scores[3, 2] = np.nan
    with pytest.raises(InputError, match=r"document 'd3' \(row 3\)"):
        scored(scores, targets)


def test_nan_in_lists_is_refused_too():
    with pytest.raises(InputError, match="'second'"):
        scored_by_lists(
            np.zeros((2, 1), int),
            np.array([[0.1], [np.nan]]),
            ids=["first", "second"],
            codes="a",
            gold=["", ""],
            thresholds=0,
        )


def test_gold_of_another_number_of_documents_is_refused():
    with pytest.raises(InputError, match="2 documents but gold codes of 1"):
        scored_densely(np.zeros((2, 1)), ids="ab", codes="x", gold=["x"], thresholds=0.5)
