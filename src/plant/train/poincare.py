"""Poincare embeddings of a tree of codes (Nickel and Kiela 2017): what belongs together lies together.

A child is drawn to its parent and away from nodes drawn at random: the loss is -log of the softmax of minus the
distances. Riemannian steps, one thread, a generator of its own: the same tree and seed give the same vectors.
"""

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from plant.codes.tree import CodeTree
from plant.nn.poincare import in_ball, poincare_distance
from plant.types import Progress, silent

NEAR_CENTRE = 1e-3  # where nodes start
BURN_IN = 10  # epochs with a tenth of the learning rate, in which nodes find their directions
EDGES_AT_ONCE = 64


def train_poincare(
    tree: CodeTree,
    *,
    size: int = 50,
    epochs: int = 100,
    negatives: int = 10,
    learning_rate: float = 0.3,
    seed: int = 1,
    progress: Progress = silent,
) -> NDArray[np.float32]:
    """A point in the ball for each node; a root above all that have no parent stands at the end."""
    random = torch.Generator().manual_seed(seed)
    root = len(tree.nodes)
    parents = torch.from_numpy(np.where(tree.parents < 0, root, tree.parents))
    points = (torch.rand(root + 1, size, generator=random) - 0.5) * 2 * NEAR_CENTRE
    for epoch in range(epochs):
        rate = learning_rate / 10 if epoch < BURN_IN else learning_rate
        for children in torch.randperm(root, generator=random).split(EDGES_AT_ONCE):
            others = torch.randint(root + 1, (len(children), negatives), generator=random)
            points = _step(points, children, torch.cat([parents[children].unsqueeze(1), others], 1), rate)
        progress("codes in hyperbolic space: epochs", epoch + 1, epochs)
    return points.numpy().astype(np.float32)


def _step(points: Float[Tensor, "node size"], children: Tensor, others: Tensor, rate: float) -> Tensor:
    """One step downhill; the ball's metric makes it the smaller the nearer the surface is."""
    points.requires_grad_(True)
    near = -poincare_distance(points[children].unsqueeze(1), points[others])
    near = near.masked_fill(_also(children, others), -torch.inf)  # the child itself, or its parent, drawn by chance
    (slope,) = torch.autograd.grad(-near.log_softmax(1)[:, 0].sum(), points)
    points = points.detach()
    return in_ball(points - rate * (1 - points.square().sum(1, keepdim=True)).square() / 4 * slope)


def _also(children: Tensor, others: Tensor) -> Tensor:
    same = (others == children.unsqueeze(1)) | (others == others[:, :1])
    same[:, 0] = False
    return same
