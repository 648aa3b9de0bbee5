"""Words and one layer of convolutions: the encoder of Text-CNN, XML-CNN and CAML."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plant.nn.layers import Convolution, WordEmbedding
from plant.nn.parts.protocols import ArrayForm
from plant.tensors import Batch, Chosen, Encoded
from plant.values import Count, Counts, Dropout, small


class CNN(nn.Module):
    """Convolutions of one or more kernel widths side by side, each followed by tanh or ReLU.

    The defaults are CAML's (Mullenbach et al. 2018); Text-CNN (Kim 2014) and XML-CNN (Liu et al. 2017) are other
    kernels with a pooling decoder. The stride is 1 for all, so that every token keeps its position.
    `residual` puts the words themselves beside the convolutions, so that few notes are enough to learn from words.
    """

    starts_from = frozenset({"word_vectors"})
    tiny = small(embedding=5, kernels=[4, 3], filters=4)

    def __init__(
        self,
        vocab_size: int,
        *,
        word_vectors: Float[Tensor, "token size"] | None = None,
        embedding: Count = 100,
        kernels: Counts = (10,),
        filters: Count = 50,
        activation: Literal["tanh", "relu"] = "tanh",
        residual: bool = False,
        frozen: bool = False,
        dropout: Dropout = 0.2,
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(
            vocab_size, size=embedding, word_vectors=word_vectors, frozen=frozen, dropout=dropout
        )
        self.convolutions = nn.ModuleList(Convolution(self.words.size, filters, kernel=kernel) for kernel in kernels)
        self.activation, self.residual = activation, residual
        self.activate = {"tanh": torch.tanh, "relu": torch.relu}[activation]
        self.size = filters * len(self.convolutions) + residual * self.words.size

    def forward(self, batch: Batch) -> Encoded:
        words = self.words(batch.tokens, batch.mask)
        states = [self.activate(convolve(words, batch.mask)) for convolve in self.convolutions]
        return Encoded(torch.cat([*states, *[words] * self.residual], dim=-1), batch.tokens, batch.mask)

    def states_at(self, batch: Batch, chosen: Chosen) -> Float[Tensor, "batch place size"]:
        """What `forward` gives at chosen positions, without computing it elsewhere."""
        words = self.words(batch.tokens, batch.mask)
        states = [self.activate(c.at(words, batch.mask, chosen)) for c in self.convolutions]  # type: ignore[operator]
        return torch.cat([*states, *[chosen.of(words)] * self.residual], dim=-1)

    def array_form(self) -> ArrayForm:
        """What `plant.nn.reading.convolution` must know beside the weights."""
        return ArrayForm({"form": "cnn", "activation": self.activation, "residual": self.residual})
