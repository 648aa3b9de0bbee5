"""Mutual information between "token t occurs" and "label l is given": exact, and the best tokens of each label."""

from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from plant.relevance.counts import PairCounts, Tokens, token_type

Form = Literal["mi", "normalised", "positive"]
_NORMALISED, _POSITIVE = 1, 2
_FORM_NUMBERS: dict[Form, int] = {"mi": 0, "normalised": _NORMALISED, "positive": _POSITIVE}
_LOW_HALF = np.uint64(0xFFFFFFFF)


def best_tokens(counts: PairCounts, *, form: Form, keep: int) -> tuple[Tokens, NDArray[np.float32]]:
    """Per label the `keep` tokens of most information, best first, ties by number; rows are padded with zeros.

    A token that tells nothing about the label (information 0) is never listed.
    """
    n_labels, n_tokens = len(counts.label_counts), len(counts.token_counts)
    tokens = np.zeros((n_labels, keep), dtype=token_type(n_tokens))
    scores = np.zeros((n_labels, keep), dtype=np.float32)
    starts, keys = _candidates(counts, form, keep)
    for label in range(n_labels):
        row = keys[starts[label] : starts[label + 1]]
        best = np.sort(np.partition(row, keep)[:keep] if len(row) > keep else row)
        tokens[label, : len(best)] = best & _LOW_HALF
        scores[label, : len(best)] = (_LOW_HALF - (best >> 32)).astype(np.uint32).view(np.float32)
    return tokens, scores


def _candidates(counts: PairCounts, form: Form, keep: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Per label one key for each token that may be among the best: keys sort by falling information, then by token."""
    most = len(counts.tokens) + (0 if form == "positive" else keep * len(counts.label_counts))
    tokens = np.empty(most, dtype=np.uint32)
    values = np.empty(most, dtype=np.float32)
    by_frequency = np.argsort(-counts.token_counts if form != "positive" else [], kind="stable")
    marginals = (counts.n_documents, counts.token_counts, counts.label_counts)
    pairs = (counts.starts, counts.tokens, counts.together)
    logs = _x_log_x(counts.n_documents)
    starts = _score_pairs(marginals, pairs, by_frequency, logs, _FORM_NUMBERS[form], keep, tokens, values)
    falling = _LOW_HALF - values[: starts[-1]].view(np.uint32).astype(
        np.uint64
    )  # the bits of positive floats sort like the floats
    return starts, falling << np.uint64(32) | tokens[: starts[-1]]


def _x_log_x(largest: int) -> NDArray[np.float64]:
    """x ln x for 0..largest, with 0 ln 0 = 0."""
    x = np.arange(largest + 1, dtype=np.float64)
    return x * np.log(np.maximum(x, 1.0))


@njit(cache=True, nogil=True, error_model="numpy")
def _information(together, with_token, with_label, n, logs, form):  # type: ignore[no-untyped-def]
    """The closed form of the four cells; exact integers decide about independence, so rounding cannot."""
    excess = together * n - with_token * with_label
    if excess == 0 or (form == _POSITIVE and excess < 0):
        return 0.0
    cells = logs[together] + logs[with_token - together] + logs[with_label - together]
    cells += logs[n - with_token - with_label + together]
    margins = logs[with_token] + logs[n - with_token] + logs[with_label] + logs[n - with_label]
    information = max(cells - margins + logs[n], 0.0)
    if form == _NORMALISED:
        return information / (logs[n] - cells)  # n times the joint entropy, H(J) + H(I) - MI
    return information / n


@njit(cache=True, nogil=True)
def _score_pairs(marginals, pairs, by_frequency, logs, form, keep, tokens, values):  # type: ignore[no-untyped-def]
    """Information of the tokens that meet a label and, `positive` apart, of the most frequent ones that never do.

    Among tokens that never meet the label information grows with frequency: no others can be among the best `keep`.
    """
    n, token_counts, label_counts = marginals
    pair_starts, pair_tokens, together = pairs
    met_with = np.full(len(token_counts), -1, dtype=np.int64)
    starts = np.zeros(len(label_counts) + 1, dtype=np.int64)
    filled = 0
    for label in range(len(label_counts)):
        for pair in range(pair_starts[label], pair_starts[label + 1]):
            token = pair_tokens[pair]
            met_with[token] = label
            value = _information(together[pair], token_counts[token], label_counts[label], n, logs, form)
            if value > 0.0:
                tokens[filled], values[filled] = token, value
                filled += 1
        strangers = 0 if form == _POSITIVE else keep
        for token in by_frequency:
            if strangers == 0:
                break
            if met_with[token] == label:
                continue
            value = _information(0, token_counts[token], label_counts[label], n, logs, form)
            if value <= 0.0:
                break
            tokens[filled], values[filled] = token, value
            filled += 1
            strangers -= 1
        starts[label + 1] = filled
    return starts
