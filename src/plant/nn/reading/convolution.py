"""Words and convolutions at some positions of a note, in numpy: what `plant.nn.encoders.cnn` computes there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from plant.nn.reading.forms import Array, Facts, Integers, Kept
from plant.store.checks import check_shape

TOGETHER = 2048  # positions whose windows are laid out at once: they stay in the cache, however long a note is


class Layer(NamedTuple):
    """A convolution that begins `kernel // 2` positions earlier; beyond both ends of a note all is zero."""

    weights: Array  # [kernel x input, size]
    bias: Array  # [size]
    kernel: int

    def at(self, words: Array, positions: Integers) -> Array:
        """The sums over the windows of some positions."""
        before, offsets = self.kernel // 2, np.arange(self.kernel)
        padded = np.zeros((len(words) + self.kernel - 1, words.shape[1]), words.dtype)
        padded[before : before + len(words)] = words
        found = np.empty((len(positions), len(self.bias)), words.dtype)
        for first in range(0, len(positions), TOGETHER):
            some = slice(first, first + TOGETHER)
            windows = padded[positions[some, None] + offsets]
            np.matmul(windows.reshape(len(windows), -1), self.weights, out=found[some])
        return found + self.bias


@dataclass(frozen=True)
class ConvolvedWords:
    """Vectors of words, layers of convolutions side by side, and the words themselves beside them if `residual`."""

    words: Array  # [token, size]; may be a map of a file, of which a note touches few rows
    layers: tuple[Layer, ...]
    activate: Callable[[Array], Array]
    residual: bool

    @property
    def n_words(self) -> int:
        return len(self.words)

    @property
    def size(self) -> int:
        return sum(len(layer.bias) for layer in self.layers) + self.words.shape[1] * self.residual

    def states_at(self, tokens: Integers, positions: Integers) -> Array:
        words = np.asarray(self.words[tokens])
        states = [self.activate(layer.at(words, positions)) for layer in self.layers]
        return np.concatenate([*states, *[words[positions]] * self.residual], axis=1)


def convolved_words(facts: Facts, kept: Kept) -> ConvolvedWords:
    """The encoder from a coder's weights; `facts` are `activation` and `residual`."""
    n_layers = sum(name.startswith("convolutions.") and name.endswith(".weight") for name in kept.weights)
    layers = tuple(_layer(kept, f"convolutions.{number}.convolution") for number in range(n_layers))
    words = kept.weights["words.table.weight"]
    check_shape("words.table.weight", words, (len(words), words.shape[1]))
    return ConvolvedWords(words, layers, ACTIVATIONS[facts["activation"]], bool(facts["residual"]))


def _layer(kept: Kept, name: str) -> Layer:
    weights = kept.weights[f"{name}.weight"]  # [size, input, kernel]
    size, kernel = kept.weights["words.table.weight"].shape[1], weights.shape[-1]
    check_shape(f"{name}.weight", weights, (len(weights), size, kernel))
    check_shape(f"{name}.bias", kept.weights[f"{name}.bias"], (len(weights),))
    turned = np.ascontiguousarray(weights.transpose(2, 1, 0)).reshape(-1, len(weights))
    return Layer(turned, np.array(kept.weights[f"{name}.bias"]), weights.shape[2])


def _relu(values: Array) -> Array:
    return np.maximum(values, 0)


ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {"tanh": np.tanh, "relu": _relu}
