"""XR-Linear: a tree of clusters of labels with a linear classifier for each node, which a text goes down by its beam.

Yu, Zhong, Zhang, Chang, Dhillon 2022 (PECOS), written anew from the equations. Labels are clustered by the mean TF-IDF
vectors of their texts; each node learns to tell its texts from the others of the cluster above it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plant.data.corpus import Documents, TrainingView, take
from plant.data.label_tree import LabelTree, check_tree, label_vectors, tree_over
from plant.data.vectors import TextVectors, fitted_vectors, vectors_of
from plant.errors import ArtifactError, InputError
from plant.evaluate.scores.lists import Lists
from plant.evaluate.scores.of_texts import Sparse, Usual
from plant.recipe import schema
from plant.store.checks import check_count, check_finite, check_numbers, check_shape, check_starts
from plant.store.ragged import Ragged, offsets, owners, places
from plant.systems.beams import Beams, LinearLevel, at_root, follow
from plant.systems.system import CONTRIBUTION, Growth, Known, PackedSystem
from plant.systems.widened import WidenedSystem, widened
from plant.types import Progress, silent

TAG = "xr-linear"
ByWord = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]
"""Words, how many nodes weigh each, these nodes and their weights."""
NEVER = np.float32(-100.0)  # the intercept of a node without texts: its score is 0, and still a number


@dataclass(frozen=True)
class XrLinearSystem:
    """The words' weights, the tree, and the classifiers of each level from the top down to the labels."""

    inverse: NDArray[np.float32]  # document frequencies, per token
    tree: LabelTree
    levels: tuple[LinearLevel, ...]
    beam: int

    matches_names = takes_codes = False

    def read(self, documents: Documents, *, evidence: bool = False) -> "XrLinearReading":
        return XrLinearReading(self, documents)

    def unread(self, documents: Documents) -> int:
        return 0

    def quantized(self) -> "XrLinearSystem":
        return self

    def with_codes(self, growth: Growth) -> WidenedSystem:
        return widened(self, growth)

    def pack(self) -> PackedSystem:
        arrays = {"inverse": self.inverse} | {f"above.{number}": up for number, up in enumerate(self.tree.above)}
        for number, level in enumerate(self.levels):
            arrays |= {f"level{number}.{name}": array for name, array in vars(level).items()}
        return PackedSystem(TAG, {"levels": len(self.levels), "beam": self.beam}, arrays)

    @cached_property
    def usual(self) -> Usual:
        """Labels that the beam of a text does not come to have no score."""
        return Usual(np.zeros(self.tree.n_labels, np.float32), known=self.tree.n_labels)

    def reached(self, texts: TextVectors) -> Beams:
        """The labels that texts come to."""
        beams = at_root(len(texts))
        for number, level in enumerate(self.levels):
            last = number == len(self.levels) - 1
            beams = follow(
                texts, beams, level, self.tree.children(number), most=self.tree.n_labels if last else self.beam
            )
        return beams

    def weights_of(self, label: int, words: NDArray[np.integer]) -> NDArray[np.float64]:
        """What words weigh for a label: the sum over the nodes on its way."""
        way = [0, *(int(self.tree.to_level(number)[label]) for number in range(len(self.levels)))]
        steps = zip(self.levels, way, way[1:], strict=False)
        return np.sum([level.weights_of(above, node, words) for level, above, node in steps], axis=0)


@dataclass(frozen=True)
class XrLinearReading:
    """Scores of the labels that the beams of texts came to; all others have none."""

    system: XrLinearSystem
    documents: Documents

    @property
    def known(self) -> int:
        return self.system.tree.n_labels

    @cached_property
    def texts(self) -> TextVectors:
        """The texts as the classifiers see them."""
        return vectors_of(self.documents, self.system.inverse)

    @cached_property
    def text_scores(self) -> Sparse:
        found = self.system.reached(self.texts)
        return Sparse(Lists(found.nodes, found.starts), np.exp(found.scores).astype(np.float32), self.system.usual)

    @property
    def scores(self) -> NDArray[np.float32]:
        return self.text_scores.filled()

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        """What each word adds to what the classifiers on a label's way say, summed and shared by the word's places."""
        if explainer not in ("", CONTRIBUTION):
            raise InputError(f"linear models explain themselves by {CONTRIBUTION!r} only, not by {explainer!r}")
        words, values = self.texts.row(row)
        tokens = take(self.documents, np.array([row])).tokens
        at = np.searchsorted(words, tokens)
        known = np.append(words, -1)[at] == tokens
        counts = np.bincount(at[known], minlength=len(words))
        weights = np.zeros((len(labels), len(tokens)), np.float32)
        for place, label in enumerate(labels):
            weights[place, known] = (self.system.weights_of(label, words) * values / counts)[at[known]]
        return weights


