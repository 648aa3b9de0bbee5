"""LambdaRank: exact gradients of nDCG@k over whole vocabularies, in k times n steps instead of n times n.

Swapping two tokens changes nDCG@k only when one of them stands among the first k of the predicted order, so pairs of
the others weigh nothing. For g_i > g_j the gradient with respect to z_i is

    - sigma / (1 + exp(sigma (z_i - z_j))) |delta nDCG@k|_ij          and its opposite for z_j.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from plant.errors import RecipeError
from plant.nn.host import in_threads

_HIGHEST_POWER = 80.0  # exp of more overflows in single precision
_SPAN = 4096  # tokens at a time: they stay in the cache, and single precision sums of so many are good to 1e-6


@dataclass(frozen=True)
class Lambdas:
    """Gradients of a descent on the scores, and the nDCG@k of the order that the scores give."""

    gradients: NDArray[np.float32]  # [label, token]
    ndcg: NDArray[np.float64]  # [label]


def lambdarank(
    scores: NDArray[np.float32],
    tokens: NDArray[np.integer],
    gains: NDArray[np.float64],
    *,
    k: int,
    sigma: float = 1.0,
    threads: int = 1,
) -> Lambdas:
    """Gradients for labels x vocabulary; `tokens` and `gains` list per label what gains anything, best first.

    Equal scores are ordered by token number. A label without any gain has nDCG 1 and no gradient.
    """
    gradients = np.empty(scores.shape, dtype=np.float32)
    ndcg = np.empty(len(scores), dtype=np.float64)

    def work(rows: slice) -> None:
        mine = (scores[rows], tokens[rows], gains[rows])
        _lambdas(*mine, _discounts(k, scores.shape[1]), float(sigma), gradients[rows], ndcg[rows])

    in_threads(work, len(scores), threads)
    return Lambdas(gradients, ndcg)


def ndcg_at(
    scores: NDArray[np.float32], tokens: NDArray[np.integer], gains: NDArray[np.float64], *, k: int
) -> NDArray[np.float64]:
    """nDCG@k of each label over the whole vocabulary; lists and ties as for `lambdarank`."""
    ndcg = np.empty(len(scores), dtype=np.float64)
    _ndcg_of_labels(scores, tokens, gains, _discounts(k, scores.shape[1]), ndcg)
    return ndcg


def _discounts(k: int, n_tokens: int) -> NDArray[np.float64]:
    """What the first k places count; those behind count nothing. Without any place the kernels would read beyond."""
    if min(k, n_tokens) < 1:
        raise RecipeError(f"nDCG@k needs a k of at least 1 and a token to rank, not k = {k} and {n_tokens:,} tokens")
    return 1.0 / np.log2(np.arange(min(k, n_tokens)) + 2.0)


@njit(cache=True, nogil=True)
def _lambdas(scores, tokens, gains, discounts, sigma, gradients, ndcg):  # type: ignore[no-untyped-def]
    gain = np.zeros(scores.shape[1], dtype=np.float64)  # of one label, by token; wiped after use
    top = np.empty(len(discounts), dtype=np.int64)
    for label in range(len(scores)):
        gradients[label, :] = 0.0
        ideal = _spread_gains(tokens[label], gains[label], discounts, gain)
        _find_top(scores[label], top)
        ndcg[label] = _ndcg(gain, top, discounts, ideal)
        if ideal > 0.0:
            _pairs_within(scores[label], gain, top, discounts, sigma, sigma / ideal, gradients[label])
            _pairs_with_rest(scores[label], gain, top, discounts, sigma, sigma / ideal, gradients[label])
        _wipe(tokens[label], gain)


@njit(cache=True, nogil=True)
def _ndcg_of_labels(scores, tokens, gains, discounts, ndcg):  # type: ignore[no-untyped-def]
    gain = np.zeros(scores.shape[1], dtype=np.float64)
    top = np.empty(len(discounts), dtype=np.int64)
    for label in range(len(scores)):
        ideal = _spread_gains(tokens[label], gains[label], discounts, gain)
        _find_top(scores[label], top)
        ndcg[label] = _ndcg(gain, top, discounts, ideal)
        _wipe(tokens[label], gain)


@njit(cache=True, nogil=True)
def _spread_gains(tokens, gains, discounts, gain):  # type: ignore[no-untyped-def]
    """Put the gains of a list at their tokens; the result is the DCG@k of the list's own order."""
    ideal = 0.0
    for place in range(len(tokens)):
        if gains[place] > 0.0:  # not the padding of short lists
            gain[tokens[place]] = gains[place]
            if place < len(discounts):
                ideal += gains[place] * discounts[place]
    return ideal


