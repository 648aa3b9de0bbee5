"""Randomness that is passed, forked and restored, never reseeded behind the caller's back."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch inside the block; the caller's random state is as before afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def random_state() -> Tensor:
    """Torch's random state on the CPU, as a tensor that a checkpoint can hold."""
    return torch.get_rng_state()


def restore_random_state(state: Tensor) -> None:
    """Go on drawing from where `random_state` was taken."""
    torch.set_rng_state(state)
