"""The tree that codes hang in: themselves, and all that they belong to."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from plant.codes.codebook import CodeBook


@dataclass(frozen=True)
class CodeTree:
    """Codes in their order, then what they belong to; `parents` numbers the parent of each, -1 where it has none."""

    nodes: tuple[str, ...]
    parents: NDArray[np.int64]


def code_tree(codes: Sequence[str], codebook: CodeBook) -> CodeTree:
    """The tree of some codes and their ancestors.

    >>> code_tree(["A1", "A2"], CodeBook("other", ("A1", "A2"), parents={"A1": "A", "A2": "A"})).parents.tolist()
    [2, 2, -1]
    """
    paths = [(code, *codebook.ancestors(code)) for code in codes]
    nodes = tuple(dict.fromkeys((*codes, *(node for path in paths for node in path))))
    number = {node: place for place, node in enumerate(nodes)}
    parents = np.full(len(nodes), -1, np.int64)
    for path in paths:
        for node, parent in pairwise(path):
            parents[number[node]] = number[parent]
    return CodeTree(nodes, parents)
