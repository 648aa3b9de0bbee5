"""A hash table of 64-bit keys for compiled code: no key is negative, -1 marks a free slot."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

FREE = -1
MULTIPLIER = np.uint64(11400714819323198485)  # 2^64 / golden ratio: neighbours get slots far apart


def free_slots(n_keys: int) -> NDArray[np.int64]:
    """Room for so many keys, at most half of it taken; a power of two."""
    return np.full(1 << (2 * n_keys + 2).bit_length(), FREE, np.int64)


@njit(cache=True)
def slot_of(slots, key):  # type: ignore[no-untyped-def]
    """The slot that holds a key, or the free one where it belongs."""
    mask = np.uint64(len(slots) - 1)
    mixed = (np.uint64(key) ^ (np.uint64(key) >> np.uint64(32))) * MULTIPLIER
    slot = (mixed >> np.uint64(20)) & mask
    while slots[slot] != FREE and slots[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot
