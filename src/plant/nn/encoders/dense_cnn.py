"""MSATT-KG's encoder: blocks of convolutions that see all blocks before them, and a mixture of their scales per token.

Xie et al. 2019, "EHR coding with multi-scale feature attention and structured knowledge graph propagation".
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plant.nn.layers import Convolution, WordEmbedding
from plant.tensors import Batch, Encoded
from plant.values import Count, Dropout, small


class DenseCNN(nn.Module):
    """x_k = ReLU(conv_k [x_0 .. x_(k-1)]) with x_0 the words; h_i = sum_k a_ik x_ik, a_i = softmax(MLP(s_i1 .. s_iK)).

    s_ik is the sum of block k's features at token i. Each block adds `kernel` - 1 words to what a token sees.
    """

    starts_from = frozenset({"word_vectors"})
    tiny = small(embedding=5, filters=8, blocks=3)

    def __init__(
        self,
        vocab_size: int,
        *,
        word_vectors: Float[Tensor, "token size"] | None = None,
        embedding: Count = 100,
        filters: Count = 200,
        blocks: Count = 5,
        kernel: Count = 3,
        frozen: bool = False,
        dropout: Dropout = 0.2,
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(
            vocab_size, size=embedding, word_vectors=word_vectors, frozen=frozen, dropout=dropout
        )
        widths = [self.words.size + number * filters for number in range(blocks)]
        self.blocks = nn.ModuleList(Convolution(width, filters, kernel=kernel) for width in widths)
        self.mix = nn.Sequential(nn.Linear(blocks, blocks), nn.Tanh(), nn.Linear(blocks, blocks))
        self.size = filters

    def forward(self, batch: Batch) -> Encoded:
        seen = self.words(batch.tokens, batch.mask)
        scales = []
        for convolve in self.blocks:
            scales.append(convolve(seen, batch.mask).relu())
            seen = torch.cat([seen, scales[-1]], dim=2)
        every = torch.stack(scales, dim=2)  # [batch, time, scale, size]
        weights = self.mix(every.sum(3)).softmax(2)
        return Encoded(torch.einsum("btk,btks->bts", weights, every), batch.tokens, batch.mask)
