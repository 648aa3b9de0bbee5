"""HyperCore's decoder: what labels find is compared with them in hyperbolic space and in a graph.

Cao et al. 2020, "HyperCore: hyperbolic and co-graph representation for automatic ICD coding". With v_l what label l
attends to by its title, m_l = sigmoid(a . v_l) D v_l / |D v_l| in the Poincare ball and p_l the label's point there,
S_l = -d(m_l, p_l); with g_l two graph convolutions over labels of the same fitted notes, T_l = g_l . W v_l. Both scores
are mapped and added up: z = A S + C T + b.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from plant.nn.attention import masked_softmax
from plant.nn.decoders.label_attention import prior_logits
from plant.nn.decoders.label_vectors import LabelVectors
from plant.nn.layers import without_padding
from plant.nn.poincare import EDGE, poincare_distance
from plant.tensors import Decoded, Encoded
from plant.values import Amount, Count, small


class HyperCore(nn.Module):
    """Attention by titles, distances to points of the code tree, and a graph of labels that go together.

    `hyperbolic` are the points (random ones without), `label_pairs` two labels and in how many fitted notes they stand
    together. `mixing` "all" maps scores by full matrices, as published; "each" by one weight per label and score, for
    label sets that are large beside the notes. Weights on the diagonal start at `mixed_from`: at 1 the distances, which
    are far from zero and differ from label to label, hide the labels' log-odds at first. `chunk` labels are held in
    memory at a time.
    """

    starts_from = frozenset({"word_vectors", "hyperbolic", "label_pairs"})
    tiny = small(chunk=4)

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        descriptions: Int[Tensor, "label word"] | None = None,
        word_vectors: Float[Tensor, "token width"] | None = None,
        hyperbolic: Float[Tensor, "label point"] | None = None,
        label_pairs: Int[Tensor, "pair three"] | None = None,
        frequencies: Float[Tensor, "label"] | None = None,
        layers: Count = 2,
        mixing: Literal["all", "each"] = "all",
        mixed_from: Amount = 1.0,
        chunk: Count = 256,
    ) -> None:
        super().__init__()
        self.chunk = chunk
        self.labels = LabelVectors(n_labels, input_size, descriptions=descriptions, word_vectors=word_vectors)
        points = torch.randn(n_labels, 8) / 8 if hyperbolic is None else hyperbolic
        self.points: Tensor
        self.register_buffer("points", points.clone())
        self.direction = nn.Linear(input_size, self.points.shape[1], bias=False)
        self.magnitude = nn.Linear(input_size, 1)
        self.graph = LabelGraph(n_labels, label_pairs)
        self.layers = nn.ModuleList(nn.Linear(input_size, input_size) for _ in range(layers))
        self.weigh = nn.Linear(input_size, input_size, bias=False)
        shape = (n_labels,) if mixing == "each" else (n_labels, n_labels)
        first = torch.ones(n_labels) if mixing == "each" else torch.eye(n_labels)
        self.of_distance, self.of_graph = (nn.Parameter(mixed_from * first.view(shape)) for _ in range(2))
        self.bias = nn.Parameter(prior_logits(frequencies, n_labels))

    def forward(self, encoded: Encoded) -> Decoded:
        states = without_padding(encoded.states, encoded.mask).to(self.bias.dtype)
        labels = refined = self.labels()
        for layer in self.layers:
            refined = self.graph(layer(refined)).relu()
        rows = zip(*(part.split(self.chunk) for part in (labels, self.weigh(refined), self.points)), strict=True)
        parts = [checkpoint(self._scores, *some, states, encoded.mask, use_reentrant=False) for some in rows]
        near, related = torch.cat(parts, dim=2)
        return Decoded(_mapped(near, self.of_distance) + _mapped(related, self.of_graph) + self.bias)

    @torch.no_grad()
    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """Where each label looks."""
        states = without_padding(encoded.states, encoded.mask).to(self.bias.dtype)
        scores = self.labels()[labels] @ states.transpose(1, 2)
        return masked_softmax(scores, encoded.mask.unsqueeze(1).expand(scores.shape))

    def _scores(
        self, labels: Tensor, weights: Tensor, points: Tensor, states: Tensor, mask: Tensor
    ) -> Float[Tensor, "two batch label"]:
        """How near what a label found is to its point, and how far it fits the label's vector in the graph."""
        found = masked_softmax(labels @ states.transpose(1, 2), mask.unsqueeze(1)) @ states  # [batch, label, size]
        length = self.magnitude(found).sigmoid() * (1 - EDGE)
        placed = F.normalize(self.direction(found), dim=2) * length
        return torch.stack([-poincare_distance(placed, points.to(placed.dtype)), (found * weights).sum(2)])


class LabelGraph(nn.Module):
    """Sums over neighbours in the graph of labels that stand in the same notes, D^-1/2 (A + I) D^-1/2."""

    def __init__(self, n_labels: int, pairs: Int[Tensor, "pair three"] | None) -> None:
        super().__init__()
        itself = torch.arange(n_labels)
        one, other, counts = torch.zeros(3, 0, dtype=torch.long) if pairs is None else pairs.long().T
        self.rows: Tensor
        self.columns: Tensor
        self.values: Tensor
        self.register_buffer("rows", torch.cat([one, other, itself]))
        self.register_buffer("columns", torch.cat([other, one, itself]))
        weights = torch.cat([counts, counts, torch.ones_like(itself)]).float()
        degree = torch.zeros(n_labels).index_add(0, self.rows, weights).clamp(min=1).rsqrt()
        self.register_buffer("values", degree[self.rows] * weights * degree[self.columns])

    def forward(self, labels: Float[Tensor, "label size"]) -> Float[Tensor, "label size"]:
        shares = self.values.to(labels.dtype).unsqueeze(1)
        return torch.zeros_like(labels).index_add(0, self.rows, labels[self.columns] * shares)


def _mapped(scores: Float[Tensor, "batch label"], weights: Tensor) -> Float[Tensor, "batch label"]:
    return scores * weights if weights.dim() == 1 else scores @ weights.T
