"""MultiResCNN's encoder: residual convolutions of many widths side by side."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from plant.nn.dropout import ByteDropout
from plant.nn.layers import BatchNorm, Convolution, WordEmbedding
from plant.tensors import Batch, Encoded
from plant.values import Count, Counts, Dropout, small


class MultiRes(nn.Module):
    """One branch per kernel width: a convolution, then a residual block; Li and Yu 2020."""

    starts_from = frozenset({"word_vectors"})
    tiny = small(embedding=5, kernels=[3, 6], filters=4)

    def __init__(
        self,
        vocab_size: int,
        *,
        word_vectors: Float[Tensor, "token size"] | None = None,
        embedding: Count = 100,
        kernels: Counts = (3, 5, 9, 15, 19, 25),
        filters: Count = 50,
        frozen: bool = False,
        dropout: Dropout = 0.2,
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(
            vocab_size, size=embedding, word_vectors=word_vectors, frozen=frozen, dropout=dropout
        )
        self.branches = nn.ModuleList(
            _Branch(self.words.size, filters, kernel=kernel, dropout=dropout) for kernel in kernels
        )
        self.size = filters * len(self.branches)

    def forward(self, batch: Batch) -> Encoded:
        words = self.words(batch.tokens, batch.mask)
        states = torch.cat([branch(words, batch.mask) for branch in self.branches], dim=-1)
        return Encoded(states, batch.tokens, batch.mask)


class _Branch(nn.Module):
    """tanh(f(x) + shortcut(x)) with x = tanh(convolution of the words) and f of two normalised convolutions."""

    def __init__(self, input_size: int, size: int, *, kernel: int, dropout: float) -> None:
        super().__init__()
        self.base = Convolution(input_size, input_size, kernel=kernel)
        self.first = Convolution(input_size, size, kernel=kernel, bias=False)
        self.first_norm = BatchNorm(size)
        self.second = Convolution(size, size, kernel=kernel, bias=False)
        self.second_norm = BatchNorm(size)
        self.shortcut = nn.Linear(input_size, size, bias=False)  # a convolution of width 1
        self.shortcut_norm = BatchNorm(size)
        self.dropout = ByteDropout(dropout)

    def forward(
        self, words: Float[Tensor, "batch time input"], mask: Bool[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time size"]:
        base = self.base(words, mask).tanh()
        inner = self.first_norm(self.first(base, mask), mask).tanh()
        residual = self.second_norm(self.second(inner, mask), mask)
        return self.dropout((residual + self.shortcut_norm(self.shortcut(base), mask)).tanh())
