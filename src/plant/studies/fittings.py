"""One fit of a study, and what it cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True)
class Cost:
    """What one run took, all stages that it made itself together, and what it was made from."""

    minutes: float
    peak_megabytes: float
    parameters: int
    made_from: str = ""
    cpu_minutes: float = 0.0  # of all threads, in the attempt that ended well


@dataclass(frozen=True)
class Fitting:
    """One recipe with one seed, the folder of its run, what that is made from; a changed recipe has its own name."""

    recipe: str
    seed: int
    folder: Path
    made_from: str = ""
    variant: str = ""

    @property
    def name(self) -> str:
        return self.variant or self.recipe

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}"


def usual(costs: Sequence[Cost]) -> Cost:
    """Of several runs the median time, since the first one makes what they share, and the largest peak."""
    return Cost(
        median(cost.minutes for cost in costs),
        max(cost.peak_megabytes for cost in costs),
        costs[0].parameters,
        cpu_minutes=median(cost.cpu_minutes for cost in costs),
    )
