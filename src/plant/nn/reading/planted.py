"""Sparse planting for coders that only read: `plant.nn.decoders.planted` with listed words, on plain arrays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from plant.errors import ArtifactError
from plant.nn.planting import listed_kernels as kernels
from plant.nn.planting.listed_look import Constants, ListedStep, Look, Rooms, evidence_of_all, look_of, see
from plant.nn.planting.listed_notes import ListedNotes, read_notes
from plant.nn.reading.forms import Array, ArrayEncoder, Facts, Integers, Kept, Said, as_distribution
from plant.relevance.relevance import TokenRelevance, lists_by_token
from plant.store.checks import check_numbers, check_shape


@dataclass(frozen=True)
class BilinearScores:
    """e_t . e_l + b_t; what a label adds to all words makes no difference."""

    token_vectors: Array
    token_bias: Array
    label_vectors: Array

    form = kernels.BILINEAR
    label_half = None

    def arrays(self, notes: ListedNotes) -> tuple[Array, ...]:
        """What kernels take."""
        return self.token_vectors, self.token_bias, self.label_vectors


@dataclass(frozen=True)
class TwoLayerScores:
    """w . relu(label half + token half)."""

    token_vectors: Array
    token_layer: Array
    label_half: Array
    output: Array

    form = kernels.TWO_LAYER

    def arrays(self, notes: ListedNotes) -> tuple[Array, ...]:
        """What kernels take."""
        return self.token_vectors[notes.tokens] @ self.token_layer.T, self.label_half, self.output


@dataclass(frozen=True)
class ListedLabels:
    """Labels that look at the words of their relevance lists, static and planted."""

    lists: TokenRelevance
    weights: Array  # [label, size]
    bias: Array  # [label]
    scales: Array  # of the static and the planted source
    ranker: BilinearScores | TwoLayerScores
    constants: Constants  # what the ranker said so far
    k: int
    normalised: bool

    @property
    def n_words(self) -> int:
        return len(self.lists.starts) - 1

    @property
    def n_labels(self) -> int:
        return len(self.bias)

    @property
    def input_size(self) -> int:
        return self.weights.shape[1]

    def read(self, notes: Sequence[Integers], encoder: ArrayEncoder) -> Said:
        places = [np.flatnonzero(self._is_listed(tokens)) for tokens in notes]
        listed = [tokens[own] for tokens, own in zip(notes, places, strict=True)]
        states = [encoder.states_at(tokens, own) for tokens, own in zip(notes, places, strict=True)]
        step = self._step(listed)
        seen = see(step, (np.concatenate(states), self.weights, self.scales, *self.ranker.arrays(step.notes)))
        logits = evidence_of_all(step, seen) + self.bias
        look = look_of(step, seen, (0, *accumulate(map(len, listed))))
        return Said(logits, lambda row, labels: _spread(look, row, labels, places[row], len(notes[row])))

    def _step(self, listed: Sequence[Integers]) -> ListedStep:
        tokens, lengths = np.concatenate(listed).astype(np.int64), [(len(own),) for own in listed]
        every = np.ones(len(self.bias), np.uint8)
        notes = read_notes(tokens, lengths, self.lists.starts, self.lists.labels, every, k=self.k)
        looks = (self.lists.scores, self.k, True, self.normalised, self.ranker.form, self.constants)
        return ListedStep(notes, *looks, Rooms())

    def _is_listed(self, tokens: Integers) -> Array:
        return self.lists.starts[tokens] < self.lists.starts[tokens + 1]


def _spread(look: Look, row: int, labels: Integers, places: Integers, length: int) -> Array:
    """The weights of the words that labels looked at, as those of the whole note."""
    weights = np.zeros((len(labels), length), look.shares.dtype)
    weights[:, places] = as_distribution(look.of(row, labels))
    return weights


def listed_labels(facts: Facts, kept: Kept) -> ListedLabels:
    """The decoder from a coder's weights and relevance; `facts` are `listed`, `k`, `normalised` and `ranker`."""
    tokens, scores = (kept.given[f"relevance.{name}"][:, : facts["listed"]] for name in ("tokens", "scores"))
    n_tokens = len(kept.given["relevance.token_counts"])
    weights, bias, scales = (np.array(kept.weights[name]) for name in ("learned.weights", "learned.bias", "scales"))
    check_shape("learned.weights", weights, (len(bias), weights.shape[1]))
    check_shape("learned.bias", bias, (len(bias),))
    check_shape("scales", scales, (2,))
    check_shape("relevance.scores", scores, (len(scores), scores.shape[1]))
    check_shape("relevance.tokens", tokens, scores.shape, "iu")
    check_numbers("relevance.tokens", tokens, n_tokens, axes=2)
    if len(scores) > len(bias):
        raise ArtifactError("relevance.scores of the folder has more codes than there are: make it again")
    check_shape("relevance.label_counts", kept.given["relevance.label_counts"], (len(scores),), "iu")
    lists = lists_by_token(tokens, scores, n_tokens=n_tokens)
    ranker = RANKERS[facts["ranker"]](kept, n_tokens, len(bias))
    constants = Constants(np.full(len(lists.scores), np.nan, lists.scores.dtype), ranker.label_half)
    return ListedLabels(lists, weights, bias, scales, ranker, constants, facts["k"], facts["normalised"])


def _bilinear(kept: Kept, n_tokens: int, n_labels: int) -> BilinearScores:
    tokens, bias, labels = _of_ranker(kept, "token_vectors", "token_bias", "label_vectors")
    _check_vectors(tokens, labels, n_tokens, n_labels)
    check_shape("ranker.token_bias", bias, (n_tokens,))
    check_shape("ranker.label_vectors", labels, (n_labels, tokens.shape[1]))
    check_shape("ranker.label_bias", kept.weights["ranker.label_bias"], (n_labels,))
    return BilinearScores(tokens, bias, labels)


def _two_layer(kept: Kept, n_tokens: int, n_labels: int) -> TwoLayerScores:
    names = ("token_vectors", "token_layer", "label_vectors", "label_layer", "hidden_bias", "output")
    tokens, token_layer, labels, label_layer, bias, output = _of_ranker(kept, *names)
    _check_vectors(tokens, labels, n_tokens, n_labels)
    check_shape("ranker.token_layer", token_layer, (len(bias), tokens.shape[1]))
    check_shape("ranker.label_layer", label_layer, (len(bias), labels.shape[1]))
    check_shape("ranker.hidden_bias", bias, (len(bias),))
    check_shape("ranker.output", output, (len(bias),))
    return TwoLayerScores(tokens, token_layer, labels @ label_layer.T + bias, output)


def _check_vectors(tokens: Array, labels: Array, n_tokens: int, n_labels: int) -> None:
    check_shape("ranker.token_vectors", tokens, (n_tokens, tokens.shape[1]))
    check_shape("ranker.label_vectors", labels, (n_labels, labels.shape[1]))


def _of_ranker(kept: Kept, *names: str) -> list[Array]:
    """Copies: kernels are compiled for arrays that can be written, and maps of a file cannot."""
    return [np.array(kept.weights[f"ranker.{name}"]) for name in names]


RANKERS: Mapping[str, Callable[[Kept, int, int], BilinearScores | TwoLayerScores]] = {
    "bilinear": _bilinear,
    "mlp": _two_layer,
}
