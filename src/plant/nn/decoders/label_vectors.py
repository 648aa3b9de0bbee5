"""Vectors of labels that start from the words of their titles."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.nn.attention import masked_mean
from plant.text.vocab import PADDING


class LabelVectors(nn.Module):
    """A vector of width `size` per label, which starts as the mean of its title's word vectors, or at random.

    Word vectors of another width go through a layer.
    """

    def __init__(
        self,
        n_labels: int,
        size: int,
        *,
        descriptions: Int[Tensor, "label word"] | None = None,
        word_vectors: Float[Tensor, "token width"] | None = None,
    ) -> None:
        super().__init__()
        self.vectors = nn.Parameter(_first(n_labels, size, descriptions, word_vectors))
        width = self.vectors.shape[1]
        self.fit = nn.Identity() if width == size else nn.Linear(width, size, bias=False)

    def forward(self) -> Float[Tensor, "label size"]:
        return self.fit(self.vectors)


def _first(
    n_labels: int, size: int, descriptions: Tensor | None, word_vectors: Tensor | None
) -> Float[Tensor, "label width"]:
    if descriptions is None or word_vectors is None:
        return nn.init.normal_(torch.empty(n_labels, size), std=size**-0.5)
    return masked_mean(word_vectors[descriptions], descriptions != PADDING)
