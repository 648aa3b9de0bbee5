"""A trained ranker in the pieces that the fused decoder works with: some labels, some tokens, and the backward pass.

Only survivors of inattention have gradients. For the bilinear form two small matrix products carry them, for the
two-layer form a kernel walks over them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from plant.nn.forms import compiled_for
from plant.nn.planting.pairs import two_layer_gradients_numba, two_layer_gradients_torch
from plant.nn.planting.ranker import BilinearRanker, Ranker, TwoLayerRanker, two_layer_scores


@runtime_checkable
class Pieces(Protocol):
    """What `tensors` gives for a list of tokens is handed to the other two, which look at a part of that list."""

    def tensors(self, tokens: Int[Tensor, "token"]) -> tuple[Tensor, ...]:
        """Everything that gets gradients."""
        ...

    def scores(
        self, tensors: Sequence[Tensor], tokens: slice, labels: slice | Int[Tensor, "label"]
    ) -> Float[Tensor, "label token"]:
        """The scores of all these pairs."""
        ...

    def add_gradients(
        self,
        tensors: Sequence[Tensor],
        gradients: Sequence[Tensor | None],
        tokens: slice,
        labels: slice,
        places: Int[Tensor, "label kept"],
        slopes: Float[Tensor, "label kept"],
    ) -> None:
        """Add to `gradients` what the survivors, `places` among the tokens, ask for."""
        ...


def in_pieces(ranker: Ranker) -> Pieces:
    """The pieces of a ranker of either form."""
    if isinstance(ranker, BilinearRanker):
        return BilinearPieces(ranker)
    if isinstance(ranker, TwoLayerRanker):
        return TwoLayerPieces(ranker)
    raise TypeError(f"cannot plant a {type(ranker).__name__}")


@dataclass(frozen=True)
class BilinearPieces:
    """f = e_t . e_l + b_t + b_l."""

    ranker: BilinearRanker

    def tensors(self, tokens: Int[Tensor, "token"]) -> tuple[Tensor, ...]:
        vectors, bias = F.embedding(tokens, self.ranker.token_vectors), self.ranker.token_bias[tokens]
        return vectors, bias, self.ranker.label_vectors, self.ranker.label_bias

    def scores(
        self, tensors: Sequence[Tensor], tokens: slice, labels: slice | Int[Tensor, "label"]
    ) -> Float[Tensor, "label token"]:
        vectors, bias, label_vectors, label_bias = tensors
        shift = bias[tokens] + label_bias[labels].unsqueeze(1)
        return torch.addmm(shift, label_vectors[labels], vectors[tokens].T)

    def add_gradients(
        self,
        tensors: Sequence[Tensor],
        gradients: Sequence[Tensor | None],
        tokens: slice,
        labels: slice,
        places: Int[Tensor, "label kept"],
        slopes: Float[Tensor, "label kept"],
    ) -> None:
        vectors, _, label_vectors, _ = tensors
        dense = slopes.new_zeros(len(slopes), tokens.stop - tokens.start).scatter_add_(1, places, slopes)
        of_vectors, of_bias, of_label_vectors, of_label_bias = gradients
        if of_vectors is not None:
            of_vectors[tokens].addmm_(dense.T, label_vectors[labels])
        if of_bias is not None:
            of_bias[tokens] += dense.sum(0)
        if of_label_vectors is not None:
            of_label_vectors[labels].addmm_(dense, vectors[tokens])
        if of_label_bias is not None:
            of_label_bias[labels] += slopes.sum(1)


@dataclass(frozen=True)
class TwoLayerPieces:
    """f = w2 . relu(W1 [e_l ; e_t] + b1) + b2, the first layer in halves that are computed once per token and label."""

    ranker: TwoLayerRanker

    def tensors(self, tokens: Int[Tensor, "token"]) -> tuple[Tensor, ...]:
        token_half = F.linear(F.embedding(tokens, self.ranker.token_vectors), self.ranker.token_layer)
        label_half = F.linear(self.ranker.label_vectors, self.ranker.label_layer, self.ranker.hidden_bias)
        return token_half, label_half, self.ranker.output, self.ranker.output_bias

    def scores(
        self, tensors: Sequence[Tensor], tokens: slice, labels: slice | Int[Tensor, "label"]
    ) -> Float[Tensor, "label token"]:
        token_half, label_half, output, output_bias = tensors
        return two_layer_scores(label_half[labels], token_half[tokens], output) + output_bias

    def add_gradients(
        self,
        tensors: Sequence[Tensor],
        gradients: Sequence[Tensor | None],
        tokens: slice,
        labels: slice,
        places: Int[Tensor, "label kept"],
        slopes: Float[Tensor, "label kept"],
    ) -> None:
        token_half, label_half, output, _ = tensors
        room = [torch.zeros_like(t) if g is None else g for t, g in zip(tensors, gradients, strict=True)]
        form = two_layer_gradients_numba if compiled_for(output.device) else two_layer_gradients_torch
        form(label_half[labels], token_half[tokens], output, places, slopes, room[1][labels], room[0][tokens], room[2])
        room[3].add_(slopes.sum())
