"""Flat arrays that grow a document at a time, in memory or in files of a workspace."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from plant.store.ragged import Ragged, offsets

BLOCK = 1 << 18  # items gathered before they go to the file


@dataclass
class Spool:
    """One flat array in the making; without a folder it stays in memory."""

    name: str
    dtype: type
    folder: Path | None = None
    parts: list[NDArray[Any]] = field(default_factory=list)
    waiting: int = 0
    file: BinaryIO | None = None

    def append(self, values: NDArray[Any] | Sequence[int]) -> None:
        """Add the items of one document."""
        part: NDArray[Any] = np.asarray(values, dtype=self.dtype)
        self.parts.append(part)
        self.waiting += part.size
        if self.folder is not None and self.waiting >= BLOCK:
            self._flush()

    def finish(self) -> NDArray[Any]:
        """The whole array: writable, and a map of its file where there is one."""
        if self.file is None:
            return np.concatenate([np.empty(0, self.dtype), *self.parts])
        self._flush()
        self.file.close()
        return np.memmap(self.file.name, dtype=self.dtype, mode="r+")

    def close(self) -> None:
        """Let go of the file, where the array will never be finished."""
        if self.file is not None:
            self.file.close()

    def _flush(self) -> None:
        if self.file is None:
            assert self.folder is not None
            self.file = (self.folder / self.name).open("wb")
        self.file.write(np.concatenate([np.empty(0, self.dtype), *self.parts]).data)
        self.parts, self.waiting = [], 0


@dataclass
class RaggedSpool:
    """A spool of values together with how many each document has."""

    values: Spool
    lengths: list[int] = field(default_factory=list)

    def append(self, values: NDArray[Any] | Sequence[int]) -> None:
        """Add one document."""
        self.values.append(values)
        self.lengths.append(len(values))

    def finish(self) -> Ragged:
        """The values of all documents."""
        return Ragged(self.values.finish(), offsets(self.lengths))
