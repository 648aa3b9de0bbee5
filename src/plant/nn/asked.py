"""Some labels of each document, in the place of all."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from plant.nn.classifier import Classifier
from plant.nn.parts.protocols import AskedDecoder
from plant.tensors import Encoded


def padded(nodes: Sequence[NDArray[np.int32]]) -> tuple[Int[Tensor, "batch asked"], Bool[Tensor, "batch asked"]]:
    """Nodes of each document side by side, the first node where a document has fewer; and where they are real."""
    shape = (len(nodes), max((len(own) for own in nodes), default=0))
    found, mask = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.bool)
    for row, own in enumerate(nodes):
        found[row, : len(own)], mask[row, : len(own)] = torch.from_numpy(own.astype(np.int64)), True
    return found, mask


def scores_of(
    classifier: Classifier, encoded: Encoded, labels: Int[Tensor, "batch asked"]
) -> Float[Tensor, "batch asked"]:
    """The logits of some labels of each document."""
    assert isinstance(classifier.decoder, AskedDecoder)  # or the recipe was not checked
    return classifier.decoder.score(encoded, labels)
