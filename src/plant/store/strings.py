"""Many short strings, such as the ids of notes, as two flat arrays: they take the room of their letters."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import index
from typing import SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from plant.store.ragged import Ragged, offsets

LETTERS = "surrogatepass"  # JSON may hold halves of characters, which UTF-8 has no place for
BLOCK = 4096  # strings that are read at a time


@dataclass(frozen=True, eq=False)
class Strings(Sequence[str]):
    """String i is the UTF-8 between `starts[i]` and `starts[i + 1]`; to all who read it, a tuple of strings."""

    letters: NDArray[np.uint8]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, strings: Iterable[str]) -> "Strings":
        """The same strings; themselves where they are flat already."""
        if isinstance(strings, Strings):
            return strings
        encoded = [string.encode("utf-8", LETTERS) for string in strings]
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets([len(string) for string in encoded]))

    def take(self, rows: NDArray[np.integer]) -> "Strings":
        """Some of the strings, in the order asked for."""
        taken = Ragged(self.letters, self.starts).take(rows)
        return Strings(taken.values, taken.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, at: SupportsIndex) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> "Strings": ...

    def __getitem__(self, at: SupportsIndex | slice) -> "str | Strings":
        if isinstance(at, slice):
            return self.take(np.arange(len(self))[at])
        row = range(len(self))[index(at)]  # counts from the end below 0, and raises beyond
        return self.letters[self.starts[row] : self.starts[row + 1]].tobytes().decode("utf-8", LETTERS)

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), BLOCK):
            ends = self.starts[first : first + BLOCK + 1].tolist()
            letters = self.letters[ends[0] : ends[-1]].tobytes()
            for start, end in pairwise(ends):
                yield letters[start - ends[0] : end - ends[0]].decode("utf-8", LETTERS)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # as large as they are, nobody looks them up
