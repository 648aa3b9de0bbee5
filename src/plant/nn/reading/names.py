"""Interaction matching for coders that only read: `plant.nn.decoders.interaction` with fixed vectors, in numpy."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plant.nn.matching.kept import joined
from plant.nn.matching.names import check_names, unpack_names
from plant.nn.matching.placed import Placed, best_per_label, matches_in, placed
from plant.nn.matching.search import Matching, Phrases, Similar, phrases_of
from plant.nn.reading.forms import ANY_SIZE, Array, ArrayEncoder, Facts, Integers, Kept, Said, as_distribution
from plant.store.checks import check_numbers, check_shape, check_starts

TINY = 1e-8  # the least length of a vector
EDGE = 1e-6  # how near to 0 and 1 a probability may come


@dataclass(frozen=True)
class NoStates:
    """Of notes whose words alone are looked at."""

    n_words = sys.maxsize
    size = 0

    def states_at(self, tokens: Integers, positions: Integers) -> Array:
        return np.zeros((len(positions), 0), np.float32)


def no_states(facts: Facts, kept: Kept) -> NoStates:
    """The encoder that passes on words."""
    return NoStates()


@dataclass(frozen=True)
class NamedLabels:
    """Labels that are there when one of their names stands in the note, word for word or nearly so."""

    phrases: Phrases
    matching: Matching
    similar: Similar
    name_labels: Array  # [name]
    words: Array  # [token, size]; may be a map of a file
    weights: Array  # [name]
    scale: float
    prior: Array  # [label]
    absent: float
    logit: str  # of the mean cosine: weighted, sigmoid or plain

    input_size = ANY_SIZE

    @property
    def n_words(self) -> int:
        return len(self.words)

    @property
    def n_labels(self) -> int:
        return len(self.prior)

    def read(self, notes: Sequence[Integers], encoder: ArrayEncoder) -> Said:
        tokens = [note.astype(np.int64) for note in notes]
        matches = joined([matches_in(self.similar, row, self.phrases, self.matching) for row in tokens])
        names, values = matches.found.names, matches.found.scores
        if self.logit == "weighted":
            values = self.weights[names] + self.scale * (values - 1)
        best = best_per_label(matches, values, self.name_labels[names])
        found = placed(matches, best, self.phrases, self.name_labels)
        similar = self._similarities(found, tokens)
        logits = np.tile(self.prior + np.float32(self.absent), (len(notes), 1))
        logits[found.rows, found.labels] = self._logits(found, similar)
        return Said(logits, lambda row, labels: _spread(found, similar, row, labels, len(notes[row])))

    def _similarities(self, found: Placed, tokens: Sequence[Integers]) -> Array:
        """The cosines of the pairs of words that face each other; exactly 1 for the same word."""
        starts = np.cumsum([0, *map(len, tokens)])
        facing = np.concatenate(tokens)[starts[found.rows[found.pair_match]] + found.pair_position]
        ours, theirs = (np.asarray(self.words[numbers]) for numbers in (found.pair_word, facing))
        lengths = [np.maximum(np.linalg.norm(vectors, axis=1), TINY) for vectors in (ours, theirs)]
        cosines = np.einsum("pc,pc->p", ours, theirs) / (lengths[0] * lengths[1])
        return np.where(found.pair_word == facing, np.float32(1), cosines)

    def _logits(self, found: Placed, similar: Array) -> Array:
        sums = np.bincount(found.pair_match, weights=similar, minlength=len(found.names))
        scores = (sums / found.lengths).astype(np.float32)
        if self.logit == "sigmoid":
            return scores
        if self.logit == "plain":
            safe = np.clip(scores, EDGE, 1 - EDGE)
            return np.log(safe) - np.log1p(-safe)
        return self.weights[found.names] + np.float32(self.scale) * (scores - 1)


def _spread(found: Placed, similar: Array, row: int, labels: Integers, length: int) -> Array:
    """The words of each asked label's match in a note, by similarity; nothing for a label without one."""
    asked, columns = np.unique(labels, return_inverse=True)
    pairs = np.flatnonzero(found.rows[found.pair_match] == row)
    of = found.labels[found.pair_match[pairs]]
    places = np.searchsorted(asked, of)
    there = np.append(asked, -1)[places] == of
    weights = np.zeros((len(asked), length), np.float32)
    np.add.at(weights, (places[there], found.pair_position[pairs[there]]), similar[pairs[there]])
    return as_distribution(weights)[columns]


def named_labels(facts: Facts, kept: Kept) -> NamedLabels:
    """The decoder from a coder's weights, names and similar words."""
    names = unpack_names(
        {name.removeprefix("names."): array for name, array in kept.given.items() if name.startswith("names.")}
    )
    weights, prior, words = (kept.weights[name] for name in ("weights", "prior", "words"))
    check_shape("prior", prior, (len(prior),))
    check_shape("weights", weights, (len(names),))
    check_shape("words", words, (len(words), words.shape[1]))
    check_names(names, words=len(words), labels=len(prior))
    phrases = phrases_of(names)
    similar = Similar(*(np.array(kept.constants[name]) for name in Similar._fields))
    check_starts("starts", similar.starts, len(similar.words), rows=len(words))
    check_numbers("words", similar.words, len(phrases.distinct))
    check_shape("values", similar.values, (len(similar.words),))
    return NamedLabels(
        phrases=phrases,
        matching=Matching(**facts["matching"]),
        similar=similar,
        name_labels=names.labels,
        words=words,
        weights=np.array(weights),
        scale=float(kept.weights["scale"]),
        prior=np.array(prior),
        absent=float(kept.weights["absent"]),
        logit=facts["logit"],
    )
