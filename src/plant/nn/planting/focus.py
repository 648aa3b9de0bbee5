"""Planted attention alone, on the few positions that survive: nothing is computed for all others.

Without learned attention a label looks at `k` positions at most, so its logit needs the states of these alone: a
gathered sum of k rows instead of products with every position of the document.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from plant.nn.planting.fused import Back, Segment
from plant.nn.planting.inattention import Asked, Distinct, relevance_rows, rows_of, run_of, survivors
from plant.nn.planting.sources import Planting, Static


@dataclass(frozen=True)
class Focusing:
    """`Segments` under planted attention; their tensors are states, weights and scales, then those of the ranker."""

    planting: Planting
    k: int

    def of(self, number: int, span: slice, tensors: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> Segment:
        return _FocusedSegment(self.planting, self.k, number, span, tensors, gradients).evidence


@dataclass(frozen=True)
class _FocusedSegment:
    planting: Planting
    k: int
    number: int
    span: slice
    tensors: Sequence[Tensor]
    gradients: Sequence[Tensor | None]

    def evidence(self, labels: range) -> tuple[Float[Tensor, "label"], Back]:
        """The states under the shares of all sources, as each label weighs them."""
        states, weights, scales, *ranker = self.tensors
        if self.span.start == self.span.stop:
            return weights.new_zeros(len(labels)), lambda slope: None
        foci = list(_foci(self.planting, self.number, ranker, labels, self.k))
        learning = any(gradient is not None for gradient in self.gradients)
        shares = _leaf(_scaled(foci, scales).to(states.dtype), learned=learning)
        seen = _leaf(states[self.span], learned=self.gradients[0] is not None)
        asked = _leaf(weights[run_of(labels)], learned=self.gradients[1] is not None)
        with torch.set_grad_enabled(learning):
            positions = torch.cat([focus.positions for focus in foci], dim=1)
            pooled = F.embedding_bag(positions, seen, per_sample_weights=shares, mode="sum")
            evidence = torch.linalg.vecdot(pooled, asked)

        def back(slope: Tensor) -> None:
            if not learning:
                return
            evidence.backward(slope)
            _add(self.gradients[0], self.span, seen.grad)
            _add(self.gradients[1], run_of(labels), asked.grad)
            assert shares.grad is not None
            self._teach(labels, foci, shares.grad)

        return evidence.detach(), back  # what it is made of is for the backward pass alone

    def _teach(self, labels: range, foci: Sequence["_Focus"], slopes: Float[Tensor, "label kept"]) -> None:
        """Add the gradients of the scales and of the ranker, given those of the scaled shares."""
        _, _, scales, *ranker = self.tensors
        _, _, of_scales, *of_ranker = self.gradients
        parts = slopes.split([focus.shares.shape[1] for focus in foci], dim=1)
        products = [part * focus.shares for part, focus in zip(parts, foci, strict=True)]
        if of_scales is not None:
            of_scales += torch.stack([product.sum() for product in products])
        if self.planting.ranked is not None:  # the last source
            places, product, shares = foci[-1].places, products[-1], foci[-1].shares
            by_score = scales[-1] * (product - shares * product.sum(-1, keepdim=True))
            tokens = self.planting.span(self.number)
            self.planting.ranked.pieces.add_gradients(ranker, of_ranker, tokens, run_of(labels), places, by_score)


class _Focus(NamedTuple):
    """Where some labels look in a segment: positions, which distinct token stands there, how much each weighs."""

    positions: Int[Tensor, "label kept"]
    places: Int[Tensor, "label kept"]
    shares: Float[Tensor, "label kept"]


def _foci(planting: Planting, number: int, tensors: Sequence[Tensor], labels: Asked, k: int) -> Iterator[_Focus]:
    """The focus of each source in a segment, static then planted: shares, and a softmax of scores."""
    document = planting.segments[number]
    if planting.static is not None:
        yield _static(planting.static, document, labels, k)
    if planting.ranked is not None:
        scores = planting.ranked.pieces.scores(tensors, planting.span(number), rows_of(labels))
        kept = survivors(scores, document, k)
        yield _Focus(kept.positions, kept.places, scores.gather(1, kept.places).softmax(-1))


def _static(static: Static, document: Distinct, labels: Asked, k: int) -> _Focus:
    rows = relevance_rows(static.lists, document, labels)
    kept = survivors(rows, document, k)
    found = rows.gather(1, kept.places)
    total = found.sum(-1, keepdim=True).clamp(min=torch.finfo(found.dtype).tiny)
    return _Focus(kept.positions, kept.places, found / total if static.normalised else found)


def _scaled(foci: Sequence[_Focus], scales: Float[Tensor, "source"]) -> Float[Tensor, "label kept"]:
    return torch.cat([scale * focus.shares for scale, focus in zip(scales, foci, strict=True)], dim=1)


def _leaf(tensor: Tensor, *, learned: bool) -> Tensor:
    """The same values at the root of a graph of their own."""
    return tensor.detach().requires_grad_(learned)


def _add(into: Tensor | None, rows: slice, gradient: Tensor | None) -> None:
    if into is not None and gradient is not None:
        into[rows] += gradient


def focused_attention(
    planting: Planting, tensors: Sequence[Tensor], labels: Int[Tensor, "asked"], *, k: int
) -> list[Float[Tensor, "asked position"]]:
    """The weights of each source over all positions of the segments, one after the other."""
    columns = []
    for number, document in enumerate(planting.segments):
        foci = _foci(planting, number, tensors, labels, k)
        columns.append([_spread(focus, len(document.place)) for focus in foci])
    return [torch.cat(source, dim=1) for source in zip(*columns, strict=True)]


def _spread(focus: _Focus, n_positions: int) -> Float[Tensor, "label position"]:
    empty = focus.shares.new_zeros(len(focus.shares), n_positions)
    return empty.scatter_add_(1, focus.positions, focus.shares)
