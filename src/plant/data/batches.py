"""Which documents are read together: of similar lengths, in an order that only the seed decides."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents
from plant.store.safetensors import room_for
from plant.types import Progress, silent

POOL = 20  # batches that are sorted by length together: little padding, and still a different mix each epoch
TOGETHER = 16  # documents in a batch of prediction: with more, the weights in eight bits no longer gain
SCORES = 500_000  # of documents that are read together


def together(n_labels: int) -> int:
    """How many documents are read at a time: of very many labels no more than a few have their scores in memory."""
    return max(1, min(TOGETHER, SCORES // max(1, n_labels)))


def shuffled_batches(lengths: NDArray[np.int64], *, size: int, seed: int, epoch: int) -> list[NDArray[np.intp]]:
    """The rows of each batch of one epoch; documents of similar lengths share a batch."""
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(lengths))
    pools = [order[first : first + POOL * size] for first in range(0, len(order), POOL * size)]
    by_length = [pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]
    batches = [pool[first : first + size] for pool in by_length for first in range(0, len(pool), size)]
    return [batches[number] for number in random.permutation(len(batches))]


def sorted_batches(lengths: NDArray[np.int64], *, size: int, tokens: int = 1 << 16) -> list[NDArray[np.intp]]:
    """The rows of each batch for prediction, longest documents first; a batch has at most `tokens` with padding."""
    order = np.argsort(-lengths, kind="stable")
    batches, first = [], 0
    while first < len(order):
        fitting = max(1, min(size, tokens // max(1, int(lengths[order[first]]))))
        batches.append(order[first : first + fitting])
        first += fitting
    return batches


def prediction_batches(
    documents: Documents, *, size: int, what: str = "reading notes", progress: Progress = silent
) -> Iterator[NDArray[np.intp]]:
    """The rows of each batch for prediction; a batch counts as done when the next one is asked for."""
    done = 0
    for rows in sorted_batches(np.diff(documents.token_starts), size=size):
        yield rows
        done += len(rows)
        progress(what, done, len(documents))


def predict_in_batches(
    predict: Callable[[NDArray[np.intp]], NDArray[np.float32]],
    documents: Documents,
    *,
    n_labels: int,
    size: int,
    progress: Progress = silent,
) -> NDArray[np.float32]:
    """The scores of each document and label, from what `predict` gives for the rows of a batch."""
    scores = room_for(len(documents), n_labels)
    for rows in prediction_batches(documents, size=size, progress=progress):
        scores[rows] = predict(rows)
    return scores
