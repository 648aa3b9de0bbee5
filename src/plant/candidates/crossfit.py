"""Cross-fitting: every fitted note is read by a reader that has not seen it."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def dealt(ids: Sequence[str], *, parts: int, seed: int, what: str) -> NDArray[np.int64]:
    """The part of each note: equal shares, drawn by the note's id, whatever the order of the notes."""
    rank = np.empty(len(ids), np.int64)
    rank[_shuffled(ids, seed, what)] = np.arange(len(ids))
    return rank % parts


def drawn(ids: Sequence[str], *, most: int, seed: int, what: str) -> NDArray[np.int64]:
    """Which notes are taken, at most so many, drawn by their ids; all of them where they are no more."""
    return np.sort(_shuffled(ids, seed, what)[:most])


def _shuffled(ids: Sequence[str], seed: int, what: str) -> NDArray[np.int64]:
    numbers = np.array([_number(f"{what} {seed} {name}") for name in ids], np.uint64)
    return np.argsort(numbers, kind="stable").astype(np.int64)


def keys_of(ids: Sequence[str]) -> NDArray[np.int64]:
    """A number for each note, by its id alone."""
    return np.array([_number(name) for name in ids], np.uint64).view(np.int64)


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")
