"""MSATT-KG's decoder: labels look with the words of their titles, and are judged by what the code tree makes of them.

Xie et al. 2019. q_l is the mean word vector of label l's title; two layers of graph convolution over the tree give
g_l: G' = ReLU(W_self G + W_up mean of parents + W_down mean of children + b). z_l = v_l . W' g_l + b_l with
v_l = sum_i softmax_i(h_i . W q_l) h_i.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from plant.codes.tree import CodeTree
from plant.nn.attention import masked_softmax
from plant.nn.decoders.label_attention import attended_logits, prior_logits
from plant.nn.decoders.label_vectors import LabelVectors
from plant.nn.layers import without_padding
from plant.tensors import Decoded, Encoded
from plant.values import Count, small


class GraphAttention(nn.Module):
    """Label attention whose queries and weights come from titles; categories and chapters are nodes of the graph too.

    `tree_descriptions` are the token numbers of every node's title, the labels first; with `word_vectors` they give
    the nodes' first vectors.
    """

    starts_from = frozenset({"word_vectors"})
    tiny = small(layers=2)

    def __init__(
        self,
        input_size: int,
        n_labels: int,
        *,
        tree: CodeTree,
        tree_descriptions: Int[Tensor, "node word"],
        word_vectors: Float[Tensor, "token width"] | None = None,
        frequencies: Float[Tensor, "label"] | None = None,
        layers: Count = 2,
    ) -> None:
        super().__init__()
        width = input_size if word_vectors is None else word_vectors.shape[1]
        self.nodes = LabelVectors(len(tree.nodes), width, descriptions=tree_descriptions, word_vectors=word_vectors)
        self.layers = nn.ModuleList(TreeConvolution(tree, width) for _ in range(layers))
        self.query, self.weigh = (nn.Linear(width, input_size, bias=False) for _ in range(2))
        self.bias = nn.Parameter(prior_logits(frequencies, n_labels))

    def forward(self, encoded: Encoded) -> Decoded:
        nodes = refined = self.nodes()
        for layer in self.layers:
            refined = layer(refined)
        n_labels = len(self.bias)
        queries, weights = self.query(nodes[:n_labels]), self.weigh(refined[:n_labels])
        return Decoded(attended_logits(encoded, queries, weights, self.bias))

    @torch.no_grad()
    def attend(self, encoded: Encoded, labels: Int[Tensor, "asked"]) -> Float[Tensor, "batch asked time"]:
        """Where each label looks."""
        states = without_padding(encoded.states, encoded.mask).to(self.bias.dtype)
        scores = self.query(self.nodes()[labels]) @ states.transpose(1, 2)
        return masked_softmax(scores, encoded.mask.unsqueeze(1).expand(scores.shape))


class TreeConvolution(nn.Module):
    """Every node hears itself, its parent and the mean of its children."""

    def __init__(self, tree: CodeTree, size: int) -> None:
        super().__init__()
        parents = torch.from_numpy(tree.parents)
        self.lower: Tensor
        self.upper: Tensor
        self.shares: Tensor
        children = (parents >= 0).nonzero().squeeze(1)
        self.register_buffer("lower", children, persistent=False)
        self.register_buffer("upper", parents[children], persistent=False)
        counts = torch.bincount(parents[children], minlength=len(parents))
        self.register_buffer("shares", 1 / counts[parents[children]].unsqueeze(1).float(), persistent=False)
        self.itself = nn.Linear(size, size)
        self.up, self.down = (nn.Linear(size, size, bias=False) for _ in range(2))

    def forward(self, nodes: Float[Tensor, "node size"]) -> Float[Tensor, "node size"]:
        empty = torch.zeros_like(nodes)
        above = empty.index_add(0, self.lower, nodes[self.upper])
        below = empty.index_add(0, self.upper, nodes[self.lower] * self.shares.to(nodes.dtype))
        return (self.itself(nodes) + self.up(above) + self.down(below)).relu()
