"""Sums, maxima and distributions over time that padding cannot touch."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def masked_softmax(scores: Float[Tensor, "*lead time"], mask: Bool[Tensor, "*lead time"]) -> Float[Tensor, "*lead time"]:
    """A distribution over the real positions; all zero where a row has none."""
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return torch.where(mask.any(-1, keepdim=True), weights, 0.0)


def masked_max(states: Float[Tensor, "batch time size"], mask: Bool[Tensor, "batch time"]) -> Float[Tensor, "batch size"]:
    """The largest value of each feature over the real positions; zero for a document without any."""
    largest = states.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(1)
    return torch.where(mask.any(1, keepdim=True), largest, 0.0)


def masked_mean(states: Float[Tensor, "batch time size"], mask: Bool[Tensor, "batch time"]) -> Float[Tensor, "batch size"]:
    """The mean of each feature over the real positions; zero for a document without any."""
    kept = torch.where(mask.unsqueeze(-1), states, 0.0)  # not a product: padding may hold NaN
    return kept.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
