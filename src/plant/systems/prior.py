"""The frequency prior: the same codes for everybody."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plant.data.corpus import Documents, TrainingView
from plant.store.checks import check_length
from plant.systems.system import Growth, Known, PackedSystem
from plant.systems.widened import WidenedSystem, widened

TAG = "prior"


@dataclass(frozen=True)
class PriorReading:
    """Scores in which no word has a say."""

    scores: NDArray[np.float32]
    documents: Documents

    @property
    def known(self) -> int:
        return self.scores.shape[1]

    def weigh(self, row: int, labels: Sequence[int], *, explainer: str) -> NDArray[np.float32]:
        return np.zeros((len(labels), len(self.documents.tokens_of(row))), np.float32)


@dataclass(frozen=True)
class PriorSystem:
    """The share of fitted notes that have each code."""

    shares: NDArray[np.float32]

    matches_names = takes_codes = False

    def read(self, documents: Documents, *, evidence: bool = False) -> PriorReading:
        return PriorReading(np.tile(self.shares, (len(documents), 1)), documents)

    def unread(self, documents: Documents) -> int:
        return 0

    def quantized(self) -> "PriorSystem":
        return self

    def with_codes(self, growth: Growth) -> WidenedSystem:
        return widened(self, growth)

    def pack(self) -> PackedSystem:
        return PackedSystem(TAG, arrays={"shares": self.shares})


def fit_prior(view: TrainingView) -> PriorSystem:
    """Count the codes."""
    return PriorSystem(view.label_shares())


def unpack_prior(packed: PackedSystem, known: Known) -> PriorSystem:
    """The prior that `pack` took apart."""
    check_length("shares", packed.arrays["shares"], len(known.codes), finite=True)
    return PriorSystem(np.asarray(packed.arrays["shares"]))
