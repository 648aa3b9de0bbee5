"""Measures equal scikit-learn and ir_measures where they have them, and plain loops where they have not."""

import ir_measures
import numpy as np
import pytest
from sklearn import metrics

from plant.evaluate.measures.areas import average_precision
from plant.evaluate.measures.curves import micro_curve
from plant.evaluate.measures.ranking import inverse_propensities
from plant.evaluate.measures.table import measure, measures_for
from plant.evaluate.scores import forms
from plant.evaluate.scores.forms import RankedLists
from plant.evaluate.scores.lists import Lists, lists_of
from plant.evaluate.scores.outcome import outcome_of
from plant.evaluate.scores.scored import scored_densely
from tests.scored_samples import codes_of, matrix, scored

SCORES, TARGETS = matrix()
ACCEPTED = np.greater_equal(SCORES, np.float32(0.5))
GOLD_LABELS = np.flatnonzero(TARGETS.any(axis=0))
OUTCOME = outcome_of(scored(SCORES, TARGETS))
ZERO = {"zero_division": 0}


def macro_of(function, **options):
    return function(TARGETS, ACCEPTED, average="macro", labels=GOLD_LABELS, **ZERO, **options)


def all_labels_of(function):
    return function(TARGETS, ACCEPTED, average="macro", **ZERO)


def harmonic(a, b):
    return 2 * a * b / (a + b)


SCIKIT = {
    "micro-P": lambda: metrics.precision_score(TARGETS, ACCEPTED, average="micro"),
    "micro-R": lambda: metrics.recall_score(TARGETS, ACCEPTED, average="micro"),
    "micro-F1": lambda: metrics.f1_score(TARGETS, ACCEPTED, average="micro"),
    "macro-P": lambda: macro_of(metrics.precision_score),
    "macro-R": lambda: macro_of(metrics.recall_score),
    "macro-F1 (mean of labels)": lambda: macro_of(metrics.f1_score),
    "macro-F1 (of macro-P and macro-R)": lambda: harmonic(
        macro_of(metrics.precision_score), macro_of(metrics.recall_score)
    ),
    "macro-P (all labels)": lambda: all_labels_of(metrics.precision_score),
    "macro-R (all labels)": lambda: all_labels_of(metrics.recall_score),
    "macro-F1 (mean of labels, all labels)": lambda: all_labels_of(metrics.f1_score),
    "F1 (mean of documents)": lambda: metrics.f1_score(TARGETS, ACCEPTED, average="samples", zero_division=1),
    "Jaccard": lambda: metrics.jaccard_score(TARGETS, ACCEPTED, average="samples", zero_division=1),
    "exact match": lambda: metrics.accuracy_score(TARGETS, ACCEPTED),
    "micro-AUC": lambda: metrics.roc_auc_score(TARGETS, SCORES, average="micro"),
    "macro-AUC": lambda: np.mean([metrics.roc_auc_score(TARGETS[:, label], SCORES[:, label]) for label in GOLD_LABELS]),
    "MAP": lambda: metrics.label_ranking_average_precision_score(TARGETS, SCORES),
    "nDCG@5": lambda: metrics.ndcg_score(TARGETS, SCORES, k=5),
    "nDCG@15": lambda: metrics.ndcg_score(TARGETS, SCORES, k=15),
}


@pytest.mark.parametrize("name", SCIKIT)
def test_a_measure_equals_scikit_learn(name):
    assert measure(name)(OUTCOME) == pytest.approx(float(SCIKIT[name]()), abs=1e-9)


@pytest.mark.parametrize("name", ["P@5", "P@8", "P@15", "R@5", "R@15", "nDCG@8", "MAP", "MAP@8", "R-precision"])
def test_a_ranking_measure_equals_ir_measures(name):
    theirs = {"MAP": "AP", "MAP@8": "AP@8", "R-precision": "Rprec"}.get(name, name)
    qrels = [ir_measures.Qrel(str(d), str(label), 1) for d, label in zip(*np.nonzero(TARGETS), strict=True)]
    run = [ir_measures.ScoredDoc(str(d), str(label), float(s)) for (d, label), s in np.ndenumerate(SCORES)]
    expected = ir_measures.calc_aggregate([ir_measures.parse_measure(theirs)], qrels, run)
    assert measure(name)(OUTCOME) == pytest.approx(next(iter(expected.values())), abs=1e-9)


