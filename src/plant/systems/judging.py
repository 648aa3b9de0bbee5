"""What the judge of a planted bag of words sees of a text's best labels: evidence by itself and beside the rest."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.systems.neighbours import FIRST, Found

JUDGED = 100  # labels of a text, the best by the join: of the others hardly one is right


@dataclass(frozen=True)
class Judged:
    """The places of judged labels among those found, rising, and what the judge sees of them."""

    places: NDArray[np.int64]
    features: NDArray[np.float32]  # [label, feature]


def judged(found: Found, kinds: NDArray[np.float32], joined: NDArray[np.float32], text: NDArray[np.float32]) -> Judged:
    """The best labels by the join's logit: its kinds of evidence, further evidence, and what holds for the text."""
    places = np.sort(np.argsort(-joined, kind="stable")[:JUDGED])
    more = (found.matched, found.covered, found.sharpest, found.voters, found.first_voters, found.closest)
    columns = [*kinds[places, 1:].T, joined[places], *(evidence[places] for evidence in more)]
    for evidence in (joined[places], found.logits[places], found.sharp[places]):
        columns += [_ranks(evidence), evidence - evidence.max(initial=-np.inf)]
    columns += [np.full(len(places), value) for value in text]
    return Judged(places, np.stack(columns, axis=1).astype(np.float32))


def text_features(n_words: int, cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """The number of known words, and the cosines of the first, the tenth and the last neighbour; 0 without any."""
    shown = [cosines[min(place, len(cosines) - 1)] if len(cosines) else 0 for place in (0, FIRST - 1, len(cosines))]
    return np.array([n_words, *shown], np.float32)


def _ranks(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """The place of each value in the order from the greatest; of equal values the first is before."""
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return ranks
