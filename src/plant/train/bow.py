"""Learning for the planted bag of words: weights of listed words, and how far each kind of evidence is believed.

Words: z_l = b_l + sum of u_lt x_t over the words t of a text that label l lists. Logistic loss over the labels that the
text touches, those that list one of its words; Adagrad, a text at a time. What a label gets wrong by less than `LEAST`
teaches it nothing, which saves most of the work: nearly all touched labels are rightly refused.

Join: a logistic regression with one weight for each kind of evidence, over the candidates of texts that were held out.
"""

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from plant.data.vectors import TextVectors
from plant.relevance.relevance import TokenRelevance
from plant.store.ragged import Ragged
from plant.types import Progress, silent

LEAST = 0.003  # an error of probability
FIRST_SQUARES = 0.01  # of Adagrad's sums: a weight's first step is about its learning rate
BIAS_RATE = 0.1
HELD = 1.0  # how strongly the weights of a join are held at 0
NEWTON_STEPS = 30


@dataclass(frozen=True)
class ListedWeights:
    """Word t is listed by `labels[starts[t]:starts[t + 1]]`, rising, with these weights; and a bias per label."""

    starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    weights: NDArray[np.float32]
    biases: NDArray[np.float32]


@dataclass
class Learning:
    """Weights in the making, with Adagrad's sums of squared gradients; `learn` changes them."""

    listed: ListedWeights
    squares: NDArray[np.float32]
    bias_squares: NDArray[np.float32]


def start_learning(lists: TokenRelevance, log_odds: NDArray[np.float32], *, start: float) -> Learning:
    """Every listed word speaks for its label with weight `start`, every label begins at its log-odds."""
    weights = np.full(len(lists.labels), start, np.float32)
    listed = ListedWeights(lists.starts.astype(np.int64), lists.labels, weights, log_odds.astype(np.float32))
    return Learning(listed, np.full(len(weights), FIRST_SQUARES, np.float32), np.ones(len(log_odds), np.float32))


def learn(
    learning: Learning,
    texts: TextVectors,
    labels: Ragged,
    *,
    rows: NDArray[np.integer],
    epochs: int,
    rate: float,
    seed: int,
    progress: Progress = silent,
) -> list[float]:
    """Walk over some texts in an order that the seed decides; the mean loss of each epoch."""
    random = np.random.default_rng(seed)
    listed, losses = learning.listed, []
    for epoch in range(epochs):
        order = random.permutation(rows)
        text_arrays = (texts.starts, texts.tokens, texts.values, labels.starts, labels.values)
        list_arrays = (listed.starts, listed.labels, listed.weights, listed.biases)
        sums = (learning.squares, learning.bias_squares)
        losses.append(_walk(order, text_arrays, list_arrays, sums, np.float32(rate)) / max(1, len(order)))
        progress("words", epoch + 1, epochs)
    return losses


def fit_join(features: NDArray[np.float32], truth: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The weights of a logistic regression over a few features, by Newton's method; the first is the constant."""
    gold = truth.astype(np.float64)
    weights = np.zeros(features.shape[1])
    weights[0] = np.log((gold.sum() + 1) / (len(gold) - gold.sum() + 1))
    held = np.r_[0.0, np.full(len(weights) - 1, HELD)]
    for _ in range(NEWTON_STEPS):
        slope, curvature = held * weights, np.diag(held + 1e-9)
        for first in range(0, len(gold), 1 << 18):  # in float64, but never all at once
            part = features[first : first + (1 << 18)].astype(np.float64)
            share = 1 / (1 + np.exp(-np.clip(part @ weights, -30, 30)))
            slope = slope + part.T @ (share - gold[first : first + (1 << 18)])
            curvature = curvature + (part * (share * (1 - share))[:, None]).T @ part
        step = np.linalg.solve(curvature, slope)
        weights = weights - step * min(1.0, 2.0 / max(1e-12, np.abs(step).max()))
        if np.abs(step).max() < 1e-6:
            break
    return weights.astype(np.float32)


@numba.njit(cache=True, nogil=True)
def _walk(order, texts, lists, sums, rate):  # type: ignore[no-untyped-def]  # compiled
    """One epoch; returns the sum of the losses of touched labels."""
    text_starts, tokens, values, label_starts, gold = texts
    starts, labels, weights, biases = lists
    squares, bias_squares = sums
    errors, is_gold = np.zeros(len(biases), np.float32), np.zeros(len(biases), np.bool_)
    seen, touched = np.zeros(len(biases), np.bool_), np.empty(len(biases), np.int32)
    loss = 0.0
    for text in order:
        found = 0
        for place in range(text_starts[text], text_starts[text + 1]):
            token, value = tokens[place], values[place]
            for entry in range(starts[token], starts[token + 1]):
                label = labels[entry]
                if not seen[label]:
                    seen[label] = True
                    touched[found] = label
                    found += 1
                    errors[label] = biases[label]
                errors[label] += weights[entry] * value
        is_gold[gold[label_starts[text] : label_starts[text + 1]]] = True
        for label in touched[:found]:
            share = 1 / (1 + np.exp(-errors[label]))
            error = np.float32(share - 1 if is_gold[label] else share)
            loss -= np.log(1 - abs(error) + 1e-9)
            seen[label] = False
            errors[label] = error
            if abs(error) < LEAST:
                errors[label] = 0
                continue
            bias_squares[label] += error * error
            biases[label] -= BIAS_RATE * error / np.sqrt(bias_squares[label])
        for place in range(text_starts[text], text_starts[text + 1]):
            token, value = tokens[place], values[place]
            for entry in range(starts[token], starts[token + 1]):
                error = errors[labels[entry]]
                if error != 0:
                    slope = error * value
                    squares[entry] += slope * slope
                    weights[entry] -= rate * slope / np.sqrt(squares[entry])
        is_gold[gold[label_starts[text] : label_starts[text + 1]]] = False
    return loss
