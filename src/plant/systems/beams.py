"""Going down a tree of linear classifiers: which nodes a text comes to on each level, and how well they fit it.

The score of a node is the product of exp(-max(0, 1 - f)^3) over its way down, f being what the classifiers of the way
say (Yu et al. 2022). Only what lies below the best nodes of a level is looked at: compiled, a text at a time, and the
weights lie by parent and word, so that a text meets those of its own words alone.
"""

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from plant.data.vectors import TextVectors
from plant.store.ragged import Ragged, offsets, owners, places


@dataclass(frozen=True)
class LinearLevel:
    """The linear classifiers of the nodes of a level.

    The words that some node below parent p weighs are `words[starts[p]:starts[p + 1]]`, rising; of the word at place w
    the `nodes[entries[w]:entries[w + 1]]` have those `weights`. All numbers of nodes are those of the level.
    """

    starts: NDArray[np.int64]
    words: NDArray[np.int32]
    entries: NDArray[np.int64]
    nodes: NDArray[np.int32]
    weights: NDArray[np.float32]
    biases: NDArray[np.float32]

    def weights_of(self, parent: int, node: int, words: NDArray[np.integer]) -> NDArray[np.float64]:
        """The weights that a node below a parent gives to some words."""
        first, last = self.starts[parent : parent + 2].tolist()
        found = np.searchsorted(self.words[first:last], words)
        (known,) = np.nonzero(np.append(self.words[first:last], -1)[found] == words)
        own = places(self.entries, first + found[known])
        right = self.nodes[own.values] == node
        weights = self.weights[own.values[right]].astype(np.float64)
        return np.bincount(known[owners(own.starts)[right]], weights, minlength=len(words)).astype(np.float64)


@dataclass(frozen=True)
class Beams:
    """The nodes of a level that each text came to, rising, and the logarithms of their scores."""

    starts: NDArray[np.int64]
    nodes: NDArray[np.int32]
    scores: NDArray[np.float64]


def at_root(n_texts: int) -> Beams:
    """Where all texts begin."""
    return Beams(np.arange(n_texts + 1), np.zeros(n_texts, np.int32), np.zeros(n_texts))


def follow(texts: TextVectors, beams: Beams, level: LinearLevel, below: Ragged, *, most: int) -> Beams:
    """The best nodes of a level below those of the beams, at most so many for a text; of equals the first."""
    widths = np.diff(offsets(below.lengths[beams.nodes])[beams.starts])
    starts = offsets(np.minimum(widths, most))
    found = Beams(starts, np.empty(starts[-1], np.int32), np.empty(starts[-1]))
    _follow(
        (texts.starts, texts.tokens, texts.values),
        (beams.starts, beams.nodes, beams.scores),
        (level.starts, level.words, level.entries, level.nodes, level.weights, level.biases),
        (below.starts, below.values),
        int(np.max(widths, initial=0)),
        (found.starts, found.nodes, found.scores),
    )
    return found


@numba.njit(cache=True, nogil=True)
def _follow(texts, beams, level, below, widest, found):  # type: ignore[no-untyped-def]  # compiled
    text_starts, tokens, values = texts
    beam_starts, parents, before = beams
    starts, words, entries, nodes, weights, biases = level
    below_starts, children = below
    found_starts, found_nodes, found_scores = found
    margins = np.zeros(len(biases))
    reached, scores = np.empty(widest, np.int32), np.empty(widest)
    for text in range(len(text_starts) - 1):
        n = 0
        for beam in range(beam_starts[text], beam_starts[text + 1]):
            parent = parents[beam]
            own = children[below_starts[parent] : below_starts[parent + 1]]
            for node in own:
                margins[node] = biases[node]
            low, end = starts[parent], starts[parent + 1]
            for place in range(text_starts[text], text_starts[text + 1]):
                low += np.searchsorted(words[low:end], tokens[place])  # both rise
                if low == end:
                    break
                if words[low] == tokens[place]:
                    for entry in range(entries[low], entries[low + 1]):
                        margins[nodes[entry]] += values[place] * weights[entry]
            for node in own:
                reached[n], scores[n] = node, before[beam] - max(0.0, 1.0 - margins[node]) ** 3
                n += 1
        first, kept = found_starts[text], found_starts[text + 1] - found_starts[text]
        best = np.argsort(-scores[:n], kind="mergesort")[:kept] if kept < n else np.arange(n)
        best = best[np.argsort(reached[best])]
        found_nodes[first : first + kept], found_scores[first : first + kept] = reached[best], scores[best]
