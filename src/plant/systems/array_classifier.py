"""A trained classifier that reads without torch, where its parts have a form of plain arrays.

Importing torch takes longer than all else that the prediction of a note takes. What such a form cannot do (other
explainers, further codes) it leaves to the classifier itself, which is then put together.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents
from plant.errors import ArtifactError
from plant.nn.host import plain_torch_asked
from plant.nn.reading.forms import ANY_SIZE, DECODERS, ENCODERS, ArrayDecoder, ArrayEncoder, Kept, Said
from plant.systems.system import FORMS, FittedSystem, Growth, PackedSystem, Reading, under
from plant.systems.widened import widened


@dataclass(frozen=True)
class ArrayReading:
    """What notes said; `whole` reads them again for explainers that want more than where labels looked."""

    said: Said
    whole: Callable[[], Reading]

    @cached_property
    def scores(self) -> NDArray[np.float32]:
        small = np.exp(-np.abs(self.said.logits))
        return (np.where(self.said.logits > 0, 1, small) / (1 + small)).astype(np.float32)

    @property
    def known(self) -> int:
        return self.said.logits.shape[1]

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        if explainer not in ("", "attention"):
            return self.whole().weigh(row, labels, explainer=explainer)
        return self.said.weigh(row, np.asarray(labels, np.int64)).astype(np.float32)


@dataclass(frozen=True)
class ArraySystem:
    """A classifier's parts as arrays, and how the classifier itself is had."""

    encoder: ArrayEncoder
    decoder: ArrayDecoder
    matches_names: bool
    unpack: Callable[[], FittedSystem]

    @property
    def takes_codes(self) -> bool:
        return self.matches_names

    @cached_property
    def whole(self) -> FittedSystem:
        """The classifier itself."""
        return self.unpack()

    def read(self, documents: Documents, *, evidence: bool = False) -> Reading:
        if plain_torch_asked():
            return self.whole.read(documents, evidence=evidence)
        notes = [documents.tokens_of(row) for row in range(len(documents))]
        return ArrayReading(self.decoder.read(notes, self.encoder), lambda: self.whole.read(documents, evidence=True))

    def unread(self, documents: Documents) -> int:
        return 0

    def quantized(self) -> FittedSystem:
        return self.whole.quantized()

    def with_codes(self, growth: Growth) -> FittedSystem:
        return self.whole.with_codes(growth) if self.takes_codes else widened(self, growth)

    def pack(self) -> PackedSystem:
        return self.whole.pack()


def array_system(
    packed: PackedSystem, unpack: Callable[[], FittedSystem], *, words: int, labels: int
) -> ArraySystem | None:
    """The system of a packed classifier, if its parts have such forms; `unpack` makes the classifier itself."""
    if FORMS not in packed.options:
        return None
    kept = {
        name: Kept(*(under(packed.arrays, place) for place in (f"weights.{name}.", "given.", f"constants.{name}.")))
        for name in ("encoder", "decoder")
    }
    forms = packed.options[FORMS]
    encoder = ENCODERS[forms["encoder"]["form"]](forms["encoder"], kept["encoder"])
    decoder = DECODERS[forms["decoder"]["form"]](forms["decoder"], kept["decoder"])
    fits = min(encoder.n_words, decoder.n_words) >= words and encoder.n_words in (words, sys.maxsize)
    if not fits or decoder.n_labels != labels or decoder.input_size not in (ANY_SIZE, encoder.size):
        raise ArtifactError("the arrays of the folder do not fit its words and codes, or one another: make it again")
    return ArraySystem(encoder, decoder, matches_names="names" in packed.options["given"], unpack=unpack)


def whole_system(system: FittedSystem) -> FittedSystem:
    """The classifier itself where a system reads by arrays; any other system as it is."""
    return system.whole if isinstance(system, ArraySystem) else system
