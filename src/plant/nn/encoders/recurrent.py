"""Bidirectional recurrent encoders: LSTM (LAAT, JointLAAT, LSAN) and GRU."""

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from plant.nn.layers import WordEmbedding
from plant.tensors import Batch, Encoded


class BiLSTM(nn.Module):
    """States of a forward and a backward LSTM side by side; the defaults are LAAT's (Vu et al. 2020)."""

    def __init__(
        self,
        vocab_size: int,
        *,
        word_vectors: Float[Tensor, "token size"] | None = None,
        embedding: int = 100,
        hidden: int = 512,
        layers: int = 1,
        frozen: bool = True,
        dropout: float = 0.3,
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(
            vocab_size, size=embedding, word_vectors=word_vectors, frozen=frozen, dropout=dropout
        )
        self.recurrent = nn.LSTM(self.words.size, hidden, layers, batch_first=True, bidirectional=True)
        self.size = 2 * hidden

    def forward(self, batch: Batch) -> Encoded:
        states = _run(self.recurrent, self.words(batch.tokens, batch.mask), batch.mask)
        return Encoded(states, batch.tokens, batch.mask)


class BiGRU(nn.Module):
    """States of a forward and a backward GRU side by side; the defaults are those of CAML's comparison (2018)."""

    def __init__(
        self,
        vocab_size: int,
        *,
        word_vectors: Float[Tensor, "token size"] | None = None,
        embedding: int = 100,
        hidden: int = 256,
        layers: int = 1,
        frozen: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(
            vocab_size, size=embedding, word_vectors=word_vectors, frozen=frozen, dropout=dropout
        )
        self.recurrent = nn.GRU(self.words.size, hidden, layers, batch_first=True, bidirectional=True)
        self.size = 2 * hidden

    def forward(self, batch: Batch) -> Encoded:
        states = _run(self.recurrent, self.words(batch.tokens, batch.mask), batch.mask)
        return Encoded(states, batch.tokens, batch.mask)


def _run(
    recurrent: nn.LSTM | nn.GRU, inputs: Float[Tensor, "batch time input"], mask: Bool[Tensor, "batch time"]
) -> Float[Tensor, "batch time size"]:
    """The states of packed documents, so that the backward direction begins at the last real token."""
    lengths = (
        mask.sum(1).clamp(min=1).cpu()
    )  # packing takes no empty document: one gets a single zero word, masked later
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    states, _ = pad_packed_sequence(recurrent(packed)[0], batch_first=True, total_length=inputs.shape[1])
    return states
