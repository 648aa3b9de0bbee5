"""What a training tells of itself, apart from torch: who only reads or logs it need not load that."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ClassifierEpoch:
    """What one epoch of training did; the measures are those of the choosing notes."""

    number: int
    phase: str
    loss: float
    measures: Mapping[str, float]
    seconds: float
