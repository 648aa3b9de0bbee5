"""Dropout of whole words, of weights, and of features for a whole document at a time (Gal 2016, Merity 2018)."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from numba import njit
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

BYTE = 256


def drop_features(states: Float[Tensor, "batch time size"], share: float) -> Float[Tensor, "batch time size"]:
    """Zero the same random features at every position of a document; what stays is scaled up."""
    if share <= 0:
        return states
    kept = torch.empty_like(states[:, :1]).bernoulli_(1 - share)
    return states * (kept / (1 - share))


def embed_with_dropout(
    weight: Float[Tensor, "token size"], tokens: Int[Tensor, "batch time"], share: float
) -> Float[Tensor, "batch time size"]:
    """Look up words of which a random share is zero wherever it occurs; only the rows that are read are touched."""
    embedded = torch.nn.functional.embedding(tokens, weight)
    if share <= 0:
        return embedded
    kept = torch.empty(len(weight), device=weight.device, dtype=weight.dtype).bernoulli_(1 - share) / (1 - share)
    return embedded * kept[tokens].unsqueeze(-1)


def drop_weights(weight: Float[Tensor, "row column"], share: float) -> Float[Tensor, "row column"]:
    """Zero a random share of the weights, to 1/256 exact; what stays is scaled by the share that did.

    A random byte decides on a weight: a twentieth of the time of a Bernoulli draw for each.
    """
    limit = round(share * BYTE)
    if limit <= 0:
        return weight
    return weight * (random_bytes(weight) >= limit).to(weight.dtype).mul_(BYTE / (BYTE - limit))


class ByteDropout(nn.Module):
    """`nn.Dropout` by random bytes: the share `p` is exact to 1/256, what stays is scaled by the share that did."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, states: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        limit = min(round(self.p * BYTE), BYTE - 1)
        if not self.training or limit <= 0:
            return states
        return _Dropped.apply(states, limit)  # type: ignore[no-untyped-call]


class _Dropped(torch.autograd.Function):
    """Keeps the bytes for the backward pass, a quarter of what a mask of numbers would take."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, limit: int) -> Tensor:
        ctx.drawn, ctx.limit = random_bytes(states), limit
        return kept_of(states, ctx.drawn, limit)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, None]:
        return kept_of(slopes, ctx.drawn, ctx.limit), None


def kept_of(states: Float[Tensor, "*shape"], drawn: UInt8[Tensor, "*shape"], limit: int) -> Float[Tensor, "*shape"]:
    """What stays where a byte is not below `limit`, scaled up; zero elsewhere."""
    scale = BYTE / (BYTE - limit)
    if states.device.type != "cpu" or states.dtype not in (torch.float32, torch.float64):
        return torch.where(drawn >= limit, states * scale, 0.0)
    values = states.detach().contiguous()
    kept = torch.empty_like(values)
    number = kept.numpy().dtype.type
    _keep(values.view(-1).numpy(), drawn.view(-1).numpy(), kept.view(-1).numpy(), np.uint8(limit), number(scale))
    return kept


@njit(cache=True, nogil=True)
def _keep(values, drawn, kept, limit, scale):  # type: ignore[no-untyped-def]
    """One pass over memory, where a mask of torch's takes three."""
    for place in range(len(values)):
        kept[place] = values[place] * scale if drawn[place] >= limit else 0


def random_bytes(like: Float[Tensor, "*shape"]) -> UInt8[Tensor, "*shape"]:
    """A random byte for each number, eight from each draw."""
    words = torch.empty(math.ceil(like.numel() / 8), dtype=torch.int64, device=like.device)
    words.random_(-(2**63), None)  # all 64 bits; the default leaves out the sign
    return words.view(torch.uint8)[: like.numel()].view(like.shape)
