"""Label attention, some labels at a time: logits, loss and gradients without ever holding a time x label array.

The logit of label l is the sum over positions j of weight_jl (h_j . w_l), plus b_l. The weights are a learned softmax
and whatever further `Source`s give. Cross-entropy separates over labels, so `fused_loss` computes loss and gradients of
a chunk of labels at once; `fused_logits` serves any other loss and computes the chunk again on the way back.
A document is one segment or several; attention is within segments, and their logits add up. Documents are treated one
by one: a document's logits do not depend, not even in the last bit, on its batch.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

ENTRIES_ON_CPU = 400_000  # of an array [label, position]: three of them stay in the cache that a core has for itself
ENTRIES_ON_GPU = 50_000_000

Spread = Callable[[Float[Tensor, "label"], Float[Tensor, "label position"]], None]
"""Called as `spread(slope, combined)`: adds slope times the source's weights to `combined`, and keeps its gradients."""

Source = Callable[[Float[Tensor, "label position"], range], tuple[Float[Tensor, "label"], Spread]]
"""Called as `source(values, labels)`: the values of one segment under the source's weights, and the way back."""

Lengths = Sequence[Sequence[int]]
"""Per document the lengths of its segments."""


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
    bias: Float[Tensor, "label"]
    scales: Float[Tensor, "source"]


def fused_logits(
    heads: Heads, lengths: Lengths, sources: Sources, learned: Sequence[Tensor] = ()
) -> Float[Tensor, "document label"]:
    """The logits of each document; `learned` are the tensors of the sources that get gradients."""
    with torch.autocast(heads.states.device.type, enabled=False):
        return _FusedLogits.apply(lengths, sources, *heads, *learned)  # type: ignore[no-untyped-call]


def fused_loss(
    heads: Heads,
    lengths: Lengths,
    sources: Sources,
    learned: Sequence[Tensor] = (),
    *,
    targets: Float[Tensor, "document label"],
) -> Float[Tensor, ""]:
    """The mean binary cross-entropy; its gradients are ready when it returns, so a step recomputes nothing."""
    with torch.autocast(heads.states.device.type, enabled=False):
        return _FusedLoss.apply(lengths, sources, targets, *heads, *learned)  # type: ignore[no-untyped-call]


class _FusedLogits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lengths: Lengths, sources: Sources, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.lengths, ctx.sources = lengths, sources
        return _logits(lengths, sources, tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        gradients = empty_gradients(ctx.saved_tensors, ctx.needs_input_grad[2:])
        documents = _documents(ctx.lengths, ctx.sources, ctx.saved_tensors, gradients)
        for document, slope_row in zip(documents, slopes, strict=True):
            for labels in document.chunks():
                slope = slope_row[labels.start : labels.stop]
                if bool(slope.any()):  # who explains one label asks for one chunk
                    document.backward(document.forward(labels), slope)
        return None, None, *gradients


class _FusedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lengths: Lengths, sources: Sources, targets: Tensor, *tensors: Tensor) -> Tensor:
        needed = ctx.needs_input_grad[3:]
        if not any(needed):
            return F.binary_cross_entropy_with_logits(_logits(lengths, sources, tensors), targets)
        ctx.gradients = empty_gradients(tensors, needed)
        loss = targets.new_zeros(())
        for document, target_row in zip(_documents(lengths, sources, tensors, ctx.gradients), targets, strict=True):
            for labels in document.chunks():
                chunk, truth = document.forward(labels), target_row[labels.start : labels.stop]
                loss += F.binary_cross_entropy_with_logits(chunk.logits, truth, reduction="sum")
                document.backward(chunk, (chunk.logits.sigmoid() - truth) / targets.numel())
        return loss / targets.numel()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("the fused loss goes backward once; take fused_logits to keep the graph")
        gradients, ctx.gradients = ctx.gradients, None  # scaled in place: a copy would be as large as the parameters
        return None, None, None, *(None if gradient is None else gradient.mul_(slope) for gradient in gradients)


class _Part(NamedTuple):
    """What the way back needs of one segment and a chunk of labels: [label, position], pooled [source, label]."""

    attention: Tensor
    products: Tensor
    pooled: Tensor
    spreads: list[Spread]


class _Chunk(NamedTuple):
    labels: range
    logits: Tensor
    parts: list[_Part]


