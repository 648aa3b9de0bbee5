"""Planted attention alone, on the few positions that survive: nothing is computed for all others.

Without learned attention a label looks at `k` positions at most, so its logit needs the states of these alone: a
gathered sum of k rows instead of products with every position of the document. Some labels at a time, and computed
again on the way back: a step holds the arrays of few labels, and gradients grow in place.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from plant.nn.fused import empty_gradients
from plant.nn.inattention import Distinct, relevance_rows, survivors
from plant.nn.planting import Planting, Static

LABELS_ON_CPU = 512  # at once: what bounds the memory of a step
LABELS_ON_GPU = 4096


def focused_evidence(
    states: Float[Tensor, "position size"],
    weights: Float[Tensor, "label size"],
    scales: Float[Tensor, "source"],
    planting: Planting,
    tensors: Sequence[Tensor],
    *,
    k: int,
) -> Float[Tensor, "segment label"]:
    """What each segment says for every label; the ranker reads and teaches `tensors`, made for the whole batch."""
    with torch.autocast(states.device.type, enabled=False):
        return _Focused.apply(planting, k, states, weights, scales, *tensors)  # type: ignore[no-untyped-call]


class _Focused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, planting: Planting, k: int, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.planting, ctx.k = planting, k
        segments = _segments(planting, k, tensors, [None] * len(tensors))
        return torch.stack(
            [torch.cat([segment.evidence(labels) for labels in segment.chunks()]) for segment in segments]
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        gradients = empty_gradients(ctx.saved_tensors, ctx.needs_input_grad[2:])
        for segment, row in zip(_segments(ctx.planting, ctx.k, ctx.saved_tensors, gradients), slopes, strict=True):
            for labels in segment.chunks():
                slope = row[labels.start : labels.stop]
                if bool(slope.any()):  # who explains one label asks for one chunk
                    segment.add_gradients(labels, slope)
        return None, None, *gradients


@dataclass(frozen=True)
class _Segment:
    """One segment's evidence for some labels, and its share of the gradients where there is room for them.

    `tensors` and `gradients`: states, weights and scales, then those of the ranker.
    """

    number: int
    span: slice
    planting: Planting
    k: int
    tensors: Sequence[Tensor]
    gradients: Sequence[Tensor | None]

    def chunks(self) -> Iterator[range]:
        """Runs of labels that are computed at once."""
        weights = self.tensors[1]
        size = LABELS_ON_CPU if weights.device.type == "cpu" else LABELS_ON_GPU
        return (range(start, min(start + size, len(weights))) for start in range(0, len(weights), size))

    def evidence(self, labels: range) -> Float[Tensor, "label"]:
        states, weights, scales, *ranker = self.tensors
        if self.span.start == self.span.stop:
            return weights.new_zeros(len(labels))
        foci = list(_foci(self.planting, self.number, ranker, labels, self.k))
        return _pooled(foci, _scaled(foci, scales).to(states.dtype), states[self.span], weights[_rows(labels)])

    def add_gradients(self, labels: range, slope: Float[Tensor, "label"]) -> None:
        """Add what the labels' `slope` asks for; a segment without positions asks for nothing."""
        if self.span.start == self.span.stop:
            return
        states, weights, scales, *ranker = self.tensors
        of_states, of_weights, of_scales, *of_ranker = self.gradients
        foci = list(_foci(self.planting, self.number, ranker, labels, self.k))
        shares = _leaf(_scaled(foci, scales).to(states.dtype))
        seen = _leaf(states[self.span], needed=of_states is not None)
        rows = _leaf(weights[_rows(labels)], needed=of_weights is not None)
        with torch.enable_grad():
            evidence = _pooled(foci, shares, seen, rows)
        evidence.backward(slope)
        _add(of_states, self.span, seen.grad)
        _add(of_weights, _rows(labels), rows.grad)
        assert shares.grad is not None
        by_share = shares.grad.split([focus.shares.shape[1] for focus in foci], dim=1)
        products = [slopes * focus.shares for slopes, focus in zip(by_share, foci, strict=True)]
        if of_scales is not None:
            of_scales += torch.stack([product.sum() for product in products])
        if self.planting.ranked is not None:
            product, focus = products[-1], foci[-1]
            by_score = scales[-1] * (product - focus.shares * product.sum(-1, keepdim=True))
            tokens = self.planting.span(self.number)
            self.planting.ranked.pieces.add_gradients(ranker, of_ranker, tokens, _rows(labels), focus.places, by_score)


