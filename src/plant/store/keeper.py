"""What is already made is not made again: stages in memory, or in the folder of a run."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from plant.store.artifact import check_replaceable, is_artifact, read_manifest

Thing = TypeVar("Thing")
Save = Callable[[Thing, Path, Mapping[str, str]], object]
Load = Callable[[Path], Thing]


class Keeper(Protocol):
    """Makes things once."""

    def once(
        self, name: str, inputs: Mapping[str, str], make: Callable[[], Thing], *, kind: str, save: Save[Thing],
        load: Load[Thing],
    ) -> Thing: ...  # fmt: skip

    def checkpoint(self, name: str, inputs: Mapping[str, str]) -> Path | None:
        """Where a long stage keeps its checkpoint; None: nowhere."""
        ...


@dataclass(frozen=True)
class InMemory:
    """Keeps nothing."""

    def once(
        self, name: str, inputs: Mapping[str, str], make: Callable[[], Thing], *, kind: str, save: Save[Thing],
        load: Load[Thing],
    ) -> Thing:  # fmt: skip
        return make()

    def checkpoint(self, name: str, inputs: Mapping[str, str]) -> Path | None:
        return None


@dataclass(frozen=True)
class InFolder:
    """Keeps each thing as an artifact; one that was made from the same inputs is opened instead of made again."""

    folder: Path
    told: Callable[[str, bool], None] = lambda name, new: None

    def once(
        self, name: str, inputs: Mapping[str, str], make: Callable[[], Thing], *, kind: str, save: Save[Thing],
        load: Load[Thing],
    ) -> Thing:  # fmt: skip
        path = self.folder / name
        if unchanged(path, kind, inputs):
            self.told(name, False)
            return load(path)
        check_replaceable(path, kind)  # before the work, not after it
        thing = make()
        save(thing, path, inputs)
        checkpoint = self.checkpoint(name, inputs)
        checkpoint.unlink(missing_ok=True)
        self.told(name, True)
        return thing

    def checkpoint(self, name: str, inputs: Mapping[str, str]) -> Path:
        """Where a stage with just these inputs keeps its checkpoint."""
        return self.folder / "checkpoints" / f"{named_by(name, inputs)}.safetensors"

    def drop_checkpoints(self) -> None:
        """Remove what is left of stages that are done."""
        shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)


@dataclass(frozen=True)
class Shared:
    """Keeps things for many runs, each under a name that tells its inputs; checkpoints stay with the run."""

    folder: Path
    run: InFolder

    def once(
        self, name: str, inputs: Mapping[str, str], make: Callable[[], Thing], *, kind: str, save: Save[Thing],
        load: Load[Thing],
    ) -> Thing:  # fmt: skip
        keeper = InFolder(self.folder, self.run.told)
        return keeper.once(named_by(name, inputs), inputs, make, kind=kind, save=save, load=load)

    def checkpoint(self, name: str, inputs: Mapping[str, str]) -> Path:
        return self.run.checkpoint(name, inputs)


def named_by(name: str, inputs: Mapping[str, str]) -> str:
    """A name that tells the inputs, so that what was made from others is not taken for it."""
    return f"{name}-{digest_of(dict(inputs))[:16]}"


def unchanged(path: Path, kind: str, inputs: Mapping[str, str]) -> bool:
    """Whether an artifact of that kind, made from just these inputs, lies at `path`."""
    return is_artifact(path, kind) and dict(read_manifest(path, kind).inputs) == dict(inputs)


def digest_of(content: Any) -> str:
    """A digest of plain nested data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=list).encode()).hexdigest()
