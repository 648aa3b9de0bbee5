"""Wordings as a namer sees them: vectors, cosines with the taught names, and probabilities of the parts of codes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from plant.candidates.names import Namer
from plant.candidates.nearest import cosines
from plant.candidates.ridge import parts_probabilities
from plant.candidates.wording import Wording, Words, read_words, vectorise


@dataclass(frozen=True)
class WordingsRead:
    """Distinct wordings as both tables of names see them."""

    wordings: tuple[Wording, ...]
    words: Words
    cosine: NDArray[np.float32]  # with every taught name
    probabilities: NDArray[np.float32]  # of the values of the parts
    further_words: Words
    further_vectors: csr_array


def read_wordings(namer: Namer, wordings: tuple[Wording, ...]) -> WordingsRead:
    """Vectors, cosines and probabilities of parts."""
    words = read_words(namer.taught.vectors, wordings)
    further = read_words(namer.further.vectors, wordings, words.signs)
    cosine = cosines(namer.taught.index, vectorise(namer.taught.vectors, words))
    return WordingsRead(
        wordings=wordings,
        words=words,
        cosine=cosine,
        probabilities=parts_probabilities(namer.ridge, cosine, namer.values.starts, sharpness=namer.options.sharpness),
        further_words=further,
        further_vectors=vectorise(namer.further.vectors, further),
    )
