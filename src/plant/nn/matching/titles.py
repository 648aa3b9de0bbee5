"""Names from titles alone, for decoders that are given nothing else."""

import numpy as np
from jaxtyping import Int
from torch import Tensor

from plant.nn.matching.names import Names
from plant.store.ragged import offsets
from plant.text.vocab import PADDING


def names_from(descriptions: Int[Tensor, "label word"], *, n_words: int) -> Names:
    """One name per label: its padded title; a label without a title has none."""
    numbers = descriptions.cpu().numpy()
    kept = numbers != PADDING
    lengths = kept.sum(1)
    named = np.flatnonzero(lengths)
    return Names(
        words=numbers[kept].astype(np.int32),
        starts=offsets(lengths[named]),
        labels=named.astype(np.int32),
        support=np.zeros(len(named), np.int32),
        log_odds=np.zeros(len(named), np.float32),
        n_trained=len(named),
        n_labels=len(numbers),
        n_words=n_words,
    )