def _segments(
    planting: Planting, k: int, tensors: Sequence[Tensor], gradients: Sequence[Tensor | None]
) -> Iterator[_Segment]:
    ends = accumulate((len(segment.place) for segment in planting.segments), initial=0)
    for number, (start, stop) in enumerate(pairwise(ends)):
        yield _Segment(number, slice(start, stop), planting, k, tensors, gradients)


class _Focus(NamedTuple):
    """Where some labels look in a segment: positions, which distinct token stands there, how much each weighs."""

    positions: Int[Tensor, "label kept"]
    places: Int[Tensor, "label kept"]
    shares: Float[Tensor, "label kept"]


def _foci(planting: Planting, number: int, tensors: Sequence[Tensor], labels: range, k: int) -> Iterator[_Focus]:
    """The focus of each source in a segment, static then planted: shares, and a softmax of scores."""
    document = planting.segments[number]
    if planting.static is not None:
        yield _static(planting.static, document, labels, k)
    if planting.ranked is not None:
        scores = planting.ranked.pieces.scores(tensors, planting.span(number), _rows(labels))
        kept = survivors(scores, document, k)
        yield _Focus(kept.positions, kept.places, scores.gather(1, kept.places).softmax(-1))


def _static(static: Static, document: Distinct, labels: range, k: int) -> _Focus:
    rows = relevance_rows(static.lists, document, labels)
    kept = survivors(rows, document, k)
    found = rows.gather(1, kept.places)
    total = found.sum(-1, keepdim=True).clamp(min=torch.finfo(found.dtype).tiny)
    return _Focus(kept.positions, kept.places, found / total if static.normalised else found)


def _scaled(foci: Sequence[_Focus], scales: Float[Tensor, "source"]) -> Float[Tensor, "label kept"]:
    return torch.cat([scale * focus.shares for scale, focus in zip(scales, foci, strict=True)], dim=1)


def _pooled(
    foci: Sequence[_Focus],
    shares: Float[Tensor, "label kept"],
    states: Float[Tensor, "position size"],
    weights: Float[Tensor, "label size"],
) -> Float[Tensor, "label"]:
    """The states under the shares of all sources, as each label weighs them."""
    positions = torch.cat([focus.positions for focus in foci], dim=1)
    return torch.linalg.vecdot(F.embedding_bag(positions, states, per_sample_weights=shares, mode="sum"), weights)


def _rows(labels: range) -> slice:
    return slice(labels.start, labels.stop)


def _leaf(tensor: Tensor, *, needed: bool = True) -> Tensor:
    """The same values at the root of a graph of their own."""
    return tensor.detach().requires_grad_(needed)


def _add(into: Tensor | None, rows: slice, gradient: Tensor | None) -> None:
    if into is not None and gradient is not None:
        into[rows] += gradient


def focused_attention(
    planting: Planting, tensors: Sequence[Tensor], labels: Int[Tensor, "asked"], *, k: int
) -> list[Float[Tensor, "asked position"]]:
    """The weights of each source over all positions of the segments, one after the other."""
    columns = []
    for number, document in enumerate(planting.segments):
        rows = [
            [
                focus.shares.new_zeros(len(document.place)).index_add(0, focus.positions[0], focus.shares[0])
                for focus in _foci(planting, number, tensors, range(label, label + 1), k)
            ]
            for label in labels.tolist()
        ]
        columns.append([torch.stack(source) for source in zip(*rows, strict=True)])
    return [torch.cat(source, dim=1) for source in zip(*columns, strict=True)]
