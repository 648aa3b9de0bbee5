"""The AWD-LSTM language model (Merity, Keskar and Socher 2018), with its state as an argument and a result.

A document begins after the token `PADDING`, which parts documents in the training text: its row of the embedding is
learned, and predicting it means predicting the end. A backward model reads the same text from its end.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.nn.dropout import drop_features, drop_weights, embed_with_dropout
from plant.nn.language.recurrence import State, run_layer
from plant.text.vocab import PADDING, Vocab

Direction = Literal["forward", "backward"]
Carry = tuple[tuple[Float[Tensor, "batch _"], Float[Tensor, "batch _"]], ...]  # layers differ in width
"""Where reading stopped: the hidden and the cell state of each layer."""

INITIAL_RANGE = 0.1  # of the embedding's first values


@dataclass(frozen=True)
class Dropouts:
    """Shares that are dropped in training: of words, of their features, between layers, of weights, of the output."""

    embedding: float = 0.02
    input: float = 0.25
    hidden: float = 0.15
    weight: float = 0.2
    output: float = 0.1

    def times(self, factor: float) -> "Dropouts":
        """All shares multiplied, none above 0.9."""
        return Dropouts(*(min(0.9, factor * share) for share in vars(self).values()))


LANGUAGE_MODEL_DROPOUTS = Dropouts()


@dataclass(frozen=True)
class Draw:
    """The recurrent weights of each layer after one draw of weight dropout; it lasts a document, or a training step."""

    weights: tuple[Float[Tensor, "gates size"], ...]


class LSTMLayer(nn.Module):
    """The weights of one layer, laid out as in `nn.LSTM`, with one bias instead of two that are only ever added."""

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.input_weight = nn.Parameter(torch.empty(4 * size, input_size))
        self.recurrent_weight = nn.Parameter(torch.empty(4 * size, size))
        self.bias = nn.Parameter(torch.empty(4 * size))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -1 / math.sqrt(size), 1 / math.sqrt(size))

    def forward(
        self, inputs: Float[Tensor, "batch time input"], state: State, recurrent_weight: Float[Tensor, "gates size"]
    ) -> tuple[Float[Tensor, "batch time size"], State]:
        return run_layer(
            inputs, state, input_weight=self.input_weight, recurrent_weight=recurrent_weight, bias=self.bias
        )


class AWDLSTM(nn.Module):
    """Word vectors and stacked LSTM layers, the last as wide as the word vectors."""

    def __init__(
        self,
        vocab_size: int,
        *,
        embedding: int = 400,
        hidden: int = 1152,
        layers: int = 3,
        dropouts: Dropouts = LANGUAGE_MODEL_DROPOUTS,
    ) -> None:
        super().__init__()
        self.size, self.dropouts = embedding, dropouts
        self.words = nn.Parameter(torch.empty(vocab_size, embedding).uniform_(-INITIAL_RANGE, INITIAL_RANGE))
        self.sizes = [*[hidden] * (layers - 1), embedding]
        self.layers = nn.ModuleList(LSTMLayer(*pair) for pair in pairwise([embedding, *self.sizes]))

    def forward(
        self, tokens: Int[Tensor, "batch time"], carry: Carry | None = None, draw: Draw | None = None
    ) -> tuple[Float[Tensor, "batch time size"], Carry]:
        """The states of the last layer, and where reading stopped; without `draw`, weights are drawn for this call."""
        before = start(self.words, len(tokens), self.sizes) if carry is None else carry
        weights = (draw or self.draw()).weights
        dropped = self.dropouts if self.training else Dropouts(0, 0, 0, 0, 0)
        states = drop_features(embed_with_dropout(self.words, tokens, dropped.embedding), dropped.input)
        after: list[State] = []
        for number, (layer, state) in enumerate(zip(self.layers, before, strict=True)):
            states, last = layer(drop_features(states, dropped.hidden if number else 0), state, weights[number])
            after.append(last)
        return states, tuple(after)

    def draw(self) -> Draw:
        """Draw weight dropout."""
        share = self.dropouts.weight if self.training else 0
        return Draw(tuple(drop_weights(layer.recurrent_weight, share) for layer in self.layers))  # type: ignore[arg-type]


def start(like: Tensor, batch: int, sizes: Sequence[int]) -> Carry:
    """The state of nothing read, for layers of these sizes."""
    zeros = [like.new_zeros(batch, size) for size in sizes]
    return tuple((zero, zero) for zero in zeros)


class LanguageModel(nn.Module):
    """Predicts the next word; output words share the rows of input words."""

    def __init__(self, vocab: Vocab, network: AWDLSTM, *, direction: Direction = "forward") -> None:
        super().__init__()
        self.vocab, self.network, self.direction = vocab, network, direction
        self.bias = nn.Parameter(torch.zeros(len(vocab)))

    def forward(
        self, tokens: Int[Tensor, "batch time"], carry: Carry | None = None
    ) -> tuple[Float[Tensor, "batch time token"], Carry]:
        """The logits of the word after each token, and where reading stopped."""
        states, after = self.network(tokens, carry)
        return self.logits(self.dropped(states)), after

    def dropped(self, states: Float[Tensor, "batch time size"]) -> Float[Tensor, "batch time size"]:
        """States after output dropout."""
        return drop_features(states, self.network.dropouts.output if self.training else 0)

    def logits(self, states: Float[Tensor, "*lead size"]) -> Float[Tensor, "*lead token"]:
        """One logit per word."""
        return F.linear(states, self.network.words, self.bias)

    @torch.no_grad()
    def sample(
        self, prompt: Int[Tensor, "time"], *, count: int, generator: torch.Generator, temperature: float = 1.0
    ) -> list[int]:
        """Words drawn one after the other after a prompt, until a document ends; a backward model goes to the left."""
        ordered = prompt if self.direction == "forward" else prompt.flip(0)
        tokens = F.pad(ordered, (1, 0), value=PADDING).unsqueeze(0)
        carry: Carry | None = None
        drawn: list[int] = []
        while len(drawn) < count:
            logits, carry = self(tokens, carry)
            chances = (logits[0, -1] / temperature).softmax(0)
            word = int(torch.multinomial(chances, 1, generator=generator))
            if word == PADDING:
                break
            drawn.append(word)
            tokens = torch.tensor([[word]])
        return drawn if self.direction == "forward" else drawn[::-1]


def with_vocab(model: LanguageModel, vocab: Vocab) -> LanguageModel:
    """The same model with other words: shared words keep their rows, new words start at the mean of all."""
    network = AWDLSTM(
        len(vocab), embedding=model.network.size, hidden=model.network.sizes[0], layers=len(model.network.sizes)
    )
    adapted = LanguageModel(vocab, network, direction=model.direction)
    network.layers.load_state_dict(model.network.layers.state_dict())
    rows = torch.tensor([model.vocab.numbers.get(word, -1) for word in vocab.tokens])
    with torch.no_grad():
        adapted.network.words.copy_(_rows_or_mean(model.network.words, rows))
        adapted.bias.copy_(_rows_or_mean(model.bias, rows))
    return adapted


def _rows_or_mean(table: Float[Tensor, "token *rest"], rows: Int[Tensor, "new"]) -> Float[Tensor, "new *rest"]:
    known = (rows >= 0).view(-1, *[1] * (table.ndim - 1))
    return torch.where(known, table[rows.clamp(min=0)], table.mean(0))
