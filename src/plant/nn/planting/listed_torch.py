"""The plain form of sparse planting, for every device: what all segments of a batch say, some pairs at a time.

Which pairs there are is found out on the host; of what depends on the device nothing is waited for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from plant.nn.forms import sent
from plant.nn.planting.listed_notes import Array, ListedNotes

ENTRIES = 100_000_000  # of an array [found label, size of the states]


@dataclass(frozen=True)
class Listed:
    """Sparse planting of a batch; each segment is a document of the notes.

    Its tensors are states, weights and scales, then those of the ranker (`ranker_pieces`) for the notes' tokens.
    """

    notes: ListedNotes
    values: Float[Tensor, "entry"]
    k: int
    static: bool
    normalised: bool
    planted: bool

    def evidence(self, segments: Sequence[int], tensors: Sequence[Tensor]) -> Float[Tensor, "document label"]:
        """The states under the shares of all sources, as each label weighs them; documents have so many segments."""
        states, weights, *_ = tensors
        of_chunk = partial(_evidence, self, tensors)
        chunks = list(_chunks(self.notes, max(16, ENTRIES // states.shape[1])))
        if len(chunks) > 1 and torch.is_grad_enabled():  # computed again in the backward pass
            of_chunk = partial(checkpoint, of_chunk, use_reentrant=False, preserve_rng_state=False)
        logits = weights.new_zeros(len(segments) * len(weights)) + _idle(tensors[3:])
        documents = np.repeat(np.arange(len(segments)), segments)
        for found in chunks:
            cells = documents[found.owners] * len(weights) + self.notes.pairs.labels[found.numbers]
            logits = logits.index_add(0, sent(torch.from_numpy(cells), logits.device), of_chunk(found))
        return logits.view(len(segments), len(weights))

    def attention(
        self, tensors: Sequence[Tensor], labels: Int[Tensor, "asked"]
    ) -> list[Float[Tensor, "asked position"]]:
        """The weights of each source over all segments, for rising labels whose pairs the notes were read for."""
        states, _, _, *ranker = tensors
        asked = _asked(self, _all_found(self.notes))
        columns = torch.searchsorted(labels, asked.labels)[asked.kept_found]
        return [_spread(focus, columns, (len(labels), len(states))) for focus in _foci(self, asked, ranker)]


class _Found(NamedTuple):
    """Found labels of all segments: their numbers among the pairs, and whose they are."""

    numbers: Array
    owners: Array


class _Asked(NamedTuple):
    """The pairs of some found labels, and a row for each of the positions that they may keep."""

    labels: Int[Tensor, "found"]
    pair_found: Int[Tensor, "pair"]
    pair_places: Int[Tensor, "pair"]
    pair_entries: Int[Tensor, "pair"]
    row_pairs: Int[Tensor, "row"]  # by found label, then by position
    row_found: Int[Tensor, "row"]
    row_positions: Int[Tensor, "row"]
    kept: Int[Tensor, "kept"]  # the first k rows of each found label, once they are in order
    kept_found: Int[Tensor, "kept"]
    starts: Int[Tensor, "found"]  # where the kept rows of each begin


class _Focus(NamedTuple):
    """Where found labels look: positions, one label after the other, and how much each weighs."""

    positions: Int[Tensor, "kept"]
    shares: Float[Tensor, "kept"]


def _all_found(notes: ListedNotes) -> _Found:
    spans = [notes.found_in(segment) for segment in range(len(notes))]
    numbers = np.concatenate([np.arange(0), *(np.arange(first, last) for first, last in spans)])
    return _Found(numbers, np.repeat(np.arange(len(notes)), [last - first for first, last in spans]))


def _chunks(notes: ListedNotes, size: int) -> Iterator[_Found]:
    every = _all_found(notes)
    for start in range(0, len(every.numbers), size):
        yield _Found(every.numbers[start : start + size], every.owners[start : start + size])


def _bilinear(ranker: Sequence[Tensor]) -> bool:
    """Whether they are vectors and biases of tokens, then of labels; else halves of two layers and what follows."""
    return ranker[1].dim() == 1


def _evidence(listed: Listed, tensors: Sequence[Tensor], found: _Found) -> Float[Tensor, "found"]:
    states, weights, scales, *ranker = tensors
    asked = _asked(listed, found)
    pooled = [
        F.embedding_bag(focus.positions, states, asked.starts, mode="sum", per_sample_weights=scale * focus.shares)
        for focus, scale in zip(_foci(listed, asked, ranker), scales, strict=True)
    ]
    return torch.linalg.vecdot(torch.stack(pooled).sum(0), weights.index_select(0, asked.labels))


def _foci(listed: Listed, asked: _Asked, ranker: Sequence[Tensor]) -> list[_Focus]:
    """The focus of each source, static then planted."""
    foci = []
    if listed.static:
        foci.append(_static(asked, listed.values[asked.pair_entries], normalised=listed.normalised))
    if listed.planted:
        pair_labels = asked.labels[asked.pair_found]
        foci.append(_planted(asked, _pair_scores(ranker, asked.pair_places, pair_labels)))
    return foci


def _spread(focus: _Focus, columns: Int[Tensor, "kept"], shape: tuple[int, int]) -> Float[Tensor, "asked position"]:
    return focus.shares.new_zeros(shape).index_put((columns, focus.positions), focus.shares)


def _static(asked: _Asked, values: Float[Tensor, "pair"], *, normalised: bool) -> _Focus:
    kept = _best(asked, values)
    found = values[asked.row_pairs[kept]]
    total = found.new_zeros(len(asked.labels)).index_add(0, asked.kept_found, found)
    return _Focus(asked.row_positions[kept], found / total[asked.kept_found] if normalised else found)


def _planted(asked: _Asked, scores: Float[Tensor, "pair"]) -> _Focus:
    kept = _best(asked, scores.detach())
    found = scores[asked.row_pairs[kept]]
    lowest = found.new_full((len(asked.labels),), -torch.inf)
    highest = lowest.scatter_reduce(0, asked.kept_found, found.detach(), "amax")
    raised = (found - highest[asked.kept_found]).exp()
    total = raised.new_zeros(len(asked.labels)).index_add(0, asked.kept_found, raised)
    return _Focus(asked.row_positions[kept], raised / total[asked.kept_found])


def _best(asked: _Asked, scores: Float[Tensor, "pair"]) -> Int[Tensor, "kept"]:
    """The k rows of highest score of each found label; of equal scores, those that stand first."""
    falling = scores[asked.row_pairs].argsort(descending=True, stable=True)
    return falling[asked.row_found[falling].argsort(stable=True)][asked.kept]


def _idle(ranker: Sequence[Tensor]) -> Float[Tensor, ""] | float:
    """Nothing; but the last bias, which cancels in a softmax, gets a gradient of zero, and so decays like the rest."""
    return 0.0 * ranker[-1].sum() if ranker else 0.0


def _pair_scores(
    ranker: Sequence[Tensor], places: Int[Tensor, "pair"], labels: Int[Tensor, "pair"]
) -> Float[Tensor, "pair"]:
    """The ranker's scores as far as they differ within a label."""
    if _bilinear(ranker):
        vectors, bias, label_vectors, _ = ranker
        return torch.linalg.vecdot(vectors[places], label_vectors[labels]) + bias[places]
    token_half, label_half, output, _ = ranker
    return (token_half[places] + label_half[labels]).relu() @ output


