"""Artifacts: folders of a manifest, tensors and readable side files, written whole or not at all."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import plant
from plant.errors import ArtifactError, InputError
from plant.store.safetensors import Array, read_tensors, write_tensors

FORMAT = 1
MANIFEST, TENSORS = "manifest.json", "tensors.safetensors"


@dataclass(frozen=True)
class Manifest:
    """What an artifact is, what it was made from and by, and the digests of its files."""

    kind: str
    format: int
    plant_version: str
    recipe: Mapping[str, Any]
    inputs: Mapping[str, str]
    facts: Mapping[str, Any]
    files: Mapping[str, str]

    @property
    def digest(self) -> str:
        """One number for the whole content: equal digests, equal artifacts (whatever version wrote them)."""
        content = {"kind": self.kind, "format": self.format, "files": dict(self.files), "facts": dict(self.facts)}
        return hashlib.sha256(_json(content).encode()).hexdigest()


@dataclass(frozen=True)
class Artifact:
    """An opened artifact; its tensors are read-only maps of the file."""

    path: Path
    manifest: Manifest
    tensors: Mapping[str, Array] = field(repr=False)

    def text(self, name: str) -> str:
        """A readable side file."""
        return (self.path / name).read_text(encoding="utf-8")


def save_artifact(
    path: Path | str,
    kind: str,
    *,
    tensors: Mapping[str, Array],
    files: Mapping[str, str] | None = None,
    recipe: Mapping[str, Any] | None = None,
    inputs: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Manifest:
    """Write an artifact; an artifact of the same kind at `path` is replaced, anything else there is an error."""
    path = Path(path)
    check_replaceable(path, kind)
    with _folder_in_the_making(path) as folder:
        write_tensors(folder / TENSORS, tensors)
        for name, text in (files or {}).items():
            (folder / name).write_text(text, encoding="utf-8")
        digests = {name: _file_digest(folder / name) for name in sorted([TENSORS, *(files or {})])}
        manifest = Manifest(kind, FORMAT, plant.__version__, recipe or {}, inputs or {}, facts or {}, digests)
        (folder / MANIFEST).write_text(_json(asdict(manifest)), encoding="utf-8")
    return manifest


def open_artifact(path: Path | str, kind: str | None = None) -> Artifact:
    """Open an artifact after checking its kind, its format and the digest of every file."""
    path = Path(path)
    manifest = read_manifest(path, kind)
    for name, digest in manifest.files.items():
        if Path(name).name != name or (path / name).is_symlink() or not (path / name).is_file():
            raise ArtifactError(f"{path}: file {name!r} of the manifest is missing or not a plain file")
        if _file_digest(path / name) != digest:
            raise ArtifactError(f"{path}: {name} is damaged (its digest differs from the manifest's); make it again")
    return Artifact(path, manifest, read_tensors(path / TENSORS))


def read_manifest(path: Path | str, kind: str | None = None) -> Manifest:
    """The manifest alone, checked for kind and format."""
    path = Path(path)
    if not (path / MANIFEST).is_file():
        what = "is not an artifact of plant (no manifest.json)" if path.exists() else "does not exist"
        raise ArtifactError(f"{path} {what}" + (f"; expected a {kind}" if kind else ""))
    manifest = _parsed_manifest(path)
    if manifest.format > FORMAT:
        raise ArtifactError(f"{path} has format {manifest.format}, newer than {FORMAT}: update plant to read it")
    if kind is not None and manifest.kind != kind:
        raise ArtifactError(f"{path} is a {manifest.kind}, not a {kind}")
    return manifest


def is_artifact(path: Path | str, kind: str) -> bool:
    """Whether a whole artifact of that kind lies at `path`."""
    try:
        read_manifest(path, kind)
    except ArtifactError:
        return False
    return True


def check_replaceable(path: Path, kind: str) -> None:
    """Refuse a target that holds anything but an older artifact of the same kind."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise InputError(f"{path} exists and is not a folder: choose another --out")
    if path.is_dir() and any(path.iterdir()) and not is_artifact(path, kind):
        raise InputError(f"{path} exists with other content: choose another --out, or empty it")


@contextmanager
def atomic_file(path: Path | str) -> Iterator[Path]:
    """A temporary name beside `path` that takes its place when the block ends well, and vanishes otherwise."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _folder_in_the_making(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its place when the block ends well, and vanishes otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    try:
        yield folder
        folder.chmod(0o777 & ~_umask())
        for file in folder.iterdir():
            _sync(file)
        _sync(folder)
        _put_in_place(folder, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _put_in_place(folder: Path, path: Path) -> None:
    """Rename; an older artifact steps aside first, since a folder cannot replace a full one."""
    if path.exists():
        old = folder.with_name(folder.name + ".old")
        path.rename(old)
        folder.rename(path)
        shutil.rmtree(old)
    else:
        folder.rename(path)
    _sync(path.parent)


def _parsed_manifest(path: Path) -> Manifest:
    try:
        return Manifest(**json.loads((path / MANIFEST).read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ArtifactError(f"{path / MANIFEST} is damaged or was not written by plant") from error


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
