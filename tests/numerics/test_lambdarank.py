"""LambdaRank gradients equal those of swapping every pair and measuring nDCG@k again."""

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from plant.nn.planting.lambdarank import lambdarank, ndcg_at


def lists(seed: int, *, n_labels: int, n_tokens: int, listed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random lists of tokens with falling gains, some of them equal."""
    random = np.random.default_rng(seed)
    tokens = np.array([random.permutation(n_tokens)[:listed] for _ in range(n_labels)], dtype=np.uint16)
    gains = 2.0 ** -np.sort(-random.integers(0, 6, (n_labels, listed))) - 1
    return tokens, gains


def dense(tokens: np.ndarray, gains: np.ndarray, n_tokens: int) -> np.ndarray:
    """The gain of each token."""
    gain = np.zeros(n_tokens)
    gain[tokens[gains > 0]] = gains[gains > 0]
    return gain


def plain_ndcg(order: np.ndarray, gain: np.ndarray, k: int) -> float:
    """nDCG@k of tokens in an order."""
    discounts = 1 / np.log2(np.arange(len(order)) + 2)
    return float((gain[order] * discounts)[:k].sum() / (-np.sort(-gain) * discounts)[:k].sum())


def by_swapping(scores: np.ndarray, gain: np.ndarray, *, k: int, sigma: float) -> np.ndarray:
    """The gradient from explicit swaps: nDCG@k before and after, for each pair."""
    order = np.argsort(-scores, kind="stable")
    place = np.argsort(order)
    gradient = np.zeros(len(scores))
    for i in range(len(scores)):
        for j in range(len(scores)):
            if gain[i] > gain[j]:
                swapped = order.copy()
                swapped[place[i]], swapped[place[j]] = j, i
                change = abs(plain_ndcg(swapped, gain, k) - plain_ndcg(order, gain, k))
                push = sigma / (1 + np.exp(np.clip(sigma * (scores[i] - scores[j]), -700, 700))) * change
                gradient[i] -= push
                gradient[j] += push
    return gradient


@pytest.mark.parametrize("k", [1, 3, 10, 100])
@pytest.mark.parametrize(("scale", "sigma"), [(1.0, 1.0), (3.0, 0.5), (1e-3, 2.0), (500.0, 1.0)])
def test_gradients_equal_those_of_explicit_swaps(k: int, scale: float, sigma: float) -> None:
    tokens, gains = lists(k, n_labels=3, n_tokens=25, listed=12)
    scores = (np.random.default_rng(k).normal(size=(3, 25)) * scale).astype(np.float32)
    found = lambdarank(scores, tokens, gains, k=k, sigma=sigma).gradients
    for label in range(3):
        gain = dense(tokens[label], gains[label], 25)
        expected = by_swapping(scores[label].astype(np.float64), gain, k=k, sigma=sigma)
        np.testing.assert_allclose(found[label], expected, atol=1e-5 * max(1.0, abs(expected).max()))


def test_gradients_of_equal_scores_follow_the_order_of_tokens() -> None:
    tokens, gains = lists(1, n_labels=1, n_tokens=15, listed=8)
    scores = np.zeros((1, 15), dtype=np.float32)
    expected = by_swapping(scores[0].astype(np.float64), dense(tokens[0], gains[0], 15), k=4, sigma=1.0)
    np.testing.assert_allclose(lambdarank(scores, tokens, gains, k=4).gradients[0], expected, atol=1e-5)


def test_vocabularies_longer_than_the_inner_span_are_exact() -> None:
    n, k = 10_000, 7
    tokens, gains = lists(2, n_labels=1, n_tokens=n, listed=1000)
    scores = np.random.default_rng(2).normal(size=(1, n)).astype(np.float32)
    found = lambdarank(scores, tokens, gains, k=k).gradients[0]
    np.testing.assert_allclose(
        found, by_formula(scores[0].astype(np.float64), dense(tokens[0], gains[0], n), k), atol=1e-5
    )


def by_formula(scores: np.ndarray, gain: np.ndarray, k: int) -> np.ndarray:
    """All pairs at once in float64, a row at a time: the gradient where swapping is too slow."""
    place = np.argsort(np.argsort(-scores, kind="stable"))
    discount = np.where(place < k, 1 / np.log2(place + 2), 0)
    ideal = (-np.sort(-gain)[:k] / np.log2(np.arange(k) + 2)).sum()
    gradient = np.zeros(len(scores))
    for i in np.flatnonzero(gain > 0):
        worse = gain < gain[i]
        change = (gain[i] - gain) * abs(discount[i] - discount) / abs(ideal)
        push = np.where(worse, change / (1 + np.exp(scores[i] - scores)), 0)
        gradient[i] -= push.sum()
        gradient += push
    return gradient


def test_gradients_sum_to_zero_and_are_finite_for_any_scores() -> None:
    tokens, gains = lists(3, n_labels=4, n_tokens=300, listed=50)
    scores = (np.random.default_rng(3).standard_cauchy(size=(4, 300)) * 1e4).astype(np.float32)
    gradients = lambdarank(scores, tokens, gains, k=10).gradients
    assert np.isfinite(gradients).all()
    np.testing.assert_allclose(gradients.sum(1), 0, atol=1e-4)


def test_a_label_without_gains_has_no_gradient_and_full_ndcg() -> None:
    result = lambdarank(np.ones((1, 5), np.float32), np.zeros((1, 3), np.uint16), np.zeros((1, 3)), k=2)
    assert not result.gradients.any()
    assert result.ndcg.tolist() == [1.0]


def test_the_ideal_order_has_ndcg_one() -> None:
    tokens, gains = lists(5, n_labels=1, n_tokens=30, listed=10)
    scores = dense(tokens[0], gains[0], 30)[None].astype(np.float32)
    assert lambdarank(scores, tokens, gains, k=5).ndcg[0] == pytest.approx(1.0)


@pytest.mark.parametrize("k", [1, 5, 15, 200])
def test_ndcg_equals_scikit_learn(k: int) -> None:
    tokens, gains = lists(6, n_labels=5, n_tokens=60, listed=20)
    scores = np.random.default_rng(6).normal(size=(5, 60)).astype(np.float32)
    expected = [ndcg_score([dense(t, g, 60)], [s], k=k) for t, g, s in zip(tokens, gains, scores, strict=True)]
    np.testing.assert_allclose(ndcg_at(scores, tokens, gains, k=k), expected, atol=1e-9)
    np.testing.assert_allclose(lambdarank(scores, tokens, gains, k=k).ndcg, expected, atol=1e-9)


def test_threads_change_nothing() -> None:
    tokens, gains = lists(7, n_labels=9, n_tokens=500, listed=40)
    scores = np.random.default_rng(7).normal(size=(9, 500)).astype(np.float32)
    one, three = (lambdarank(scores, tokens, gains, k=10, threads=threads) for threads in (1, 3))
    np.testing.assert_array_equal(one.gradients, three.gradients)
