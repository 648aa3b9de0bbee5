"""Boosted trees beside a search over all splits, and beside scikit-learn's."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss, roc_auc_score

from plant.candidates.boosting import Trees, fit_trees, gains, log_odds, pack, probabilities, unpack

ALL = {"features": 1.0, "rows": 1.0}


def made_up(n_rows: int, n_features: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Few distinct values in odd columns, some missing everywhere; the target has an interaction."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)).astype(np.float32)
    X[:, 1::2] = np.round(2 * X[:, 1::2])
    logits = 2 * X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) - 0.5
    y = random.random(n_rows) < 1 / (1 + np.exp(-logits))
    X[random.random(X.shape) < 0.05] = np.nan
    return X, y


def plain_tree(X: np.ndarray, g: np.ndarray, h: np.ndarray, *, leaves: int, l2: float, least: int) -> list[np.ndarray]:
    """The leaves, as lists of rows, of a tree grown by trying every split of every leaf."""

    def worth(rows: np.ndarray) -> float:
        return float(g[rows].sum() ** 2 / (h[rows].sum() + l2))

    def best(rows: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        found = (0.0, rows, rows[:0])
        for column in X[rows].T:
            for value in np.unique(column[~np.isnan(column)]):
                for missing_left in (False, True):
                    left = np.where(np.isnan(column), missing_left, column <= value)
                    if min(left.sum(), (~left).sum()) >= least:
                        gain = worth(rows[left]) + worth(rows[~left]) - worth(rows)
                        found = max(found, (gain, rows[left], rows[~left]), key=lambda split: round(split[0], 9))
        return found

    splits = [best(np.arange(len(X)))]
    while len(splits) < leaves and max(split[0] for split in splits) > 0:
        chosen = max(range(len(splits)), key=lambda leaf: splits[leaf][0])
        _, left, right = splits.pop(chosen)
        splits += [best(left), best(right)]
    return [np.sort(np.concatenate(split[1:])) for split in splits]


@pytest.mark.parametrize("leaves", [2, 4, 9])
def test_one_tree_is_that_of_a_search_over_all_splits(leaves: int) -> None:
    X, y = made_up(150, 4)
    X = np.round(X)
    weights = np.random.default_rng(5).random(150).astype(np.float32) + 0.5
    fitted = fit_trees(X, y, leaves=leaves, rate=0.5, rounds=1, l2=1.5, least_rows=6, weights=weights, **ALL)
    p = 1 / (1 + np.exp(-fitted.base))
    assert_allclose(p, np.average(y, weights=weights), rtol=1e-6)
    g, h = weights * (p - y), weights * p * (1 - p)
    expected = np.zeros(150)
    for rows in plain_tree(X, g.astype(np.float64), h.astype(np.float64), leaves=leaves, l2=1.5, least=6):
        expected[rows] = -0.5 * g[rows].sum() / (h[rows].sum() + 1.5)
    assert_allclose(log_odds(fitted, X) - fitted.base, expected, rtol=1e-5, atol=1e-7)
    assert (fitted.feature < 0).sum() == leaves


def test_more_rounds_lower_the_loss_of_fitted_rows() -> None:
    X, y = made_up(2000)
    losses = [log_loss(y, probabilities(fit_trees(X, y, rounds=rounds), X)) for rounds in (0, 5, 20, 60)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > losses[-1] + 0.1


def test_trees_find_an_interaction_that_stumps_cannot() -> None:
    X = np.random.default_rng(1).normal(size=(3000, 5)).astype(np.float32)
    y = (X[:, 0] > 0) ^ (X[:, 3] > 0)
    areas = [roc_auc_score(y[2000:], log_odds(fit_trees(X[:2000], y[:2000], leaves=n), X[2000:])) for n in (2, 31)]
    assert areas[0] < 0.6
    assert areas[1] > 0.97


def test_gains_are_of_the_features_that_matter() -> None:
    X = np.random.default_rng(1).normal(size=(3000, 5)).astype(np.float32)
    share = (
        gains(fit_trees(X, (X[:, 0] > 0) ^ (X[:, 3] > 0))) / gains(fit_trees(X, (X[:, 0] > 0) ^ (X[:, 3] > 0))).sum()
    )
    assert share[[0, 3]].sum() > 0.8
    assert len(share) == 5


def test_missing_values_go_where_they_belong() -> None:
    random = np.random.default_rng(2)
    X = random.normal(size=(1000, 2)).astype(np.float32)
    X[random.random(1000) < 0.3, 0] = np.nan
    y = np.isnan(X[:, 0]) | (X[:, 0] > 1)  # beside the high values, far from the low ones
    low, high, lost = probabilities(fit_trees(X, y), np.array([[-1, 0], [2, 0], [np.nan, 0]], np.float32))
    assert low < 0.1 < 0.9 < min(high, lost)


def test_missing_values_alone_can_be_told_from_all_others() -> None:
    X = np.array([1.0, np.nan] * 50, np.float32)[:, None]
    fitted = fit_trees(X, np.isnan(X[:, 0]), leaves=2, least_rows=5, **ALL)
    assert_array_equal(np.isposinf(fitted.threshold), fitted.feature >= 0)
    present, lost = probabilities(fitted, np.array([[1e30], [np.nan]], np.float32))
    assert present < 0.05 < 0.95 < lost


def test_infinite_and_neighbouring_values_are_parted() -> None:
    one = np.float32(1)
    values = np.array([-np.inf, one, np.nextafter(one, np.float32(2)), np.inf], np.float32)
    X, y = np.repeat(values, 40)[:, None], np.repeat([True, False, True, False], 40)
    found = probabilities(fit_trees(X, y, least_rows=5, **ALL), values[:, None])
    assert_array_equal(found > 0.5, [True, False, True, False])


@pytest.fixture(scope="module")
def keyed() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = made_up(1500)
    random = np.random.default_rng(3)
    return X, y, random.random(1500).astype(np.float32) + 0.5, random.permutation(10_000)[:1500] - 5000


def assert_equal(a: Trees, b: Trees) -> None:
    for (name, one), other in zip(pack(a)[1].items(), pack(b)[1].values(), strict=True):
        assert one.dtype == other.dtype
        assert_array_equal(one, other, err_msg=name)
    assert pack(a)[0] == pack(b)[0]


def test_the_order_of_rows_with_keys_changes_no_bit(keyed: tuple[np.ndarray, ...]) -> None:
    X, y, weights, keys = keyed
    order = np.random.default_rng(6).permutation(len(y))
    expected = fit_trees(X, y, weights=weights, keys=keys, rounds=10)
    assert_equal(fit_trees(X[order], y[order], weights=weights[order], keys=keys[order], rounds=10), expected)


def test_seeds_draw_other_rows_and_features(keyed: tuple[np.ndarray, ...]) -> None:
    X, y, _, _ = keyed
    one, again, other = (fit_trees(X, y, rounds=3, seed=seed) for seed in (1, 1, 2))
    assert_equal(one, again)
    assert len(one.feature) != len(other.feature) or (one.threshold != other.threshold).any()


def test_every_tree_has_its_share_of_features() -> None:
    X, y = made_up(800, 10)
    fitted = fit_trees(X, y, features=0.3, rounds=40, least_rows=5)
    used = [np.unique(nodes[nodes >= 0]) for nodes in np.split(fitted.feature, fitted.starts[1:-1])]
    assert max(map(len, used)) == 3
    assert len(np.unique(np.concatenate(used))) == 10


def test_packed_trees_are_unpacked_to_the_bit(keyed: tuple[np.ndarray, ...]) -> None:
    X, y, _, _ = keyed
    fitted = fit_trees(X, y, rounds=5)
    options, arrays = pack(fitted)
    back = unpack(json.loads(json.dumps(options)), {name: array.copy() for name, array in arrays.items()})
    assert_equal(back, fitted)
    assert_array_equal(log_odds(back, X), log_odds(fitted, X))


def test_rows_that_all_agree_have_one_leaf() -> None:
    X, _ = made_up(100)
    fitted = fit_trees(X, np.ones(100, np.float32), rounds=3)
    assert_array_equal(fitted.starts, [0, 1, 2, 3])
    assert (probabilities(fitted, X) > 0.999).all()


def test_trees_are_as_good_as_those_of_scikit_learn() -> None:
    X, y = made_up(12_000)
    fit, rest = slice(0, 8000), slice(8000, None)
    ours = log_odds(fit_trees(X[fit], y[fit]), X[rest])
    theirs = HistGradientBoostingClassifier(
        learning_rate=0.06, max_iter=150, max_leaf_nodes=31, min_samples_leaf=30, l2_regularization=3.0,
        max_features=0.6, early_stopping=False, random_state=0,
    ).fit(X[fit], y[fit])  # fmt: skip
    assert roc_auc_score(y[rest], ours) > roc_auc_score(y[rest], theirs.decision_function(X[rest])) - 0.005