def fit_xr_linear(
    view: TrainingView, recipe: schema.XrLinear, *, seed: int = 1, progress: Progress = silent
) -> XrLinearSystem:
    """Cluster labels, and fit the classifiers of each level from the top down."""
    inverse, texts = fitted_vectors(view)
    vectors = label_vectors(view, texts)
    tree = tree_over(vectors, branches=recipe.branches, smallest=recipe.smallest, seed=seed, section="xr_linear")
    rows, labels = owners(view.documents.label_starts), view.documents.labels
    levels, beams = list[LinearLevel](), at_root(len(texts))
    asked = Ragged(np.arange(len(texts)), np.array([0, len(texts)]))
    for number, size in enumerate(tree.sizes):
        nodes, below = tree.to_level(number)[labels], tree.children(number)
        own = texts_of(nodes, rows, size=(size, len(texts)))
        levels.append(_fit_level(texts, asked, own, below, recipe, seed=seed, progress=progress))
        asked = own
        if recipe.negatives == "followed" and number < len(tree.above):
            beams = follow(texts, beams, levels[-1], below, most=recipe.beam)
            passed = np.append(nodes, beams.nodes), np.append(rows, owners(beams.starts))
            asked = texts_of(*passed, size=(size, len(texts)))
    return XrLinearSystem(inverse, tree, tuple(levels), recipe.beam)


def texts_of(nodes: NDArray[np.int32], rows: NDArray[np.int64], *, size: tuple[int, int]) -> Ragged:
    """The texts of each node, rising, from pairs of nodes and texts; `size` says how many there are of both."""
    pairs = np.unique(nodes.astype(np.int64) * size[1] + rows)
    return Ragged(pairs % size[1], offsets(np.bincount(pairs // size[1], minlength=size[0])))


def _fit_level(
    texts: TextVectors,
    asked: Ragged,
    own: Ragged,
    below: Ragged,
    recipe: schema.XrLinear,
    *,
    seed: int,
    progress: Progress,
) -> LinearLevel:
    """The classifiers of a level: those of the nodes `below` a parent learn from the texts that it is `asked` for."""
    from plant.train.hinge import fit_hinge  # compiled: a fitted system does without

    parts, biases = list[ByWord](), np.empty(len(own), np.float32)
    for parent in range(len(below)):
        rows, children = asked.row(parent), below.row(parent)
        words, features = _compact(texts, rows)
        right = own.take(children)
        targets = csr_array(
            (np.ones(len(right.values), np.float32), np.searchsorted(rows, right.values), right.starts),
            shape=(len(children), len(rows)),
        ).T.tocsr()
        linear = fit_hinge(
            features, targets, cost=recipe.cost, prune=recipe.prune, tolerance=recipe.tolerance, seed=seed
        )
        biases[children] = np.maximum(linear.intercepts, NEVER)
        parts.append(_by_word(linear.weights, words, children))
        progress(f"XR-Linear: clusters of {len(own):,} nodes", parent + 1, len(below))
    known, counts, nodes, weights = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    starts = offsets([len(part[0]) for part in parts])
    return LinearLevel(starts, known, offsets(counts), nodes, weights, biases)


def _compact(texts: TextVectors, rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], csr_array]:
    """The words of some texts, rising, and the texts over these alone: what is small stays near the processor."""
    chosen = places(texts.starts, rows)
    words, columns = np.unique(texts.tokens[chosen.values], return_inverse=True)
    return words, csr_array((texts.values[chosen.values], columns, chosen.starts), shape=(len(rows), len(words)))


def _by_word(weights: csr_array, words: NDArray[np.int32], children: NDArray[np.int32]) -> ByWord:
    """The weights of some nodes turned around; words that no node weighs are left out."""
    turned = weights.tocsc()
    counts = np.diff(turned.indptr).astype(np.int64)
    kept = counts > 0
    return words[kept], counts[kept], children[turned.indices], turned.data


def unpack_xr_linear(packed: PackedSystem, known: Known) -> XrLinearSystem:
    """The system that `pack` took apart."""
    arrays = {name: np.array(array) for name, array in packed.arrays.items()}
    n_levels, beam = (check_count(name, packed.options[name]) for name in ("levels", "beam"))
    if not n_levels or not beam:
        raise ArtifactError("the XR-Linear model of the folder has no level or no beam: make it again")
    tree = LabelTree(tuple(arrays[f"above.{number}"] for number in range(n_levels - 1)), len(known.codes))
    check_tree(tree)
    names = [field.name for field in fields(LinearLevel)]
    levels = [LinearLevel(*(arrays[f"level{number}.{name}"] for name in names)) for number in range(n_levels)]
    for number, level in enumerate(levels):
        _check(level, tree.children(number), n_words=len(known.vocab))
    check_shape("inverse", arrays["inverse"], (len(known.vocab),))
    check_finite(arrays)
    return XrLinearSystem(arrays["inverse"], tree, tuple(levels), beam)


def _check(level: LinearLevel, below: Ragged, *, n_words: int) -> None:
    """Refuse what the compiled walk would follow out of its tables, and what it would not find."""
    n_nodes = len(below.values)
    check_starts("starts of words", level.starts, len(level.words), rows=len(below))
    check_numbers("words", level.words, n_words)
    check_starts("entries", level.entries, len(level.nodes), rows=len(level.words))
    check_numbers("nodes", level.nodes, n_nodes)
    check_shape("weights", level.weights, (len(level.nodes),))
    check_shape("biases", level.biases, (n_nodes,))
    above, parents = np.empty(n_nodes, np.int64), owners(level.starts)
    above[below.values] = owners(below.starts)
    ordered = bool((np.diff(parents * n_words + level.words) > 0).all())
    if not ordered or not np.array_equal(above[level.nodes], parents[owners(level.entries)]):
        raise ArtifactError("words and nodes of the folder are not those of the clusters above: make it again")
