"""A shallow, wide tree over labels: those of like notes lie together, in clusters of equal size.

Labels are cut in halves again and again by balanced 2-means over the mean TF-IDF vector of their notes, until no
cluster has more than `smallest` labels; of the cuts, every log2(branches)-th is a level (You et al. 2019, where
`smallest` is `branches`; Yu et al. 2022).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from plant.data.corpus import Documents, TrainingView
from plant.data.vectors import TextVectors, fitted_vectors
from plant.errors import ArtifactError, RecipeError
from plant.store.checks import check_numbers
from plant.store.ragged import Ragged, offsets, owners

MOST_ROUNDS = 50  # of 2-means
GAIN = 1e-4  # in mean similarity, below which it ends


@dataclass(frozen=True)
class LabelTree:
    """Levels from the top down to the labels: node n of level t + 1 lies below node `above[t][n]` of level t."""

    above: tuple[NDArray[np.int32], ...]
    n_labels: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many nodes each level has; the last has the labels."""
        return (*(int(up.max()) + 1 for up in self.above), self.n_labels)

    @cached_property
    def _below(self) -> tuple[tuple[NDArray[np.int64], NDArray[np.int32]], ...]:
        counts = [offsets(np.bincount(up)) for up in self.above]
        orders = [np.argsort(up, kind="stable").astype(np.int32) for up in self.above]
        return tuple(zip(counts, orders, strict=True))

    def below(self, level: int, nodes: NDArray[np.integer]) -> NDArray[np.int32]:
        """The nodes of the next level that lie below some nodes of a level, rising."""
        starts, children = self._below[level]
        parts = [children[starts[node] : starts[node + 1]] for node in nodes.tolist()]
        return np.sort(np.concatenate([children[:0], *parts]))

    def children(self, level: int) -> Ragged:
        """The nodes of a level, rising, by the node that they lie below; those of the first level by the root."""
        if not level:
            return Ragged(np.arange(self.sizes[0], dtype=np.int32), np.array([0, self.sizes[0]]))
        starts, children = self._below[level - 1]
        return Ragged(children, starts)

    def to_level(self, level: int) -> NDArray[np.int32]:
        """For each label the node of a level that it lies below."""
        found = np.arange(self.n_labels, dtype=np.int32)
        for up in reversed(self.above[level:]):
            found = up[found]
        return found


def check_tree(tree: LabelTree) -> None:
    """Refuse a tree of an opened artifact in which a node lies below none, or a level has another size than it says."""
    for up in tree.above:
        check_numbers("the label tree", up, len(up))
    if [len(up) for up in tree.above] != list(tree.sizes[1:]):
        raise ArtifactError("the label tree of the folder does not hang together: make it again")


def grow_tree(view: TrainingView, *, branches: int, height: int, seed: int) -> LabelTree:
    """A tree with at most `height` levels above the labels; fewer where there are few labels."""
    _, texts = fitted_vectors(view)
    return tree_over(label_vectors(view, texts), branches=branches, smallest=branches, height=height, seed=seed)


def tree_over(
    vectors: csr_matrix,
    *,
    branches: int,
    smallest: int,
    seed: int,
    height: int | None = None,
    section: str = "label_tree",
) -> LabelTree:
    """A tree over labels by their vectors; its levels above them are as many as it takes, or the last `height`."""
    if branches < 2 or branches & (branches - 1):
        raise RecipeError(f"{section}.branches is {branches}: clusters are halved, so it must be 2, 4, 8, ...")
    n_labels, step = vectors.shape[0], int(math.log2(branches))
    deepest = max(0, math.ceil(math.log2(max(1, n_labels) / smallest)))
    height = deepest if height is None else height
    depths = [depth for depth in range(deepest - step * (height - 1), deepest + 1, step) if depth > 0][-height:]
    cut = halved(vectors, deepest, np.random.default_rng(seed)) if depths and height else []
    places = np.zeros(n_labels, np.int32)
    for number, labels in enumerate(cut):
        places[labels] = number
    return tree_of(places, [deepest - depth for depth in depths] if height else [], n_labels=n_labels)


def tree_of(places: NDArray[np.int32], shifts: Sequence[int], *, n_labels: int) -> LabelTree:
    """The tree of labels whose clusters are numbered in the order of the cuts; levels leave out their last `shifts`."""
    levels = [places >> shift for shift in shifts]
    above: list[NDArray[np.int32]] = []
    for upper, lower in pairwise(levels):
        up = np.zeros(int(lower.max()) + 1, np.int32)
        up[lower] = upper
        above.append(up)
    return LabelTree((*above, *(level.astype(np.int32) for level in levels[-1:])), n_labels)


def halved(vectors: csr_matrix, times: int, random: np.random.Generator) -> list[NDArray[np.intp]]:
    """All rows, cut in halves so many times; clusters in the order of the cuts, none of them empty."""
    clusters = [np.arange(vectors.shape[0])]
    for _ in range(times):
        clusters = [half for cluster in clusters for half in _halves(vectors, cluster, random)]
    return clusters


def _halves(
    vectors: csr_matrix, cluster: NDArray[np.intp], random: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Balanced 2-means: the half that is more like the first centre than the second, and the other."""
    own, size = vectors[cluster], (len(cluster) + 1) // 2
    seeds = random.choice(len(cluster), 2, replace=False)
    first, second = own[seeds[0]].toarray()[0], own[seeds[1]].toarray()[0]
    before, order = -np.inf, np.arange(len(cluster))
    for _ in range(MOST_ROUNDS):
        order = np.argsort(-(own @ (first - second)), kind="stable")
        first, second = (_centre(own[half]) for half in (order[:size], order[size:]))
        like = (float((own[order[:size]] @ first).sum()) + float((own[order[size:]] @ second).sum())) / len(cluster)
        if like - before < GAIN:
            break
        before = like
    return np.sort(cluster[order[:size]]), np.sort(cluster[order[size:]])


def _centre(vectors: csr_matrix) -> NDArray[np.float64]:
    total = np.asarray(vectors.sum(0), np.float64)[0]
    return total / max(float(np.linalg.norm(total)), 1e-12)


def label_vectors(view: TrainingView, texts: TextVectors) -> csr_matrix:
    """The sum of the TF-IDF vectors of each label's notes, scaled to length 1."""
    documents, n_words = view.documents, len(view.vocab)
    words = csr_matrix((texts.values.astype(np.float64), texts.tokens, texts.starts), (len(documents), n_words))
    rows = owners(documents.label_starts)
    labels = csr_matrix((np.ones(len(rows)), (documents.labels, rows)), (len(view.codes), len(documents)))
    summed = (labels @ words).tocsr()
    lengths = np.sqrt(np.asarray(summed.multiply(summed).sum(1))[:, 0])
    return csr_matrix(summed.multiply(1 / np.maximum(lengths, 1e-12)[:, None]))


def lifted(documents: Documents, to_level: NDArray[np.int32]) -> tuple[NDArray[np.int32], ...]:
    """The nodes of a level that the labels of each document lie below, rising."""
    return tuple(np.unique(to_level[documents.labels_of(row)]) for row in range(len(documents)))
