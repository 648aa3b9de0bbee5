"""Bidirectional recurrent encoders: LSTM (LAAT, JointLAAT, LSAN) and GRU."""

from jaxtyping import Float
from torch import Tensor, nn

from plant.nn.bidirectional import Bidirectional
from plant.nn.layers import WordEmbedding
from plant.tensors import Batch, Encoded
from plant.values import Count, Dropout, small


class BiLSTM(nn.Module):
    """States of a forward and a backward LSTM side by side; the defaults are LAAT's (Vu et al. 2020)."""

    starts_from = frozenset({"word_vectors"})
    tiny = small(embedding=5, hidden=4, layers=2)

    def __init__(
        self,
        vocab_size: int,
        *,
        word_vectors: Float[Tensor, "token size"] | None = None,
        embedding: Count = 100,
        hidden: Count = 512,
        layers: Count = 1,
        frozen: bool = True,
        dropout: Dropout = 0.3,
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(
            vocab_size, size=embedding, word_vectors=word_vectors, frozen=frozen, dropout=dropout
        )
        self.recurrent = Bidirectional(nn.LSTM, self.words.size, hidden, layers)
        self.size = 2 * hidden

    def forward(self, batch: Batch) -> Encoded:
        states = self.recurrent(self.words(batch.tokens, batch.mask), batch.mask)
        return Encoded(states, batch.tokens, batch.mask)


class BiGRU(nn.Module):
    """States of a forward and a backward GRU side by side; the defaults are those of CAML's comparison (2018)."""

    starts_from = frozenset({"word_vectors"})
    tiny = small(embedding=5, hidden=4)

    def __init__(
        self,
        vocab_size: int,
        *,
        word_vectors: Float[Tensor, "token size"] | None = None,
        embedding: Count = 100,
        hidden: Count = 256,
        layers: Count = 1,
        frozen: bool = False,
        dropout: Dropout = 0.0,
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(
            vocab_size, size=embedding, word_vectors=word_vectors, frozen=frozen, dropout=dropout
        )
        self.recurrent = Bidirectional(nn.GRU, self.words.size, hidden, layers)
        self.size = 2 * hidden

    def forward(self, batch: Batch) -> Encoded:
        states = self.recurrent(self.words(batch.tokens, batch.mask), batch.mask)
        return Encoded(states, batch.tokens, batch.mask)
