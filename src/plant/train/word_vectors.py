"""Word vectors by skip-gram with negative sampling (Mikolov et al. 2013), from the training text only.

One thread and a random generator of its own: the same text and seed give the same vectors on every machine.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from plant.text.vocab import SPECIAL
from plant.train.streams import Text
from plant.types import Progress, silent

SMOOTHING = 0.75  # power of the counts from which words of the noise are drawn
SLOTS = 1 << 20  # of the table they are drawn from
FLOOR = 1e-4  # share of the learning rate that is left at the end
DOCUMENTS_AT_A_TIME = 500  # between two calls of `progress`


def train_word_vectors(
    text: Text,
    n_words: int,
    *,
    size: int = 100,
    window: int = 5,
    negatives: int = 5,
    epochs: int = 5,
    learning_rate: float = 0.025,
    subsample: float = 1e-3,
    seed: int = 1,
    progress: Progress = silent,
) -> NDArray[np.float32]:
    """One vector per word, [words, size]; words that the text does not have keep small random ones, padding is zero.

    `subsample` is the share of the text above which a word is skipped at random, the more the more frequent it is.
    """
    counts = np.bincount(text.tokens, minlength=n_words)
    vectors, contexts = _start(n_words, size, seed), np.zeros((n_words, size), np.float32)
    noise, keep = _noise_table(counts), _keeping_chances(counts, subsample)
    state = np.array([seed + 1], np.uint64)
    total = epochs * len(text)
    for epoch in range(epochs):
        for first in range(0, len(text), DOCUMENTS_AT_A_TIME):
            done, last = epoch * len(text) + first, min(first + DOCUMENTS_AT_A_TIME, len(text))
            rates = learning_rate * np.array([1 - done / total, 1 - (done + last - first) / total])
            starts = text.starts[first : last + 1]
            _train(text.tokens, starts, vectors, contexts, noise, keep, np.maximum(rates, FLOOR * learning_rate),
                   window, negatives, state)  # fmt: skip
            progress("word vectors: documents read", done + last - first, total)
    return vectors


def _start(n_words: int, size: int, seed: int) -> NDArray[np.float32]:
    vectors = ((np.random.default_rng(seed).random((n_words, size)) - 0.5) / size).astype(np.float32)
    vectors[0] = 0
    return vectors


def _noise_table(counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Words in as many slots as their smoothed counts ask for; the special tokens have none."""
    weights = counts.astype(np.float64) ** SMOOTHING
    weights[: len(SPECIAL)] = 0
    weights = weights if weights.sum() else np.ones_like(weights)
    edges = np.cumsum(weights) / weights.sum()
    return np.searchsorted(edges, (np.arange(SLOTS) + 0.5) / SLOTS).astype(np.int32)


def _keeping_chances(counts: NDArray[np.int64], subsample: float) -> NDArray[np.float32]:
    """The chance of each word to be read where it stands; unknown words are never read."""
    shares = counts / max(1, counts.sum())
    ratio = subsample / np.maximum(shares, 1e-12) if subsample > 0 else np.ones(len(counts))
    chances = np.minimum(1.0, np.sqrt(ratio) + ratio)
    chances[: len(SPECIAL)] = 0
    return chances.astype(np.float32)


@njit(cache=True)
def _random(state):  # type: ignore[no-untyped-def]
    """The next of xorshift64*: 32 random bits."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return (x * np.uint64(2685821657736338717)) >> np.uint64(32)


@njit(cache=True)
def _train(tokens, starts, vectors, contexts, noise, keep, rates, window, negatives, state):  # type: ignore[no-untyped-def]
    """Go through some documents; the learning rate falls from the first of `rates` to the second."""
    longest = 0
    for document in range(len(starts) - 1):
        longest = max(longest, starts[document + 1] - starts[document])
    words = np.empty(longest, np.int32)
    change = np.empty(vectors.shape[1], np.float32)
    span = max(1, starts[-1] - starts[0])
    for document in range(len(starts) - 1):
        count = 0
        for place in range(starts[document], starts[document + 1]):
            if _random(state) < np.uint64(keep[tokens[place]] * 4294967296.0):
                words[count] = tokens[place]
                count += 1
        rate = np.float32(rates[0] + (rates[1] - rates[0]) * (starts[document] - starts[0]) / span)
        for place in range(count):
            reach = 1 + int(_random(state) % np.uint64(window))
            for other in range(max(0, place - reach), min(count, place + reach + 1)):
                if other != place:
                    _update(words[other], words[place], vectors, contexts, noise, rate, negatives, change, state)


@njit(cache=True, fastmath=True)
def _update(word, target, vectors, contexts, noise, rate, negatives, change, state):  # type: ignore[no-untyped-def]
    """Draw a word's vector towards the context that it was seen with and away from words of the noise."""
    vector = vectors[word]
    change[:] = 0
    for draw in range(negatives + 1):
        other = target if draw == 0 else noise[int(_random(state) % np.uint64(len(noise)))]
        if draw > 0 and other == target:
            continue
        context = contexts[other]
        product = np.float32(0)
        for k in range(len(vector)):
            product += vector[k] * context[k]
        wanted = np.float32(1) if draw == 0 else np.float32(0)
        step = rate * (wanted - np.float32(1) / (np.float32(1) + np.exp(-product)))
        for k in range(len(vector)):
            change[k] += step * context[k]
            context[k] += step * vector[k]
    for k in range(len(vector)):
        vector[k] += change[k]