def _asked(listed: Listed, found: _Found) -> _Asked:
    notes, device, n = listed.notes, listed.values.device, len(found.numbers)
    firsts, lasts = notes.pairs.firsts[found.numbers], notes.pairs.lasts[found.numbers]
    pair_found = np.repeat(np.arange(n), lasts - firsts)
    pairs = np.repeat(firsts, lasts - firsts) + _counted(lasts - firsts)
    places = notes.pairs.places[pairs]
    row_pairs, row_positions = _rows(notes, places, pair_found)
    row_found = pair_found[row_pairs]
    sizes = np.bincount(row_found, minlength=n)
    kept = np.minimum(sizes, listed.k)
    arrays = (
        notes.pairs.labels[found.numbers], pair_found, places, notes.pairs.entries[pairs],
        row_pairs, row_found, row_positions,
        np.repeat(np.cumsum(sizes) - sizes, kept) + _counted(kept), np.repeat(np.arange(n), kept),
        np.cumsum(kept) - kept,
    )  # fmt: skip
    return _Asked(*(sent(torch.from_numpy(array.astype(np.int64)), device) for array in arrays))


def _rows(notes: ListedNotes, places: Array, pair_found: Array) -> tuple[Array, Array]:
    """The pair and the position of each row, by found label and then by position."""
    rows = notes.words.rows
    counts = rows[places + 1] - rows[places]
    pairs = np.repeat(np.arange(len(places)), counts)
    positions = notes.words.positions[np.repeat(rows[places], counts) + _counted(counts)]
    order = np.lexsort((positions, pair_found[pairs]))
    return pairs[order], positions[order]


def _counted(sizes: Array) -> Array:
    """0, 1, ... up to each of the sizes, one run after the other."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