def test_areas_with_ties_equal_scikit_learn():
    scores = np.round(SCORES, 1)
    outcome = outcome_of(scored(scores, TARGETS))
    assert measure("micro-AUC")(outcome) == pytest.approx(
        metrics.roc_auc_score(TARGETS, scores, average="micro"), abs=1e-9
    )
    areas = [metrics.roc_auc_score(TARGETS[:, label], scores[:, label]) for label in GOLD_LABELS]
    np.testing.assert_allclose(outcome.areas.labels[GOLD_LABELS], areas, atol=1e-9)


def test_whole_lists_give_what_the_matrix_gives():
    dense = scored(SCORES, TARGETS)
    lists = dense.scores.top(SCORES.shape[1])
    listed = outcome_of(scored_with(dense, lists))
    for m in measures_for(OUTCOME):
        name = f"{m.name} (of lists)" if m.name.endswith("AUC") else m.name
        assert measure(name)(listed) == pytest.approx(m(OUTCOME), abs=1e-12), name


def scored_with(dense, scores):
    from dataclasses import replace

    return replace(dense, scores=scores)


def test_short_lists_have_the_areas_of_a_matrix_where_the_rest_is_tied_last():
    dense = scored(SCORES, TARGETS)
    floor = np.sort(SCORES, axis=1)[:, -7][:, None]
    cut = np.where(floor <= SCORES, SCORES, -np.inf).astype(np.float32)
    listed, full = (outcome_of(s) for s in (scored_with(dense, dense.scores.top(7)), scored(cut, TARGETS)))
    assert listed.areas.micro == pytest.approx(full.areas.micro, abs=1e-12)
    np.testing.assert_allclose(listed.areas.labels, full.areas.labels, atol=1e-12)


def test_codes_that_training_never_saw_count_as_missed():
    codes = ["a", "b"]
    gold = [["a", "new"], ["b"]]
    scores = np.array([[0.9, 0.1], [0.8, 0.7]], np.float32)
    outcome = outcome_of(scored_densely(scores, ids=["1", "2"], codes=codes, gold=gold, thresholds=0.5))
    assert measure("MAP")(outcome) == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert measure("micro-R")(outcome) == pytest.approx(2 / 3)
    assert outcome.areas.labels[2] == 0.5


def test_ties_keep_the_order_given():
    scores = np.full((1, 4), 0.5, np.float32)
    outcome = outcome_of(scored_densely(scores, ids=["1"], codes="abcd", gold=[["c"]], thresholds=0.5))
    assert outcome.ranks.tolist() == [3]


def plain_propensity_scores(k):
    """Definitions in loops: PSP@k and PSnDCG@k."""
    weight = inverse_propensities(OUTCOME)
    top = best = dcg = best_dcg = 0.0
    for scores, targets in zip(SCORES, TARGETS, strict=True):
        order = np.argsort(-scores)[:k]
        dearest = sorted((weight[label] for label in np.flatnonzero(targets)), reverse=True)[:k]
        ideal = sum(1 / np.log2(place + 2) for place in range(len(dearest)))
        top += sum(weight[label] for label in order if targets[label])
        best += sum(dearest)
        gains = (weight[label] / np.log2(place + 2) for place, label in enumerate(order) if targets[label])
        dcg += sum(gains) / ideal
        best_dcg += sum(gain / np.log2(place + 2) for place, gain in enumerate(dearest)) / ideal
    return top / best, dcg / best_dcg


@pytest.mark.parametrize("k", [1, 5, 15])
def test_propensity_scored_measures_equal_their_definition(k):
    precision, ndcg = plain_propensity_scores(k)
    assert measure(f"PSP@{k}")(OUTCOME) == pytest.approx(precision, abs=1e-12)
    assert measure(f"PSnDCG@{k}")(OUTCOME) == pytest.approx(ndcg, abs=1e-12)


