"""Effective-CAN's decoder: label attention over every depth of a stack, all depths voting."""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.errors import RecipeError
from plant.nn.decoders.label_attention import LabelAttention
from plant.tensors import Decoded, Encoded
from plant.values import Count


class BlockAttention(nn.Module):
    """The features fall into `blocks` equal parts; a label attends to each, and its logit is the sum over all.

    Liu et al. 2021: the vectors of all depths side by side under one weight vector, which is the same sum.
    """

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        frequencies: Float[Tensor, "label"] | None = None,
        blocks: Count = 4,
    ) -> None:
        super().__init__()
        if input_size % blocks:
            raise RecipeError(f"decoder 'block-attention' cannot part {input_size} features into {blocks} blocks")
        priors = [frequencies] + [None] * (blocks - 1)  # the depths' biases add up: one of them starts at the prior
        self.heads = nn.ModuleList(
            LabelAttention(input_size // blocks, n_labels, frequencies=prior) for prior in priors
        )

    def forward(self, encoded: Encoded) -> Decoded:
        return Decoded(torch.stack([head(part).logits for head, part in self._parts(encoded)]).sum(0))

    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """The mean over the depths' attentions."""
        return torch.stack([head.attend(part, labels) for head, part in self._parts(encoded)]).mean(0)

    def _parts(self, encoded: Encoded) -> Iterator[tuple[LabelAttention, Encoded]]:
        parts = encoded.states.chunk(len(self.heads), dim=-1)
        for head, states in zip(self.heads, parts, strict=True):
            yield cast(LabelAttention, head), replace(encoded, states=states)
