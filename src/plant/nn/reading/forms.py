"""Trained parts as arrays: what reads notes without torch, and how it is put together from what a coder keeps.

A part that has such a form says so when a coder is packed (`plant.nn.parts.protocols.ArrayPart`), and names it here.
See docs/decisions/0009-reading-without-torch.md.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from plant.registry import Importable

Array = NDArray[Any]
Integers = NDArray[np.integer]
Facts = Mapping[str, Any]
ANY_SIZE = -1


@runtime_checkable
class ArrayEncoder(Protocol):
    """An encoder that only reads."""

    @property
    def n_words(self) -> int:
        """How many words it knows."""
        ...

    @property
    def size(self) -> int:
        """The size of a state."""
        ...

    def states_at(self, tokens: Integers, positions: Integers) -> Array:
        """The states of some positions of a note, [position, size]."""
        ...


class Said(NamedTuple):
    """The logits of notes, [note, label], and how far each word of a note spoke for some labels, [asked, token]."""

    logits: Array
    weigh: Callable[[int, Integers], Array]


@runtime_checkable
class ArrayDecoder(Protocol):
    """A decoder that only reads; it asks the encoder for the states that it needs."""

    @property
    def n_words(self) -> int:
        """How many words it knows."""
        ...

    @property
    def n_labels(self) -> int:
        """How many labels it has."""
        ...

    @property
    def input_size(self) -> int:
        """The size of the states that it takes; `ANY_SIZE` where it looks at none."""
        ...

    def read(self, notes: Sequence[Integers], encoder: ArrayEncoder) -> Said:
        """What notes, given by their tokens, say for all labels; a note says the same beside any others."""
        ...


class Kept(NamedTuple):
    """What a coder keeps of a part: its weights, what its parts were given, and what its form was told, by name."""

    weights: Mapping[str, Array]
    given: Mapping[str, Array]
    constants: Mapping[str, Array]


ENCODERS: Mapping[str, Callable[[Facts, Kept], ArrayEncoder]] = Importable(
    {"cnn": "plant.nn.reading.convolution:convolved_words", "none": "plant.nn.reading.names:no_states"}
)
DECODERS: Mapping[str, Callable[[Facts, Kept], ArrayDecoder]] = Importable(
    {"listed": "plant.nn.reading.planted:listed_labels", "names": "plant.nn.reading.names:named_labels"}
)


def as_distribution(weights: Array) -> Array:
    """Weights divided by their sum, row by row; all zero where none is positive."""
    positive = np.maximum(weights, 0)
    return positive / np.maximum(positive.sum(-1, keepdims=True), np.finfo(weights.dtype).tiny)