def test_propensities_follow_the_published_formula():
    n, a, b = 100, 0.55, 1.5
    constant = (np.log(n) - 1) * (b + 1) ** a
    counts = OUTCOME.train_counts
    np.testing.assert_allclose(
        inverse_propensities(OUTCOME), 1 + constant * np.exp(-a * np.log(counts + b)), atol=1e-12
    )


def test_hierarchical_measures_equal_sets_with_ancestors():
    codes = scored(SCORES, TARGETS).codes
    right = accepted = gold = 0
    for wanted, given in zip(codes_of(TARGETS, codes), codes_of(ACCEPTED, codes), strict=True):
        wanted, given = ({*row, *(code[0] for code in row)} for row in (wanted, given))
        right, accepted, gold = right + len(wanted & given), accepted + len(given), gold + len(wanted)
    assert measure("hierarchical P")(OUTCOME) == pytest.approx(right / accepted)
    assert measure("hierarchical R")(OUTCOME) == pytest.approx(right / gold)
    assert measure("hierarchical F1")(OUTCOME) == pytest.approx(2 * right / (accepted + gold))


def test_the_two_f1_at_k_are_mean_of_documents_and_of_the_means():
    order = np.argsort(-SCORES, axis=1)[:, :5]
    hits = np.take_along_axis(TARGETS, order, axis=1).sum(axis=1)
    precision, recall = hits / 5, hits / TARGETS.sum(axis=1)
    each = [harmonic(p, r) if p + r else 0.0 for p, r in zip(precision, recall, strict=True)]
    assert measure("F1@5 (mean of documents)")(OUTCOME) == pytest.approx(np.mean(each))
    assert measure("F1@5 (of P@5 and R@5)")(OUTCOME) == pytest.approx(harmonic(precision.mean(), recall.mean()))


def test_the_curve_passes_through_scikit_learns_points():
    curve = micro_curve(scored(SCORES, TARGETS).scores, scored(SCORES, TARGETS).gold, SCORES.shape[1])
    precision, recall, thresholds = metrics.precision_recall_curve(TARGETS.ravel(), SCORES.ravel())
    place = np.searchsorted(thresholds, curve.thresholds)
    np.testing.assert_allclose(curve.precision, precision[place], atol=1e-12)
    np.testing.assert_allclose(curve.recall, recall[place], atol=1e-12)


@pytest.mark.parametrize("decimals", [1, 8])
def test_average_precision_equals_scikit_learn(decimals):
    weights = np.round(SCORES[:, 0], decimals)
    expected = metrics.average_precision_score(TARGETS[:, 0], weights)
    assert average_precision(weights, TARGETS[:, 0]) == pytest.approx(expected, abs=1e-12)


def listed_at_random(seed: int) -> tuple[RankedLists, Lists]:
    """Lists of unequal lengths with many equal scores, and gold codes of which some are not listed."""
    random = np.random.default_rng(seed)
    rows = [random.permutation(30)[: random.integers(0, 9)] for _ in range(40)]
    values = np.concatenate([np.sort(random.integers(0, 6, len(row)))[::-1] / 6 for row in rows]).astype(np.float32)
    gold = [np.sort(random.permutation(35)[: random.integers(0, 6)]) for _ in range(40)]
    lists = lists_of([row.tolist() for row in rows])
    return RankedLists(lists, values >= 0.5, values), lists_of([row.tolist() for row in gold])


@pytest.mark.parametrize("block", [1, 7, 1_000_000])
def test_gold_codes_stand_in_lists_where_counting_says_whatever_the_block(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "LISTED_BLOCK", block)
    scores, gold = listed_at_random(3)
    assert scores.values is not None
    standing, ranks, own = scores.standing_in_label(gold), scores.ranks(gold), scores.scores_of(gold)
    for entry, (document, label) in enumerate(zip(gold.documents.tolist(), gold.labels.tolist(), strict=True)):
        of_label = scores.values[scores.lists.labels == label]
        row = scores.lists.of(document).tolist()
        if label in row:
            value = scores.values[scores.lists.starts[document] + row.index(label)]
            expected = (row.index(label) + 1, value, (of_label > value).sum(), (of_label == value).sum())
        else:
            expected = (forms.UNRANKED, -np.inf, len(of_label), len(gold) - len(of_label))
        assert (ranks[entry], own[entry], standing.above[entry], standing.tied[entry]) == expected