class _Segment:
    """One segment's share of the logits of some labels, and of the gradients where there is room for them."""

    def __init__(
        self, span: slice, heads: Heads, gradients: Sequence[Tensor | None], sources: Sequence[Source]
    ) -> None:
        self.span, self.heads, self.gradients, self.sources = span, heads, gradients, sources
        self.states, self.keys = heads.states[span], heads.keys[span]
        self.turned_states = self.states.T.contiguous()  # a tenth faster than multiplying by a transposed view
        self.turned_keys = self.keys.T.contiguous()

    def forward(self, labels: range) -> _Part:
        rows = slice(labels.start, labels.stop)
        attention = (self.heads.queries[rows] @ self.turned_keys).softmax(-1)
        values = self.heads.weights[rows] @ self.turned_states
        products = attention * values
        others = [source(values, labels) for source in self.sources]
        pooled = torch.stack([products.sum(-1), *(total for total, _ in others)])
        return _Part(attention, products, pooled, [spread for _, spread in others])

    def backward(self, labels: range, part: _Part, slope: Float[Tensor, "label"]) -> None:
        """Add the gradients; uses up the part's arrays."""
        rows = slice(labels.start, labels.stop)
        learned, *others = self.heads.scales
        step = (slope * learned).unsqueeze(1)
        by_score = part.products.addcmul_(part.attention, part.pooled[0].unsqueeze(1), value=-1).mul_(step)
        combined = part.attention.mul_(step)
        for scale, spread in zip(others, part.spreads, strict=True):
            spread(slope * scale, combined)
        states, keys, queries, weights, _, scales = self.gradients
        _add_product(states, self.span, combined.T, self.heads.weights[rows])
        _add_product(keys, self.span, by_score.T, self.heads.queries[rows])
        _add_product(queries, rows, by_score, self.keys)
        _add_product(weights, rows, combined, self.states)
        if scales is not None:
            scales += part.pooled @ slope


class _Document:
    """The segments of a document, and the bias, which counts once."""

    def __init__(self, segments: Sequence[_Segment], heads: Heads, gradients: Sequence[Tensor | None]) -> None:
        self.segments, self.heads, self.gradients = segments, heads, gradients

    def chunks(self) -> Iterator[range]:
        """Runs of labels whose arrays [label, position] stay in a CPU's cache, or fill a GPU."""
        entries = ENTRIES_ON_CPU if self.heads.bias.device.type == "cpu" else ENTRIES_ON_GPU
        length = sum(len(segment.states) for segment in self.segments)
        size, n_labels = max(16, entries // max(length, 1)), len(self.heads.bias)
        return (range(start, min(start + size, n_labels)) for start in range(0, n_labels, size))

    def forward(self, labels: range) -> _Chunk:
        parts = [segment.forward(labels) for segment in self.segments]
        logits = sum((self.heads.scales @ part.pooled for part in parts), self.heads.bias[labels.start : labels.stop])
        return _Chunk(labels, logits, parts)

    def backward(self, chunk: _Chunk, slope: Float[Tensor, "label"]) -> None:
        for segment, part in zip(self.segments, chunk.parts, strict=True):
            segment.backward(chunk.labels, part, slope)
        bias = self.gradients[Heads._fields.index("bias")]
        if bias is not None:
            bias[chunk.labels.start : chunk.labels.stop] += slope


def _documents(
    lengths: Lengths, sources: Sources, tensors: Sequence[Tensor], gradients: Sequence[Tensor | None]
) -> Iterator[_Document]:
    n = len(Heads._fields)
    heads, own, others = Heads(*tensors[:n]), gradients[:n], gradients[n:]
    ends = [0, *accumulate(length for document in lengths for length in document)]
    number = 0
    for document in lengths:
        numbers = range(number, number + len(document))
        number += len(document)
        segments = [
            _Segment(slice(ends[i], ends[i + 1]), heads, own, sources.of(i, tensors[n:], others)) for i in numbers
        ]
        yield _Document(segments, heads, own)


def _logits(lengths: Lengths, sources: Sources, tensors: Sequence[Tensor]) -> Tensor:
    rows = [
        torch.cat([document.forward(labels).logits for labels in document.chunks()])
        for document in _documents(lengths, sources, tensors, [None] * len(tensors))
    ]
    return torch.stack(rows)


def _add_product(into: Tensor | None, rows: slice, left: Tensor, right: Tensor) -> None:
    if into is not None:
        into[rows].addmm_(left, right)


def empty_gradients(tensors: Sequence[Tensor], needed: Sequence[bool]) -> list[Tensor | None]:
    """Room for the gradients of those tensors that need one."""
    return [torch.zeros_like(tensor) if need else None for tensor, need in zip(tensors, needed, strict=True)]
