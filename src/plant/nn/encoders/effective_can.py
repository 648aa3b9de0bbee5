"""Effective-CAN's encoder: a deep stack of residual squeeze-and-excitation convolutions, every depth kept."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from plant.nn.dropout import ByteDropout
from plant.nn.layers import BatchNorm, Convolution, SqueezeExcitation, WordEmbedding
from plant.tensors import Batch, Encoded
from plant.values import Count, Dropout, small


class EffectiveCAN(nn.Module):
    """The outputs of all blocks side by side, each mapped to `width`; decoder `block-attention` takes them apart.

    Liu et al. 2021. No code of the authors was found: `filters`, `width` and `reduction` are our choice.
    """

    starts_from = frozenset({"word_vectors"})
    tiny = small(embedding=5, filters=6, width=2, kernel=3, reduction=1)

    def __init__(
        self,
        vocab_size: int,
        *,
        word_vectors: Float[Tensor, "token size"] | None = None,
        embedding: Count = 100,
        blocks: Count = 4,
        filters: Count = 300,
        width: Count = 300,
        kernel: Count = 9,
        reduction: Count = 16,
        frozen: bool = False,
        dropout: Dropout = 0.2,
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(
            vocab_size, size=embedding, word_vectors=word_vectors, frozen=frozen, dropout=dropout
        )
        self.base = Convolution(self.words.size, filters, kernel=kernel)
        self.blocks = nn.ModuleList(_Block(filters, kernel=kernel, reduction=reduction) for _ in range(blocks))
        self.maps = nn.ModuleList(nn.Linear(filters, width) for _ in range(blocks))
        self.dropout = ByteDropout(dropout)
        self.size = width * blocks

    def forward(self, batch: Batch) -> Encoded:
        states = self.base(self.words(batch.tokens, batch.mask), batch.mask).relu()
        depths = []
        for block, depth_map in zip(self.blocks, self.maps, strict=True):
            states = block(states, batch.mask)
            depths.append(depth_map(self.dropout(states)))
        return Encoded(torch.cat(depths, dim=-1), batch.tokens, batch.mask)


class _Block(nn.Module):
    """relu(x + gate(f(x))), f two normalised convolutions."""

    def __init__(self, size: int, *, kernel: int, reduction: int) -> None:
        super().__init__()
        self.first = Convolution(size, size, kernel=kernel, bias=False)
        self.first_norm = BatchNorm(size)
        self.second = Convolution(size, size, kernel=kernel, bias=False)
        self.second_norm = BatchNorm(size)
        self.gate = SqueezeExcitation(size, reduction=reduction)

    def forward(
        self, states: Float[Tensor, "batch time size"], mask: Bool[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time size"]:
        inner = self.first_norm(self.first(states, mask), mask).relu()
        residual = self.second_norm(self.second(inner, mask), mask)
        return (states + self.gate(residual, mask)).relu()
