"""Pairs of notes and labels that stand for all of them: scores of many labels are never held together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.evaluate.scores.of_texts import TextScores

IN_LISTS = 20_000_000  # scores of choosing notes: beyond, the best labels of each note do
ACCEPTABLE = 200  # labels of a note that a threshold may accept
OTHERS = 1000  # labels of a note that stand for all that nobody thinks of


@dataclass(frozen=True)
class Pairs:
    """Pairs of a note and a label: what each system says of them, and how many pairs each stands for."""

    labels: NDArray[np.int64]  # [pair]
    scores: NDArray[np.float32]  # [system, pair]
    truth: NDArray[np.float64]  # [pair]
    counts: NDArray[np.float64]  # [pair]


def are_many(notes: int, labels: int) -> bool:
    """Whether all scores of notes would be too many."""
    return notes * labels > IN_LISTS


def pairs_of(number: int, said: Sequence[TextScores], gold: NDArray[np.integer], *, place: int = 0) -> Pairs:
    """The gold labels of a note, the best of each system, and evenly chosen others that stand for the rest.

    The note stands at a `place` of what each system said; other notes, by their `number`, have other ones chosen.
    """
    n_labels = said[0].n_labels
    wanted = np.zeros(n_labels, np.bool_)
    wanted[gold] = True
    for scores in said:
        wanted[scores.best(place, ACCEPTABLE)] = True
    rest = np.flatnonzero(~wanted)
    step = max(1, len(rest) // OTHERS)
    counts = wanted.astype(np.float64)
    chosen = rest[number % step :: step]
    counts[chosen] = len(rest) / max(1, len(chosen))
    labels = np.flatnonzero(counts)
    truth = np.zeros(n_labels)
    truth[gold] = 1
    return Pairs(labels, np.stack([scores.of(place, labels) for scores in said]), truth[labels], counts[labels])


def put_together(parts: Iterable[Pairs]) -> Pairs:
    """The pairs of several notes."""
    several = list(parts)
    return Pairs(
        np.concatenate([one.labels for one in several]),
        np.concatenate([one.scores for one in several], axis=1),
        np.concatenate([one.truth for one in several]),
        np.concatenate([one.counts for one in several]),
    )
