"""Plausibility and faithfulness on made-up weights."""

import numpy as np
import pytest

from plant.evaluate.explanations.faithfulness import faithfulness, mean_faithfulness, most_weighted
from plant.evaluate.explanations.plausibility import (
    chosen_tokens,
    marked_tokens,
    mean_plausibility,
    plausibility,
    tune_share,
)
from plant.types import Span

WEIGHTS = np.array([0.5, 0.3, 0.1, 0.1, 0.0])
MARKED = np.array([True, False, True, False, False])


def test_tokens_that_touch_a_span_are_marked():
    starts, ends = np.array([0, 4, 9, 15]), np.array([3, 8, 14, 20])
    spans = [Span(5, 6), Span(14, 16)]
    assert marked_tokens(starts, ends, spans).tolist() == [False, True, False, True]


def test_a_span_between_two_words_marks_nothing():
    assert not marked_tokens(np.array([0, 4]), np.array([3, 8]), [Span(3, 4)]).any()


def test_marked_tokens_equal_a_plain_overlap_test():
    random = np.random.default_rng(0)
    starts = np.cumsum(random.integers(1, 5, 50))
    ends = starts + random.integers(1, np.diff(np.append(starts, starts[-1] + 5)) + 1)
    spans = [Span(s, s + 7) for s in random.integers(0, int(ends[-1]), 5).tolist()]
    plain = [any(start < s.end and s.start < end for s in spans) for start, end in zip(starts, ends, strict=True)]
    assert marked_tokens(starts, ends, spans).tolist() == plain


def test_plausibility_of_a_case_counted_by_hand():
    found = plausibility(WEIGHTS, MARKED, share=0.6)  # the first two tokens are chosen, the first is right
    assert (found.precision, found.recall, found.f1, found.iou) == pytest.approx((1 / 2, 1 / 2, 1 / 2, 1 / 3))
    assert found.auprc == pytest.approx((1 / 1 + 2 / 4) / 2)  # two tokens tie for the third place


def test_weights_on_the_marked_tokens_alone_are_perfect():
    found = plausibility(MARKED.astype(float), MARKED, share=0.5)
    assert (found.f1, found.iou, found.auprc) == (1.0, 1.0, 1.0)


def test_no_weight_chooses_no_token():
    assert not chosen_tokens(np.zeros(4), share=0.5).any()


def test_scaling_the_weights_changes_nothing():
    assert plausibility(WEIGHTS * 7, MARKED, share=0.5) == plausibility(WEIGHTS, MARKED, share=0.5)


def test_the_tuned_share_has_the_best_mean_f1():
    examples = [(WEIGHTS, MARKED), (WEIGHTS[::-1].copy(), MARKED)]
    best = mean_plausibility(examples, share=tune_share(examples))["f1"]
    assert best == pytest.approx(max(mean_plausibility(examples, share=s)["f1"] for s in np.linspace(0.02, 1, 50)))


def test_explanations_without_marked_tokens_are_left_out():
    with_empty = [(WEIGHTS, MARKED), (WEIGHTS, np.zeros(5, bool))]
    assert mean_plausibility(with_empty, share=0.5) == mean_plausibility(with_empty[:1], share=0.5)


def additive(effects):
    """A model whose score is the sum of the effects of the tokens that are kept."""
    return lambda keep: keep @ effects


def test_faithfulness_of_a_case_counted_by_hand():
    effects = np.array([0.4, 0.3, 0.2, 0.1])
    found = faithfulness(effects, additive(effects), shares=(0.25, 0.5))
    assert found.comprehensiveness == pytest.approx((0.4 + 0.7) / 2)
    assert found.sufficiency == pytest.approx((0.6 + 0.3) / 2)


def test_true_weights_are_more_faithful_than_reversed_ones():
    effects = np.linspace(0, 1, 40)
    true, reversed_ = (faithfulness(w, additive(effects)) for w in (effects, effects[::-1].copy()))
    assert true.comprehensiveness > reversed_.comprehensiveness
    assert true.sufficiency < reversed_.sufficiency


def test_a_share_keeps_at_least_one_token_and_breaks_ties_by_position():
    assert most_weighted(np.ones(5), [0.01, 0.4]).sum(axis=1).tolist() == [1, 2]
    assert most_weighted(np.ones(5), [0.4])[0].tolist() == [True, True, False, False, False]


def test_the_model_is_asked_once_with_all_versions():
    calls = []
    faithfulness(WEIGHTS, lambda keep: calls.append(keep.shape) or np.zeros(len(keep)), shares=(0.2, 0.5))
    assert calls == [(5, 5)]


def test_means_of_nothing_are_empty():
    assert mean_faithfulness([]) == {}
    assert mean_plausibility([], share=0.5) == {}
