"""What is already made is not made again: things in memory, or in the folder of a run."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from plant.errors import ArtifactError
from plant.store.artifact import Manifest, check_replaceable, is_artifact, read_manifest

LOOK = 0.5  # seconds between looks for what another process makes
Thing = TypeVar("Thing")
Notify = Callable[[str, bool], None]
"""Called as `notify(name, new)` when a thing is there; `new` says whether it was made just now."""


def unheard(name: str, new: bool) -> None:
    """A `Notify` that tells nobody."""


@runtime_checkable
class Save(Protocol[Thing]):
    """Writes a thing as an artifact; its manifest keeps `recipe` and `inputs`."""

    def __call__(self, thing: Thing, path: Path, /, *, recipe: Mapping[str, Any], inputs: Mapping[str, str]) -> Any: ...


@dataclass(frozen=True)
class Kind(Generic[Thing]):
    """How things of one kind lie on disk."""

    name: str
    save: Save[Thing]
    load: Callable[[Path], Thing]


@dataclass(frozen=True)
class Origin:
    """What a thing is made from: digests of other things and of knobs, and those knobs for people to read."""

    inputs: Mapping[str, str]
    recipe: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """One number for all inputs: things with the same key are the same."""
        return digest_of(dict(self.inputs))


@runtime_checkable
class Keeper(Protocol):
    """Makes things once."""

    def once(self, name: str, origin: Origin, make: Callable[[], Thing], kind: Kind[Thing]) -> Thing:
        """The thing of that name and origin: opened where it is kept, else made (and kept)."""
        ...

    def has(self, name: str, origin: Origin, kind: Kind[Thing]) -> bool:
        """Whether a thing of that name and origin is kept already."""
        ...

    def checkpoint(self, name: str, origin: Origin) -> Path | None:
        """Where long work keeps its checkpoint; None: nowhere."""
        ...


@dataclass(frozen=True)
class InMemory:
    """Keeps nothing."""

    def once(self, name: str, origin: Origin, make: Callable[[], Thing], kind: Kind[Thing]) -> Thing:
        return make()

    def has(self, name: str, origin: Origin, kind: Kind[Thing]) -> bool:
        return False

    def checkpoint(self, name: str, origin: Origin) -> Path | None:
        return None


@dataclass(frozen=True)
class InFolder:
    """Keeps each thing as an artifact; one that was made from the same inputs is opened instead of made again."""

    folder: Path
    notify: Notify = unheard

    def once(self, name: str, origin: Origin, make: Callable[[], Thing], kind: Kind[Thing]) -> Thing:
        path = self.folder / name
        if self.has(name, origin, kind):
            with suppress(ArtifactError):  # damaged: what it was made from is at hand, so it is made again
                thing = kind.load(path)
                self.notify(name, False)
                return thing
        check_replaceable(path, kind.name)  # before the work, not after it
        thing = make()
        kind.save(thing, path, recipe=origin.recipe, inputs=origin.inputs)
        self.checkpoint(name, origin).unlink(missing_ok=True)
        self.notify(name, True)
        return thing

    def has(self, name: str, origin: Origin, kind: Kind[Thing]) -> bool:
        return unchanged(self.folder / name, kind.name, origin.inputs)

    @property
    def rooms(self) -> Path:
        """Where work in progress is kept."""
        return self.folder / "checkpoints"

    def checkpoint(self, name: str, origin: Origin) -> Path:
        """Where work on a thing of just this origin keeps its checkpoint."""
        return self.rooms / f"{named_by(name, origin.inputs)}.safetensors"

    def drop_checkpoints(self) -> None:
        """Remove what is left of work that is done."""
        shutil.rmtree(self.rooms, ignore_errors=True)


@dataclass(frozen=True)
class Shared:
    """Keeps things for many runs, each under a name that tells its inputs; checkpoints, and its `own`, with the run."""

    folder: Path
    run: InFolder
    own: tuple[str, ...] = ()

    def once(self, name: str, origin: Origin, make: Callable[[], Thing], kind: Kind[Thing]) -> Thing:
        if name in self.own:
            return self.run.once(name, origin, make, kind)
        return InFolder(self.folder, self.run.notify).once(named_by(name, origin.inputs), origin, make, kind)

    def has(self, name: str, origin: Origin, kind: Kind[Thing]) -> bool:
        if name in self.own:
            return self.run.has(name, origin, kind)
        return InFolder(self.folder).has(named_by(name, origin.inputs), origin, kind)

    def checkpoint(self, name: str, origin: Origin) -> Path:
        return self.run.checkpoint(name, origin)


@dataclass(frozen=True)
class Following:
    """Keeps nothing: a process that helps another waits for what that one keeps, and makes only what it helps with."""

    leader: Keeper
    helps: tuple[str, ...]

    def once(self, name: str, origin: Origin, make: Callable[[], Thing], kind: Kind[Thing]) -> Thing:
        if name in self.helps and not self.leader.has(name, origin, kind):
            return make()
        while not self.leader.has(name, origin, kind):
            time.sleep(LOOK)
        return self.leader.once(name, origin, make, kind)

    def has(self, name: str, origin: Origin, kind: Kind[Thing]) -> bool:
        return self.leader.has(name, origin, kind)

    def checkpoint(self, name: str, origin: Origin) -> Path | None:
        return self.leader.checkpoint(name, origin)


def named_by(name: str, inputs: Mapping[str, str]) -> str:
    """A name that tells the inputs, so that what was made from others is not taken for it."""
    return f"{name}-{digest_of(dict(inputs))[:16]}"


def unchanged(path: Path, kind: str, inputs: Mapping[str, str]) -> bool:
    """Whether an artifact of that kind, made from just these inputs, lies at `path`."""
    return is_artifact(path, kind) and dict(read_manifest(path, kind).inputs) == dict(inputs)


def key_of(manifest: Manifest) -> str:
    """The key of an artifact; where nothing says what it was made from, a digest of what it holds."""
    return Origin(manifest.inputs).key if manifest.inputs else manifest.digest


def digest_of(content: Any) -> str:
    """A digest of plain nested data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=list).encode()).hexdigest()
