"""The AWD-LSTM as an encoder: what a language model learned of the text, read from either end."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.nn.language import awd_lstm as lm
from plant.nn.language.quantized import Int8AWDLSTM
from plant.tensors import Batch, Encoded, backward_order, in_order
from plant.text.vocab import PADDING
from plant.values import Amount, Count, small

CLASSIFIER_DROPOUTS = lm.Dropouts(
    embedding=0.05, input=0.4, hidden=0.3, weight=0.5, output=0.0
)  # Howard and Ruder 2018


Place = tuple[lm.Carry, lm.Draw]
"""Where reading of a document stopped, and the weights drawn for the whole of it."""


@runtime_checkable
class Network(Protocol):
    """What reads a text word by word: the AWD-LSTM, or its form with weights of eight bits."""

    size: int

    @property
    def words(self) -> Tensor:
        """The word vectors."""
        ...

    def draw(self) -> lm.Draw:
        """The weights that a document is read with."""
        ...

    def __call__(
        self, tokens: Int[Tensor, "batch time"], carry: lm.Carry | None, draw: lm.Draw
    ) -> tuple[Float[Tensor, "batch time size"], lm.Carry]: ...


class AWDLSTMEncoder(nn.Module):
    """States of the last layer, one per token; they start from a language model where one is given.

    A document begins after the token that parts documents in the language model's text. The backward direction reads
    each document from its last real token; its states stand at the tokens that they follow. `words` puts the word
    vectors beside the states: a state knows best what comes next, a decoder also asks which word stands here.
    """

    starts_from = frozenset({"language_model"})
    tiny = small(embedding=8, hidden=4, layers=2, dropout=0.0)

    def __init__(
        self,
        vocab_size: int,
        *,
        language_model: lm.LanguageModel | None = None,
        embedding: Count = 400,
        hidden: Count = 1152,
        layers: Count = 3,
        direction: lm.Direction = "forward",
        dropout: Amount = 1.0,
        words: bool = False,
    ) -> None:
        super().__init__()
        dropouts = CLASSIFIER_DROPOUTS.times(dropout)
        if language_model is None:
            self.network = lm.AWDLSTM(vocab_size, embedding=embedding, hidden=hidden, layers=layers, dropouts=dropouts)
        else:
            self.network = deepcopy(language_model.network)
            self.network.dropouts = dropouts
        self.direction = direction if language_model is None else language_model.direction
        self.words = words
        self.size = _width(self.network, words=words)

    def forward(self, batch: Batch) -> Encoded:
        return encode(self.network, batch, direction=self.direction, words=self.words)

    def read(
        self, tokens: Int[Tensor, "batch time"], carry: Place | None
    ) -> tuple[Float[Tensor, "batch time size"], Place]:
        """Go on where reading stopped; what a backward encoder is given begins with the last word."""
        return read_on(self.network, tokens, carry, words=self.words)

    def layer_modules(self) -> Sequence[nn.Module]:
        """Word vectors, then the layers from the first to the last."""
        return [nn.ParameterList([self.network.words]), *self.network.layers]

    def quantized(self) -> "Int8AWDLSTMEncoder":
        """A copy for inference on CPUs with weights of eight bits, a quarter of their memory."""
        network = Int8AWDLSTM(deepcopy(self.network).eval())
        return Int8AWDLSTMEncoder(network, direction=self.direction, words=self.words).eval()


class Int8AWDLSTMEncoder(nn.Module):
    """Reads as the encoder it was made from, with weights of eight bits; not trainable."""

    def __init__(self, network: Int8AWDLSTM, *, direction: lm.Direction, words: bool) -> None:
        super().__init__()
        self.network, self.direction, self.words = network, direction, words
        self.size = _width(network, words=words)

    def forward(self, batch: Batch) -> Encoded:
        return encode(self.network, batch, direction=self.direction, words=self.words)

    def read(
        self, tokens: Int[Tensor, "batch time"], carry: Place | None
    ) -> tuple[Float[Tensor, "batch time size"], Place]:
        """Go on where reading stopped; what a backward encoder is given begins with the last word."""
        return read_on(self.network, tokens, carry, words=self.words)


def encode(network: Network, batch: Batch, *, direction: lm.Direction, words: bool) -> Encoded:
    """The states of whole documents, read from their beginning or from their end."""
    if direction == "forward":
        return Encoded(read_on(network, batch.tokens, None, words=words)[0], batch.tokens, batch.mask)
    order = backward_order(batch.mask)
    states = read_on(network, batch.tokens.gather(1, order), None, words=words)[0]
    return Encoded(in_order(states, order), batch.tokens, batch.mask, from_end=True)


def read_on(
    network: Network, tokens: Int[Tensor, "batch time"], place: Place | None, *, words: bool
) -> tuple[Float[Tensor, "batch time size"], Place]:
    """The states of what comes next in documents that are read in pieces, and where reading stopped."""
    if place is not None:
        states, carry = network(tokens, *place)
        return _beside_words(states, tokens, network, words=words), (carry, place[1])
    draw = network.draw()
    states, carry = network(F.pad(tokens, (1, 0), value=PADDING), None, draw)
    return _beside_words(states[:, 1:], tokens, network, words=words), (carry, draw)


def _beside_words(states: Tensor, tokens: Tensor, network: Network, *, words: bool) -> Tensor:
    return torch.cat([states, F.embedding(tokens, network.words)], dim=-1) if words else states


def _width(network: Network, *, words: bool) -> int:
    return network.size + words * network.words.shape[1]
