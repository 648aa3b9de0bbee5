"""What the labels of fitted notes have to do with each other: points of the code tree, and which stand together."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plant.codes.tree import code_tree
from plant.data.corpus import TrainingView
from plant.recipe.schema import Tree
from plant.steps.step import Step, Work, always
from plant.train.poincare import train_poincare


def label_pairs(view: TrainingView) -> NDArray[np.int64]:
    """Two labels, the smaller first, and how many fitted notes have both; a row for each pair that some note has."""
    n_labels = len(view.codes)
    numbers = np.concatenate([np.zeros(0, np.int64), *_pairs(view, n_labels)])
    pairs, counts = np.unique(numbers, return_counts=True)
    return np.stack([pairs // n_labels, pairs % n_labels, counts], axis=1)


def _pairs(view: TrainingView, n_labels: int) -> Iterator[NDArray[np.int64]]:
    for row in range(len(view.documents)):
        labels = view.documents.labels_of(row).astype(np.int64)
        one, other = np.triu_indices(len(labels), k=1)
        yield labels[one] * n_labels + labels[other]


def _hyperbolic(work: Work) -> NDArray[np.float32]:
    view, recipe = work["view"], work.section(Tree)
    tree = code_tree(view.codes, view.codebook)
    options = {name: getattr(recipe, name) for name in ("size", "epochs", "negatives", "learning_rate", "seed")}
    return train_poincare(tree, **options, progress=work.progress)[: len(view.codes)]


LABEL_PAIRS = Step("label-pairs", lambda work: label_pairs(work["view"]), always("view"))
HYPERBOLIC = Step("hyperbolic", _hyperbolic, always("view"), sections=("tree",))