@njit(cache=True, nogil=True)
def _wipe(tokens, gain):  # type: ignore[no-untyped-def]
    for place in range(len(tokens)):
        gain[tokens[place]] = 0.0


@njit(cache=True, nogil=True)
def _ndcg(gain, top, discounts, ideal):  # type: ignore[no-untyped-def]
    found = 0.0
    for place in range(len(top)):
        found += gain[top[place]] * discounts[place]
    return found / ideal if ideal > 0.0 else 1.0


@njit(cache=True, nogil=True)
def _find_top(scores, top):  # type: ignore[no-untyped-def]
    """The highest scores in order, by insertion: past the beginning hardly any token gets in."""
    found = 0
    for token in range(len(scores)):
        if found == len(top) and scores[token] <= scores[top[found - 1]]:
            continue
        place = found if found < len(top) else found - 1
        while place > 0 and scores[token] > scores[top[place - 1]]:
            top[place] = top[place - 1]
            place -= 1
        top[place] = token
        found = min(found + 1, len(top))


@njit(cache=True, nogil=True)
def _pairs_within(scores, gain, top, discounts, sigma, scale, gradient):  # type: ignore[no-untyped-def]
    """Pairs of which both stand among the first k: few, so each takes its own exponential."""
    for first in range(len(top)):
        for second in range(first + 1, len(top)):
            high, low = top[first], top[second]
            difference = gain[high] - gain[low]
            if difference == 0.0:
                continue
            ratio = np.exp(sigma * (np.float64(scores[low]) - scores[high]))  # at most 1
            share = (ratio if difference > 0.0 else 1.0) / (1.0 + ratio)
            push = scale * difference * (discounts[first] - discounts[second]) * share
            gradient[high] -= push
            gradient[low] += push


@njit(cache=True, nogil=True)
def _pairs_with_rest(scores, gain, top, discounts, sigma, scale, gradient):  # type: ignore[no-untyped-def]
    """Pairs of one of the first k and one of the rest, whose discount is zero: one exponential per token.

    Powers are taken relative to the k-th score, so those of the rest are at most 1; where one of the first k would
    overflow, the share of its pairs is 0 or 1 to the last digit anyway.
    """
    reference = np.float64(scores[top[-1]])
    inside = np.zeros(len(scores), dtype=np.bool_)
    for token in top:
        inside[token] = True
    rest = np.empty(len(scores) - len(top), dtype=np.int64)
    powers = np.empty(len(rest), dtype=np.float32)
    rest_gain = np.empty(len(rest), dtype=np.float32)
    filled = 0
    for token in range(len(scores)):
        if not inside[token]:
            rest[filled] = token
            powers[filled] = np.exp(sigma * (scores[token] - reference))
            rest_gain[filled] = gain[token]
            filled += 1
    pushes = np.zeros(len(rest), dtype=np.float32)
    for first in range(0, len(rest), _SPAN):
        last = min(first + _SPAN, len(rest))
        for place in range(len(top)):
            power = np.float32(np.exp(min(sigma * (scores[top[place]] - reference), _HIGHEST_POWER)))
            weight = np.float32(scale * discounts[place])
            own_gain = np.float32(gain[top[place]])
            back = _push(own_gain, power, weight, rest_gain[first:last], powers[first:last], pushes[first:last])
            gradient[top[place]] -= back
    for other in range(len(rest)):
        gradient[rest[other]] = pushes[other]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy")
def _push(own_gain, power, weight, gains, powers, pushes):  # type: ignore[no-untyped-def]
    """Add the pushes of one token on others to `pushes`; their sum is what it is pushed back by."""
    total = zero = np.float32(0.0)
    for other in range(len(gains)):
        difference = own_gain - gains[other]
        share = (powers[other] if difference > zero else power) / (power + powers[other])
        push = weight * difference * share
        pushes[other] += push
        total += push
    return total
