"""The AWD-LSTM as an encoder: what a language model learned of the text, read from either end."""

from collections.abc import Sequence
from copy import deepcopy

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from plant.errors import RecipeError
from plant.nn.language import awd_lstm as lm
from plant.nn.language.quantized import Int8AWDLSTM
from plant.tensors import Batch, Encoded
from plant.text.vocab import PADDING
from plant.values import Amount, Count

CLASSIFIER_DROPOUTS = lm.Dropouts(
    embedding=0.05, input=0.4, hidden=0.3, weight=0.5, output=0.0
)  # Howard and Ruder 2018


Place = tuple[lm.Carry, lm.Draw]
"""Where reading of a document stopped, and the weights drawn for the whole of it."""


class AWDLSTMEncoder(nn.Module):
    """States of the last layer, one per token; they start from a language model where one is given.

    A document begins after the token that parts documents in the language model's text. The backward direction reads
    each document from its last real token; its states stand at the tokens that they follow. `words` puts the word
    vectors beside the states: a state knows best what comes next, a decoder also asks which word stands here.
    """

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
        self.size = self.network.size + words * self.network.words.shape[1]

    def forward(self, batch: Batch) -> Encoded:
        if self.direction == "forward":
            return Encoded(self._read(batch.tokens, None)[0], batch.tokens, batch.mask)
        order = _from_the_end(batch.mask)
        states = self._read(batch.tokens.gather(1, order), None)[0]
        return Encoded(_reordered(states, order), batch.tokens, batch.mask)

    def read(
        self, tokens: Int[Tensor, "batch time"], carry: Place | None
    ) -> tuple[Float[Tensor, "batch time size"], Place]:
        """Go on where reading stopped; forward only, since the end of a document is where a backward model begins."""
        if self.direction == "backward":
            raise RecipeError(
                "a backward encoder begins at the end of a document: set fit.segment = 0 to read it whole"
            )
        return self._read(tokens, carry)

    def layer_modules(self) -> Sequence[nn.Module]:
        """Word vectors, then the layers from the first to the last."""
        return [nn.ParameterList([self.network.words]), *self.network.layers]

    def quantized(self) -> "AWDLSTMEncoder":
        """A copy for inference on CPUs with weights of eight bits, a quarter of their memory."""
        encoder = deepcopy(self).eval()
        encoder.network = Int8AWDLSTM(encoder.network)  # type: ignore[assignment]  # it reads in the same way
        return encoder

    def _read(self, tokens: Tensor, place: Place | None) -> tuple[Tensor, Place]:
        if place is not None:
            states, carry = self.network(tokens, *place)
            return self._beside_words(states, tokens), (carry, place[1])
        draw = self.network.draw()
        states, carry = self.network(F.pad(tokens, (1, 0), value=PADDING), None, draw)
        return self._beside_words(states[:, 1:], tokens), (carry, draw)

    def _beside_words(self, states: Tensor, tokens: Tensor) -> Tensor:
        return torch.cat([states, F.embedding(tokens, self.network.words)], dim=-1) if self.words else states


def _from_the_end(mask: Bool[Tensor, "batch time"]) -> Int[Tensor, "batch time"]:
    """For each document its positions from the last to the first, then the padding; the same order undoes itself."""
    positions = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - positions, positions)


def _reordered(states: Float[Tensor, "batch time size"], order: Int[Tensor, "batch time"]) -> Tensor:
    return states.gather(1, order.unsqueeze(-1).expand(states.shape))
