"""The plain form of sparse planting, for every device: what segments say, some labels at a time.

Which pairs there are is found out on the host; of what depends on the device nothing is waited for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from plant.nn.planting.fused import Back, Segment
from plant.nn.planting.listed_notes import Array, ListedNotes


@dataclass(frozen=True)
class Listed:
    """`Segments` under sparse planting; each segment is a document of the notes.

    Their tensors are states, weights and scales, then those of the ranker (`ranker_pieces`).
    """

    notes: ListedNotes
    values: Float[Tensor, "entry"]
    k: int
    static: bool
    normalised: bool
    planted: bool

    def of(self, number: int, span: slice, tensors: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> Segment:
        return _Segment(self, number, span, tensors, gradients).evidence

    def attention(
        self, lengths: Sequence[int], tensors: Sequence[Tensor], labels: Int[Tensor, "asked"]
    ) -> list[Float[Tensor, "asked position"]]:
        """The weights of each source over all segments, for rising labels whose pairs the notes were read for."""
        spans = (slice(*bounds) for bounds in pairwise(accumulate(lengths, initial=0)))
        columns = [self._attention_in(number, span, tensors, labels) for number, span in enumerate(spans)]
        return [torch.cat(source, dim=1) for source in zip(*columns, strict=True)]

    def _attention_in(
        self, number: int, span: slice, tensors: Sequence[Tensor], labels: Int[Tensor, "asked"]
    ) -> list[Float[Tensor, "asked position"]]:
        asked = _asked(self, number, span, range(len(tensors[1])))
        columns = torch.searchsorted(labels, asked.labels.to(labels.device))
        parts = _parts(self.notes, number, span, tensors, slice(None))
        ranker = [tensor[part] for tensor, part in zip(tensors, parts, strict=True)][3:]
        foci = _foci(self, asked, ranker, first_label=0)
        return [_spread(focus, columns[asked.kept_found], (len(labels), span.stop - span.start)) for focus in foci]


class _Asked(NamedTuple):
    """The pairs of a segment with some labels, and a row for each of the positions that they may keep."""

    labels: Int[Tensor, "found"]
    pair_found: Int[Tensor, "pair"]
    pair_places: Int[Tensor, "pair"]  # within the segment
    pair_entries: Int[Tensor, "pair"]
    row_pairs: Int[Tensor, "row"]  # by found label, then by position
    row_found: Int[Tensor, "row"]
    row_positions: Int[Tensor, "row"]  # within the segment
    kept: Int[Tensor, "kept"]  # the first k rows of each found label, once they are in order
    kept_found: Int[Tensor, "kept"]
    starts: Int[Tensor, "found"]  # where the kept rows of each begin


class _Focus(NamedTuple):
    """Where found labels look: positions, one label after the other, and how much each weighs."""

    positions: Int[Tensor, "kept"]
    shares: Float[Tensor, "kept"]


@dataclass(frozen=True)
class _Segment:
    listed: Listed
    number: int
    span: slice
    tensors: Sequence[Tensor]
    gradients: Sequence[Tensor | None]

    def evidence(self, labels: range) -> tuple[Float[Tensor, "label"], Back]:
        """The states under the shares of all sources, as each label weighs them."""
        asked = _asked(self.listed, self.number, self.span, labels)
        nothing, places = self.tensors[1].new_zeros(len(labels)), asked.labels - labels.start
        if not len(asked.labels):
            return nothing, lambda slope: None
        parts = _parts(self.listed.notes, self.number, self.span, self.tensors, slice(labels.start, labels.stop))
        every = list(zip(self.tensors, self.gradients, parts, strict=True))
        leaves = [tensor[part].detach().requires_grad_(gradient is not None) for tensor, gradient, part in every]
        with torch.set_grad_enabled(any(leaf.requires_grad for leaf in leaves)):
            evidence = _evidence(self.listed, asked, leaves, labels.start)

        def back(slope: Tensor) -> None:
            if not evidence.requires_grad:
                return
            learned = [
                (leaf, gradient[part])
                for leaf, (_, gradient, part) in zip(leaves, every, strict=True)
                if gradient is not None
            ]
            found = torch.autograd.grad(evidence, [leaf for leaf, _ in learned], slope[places], allow_unused=True)
            for (_, into), gradient in zip(learned, found, strict=True):
                if gradient is not None:
                    into += gradient

        return nothing.index_copy(0, places, evidence.detach()), back


def _parts(notes: ListedNotes, number: int, span: slice, tensors: Sequence[Tensor], labels: slice) -> list[slice]:
    """The rows of each tensor that a segment and some labels need."""
    places, whole = slice(*(int(bound) for bound in notes.places_in(number))), slice(None)
    ways: tuple[slice, ...] = ()
    if len(tensors) > 3:
        ways = (places, places, labels, labels) if _bilinear(tensors[3:]) else (places, labels, whole, whole)
    return [span, labels, whole, *ways]


def _bilinear(ranker: Sequence[Tensor]) -> bool:
    """Whether they are vectors and biases of tokens, then of labels; else halves of two layers and what follows."""
    return ranker[1].dim() == 1


def _evidence(listed: Listed, asked: _Asked, leaves: Sequence[Tensor], first_label: int) -> Float[Tensor, "found"]:
    states, weights, scales, *ranker = leaves
    own = weights[asked.labels - first_label]
    foci = _foci(listed, asked, ranker, first_label=first_label)
    pooled = [
        F.embedding_bag(focus.positions, states, asked.starts, mode="sum", per_sample_weights=scale * focus.shares)
        for focus, scale in zip(foci, scales, strict=True)
    ]
    return torch.linalg.vecdot(torch.stack(pooled).sum(0), own)


def _foci(listed: Listed, asked: _Asked, ranker: Sequence[Tensor], *, first_label: int) -> list[_Focus]:
    """The focus of each source, static then planted; the ranker's rows of labels begin at the first label."""
    foci = []
    if listed.static:
        foci.append(_static(asked, listed.values[asked.pair_entries], normalised=listed.normalised))
    if listed.planted:
        pair_labels = asked.labels[asked.pair_found] - first_label
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


