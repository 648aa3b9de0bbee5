"""Learned attention and further sources of it, as the evidence of a segment for some labels.

The evidence for label l is the sum over positions j of weight_jl (h_j . w_l). The weights are a learned softmax and
whatever further `Source`s give, each source with a scale.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from plant.nn.planting.fused import Back, Segment
from plant.nn.planting.inattention import Asked

Spread = Callable[[Float[Tensor, "label"], Float[Tensor, "label position"]], None]
"""Called as `spread(slope, combined)`: adds slope times the source's weights to `combined`, and keeps its gradients."""

Source = Callable[[Float[Tensor, "label position"], Asked], tuple[Float[Tensor, "label"], Spread]]
"""Called as `source(values, labels)`: the values of one segment under the source's weights, and the backward pass."""


@runtime_checkable
class Sources(Protocol):
    """Attention weights besides the learned ones, for each segment of a batch."""

    def of(self, segment: int, tensors: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> Sequence[Source]:
        """The sources of a segment; what they learn is read from `tensors` and added to `gradients`."""
        ...


class NoSources:
    """Learned attention alone."""

    def of(self, segment: int, tensors: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> Sequence[Source]:
        return ()


class Heads(NamedTuple):
    """The real positions of a batch, one segment after the other, and what each label asks of them.

    `scales` has one number per source of attention, the learned one first.
    """

    states: Float[Tensor, "position size"]
    keys: Float[Tensor, "position key"]
    queries: Float[Tensor, "label key"]
    weights: Float[Tensor, "label size"]
    scales: Float[Tensor, "source"]


@dataclass(frozen=True)
class Attending:
    """`Segments` under learned attention and further sources; their tensors are `Heads`, then those of the sources."""

    sources: Sources

    def of(self, number: int, span: slice, tensors: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> Segment:
        n = len(Heads._fields)
        sources = self.sources.of(number, tensors[n:], gradients[n:])
        return _AttendedSegment(span, Heads(*tensors[:n]), gradients[:n], sources).evidence


class _Part(NamedTuple):
    """What the backward pass needs of a segment and a chunk of labels: [label, position], pooled [source, label]."""

    attention: Tensor
    products: Tensor
    pooled: Tensor
    spreads: list[Spread]


class _AttendedSegment:
    def __init__(
        self, span: slice, heads: Heads, gradients: Sequence[Tensor | None], sources: Sequence[Source]
    ) -> None:
        self.span, self.heads, self.gradients, self.sources = span, heads, gradients, sources
        self.states, self.keys = heads.states[span], heads.keys[span]
        self.turned_states = self.states.T.contiguous()  # a tenth faster than multiplying by a transposed view
        self.turned_keys = self.keys.T.contiguous()

    def evidence(self, labels: range) -> tuple[Float[Tensor, "label"], Back]:
        part = self._forward(labels)
        return self.heads.scales @ part.pooled, lambda slope: self._backward(labels, part, slope)

    def _forward(self, labels: range) -> _Part:
        rows = slice(labels.start, labels.stop)
        attention = (self.heads.queries[rows] @ self.turned_keys).softmax(-1)
        values = self.heads.weights[rows] @ self.turned_states
        products = attention * values
        others = [source(values, labels) for source in self.sources]
        pooled = torch.stack([products.sum(-1), *(total for total, _ in others)])
        return _Part(attention, products, pooled, [spread for _, spread in others])

    def _backward(self, labels: range, part: _Part, slope: Float[Tensor, "label"]) -> None:
        """Add the gradients; uses up the part's arrays."""
        rows = slice(labels.start, labels.stop)
        learned, *others = self.heads.scales
        step = (slope * learned).unsqueeze(1)
        by_score = part.products.addcmul_(part.attention, part.pooled[0].unsqueeze(1), value=-1).mul_(step)
        combined = part.attention.mul_(step)
        for scale, spread in zip(others, part.spreads, strict=True):
            spread(slope * scale, combined)
        states, keys, queries, weights, scales = self.gradients
        _add_product(states, self.span, combined.T, self.heads.weights[rows])
        _add_product(keys, self.span, by_score.T, self.heads.queries[rows])
        _add_product(queries, rows, by_score, self.keys)
        _add_product(weights, rows, combined, self.states)
        if scales is not None:
            scales += part.pooled @ slope


def _add_product(into: Tensor | None, rows: slice, left: Tensor, right: Tensor) -> None:
    if into is not None:
        into[rows].addmm_(left, right)
