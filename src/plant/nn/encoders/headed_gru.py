"""DiscNet's encoder: words know the heading that they stand under, and a GRU reads them in both directions.

Zhang et al. 2022, "Automatic ICD coding exploiting discourse structure and reconciled code embeddings".
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from plant.nn.bidirectional import Bidirectional
from plant.nn.layers import WordEmbedding, without_padding
from plant.tensors import Batch, Encoded
from plant.values import Count, Dropout, small


class HeadedGRU(nn.Module):
    """States are the inputs, x_i = word vector + heading vector of length 1, then the GRU's forward and backward half.

    `headings` numbers are shared by all headings that notes may have, 0 being none.
    """

    reads_structure = True
    starts_from = frozenset({"word_vectors"})
    tiny = small(embedding=8, hidden=8, headings=5, heading_dropout=0.0)

    def __init__(
        self,
        vocab_size: int,
        *,
        word_vectors: Float[Tensor, "token size"] | None = None,
        embedding: Count = 100,
        hidden: Count = 100,
        headings: Count = 128,
        frozen: bool = False,
        dropout: Dropout = 0.2,
        heading_dropout: Dropout = 0.6,
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(
            vocab_size, size=embedding, word_vectors=word_vectors, frozen=frozen, dropout=dropout
        )
        self.headings = nn.Embedding(headings, self.words.size)
        self.heading_dropout = nn.Dropout(heading_dropout)
        self.recurrent = Bidirectional(nn.GRU, self.words.size, hidden, 1)
        self.n_headings = headings
        self.size = self.words.size + 2 * hidden

    def forward(self, batch: Batch) -> Encoded:
        structure = batch.structure
        under = torch.zeros_like(batch.tokens) if structure is None else structure.headings
        headings = self.heading_dropout(F.normalize(self.headings(under), dim=2))
        inputs = without_padding(self.words(batch.tokens, batch.mask) + headings, batch.mask)
        states = torch.cat([inputs, self.recurrent(inputs, batch.mask)], dim=2)
        return Encoded(states, batch.tokens, batch.mask, structure=structure)