def _pair_scores(
    ranker: Sequence[Tensor], places: Int[Tensor, "pair"], labels: Int[Tensor, "pair"]
) -> Float[Tensor, "pair"]:
    """The ranker's scores as far as they differ within a label."""
    if _bilinear(ranker):
        vectors, bias, label_vectors, _ = ranker
        return torch.linalg.vecdot(vectors[places], label_vectors[labels]) + bias[places]
    token_half, label_half, output, _ = ranker
    return (token_half[places] + label_half[labels]).relu() @ output


def _asked(listed: Listed, number: int, span: slice, labels: range) -> _Asked:
    notes, device = listed.notes, listed.values.device
    first, last = notes.found_in(number)
    first, last = first + np.searchsorted(notes.pairs.labels[first:last], [labels.start, labels.stop])
    firsts, lasts = notes.pairs.firsts[first:last], notes.pairs.lasts[first:last]
    pairs = slice(firsts[0], lasts[-1]) if last > first else slice(0, 0)
    places, pair_found = notes.pairs.places[pairs], np.repeat(np.arange(last - first), lasts - firsts)
    row_pairs, row_positions = _rows(notes, places, pair_found)
    row_found = pair_found[row_pairs]
    sizes = np.bincount(row_found, minlength=last - first)
    kept = np.minimum(sizes, listed.k)
    arrays = (
        notes.pairs.labels[first:last], pair_found, places - notes.place_bounds[number], notes.pairs.entries[pairs],
        row_pairs, row_found, row_positions - span.start,
        np.repeat(np.cumsum(sizes) - sizes, kept) + _counted(kept), np.repeat(np.arange(len(kept)), kept),
        np.cumsum(kept) - kept,
    )  # fmt: skip
    return _Asked(*(torch.from_numpy(array.astype(np.int64)).to(device, non_blocking=True) for array in arrays))


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
