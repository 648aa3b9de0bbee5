"""Sums, maxima and distributions over time that padding cannot touch."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plant.nn.forms import sent
from plant.tensors import Encoded


def masked_softmax(
    scores: Float[Tensor, "*lead time"], mask: Bool[Tensor, "*#lead time"]
) -> Float[Tensor, "*lead time"]:
    """A distribution over the real positions; all zero where a row has none."""
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return torch.where(mask.any(-1, keepdim=True), weights, 0.0)


def masked_max(
    states: Float[Tensor, "batch time size"], mask: Bool[Tensor, "batch time"]
) -> Float[Tensor, "batch size"]:
    """The largest value of each feature over the real positions; zero for a document without any."""
    largest = states.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(1)
    return torch.where(mask.any(1, keepdim=True), largest, 0.0)


def masked_mean(
    states: Float[Tensor, "batch time size"], mask: Bool[Tensor, "batch time"]
) -> Float[Tensor, "batch size"]:
    """The mean of each feature over the real positions; zero for a document without any."""
    kept = torch.where(mask.unsqueeze(-1), states, 0.0)  # not a product: padding may hold NaN
    return kept.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class Packed:
    """The real positions of a batch and nothing else, one document after the other, cut into segments."""

    states: Float[Tensor, "position size"]
    tokens: Int[Tensor, "position"]
    lengths: tuple[tuple[int, ...], ...]  # of the segments of each document
    host_tokens: Int[Tensor, "position"]  # the same on the host

    @property
    def segments(self) -> tuple[int, ...]:
        """The lengths of all segments."""
        return tuple(length for document in self.lengths for length in document)


def pack(encoded: Encoded, *, segment: int) -> Packed:
    """Drop the padding and cut documents into segments of `segment` tokens; 0 leaves them whole.

    What is left over is the last segment, or the first where reading began at the end.
    """
    host = encoded.host
    order = slice(None, None, -1 if encoded.from_end else 1)
    lengths = tuple(_cut(length, segment or length)[order] for length in host.mask.sum(1).tolist())
    states, tokens, host_tokens = encoded.states.flatten(0, 1), encoded.tokens.flatten(), host.tokens.flatten()
    if not bool(host.mask.all()):
        real = host.mask.flatten().nonzero().squeeze(1)
        host_tokens = host_tokens[real]
        states, tokens = states.index_select(0, sent(real, states.device)), sent(host_tokens, states.device)
    return Packed(states, tokens, lengths, host_tokens)


def unpack(
    rows: Float[Tensor, "asked position"], mask: Bool[Tensor, "batch time"]
) -> Float[Tensor, "batch asked time"]:
    """Numbers at the real positions back in their batch, zero at padding."""
    spread = rows.new_zeros(len(rows), mask.numel())
    spread[:, mask.flatten()] = rows
    return spread.unflatten(1, mask.shape).transpose(0, 1)


def as_distribution(weights: Float[Tensor, "*lead time"]) -> Float[Tensor, "*lead time"]:
    """Weights that are zero at padding, divided by their sum; all zero where none is positive."""
    positive = weights.clamp(min=0)
    return positive / positive.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


def _cut(length: int, segment: int) -> tuple[int, ...]:
    """The lengths of the segments; a document without tokens is one segment of length 0."""
    return tuple(min(segment, length - start) for start in range(0, length, segment)) if length else (0,)
