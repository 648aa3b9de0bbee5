"""Bidirectional recurrent encoders: LSTM (LAAT, JointLAAT, LSAN) and GRU."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plant.nn.bidirectional import Bidirectional
from plant.nn.layers import WordEmbedding
from plant.tensors import Batch, Encoded
from plant.values import Count, Dropout, Natural, small


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
    """States of a forward and a backward GRU side by side; the defaults are those of CAML's comparison (2018).

    With `memory` N units start to remember for 1 to N words, evenly spread (Tallec and Ollivier 2018): otherwise they
    forget within a few words, and a last state says nothing of what stood hundreds of words before.
    """

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
        memory: Natural = 0,
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(
            vocab_size, size=embedding, word_vectors=word_vectors, frozen=frozen, dropout=dropout
        )
        self.recurrent = Bidirectional(nn.GRU, self.words.size, hidden, layers)
        if memory:
            for layer in (*self.recurrent.ahead, *self.recurrent.back):
                _remember(layer, memory)
        self.size = 2 * hidden

    def forward(self, batch: Batch) -> Encoded:
        states = self.recurrent(self.words(batch.tokens, batch.mask), batch.mask)
        return Encoded(states, batch.tokens, batch.mask)


def _remember(layer: nn.Module, words: int) -> None:
    """Start the gate that keeps a unit's old value at n / (n + 1), n being 1 to `words`."""
    assert isinstance(layer, nn.GRU)
    keep = slice(layer.hidden_size, 2 * layer.hidden_size)  # its three gates in the order of PyTorch: reset, keep, new
    with torch.no_grad():
        layer.get_parameter("bias_ih_l0")[keep] = torch.linspace(1, words, layer.hidden_size).log()
        layer.get_parameter("bias_hh_l0")[keep] = 0.0
