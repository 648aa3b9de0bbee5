"""Pools: calls carried out in this process, in processes of this machine, or on the machines of a Ray cluster.

Where work runs changes no result. What goes to a worker is functions of the installed package, paths, numbers and other
plain values; what goes wrong there comes back as a kind and a sentence, never as a traceback with the values of a note.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from plant.errors import InputError

HERE, LOCAL = "", "local"


@dataclass(frozen=True)
class Call:
    """A function of the installed package and its first arguments: what a lambda would be, if it could travel."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def __call__(self, *further: Any) -> Any:
        return self.function(*self.arguments, *further)


@dataclass(frozen=True)
class Needs:
    """What one call takes; a worker that is lost is replaced, and its call made again so many times."""

    cpus: float = 1.0
    gpus: float = 0.0
    gigabytes: float = 1.0
    retries: int = 3
    setup: Call | None = None  # made once by each worker, and the first argument of its calls


PLAIN = Needs()


@runtime_checkable
class Pool(Protocol):
    """Carries out calls somewhere; results come as they are ready, each with the number of its item."""

    def each(self, work: Call, items: Sequence[Any], *, needs: Needs = PLAIN) -> Iterator[tuple[int, Any]]:
        """Call `work(item)` for every item, `work(made, item)` where workers have a setup."""
        ...

    def check_sees(self, *folders: Path) -> None:
        """Refuse folders that some machine of this pool does not see."""
        ...


@dataclass(frozen=True)
class Here:
    """One call after the other, in this process."""

    def each(self, work: Call, items: Sequence[Any], *, needs: Needs = PLAIN) -> Iterator[tuple[int, Any]]:
        made = () if needs.setup is None or not items else (needs.setup(),)
        for number, item in enumerate(items):
            yield number, work(*made, item)

    def check_sees(self, *folders: Path) -> None:
        """This process sees what it sees."""


def pool_of(address: str, *, workers: int | None = None) -> AbstractContextManager[Pool]:
    """The pool of an address: '' is this process, 'local' processes of this machine, anything else Ray.

    Ray's addresses are 'auto' (the cluster that runs here), 'host:port' and 'ray://host:port'.
    """
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers}: a number of at least 1")
    if address == HERE and workers is None:
        return nullcontext(Here())
    if address in (HERE, LOCAL):
        from plant.cluster.local import Local
        from plant.steps.processes import cores

        return nullcontext(Local(workers or cores()))
    from plant.cluster.on_ray import on_ray

    return on_ray(address, workers=workers)


def limit_threads(threads: int) -> None:
    """Let the libraries of a worker start so many threads, unless somebody said otherwise; before they are imported."""
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, str(threads))


@dataclass
class Losses:
    """How often workers were lost over each item."""

    most: int
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, number: int) -> None:
        """Count one more; an error where it is one too many."""
        self.counts[number] = self.counts.get(number, 0) + 1
        if self.counts[number] > self.most:
            raise InputError(
                f"{self.counts[number]} workers in a row were killed over the same part of the work "
                f"(number {number + 1}): is memory short? Take fewer --workers, or smaller parts"
            )
