"""Logits, loss and gradients of a decoder, some labels at a time: without ever holding a time x label array.

A document is one segment or several; each says something for every label, and what they say adds up. Cross-entropy
separates over labels, so `fused_loss` computes loss and gradients of a chunk of labels at once; `fused_logits` serves
any other loss and computes the chunk again in the backward pass. What a segment says is for others to tell: learned
attention (`plant.nn.planting.attending`), or planted attention alone (`plant.nn.planting.focus`). Documents are
treated one by one: a document's logits do not depend, not even in the last bit, on its batch. For CPUs; what other
devices run is `plant.nn.planting.batched`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

ENTRIES_ON_CPU = 400_000  # of an array [label, position]: three of them stay in the cache that a core has for itself

Back = Callable[[Float[Tensor, "label"]], None]
"""Called once, as `back(slope)`: adds the gradients of the labels' evidence times slope."""

Segment = Callable[[range], tuple[Float[Tensor, "label"], Back]]
"""Called as `segment(labels)`: what a segment says for some labels, and the backward pass."""

Lengths = Sequence[Sequence[int]]
"""Per document the lengths of its segments."""


@runtime_checkable
class Segments(Protocol):
    """What the segments of a batch say."""

    def of(self, number: int, span: slice, tensors: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> Segment:
        """One segment, whose positions are `span`; reads `tensors` and adds to `gradients` where there is room."""
        ...


def fused_logits(
    segments: Segments, lengths: Lengths, bias: Float[Tensor, "label"], tensors: Sequence[Tensor]
) -> Float[Tensor, "document label"]:
    """The logits of each document; `tensors` are all that the segments read and teach."""
    with torch.autocast(bias.device.type, enabled=False):
        return _FusedLogits.apply(lengths, segments, bias, *tensors)  # type: ignore[no-untyped-call]


def fused_loss(
    segments: Segments,
    lengths: Lengths,
    bias: Float[Tensor, "label"],
    tensors: Sequence[Tensor],
    *,
    targets: Float[Tensor, "document label"],
) -> Float[Tensor, ""]:
    """The mean binary cross-entropy; its gradients are ready when it returns, so a step recomputes nothing."""
    with torch.autocast(bias.device.type, enabled=False):
        return _FusedLoss.apply(lengths, segments, targets, bias, *tensors)  # type: ignore[no-untyped-call]


class _FusedLogits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lengths: Lengths, segments: Segments, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.lengths, ctx.segments = lengths, segments
        return _logits(lengths, segments, tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        gradients = _empty_gradients(ctx.saved_tensors, ctx.needs_input_grad[2:])
        documents = _documents(ctx.lengths, ctx.segments, ctx.saved_tensors, gradients)
        for document, slope_row in zip(documents, slopes, strict=True):
            for labels in document.chunks():
                slope = slope_row[labels.start : labels.stop]
                if bool(slope.any()):  # who explains one label asks for one chunk
                    document.forward(labels)[1](slope)
        return None, None, *gradients


class _FusedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lengths: Lengths, segments: Segments, targets: Tensor, *tensors: Tensor) -> Tensor:
        needed = ctx.needs_input_grad[3:]
        if not any(needed):
            return F.binary_cross_entropy_with_logits(_logits(lengths, segments, tensors), targets)
        ctx.gradients = _empty_gradients(tensors, needed)
        loss = targets.new_zeros(())
        for document, target_row in zip(_documents(lengths, segments, tensors, ctx.gradients), targets, strict=True):
            for labels in document.chunks():
                (logits, back), truth = document.forward(labels), target_row[labels.start : labels.stop]
                loss += F.binary_cross_entropy_with_logits(logits, truth, reduction="sum")
                back((logits.sigmoid() - truth) / targets.numel())
        return loss / targets.numel()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("the fused loss goes backward once; take fused_logits to keep the graph")
        gradients, ctx.gradients = ctx.gradients, None  # scaled in place: a copy would be as large as the parameters
        return None, None, None, *(None if gradient is None else gradient.mul_(slope) for gradient in gradients)


@dataclass(frozen=True)
class _Document:
    """The segments of a document, and the bias, which counts once."""

    segments: Sequence[Segment]
    length: int
    bias: Tensor
    of_bias: Tensor | None

    def chunks(self) -> Iterator[range]:
        """Runs of labels whose arrays [label, position] stay in a CPU's cache."""
        size, n_labels = max(16, ENTRIES_ON_CPU // max(self.length, 1)), len(self.bias)
        return (range(start, min(start + size, n_labels)) for start in range(0, n_labels, size))

    def forward(self, labels: range) -> tuple[Float[Tensor, "label"], Back]:
        rows = slice(labels.start, labels.stop)
        said = [segment(labels) for segment in self.segments]

        def back(slope: Tensor) -> None:
            for _, further in said:
                further(slope)
            if self.of_bias is not None:
                self.of_bias[rows] += slope

        return sum((evidence for evidence, _ in said), self.bias[rows]), back


def _documents(
    lengths: Lengths, segments: Segments, tensors: Sequence[Tensor], gradients: Sequence[Tensor | None]
) -> Iterator[_Document]:
    bias, of_bias = tensors[0], gradients[0]
    ends = pairwise(accumulate((length for document in lengths for length in document), initial=0))
    spans = enumerate(slice(*pair) for pair in ends)
    for document in lengths:
        parts = [segments.of(number, span, tensors[1:], gradients[1:]) for number, span in islice(spans, len(document))]
        yield _Document(parts, sum(document), bias, of_bias)


def _logits(lengths: Lengths, segments: Segments, tensors: Sequence[Tensor]) -> Tensor:
    rows = [
        torch.cat([document.forward(labels)[0] for labels in document.chunks()])
        for document in _documents(lengths, segments, tensors, [None] * len(tensors))
    ]
    return torch.stack(rows)


def _empty_gradients(tensors: Sequence[Tensor], needed: Sequence[bool]) -> list[Tensor | None]:
    return [torch.zeros_like(tensor) if need else None for tensor, need in zip(tensors, needed, strict=True)]
