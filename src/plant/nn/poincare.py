"""Distances in the Poincare ball, a space in which trees fit: the room grows with every step away from the centre."""

import torch
from jaxtyping import Float
from torch import Tensor

EDGE = 1e-5  # how near to the ball's surface a point may come
LEAST = 1e-12  # under the root, whose slope at zero is infinite


def poincare_distance(one: Float[Tensor, "... size"], other: Float[Tensor, "... size"]) -> Float[Tensor, "..."]:
    """arcosh(1 + 2 |u - v|^2 / ((1 - |u|^2) (1 - |v|^2))); from the centre to v it is 2 artanh |v|."""
    room = (1 - one.square().sum(-1)) * (1 - other.square().sum(-1))
    beyond = 2 * (one - other).square().sum(-1) / room
    return torch.log1p(beyond + (beyond * (beyond + 2) + LEAST).sqrt())


def in_ball(points: Float[Tensor, "*lead size"]) -> Float[Tensor, "*lead size"]:
    """The points, those outside of the ball just inside of it."""
    lengths = points.norm(dim=-1, keepdim=True)
    return points * (1 - EDGE) / lengths.clamp(min=1 - EDGE)
