"""Randomness that is passed, forked and restored, never reseeded behind the caller's back."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch inside the block; the caller's random state is as before afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def seed_of(seed: int, epoch: int, step: int) -> int:
    """The seed of one step of a training: what it draws does not depend on who took the steps before."""
    said = f"{seed} {epoch} {step}".encode()
    return int.from_bytes(hashlib.sha256(said).digest()[:7])  # 56 bits
