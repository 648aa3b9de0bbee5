"""Words of like use under one number: k-means over word vectors, once for each number of clusters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float32, Int32
from numpy.typing import NDArray

from plant.candidates.packing import Arrays, packed_strings, unpacked_strings
from plant.candidates.words import folded
from plant.store.checks import check_shape
from plant.types import Progress, silent

SIZES = (64, 256, 1024)
UNKNOWN = 0
ROWS_AT_A_TIME = 4096


@dataclass(frozen=True)
class WordClusters:
    """Folded words and the cluster of each, from 1, in each of the clusterings."""

    words: tuple[str, ...]
    numbers: Int32[np.ndarray, "clustering word"]

    def of(self, words: Sequence[str]) -> Int32[np.ndarray, "clustering place"]:
        """The clusters of the words of a note; 0 where a word has none."""
        get = self._place_of.get
        return self._with_unknown[:, np.array([get(word, 0) for word in words], np.int64)]

    def pack(self) -> Arrays:
        """Everything, as arrays."""
        return {**packed_strings("words", self.words), "numbers": self.numbers}

    @cached_property
    def _place_of(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words, 1)}

    @cached_property
    def _with_unknown(self) -> NDArray[np.int32]:
        return np.pad(self.numbers, ((0, 0), (1, 0)), constant_values=UNKNOWN)


def cluster_words(
    words: Sequence[str],
    vectors: Float32[np.ndarray, "word size"],
    *,
    sizes: Sequence[int] = SIZES,
    rounds: int = 20,
    seed: int = 1,
    progress: Progress = silent,
) -> WordClusters:
    """Cluster words by the direction of their vectors; of words that fold to the same the first, the most frequent."""
    first = {folded(word): place for place, word in reversed(list(enumerate(words)))}
    names = tuple(sorted(first))
    chosen = vectors[[first[name] for name in names]]
    directions = chosen / np.maximum(np.linalg.norm(chosen, axis=1, keepdims=True), np.float32(1e-12))
    numbers = []
    for done, size in enumerate(sizes):
        numbers.append(1 + k_means(directions, size, rounds=rounds, seed=seed))
        progress("clusters of words", done + 1, len(sizes))
    return WordClusters(names, np.array(numbers, np.int32).reshape(len(sizes), len(names)))


def unpack_clusters(arrays: Mapping[str, NDArray[Any]]) -> WordClusters:
    """What `pack` took apart."""
    words, numbers = unpacked_strings("words", arrays), arrays["numbers"]
    check_shape("numbers", numbers, (len(SIZES), len(words)), "i")
    return WordClusters(words, numbers)


def k_means(points: Float32[np.ndarray, "point size"], k: int, *, rounds: int, seed: int) -> NDArray[np.int64]:
    """The cluster of each point (Lloyd 1982), starting from distinct points drawn at random; empty ones stay empty."""
    k = min(k, len(points))
    centres = points[np.sort(np.random.default_rng(seed).choice(len(points), k, replace=False))]
    nearest = np.zeros(len(points), np.int64)
    for _ in range(rounds):
        before, nearest = nearest, _nearest(points, centres)
        if np.array_equal(before, nearest):
            break
        centres = _means(points, nearest, centres)
    return nearest


def _nearest(points: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.int64]:
    """The nearest centre of each point, of equally near ones the first."""
    half = (centres**2).sum(1) / 2
    parts = (points[first : first + ROWS_AT_A_TIME] for first in range(0, len(points), ROWS_AT_A_TIME))
    return np.concatenate([np.zeros(0, np.int64), *((part @ centres.T - half).argmax(1) for part in parts)])


def _means(
    points: NDArray[np.float32], nearest: NDArray[np.int64], centres: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The mean of each cluster; one without points keeps its centre."""
    counts = np.bincount(nearest, minlength=len(centres))
    sums = np.stack([np.bincount(nearest, column, minlength=len(centres)) for column in points.T], 1)
    means = sums / np.maximum(counts, 1)[:, None]
    return np.where(counts[:, None] > 0, means, centres).astype(np.float32)
