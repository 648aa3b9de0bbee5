"""Precision and recall over codes and all they belong to: the right chapter is better than nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook
from plant.evaluate.scores.lists import Lists, lists_of, taken


@dataclass(frozen=True)
class Closure:
    """For each label the numbers of itself and its ancestors; ancestors that are no label are numbered after them."""

    nodes: Lists
    n_nodes: int


@dataclass(frozen=True)
class HierarchicalCounts:
    """Distinct codes and ancestors of each document: in both sets, accepted, gold."""

    right: NDArray[np.float64]
    accepted: NDArray[np.float64]
    gold: NDArray[np.float64]


def closure_of(codes: Sequence[str], codebook: CodeBook) -> Closure:
    """Every code with its ancestors in the book."""
    number = {code: label for label, code in enumerate(codes)}
    rows = [
        [number.setdefault(node, len(number)) for node in (code, *codebook.ancestors(code))] for code in list(number)
    ]
    return Closure(lists_of(rows), len(number))


def hierarchical_counts(gold: Lists, accepted: Lists, closure: Closure) -> HierarchicalCounts:
    """Counts per document of the two sets, each grown by its ancestors."""
    gold_keys, accepted_keys = _grown(gold, closure), _grown(accepted, closure)
    shared = np.intersect1d(gold_keys, accepted_keys, assume_unique=True)
    right, found, wanted = (
        np.bincount(keys // closure.n_nodes, minlength=len(gold)).astype(np.float64)
        for keys in (shared, accepted_keys, gold_keys)
    )
    return HierarchicalCounts(right, found, wanted)


def _grown(lists: Lists, closure: Closure) -> NDArray[np.int64]:
    """Sorted distinct document x node numbers of the labels and their ancestors."""
    grown, _ = taken(closure.nodes, lists.labels)
    return np.unique(np.repeat(lists.documents, grown.lengths) * closure.n_nodes + grown.labels)
