"""What goes wrong on a worker, in a form that can travel: its kind and a sentence, no values of a note."""

import errno
import json
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import plant.errors
from plant.errors import PlantError, lacks_memory
from plant.store.artifact import atomic_file

BUG = "bug"


class WorkerError(RuntimeError):
    """A bug that showed on a worker: the kind of its error and where it was raised, without what it said."""


@dataclass(frozen=True)
class Told:
    """The result of a call, or why there is none."""

    result: Any = None
    kind: str = ""  # empty where all went well
    sentence: str = ""
    number: int = 0  # of an OSError
    file: str = ""

    @property
    def is_mendable(self) -> bool:
        """Whether a user can mend it, so that trying again would only say it again."""
        if self.kind == "OSError":  # of a file, or of what is printed; those of connections may pass
            return bool(self.file) or self.number in (errno.ENOSPC, errno.EPIPE)
        return self.kind == "MemoryError" or _kind_of(self.kind) is not None

    def value(self) -> Any:
        """The result; otherwise the error, raised here as it would have been without workers."""
        if not self.kind:
            return self.result
        if self.kind == "OSError":
            raise OSError(self.number, self.sentence, self.file or None)
        if self.kind == "MemoryError":
            raise MemoryError
        if self.kind == "KeyboardInterrupt":
            raise KeyboardInterrupt
        if kind := _kind_of(self.kind):
            raise kind(self.sentence)
        raise WorkerError(self.sentence)


def _kind_of(name: str) -> type[PlantError] | None:
    kind = getattr(plant.errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, PlantError) else None


def write_told(said: Told, path: Path) -> None:
    """Write down why there is no result, for who started this."""
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(asdict(replace(said, result=None))), encoding="utf-8")


def read_told(path: Path) -> Told:
    """What `write_told` wrote."""
    return Told(**json.loads(path.read_text(encoding="utf-8")))


def told(work: Callable[..., Any], *arguments: Any) -> Told:
    """Carry out a call; whatever goes wrong is told, not raised."""
    try:
        return Told(work(*arguments))
    except (Exception, KeyboardInterrupt) as error:
        return told_of(error)


def told_of(error: BaseException) -> Told:
    """An error as it travels: of a bug its kind and where it was raised, since what it says may quote a note."""
    if isinstance(error, PlantError):  # of the kinds that everybody knows, the nearest
        return Told(kind=next(filter(_kind_of, (kind.__name__ for kind in type(error).__mro__))), sentence=str(error))
    if isinstance(error, OSError):
        sentence = error.strerror or type(error).__name__
        return Told(None, "OSError", sentence, error.errno or 0, str(error.filename or ""))
    if isinstance(error, KeyboardInterrupt):
        return Told(kind="KeyboardInterrupt")
    if lacks_memory(error):
        return Told(kind="MemoryError")
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames)]
    return Told(kind=BUG, sentence=f"{type(error).__name__} on a worker, raised at " + " < ".join(places))
