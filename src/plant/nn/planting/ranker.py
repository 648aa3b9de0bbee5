"""Rankers: how much a token says about a label, learned from mutual information and planted into a decoder.

Both forms score every pair of some labels and some tokens without ever holding an array of pairs x features.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.nn.forms import compiled_for
from plant.nn.planting.pairs import (
    two_layer_gradients_numba,
    two_layer_gradients_torch,
    two_layer_scores_numba,
    two_layer_scores_torch,
)
from plant.registry import Registry


class BilinearRanker(nn.Module):
    """f(t, l) = e_t . e_l + b_t + b_l, as on the slides of the paper and in its public code."""

    by_label = ("label_vectors", "label_bias")

    def __init__(self, n_tokens: int, n_labels: int, *, size: int = 128) -> None:
        super().__init__()
        self.token_vectors = _vectors(n_tokens, size)
        self.label_vectors = _vectors(n_labels, size)
        self.token_bias = nn.Parameter(torch.zeros(n_tokens))
        self.label_bias = nn.Parameter(torch.zeros(n_labels))

    def scores(
        self, tokens: Int[Tensor, "asked_token"], labels: Int[Tensor, "asked_label"]
    ) -> Float[Tensor, "asked_label asked_token"]:
        """The scores of all pairs of these labels and tokens."""
        return self.scores_of(tokens, self.label_vectors[labels], self.label_bias[labels])

    def scores_of(
        self,
        tokens: Int[Tensor, "asked_token"],
        vectors: Float[Tensor, "asked_label size"],
        bias: Float[Tensor, "asked_label"],
    ) -> Float[Tensor, "asked_label asked_token"]:
        """The scores of labels that are given by their rows of `by_label`."""
        shift = bias.unsqueeze(1) + self.token_bias[tokens]
        return torch.addmm(shift, vectors, self.token_vectors[tokens].T)

    def pair_scores(self, tokens: Int[Tensor, "pair"], labels: Int[Tensor, "pair"]) -> Float[Tensor, "pair"]:
        """The scores of the pairs (tokens[i], labels[i])."""
        products = torch.linalg.vecdot(self.label_vectors[labels], self.token_vectors[tokens])
        return products + self.token_bias[tokens] + self.label_bias[labels]


class TwoLayerRanker(nn.Module):
    """f(t, l) = w2 . relu(W1 [e_l ; e_t] + b1) + b2, equations 1 and 7 of the paper.

    W1 [e_l ; e_t] is a sum of a label half and a token half, so each is computed once per label and once per token.
    """

    by_label = ("label_vectors",)

    def __init__(self, n_tokens: int, n_labels: int, *, size: int = 128, hidden: int = 128) -> None:
        super().__init__()
        self.token_vectors = _vectors(n_tokens, size)
        self.label_vectors = _vectors(n_labels, size)
        self.token_layer = nn.Parameter(torch.empty(hidden, size).uniform_(-1, 1))
        self.label_layer = nn.Parameter(torch.empty(hidden, size).uniform_(-1, 1))
        self.hidden_bias = nn.Parameter(torch.zeros(hidden))
        self.output = nn.Parameter(torch.empty(hidden).uniform_(-1, 1) * hidden**-0.5)
        self.output_bias = nn.Parameter(torch.zeros(1))

    def scores(
        self, tokens: Int[Tensor, "asked_token"], labels: Int[Tensor, "asked_label"]
    ) -> Float[Tensor, "asked_label asked_token"]:
        """The scores of all pairs of these labels and tokens."""
        return self.scores_of(tokens, self.label_vectors[labels])

    def scores_of(
        self, tokens: Int[Tensor, "asked_token"], vectors: Float[Tensor, "asked_label size"]
    ) -> Float[Tensor, "asked_label asked_token"]:
        """The scores of labels that are given by their rows of `by_label`."""
        label_half = vectors @ self.label_layer.T + self.hidden_bias
        return two_layer_scores(label_half, self._token_half(tokens), self.output) + self.output_bias

    def pair_scores(self, tokens: Int[Tensor, "pair"], labels: Int[Tensor, "pair"]) -> Float[Tensor, "pair"]:
        """The scores of the pairs (tokens[i], labels[i]); halves are computed once per distinct token and label."""
        distinct_tokens, token_places = tokens.unique(return_inverse=True)
        distinct_labels, label_places = labels.unique(return_inverse=True)
        hidden = self._label_half(distinct_labels)[label_places] + self._token_half(distinct_tokens)[token_places]
        return hidden.relu() @ self.output + self.output_bias

    def _label_half(self, labels: Int[Tensor, "label"]) -> Float[Tensor, "label hidden"]:
        return self.label_vectors[labels] @ self.label_layer.T + self.hidden_bias

    def _token_half(self, tokens: Int[Tensor, "token"]) -> Float[Tensor, "token hidden"]:
        return self.token_vectors[tokens] @ self.token_layer.T


Ranker = BilinearRanker | TwoLayerRanker
RANKERS: Registry[Ranker] = Registry("ranker", {"bilinear": BilinearRanker, "mlp": TwoLayerRanker})


def start_from(ranker: Ranker, vectors: Float[Tensor, "token size"]) -> None:
    """Give the tokens the directions of trained embeddings, at the scale of the random ones they replace."""
    with torch.no_grad():
        scale = ranker.token_vectors.std() / vectors.std().clamp(min=torch.finfo(vectors.dtype).tiny)
        ranker.token_vectors.copy_(vectors * scale)


def _vectors(n: int, size: int) -> nn.Parameter:
    """Rows whose products with one another start at about 1/sqrt(size)."""
    return nn.Parameter(torch.randn(n, size) * size**-0.5)


def two_layer_scores(
    label_half: Float[Tensor, "label hidden"],
    token_half: Float[Tensor, "token hidden"],
    output: Float[Tensor, "hidden"],
) -> Float[Tensor, "label token"]:
    """The scores of all pairs from the halves of the first layer, with the backward pass."""
    return _AllPairs.apply(label_half, token_half, output)  # type: ignore[no-untyped-call]


class _AllPairs(torch.autograd.Function):
    """w . relu(label half + token half) of all pairs; hidden layers are made again in the backward pass, never kept."""

    @staticmethod
    def forward(ctx: Any, label_half: Tensor, token_half: Tensor, output: Tensor) -> Tensor:
        ctx.save_for_backward(label_half, token_half, output)
        form = two_layer_scores_numba if compiled_for(output.device) else two_layer_scores_torch
        return form(label_half, token_half, output)

    @staticmethod
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        label_half, token_half, output = ctx.saved_tensors
        of_labels, of_tokens, of_output = (torch.zeros_like(tensor) for tensor in ctx.saved_tensors)
        places = torch.arange(slopes.shape[1], device=slopes.device).expand(slopes.shape)
        form = two_layer_gradients_numba if compiled_for(slopes.device) else two_layer_gradients_torch
        form(label_half, token_half, output, places, slopes.contiguous(), of_labels, of_tokens, of_output)
        return of_labels, of_tokens, of_output
