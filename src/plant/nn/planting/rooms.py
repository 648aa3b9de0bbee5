"""Large arrays that are kept between the steps of a training: fresh pages cost more than the sums that fill them."""

import math
from weakref import ReferenceType, ref

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Room:
    """Memory that is lent again when what was lent is gone; until then, borrowers get memory of their own.

    A tensor made of what was lent (`torch.from_numpy`) holds it, so a gradient that an optimizer has not yet dropped is
    never written over. Views by numpy do not hold it: keep the array itself. For one thread at a time.
    """

    def __init__(self) -> None:
        self._memory: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._lent: ReferenceType[NDArray[np.generic]] | None = None

    def lend(self, shape: tuple[int, ...], kind: DTypeLike) -> NDArray[np.generic]:
        """An array of this shape with anything in it."""
        if self._lent is not None and self._lent() is not None:
            return np.empty(shape, kind)
        size = math.prod(shape) * np.dtype(kind).itemsize
        if len(self._memory) < size:
            self._memory = np.empty(size, np.uint8)
        lent = self._memory[:size].view(kind).reshape(shape)
        self._lent = ref(lent)
        return lent
