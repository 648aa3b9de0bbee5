"""AttentionXML's trees: a network for each level, which looks for what lies below the best nodes of the level above.

You et al. 2019. The probability of a label is the product of those on its way down. Labels that no text comes down to
have none; several trees are averaged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from plant.data.collate import collate
from plant.data.corpus import Documents
from plant.data.label_tree import LabelTree, check_tree
from plant.errors import InputError
from plant.evaluate.scores.of_texts import Sparse, Usual, sparse_of
from plant.nn.asked import padded, scores_of
from plant.nn.parts.protocols import AskedDecoder
from plant.systems.classifier import ClassifierSystem, unpack_classifier
from plant.systems.system import Growth, Known, PackedSystem
from plant.systems.widened import WidenedSystem, widened

TAG = "label-tree"
ATTENTION = "attention"
Found = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Nodes of a document, rising, and their probabilities."""


@dataclass(frozen=True)
class TreeOfNetworks:
    """A tree and the networks of its first levels; all of them once it is fitted."""

    tree: LabelTree
    levels: tuple[ClassifierSystem, ...]
    beam: int

    @torch.no_grad()
    def descend(self, documents: Documents) -> list[Found]:
        """The nodes that each document comes down to on the last level that has a network."""
        everything = np.arange(self.tree.sizes[0], dtype=np.int32)
        found = [(everything, np.ones(len(everything), np.float32))] * len(documents)
        for level, network in enumerate(self.levels):
            asked = found if not level else [self._next(level - 1, own) for own in found]
            found = _multiplied(network, documents, asked)
        return found

    def candidates(self, found: Found, level: int, *, first: NDArray[np.int32]) -> NDArray[np.int32]:
        """What lies below some nodes that come first, and below the best others, as many as the beam is wide."""
        nodes, scores = found
        order = nodes[np.argsort(-scores, kind="stable")]
        others = order[~np.isin(order, first)][: max(0, self.beam - len(first))]
        return self.tree.below(level, np.sort(np.concatenate([first, others])))

    def _next(self, level: int, found: Found) -> Found:
        """What lies below the best nodes of a level, each with the probability of the node above it."""
        nodes, scores = found
        kept = np.sort(np.argsort(-scores, kind="stable")[: self.beam])
        below = self.tree.below(level, nodes[kept])
        return below, scores[kept][np.searchsorted(nodes[kept], self.tree.above[level][below])]


def _multiplied(network: ClassifierSystem, documents: Documents, asked: Sequence[Found]) -> list[Found]:
    """The nodes that were asked for, with what the network makes of the probabilities above them."""
    classifier = network.classifier.eval()
    batch = collate(classifier.readable(documents), range(len(documents))).to(network.device)
    nodes, _ = padded([own for own, _ in asked])
    logits = scores_of(classifier, classifier.encode(batch), nodes.to(network.device))
    chances = logits.sigmoid().cpu().numpy()
    return [(own, before * chances[row, : len(own)]) for row, (own, before) in enumerate(asked)]


@dataclass(frozen=True)
class LabelTreeReading:
    """The labels that some documents came down to."""

    system: "LabelTreeSystem"
    documents: Documents

    @property
    def known(self) -> int:
        return self.system.n_labels

    @cached_property
    def text_scores(self) -> Sparse:
        every = [tree.descend(self.documents) for tree in self.system.trees]
        return sparse_of([_mean(found) for found in zip(*every, strict=True)], self.system.usual)

    @property
    def scores(self) -> NDArray[np.float32]:
        return self.text_scores.filled()

    @torch.no_grad()
    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        """Where labels look, on the mean over trees."""
        if explainer not in ("", ATTENTION):
            raise InputError(f"label trees are explained by {ATTENTION!r} only, not by {explainer!r}")
        networks = [tree.levels[-1] for tree in self.system.trees]
        found = [self._looks(network, row, labels) for network in networks]
        return np.mean(found, axis=0, dtype=np.float32)

    def _looks(self, network: ClassifierSystem, row: int, labels: Sequence[int]) -> NDArray[np.float32]:
        classifier = network.classifier.eval()
        batch = collate(classifier.readable(self.documents), [row]).to(network.device)
        asked = torch.tensor(list(labels), device=network.device)
        length = int(self.documents.token_starts[row + 1] - self.documents.token_starts[row])
        assert isinstance(classifier.decoder, AskedDecoder)  # or the recipe was not checked
        looks = classifier.decoder.attend(classifier.encode(batch), asked)
        found: NDArray[np.float32] = looks[0, :, :length].float().cpu().numpy()
        return found


@dataclass(frozen=True)
class LabelTreeSystem:
    """One or several trees of networks."""

    trees: tuple[TreeOfNetworks, ...]
    n_labels: int

    matches_names = takes_codes = False

    def read(self, documents: Documents, *, evidence: bool = False) -> LabelTreeReading:
        return LabelTreeReading(self, documents)

    @cached_property
    def usual(self) -> Usual:
        """Labels that a document does not come down to have no score."""
        return Usual(np.zeros(self.n_labels, np.float32), known=self.n_labels)

    def unread(self, documents: Documents) -> int:
        return 0

    def quantized(self) -> "LabelTreeSystem":
        return self

    def with_codes(self, growth: Growth) -> WidenedSystem:
        return widened(self, growth)

    def pack(self) -> PackedSystem:
        arrays = {
            f"above.{number}.{level}": up
            for number, tree in enumerate(self.trees)
            for level, up in enumerate(tree.tree.above)
        }
        parts = tuple(network.pack() for tree in self.trees for network in tree.levels)
        options = {"levels": [len(tree.levels) for tree in self.trees], "beam": self.trees[0].beam}
        return PackedSystem(TAG, options, arrays, parts)


def _mean(found: Sequence[Found]) -> Found:
    """The mean of what trees say; a label that one of them does not come down to has no probability there."""
    labels = np.unique(np.concatenate([own for own, _ in found]))
    total = np.zeros(len(labels), np.float32)
    for own, scores in found:
        total[np.searchsorted(labels, own)] += scores / len(found)
    return labels, total


def nodes_of(known: Known, tree: LabelTree, level: int) -> Known:
    """What the network of a level knows: nodes in the place of codes, but for the last."""
    if level == len(tree.sizes) - 1:
        return known
    return Known(known.vocab, tuple(f"node {number}" for number in range(tree.sizes[level])), known.codebook)


def unpack_label_tree(packed: PackedSystem, known: Known) -> LabelTreeSystem:
    """The system that `pack` took apart."""
    trees, first = [], 0
    for number, levels in enumerate(packed.options["levels"]):
        above = tuple(np.array(packed.arrays[f"above.{number}.{level}"]) for level in range(levels - 1))
        tree = LabelTree(above, len(known.codes))
        check_tree(tree)
        parts = packed.parts[first : first + levels]
        own = [unpack_classifier(part, nodes_of(known, tree, level)) for level, part in enumerate(parts)]
        trees.append(TreeOfNetworks(tree, tuple(own), packed.options["beam"]))
        first += levels
    return LabelTreeSystem(tuple(trees), len(known.codes))
