"""Dropout of whole words, of weights, and of features for a whole document at a time (Gal 2016, Merity 2018)."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

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
    return weight * _random_bytes_from(limit, weight).to(weight.dtype).mul_(BYTE / (BYTE - limit))


def _random_bytes_from(limit: int, like: Float[Tensor, "row column"]) -> Bool[Tensor, "row column"]:
    """Where a random byte is not below `limit`."""
    words = torch.empty(math.ceil(like.numel() / 8), dtype=torch.int64, device=like.device)
    words.random_(-(2**63), None)  # all 64 bits; the default leaves out the sign
    return words.view(torch.uint8)[: like.numel()].view(like.shape) >= limit
