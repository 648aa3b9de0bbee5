"""One fit of a study: what it is fitted on, and what it cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from statistics import median

from plant.data.notes import Source
from plant.data.sources import open_source
from plant.data.sources.options import SourceOptions, option_of
from plant.errors import InputError
from plant.store.fingerprint import files_digest, fingerprint
from plant.store.keeper import digest_of

QUICK = (  # changes to recipes whose fits need only show that they run
    "fit.epochs=1", "fit.frozen_epochs=0", "fit.unfreezing_epochs=0", "rank.epochs=2", "rank.hidden=8",
    "pretrain.epochs=1", "pretrain.embedding=8", "pretrain.hidden=8", "pretrain.layers=2", "pretrain.batch=8",
    "masked.epochs=1", "vectors.epochs=1", "prepare.min_count=1",
)  # fmt: skip


@dataclass(frozen=True)
class Notes:
    """What is fitted on: a source, the options of `plant run` that say which notes are for what, and how to read it."""

    source: str
    options: tuple[str, ...] = ()
    read: SourceOptions = field(default_factory=SourceOptions)

    @property
    def words(self) -> list[str]:
        """All options of `plant run` that are not its recipe's."""
        usual = SourceOptions()
        told = {one.name: getattr(self.read, one.name) for one in fields(SourceOptions)}
        asked = {name: value for name, value in told.items() if value != getattr(usual, name)}
        return [*self.options, *(word for name, value in asked.items() for word in (option_of(name), str(value)))]

    @property
    def digest(self) -> str:
        """Of all that decides what is read."""
        files = files_digest((self.read.codebook, self.read.codes_file, self.read.splits))
        return digest_of([fingerprint(self.source), *self.words, *files.values()])

    def check(self) -> None:
        """Refuse a source that is not there."""
        if self.source != "demo" and not Path(self.source).exists():
            raise InputError(f"there is no file or folder {self.source!r} ('demo' is the embedded corpus)")

    def open(self) -> Source:
        return open_source(self.source, options=self.read)


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
