"""Artifacts: folders of a manifest, tensors and readable side files, written whole or not at all."""

import errno
import hashlib
import json
import os
import random
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import plant
from plant.errors import ArtifactError, InputError, quoted_path, reads_like_a_name
from plant.store.remote import Remote, address_of, is_remote, opened
from plant.store.safetensors import Array, joined_rows, read_tensors, write_tensors
from plant.store.temporary import OLD, cache_folder, temporary_file, temporary_folder

PLAIN, IN_PARTS = 1, 2  # formats: all arrays in one file; rows of some arrays in several
FORMAT = IN_PARTS  # the newest that this version reads
MANIFEST, TENSORS = "manifest.json", "tensors.safetensors"
PART = re.compile(r"tensors-\d{5}-of-\d{5}\.safetensors")
TRIES, PAUSE = 20, 0.02  # of writers of one folder that get in each other's way, and seconds between, at most
OTHERS_WERE_FIRST = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT)
UNFINISHED = "unfinished"  # an object beside those of an artifact whose manifest is not there yet
SEAL = "seal"  # of the manifest: a digest of all that it says; folders of earlier versions have none


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
    """An opened artifact; its tensors are read-only maps of the file, or put together from the files of their parts."""

    path: Path
    manifest: Manifest
    tensors: Mapping[str, Array] = field(repr=False)

    def text(self, name: str) -> str:
        """A readable side file, one of those whose digests were checked."""
        if name not in self.manifest.files:
            raise ArtifactError(f"{self.path} lacks {name}: it is damaged, or no {self.manifest.kind} of this version")
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ArtifactError(f"{self.path}: {name} is no UTF-8; make it again") from error

    def table(self, name: str) -> Any:
        """A side file of JSON."""
        try:
            return json.loads(self.text(name))
        except (ValueError, RecursionError) as error:
            raise ArtifactError(f"{self.path}: {name} is no JSON; make it again") from error


def save_artifact(
    path: Path | str,
    kind: str,
    *,
    tensors: Mapping[str, Array],
    files: Mapping[str, str] | None = None,
    recipe: Mapping[str, Any] | None = None,
    inputs: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
    beside: Mapping[str, str] | None = None,
    parts: Sequence[Path] = (),
) -> Manifest:
    """Write an artifact; an artifact of the same kind at `path` is replaced, anything else there is an error.

    What lies `beside` is for people alone: it may be changed later, and no digest speaks of it. `parts` are tensor
    files that others wrote, each with the next rows of the same further arrays: they are moved here.
    """
    path = Path(path)
    check_replaceable(path, kind)
    with _uploaded_folder(path) if is_remote(path) else _folder_in_the_making(path) as folder:
        write_tensors(folder / TENSORS, tensors)
        for name, text in {**(files or {}), **(beside or {})}.items():
            (folder / name).write_text(text, encoding="utf-8")
        names = _part_names(len(parts))
        for name, part in zip(names, parts, strict=True):
            shutil.move(part, folder / name)
        digests = {name: file_digest(folder / name) for name in sorted([TENSORS, *names, *(files or {})])}
        written_as = IN_PARTS if parts else PLAIN
        manifest = Manifest(kind, written_as, plant.__version__, recipe or {}, inputs or {}, facts or {}, digests)
        table = asdict(manifest)
        (folder / MANIFEST).write_text(_json({**table, SEAL: _seal(table)}), encoding="utf-8")
    return manifest


def open_artifact(path: Path | str, kind: str | None = None) -> Artifact:
    """Open an artifact after checking its kind, its format and the digest of every file; one of a store is copied."""
    path = local_artifact(path)
    manifest = read_manifest(path, kind)
    _check_digests(path, manifest)
    return Artifact(path, manifest, read_arrays(path, manifest))


def read_arrays(path: Path, manifest: Manifest) -> dict[str, Array]:
    """The arrays of an artifact, whose files are not checked."""
    found = read_tensors(path / TENSORS) if TENSORS in manifest.files else {}
    names = sorted(filter(PART.fullmatch, manifest.files))
    if names != _part_names(len(names)):
        raise ArtifactError(f"{path}: its manifest names some parts of its arrays and not others; make it again")
    parts = [read_tensors(path / name) for name in names]
    shapes = [{name: (array.dtype, array.shape[1:]) for name, array in part.items()} for part in parts]
    if any(shape != shapes[0] for shape in shapes) or any(not array.ndim for part in parts for array in part.values()):
        raise ArtifactError(f"{path}: the parts of its arrays do not belong together; make it again")
    return found | {name: joined_rows([part[name] for part in parts]) for name in (parts[0] if parts else ())}


def _part_names(count: int) -> list[str]:
    return [f"tensors-{number:05}-of-{count:05}.safetensors" for number in range(count)]


def _check_digests(path: Path, manifest: Manifest) -> None:
    for name, digest in manifest.files.items():
        if Path(name).name != name or (path / name).is_symlink() or not (path / name).is_file():
            raise ArtifactError(f"{path}: file {name!r} of the manifest is missing or not a plain file")
        if _digest_now(path / name) != digest:
            raise ArtifactError(f"{path}: {name} is damaged (its digest differs from the manifest's); make it again")


def read_manifest(path: Path | str, kind: str | None = None) -> Manifest:
    """The manifest alone, checked for kind and format."""
    expected = f"; expected a {kind}" if kind else ""
    if is_remote(path):
        with _copied_manifest(opened(path)) as copied:
            if copied is None:
                raise ArtifactError(f"{quoted_path(address_of(path))} is not an artifact of plant{expected}")
            manifest = _parsed_manifest(copied)
        path = address_of(path)
    else:
        path = Path(path)
        if not (path / MANIFEST).is_file():
            what = "is not an artifact of plant (no manifest.json)" if path.exists() else "does not exist"
            raise ArtifactError(f"{quoted_path(path)} {what}{expected}")
        manifest = _parsed_manifest(path)
    if kind is not None and manifest.kind != kind:
        own = manifest.kind if reads_like_a_name(manifest.kind) else "thing of no known kind"
        raise ArtifactError(f"{path} is a {own}, not a {kind}")
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
    if is_remote(path):
        names = opened(path).names()
        if names and UNFINISHED not in names and not is_artifact(path, kind):
            raise InputError(f"{address_of(path)} exists with other content: choose another place, or empty it")
        return
    if not path.is_symlink() and (path / MANIFEST).is_file():
        with suppress(_ReplacedError):  # by another writer of the same
            _parsed_manifest(path)  # a damaged one is told as such: nobody may lose what is not known
    if _is_no_folder(path):
        raise InputError(f"{path} exists and is not a folder: choose another place")
    if all(_holds_other(path, kind) for _ in range(3)):  # while another writer replaces it, it is gone for a moment
        raise InputError(f"{path} exists with other content: choose another place, or empty it")


def _is_no_folder(path: Path) -> bool:
    """Whether a link or a file stands there; by one look, since between two another writer may replace a folder."""
    try:
        return not stat.S_ISDIR(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _holds_other(path: Path, kind: str) -> bool:
    try:
        return path.is_dir() and any(path.iterdir()) and not is_artifact(path, kind)
    except FileNotFoundError:
        return False


@contextmanager
def atomic_file(path: Path | str) -> Iterator[Path]:
    """A temporary name beside `path` that takes its place when the block ends well, and vanishes otherwise."""
    with atomic_files([path]) as (temporary,):
        yield temporary


@contextmanager
def atomic_files(paths: Sequence[Path | str]) -> Iterator[list[Path]]:
    """Temporary names beside several files, which take their places together once all are written.

    What goes to an object store is written here first, and copied there when the block ends well.
    """
    if any(map(is_remote, paths)):
        with tempfile.TemporaryDirectory(prefix="plant-") as place:
            temporaries = [Path(place) / str(number) for number, _ in enumerate(paths)]
            yield temporaries
            for temporary, path in zip(temporaries, paths, strict=True):
                opened(path).put(temporary)
        return
    targets = [_file_to_write(Path(path)) for path in paths]
    with ExitStack() as stack:
        for folder in dict.fromkeys(target.parent for target in targets):
            stack.enter_context(made_folder(folder))
        temporaries = [stack.enter_context(temporary_file(target)) for target in targets]
        yield temporaries
        for temporary in temporaries:
            temporary.chmod(0o666 & ~_umask())
            _sync(temporary)
        for temporary, target in zip(temporaries, targets, strict=True):
            temporary.replace(target)
        for folder in dict.fromkeys(target.parent for target in targets):
            _sync(folder)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that takes the place of `path`, which is new or empty, when the block ends well."""
    if _is_no_folder(path):
        raise InputError(f"{quoted_path(path)} exists and is not a folder: choose another place")
    if path.is_dir() and any(path.iterdir()):
        raise InputError(f"{quoted_path(path)} exists with other content: choose another place, or empty it")
    with _folder_in_the_making(path) as folder:
        yield folder


@contextmanager
def made_folder(path: Path) -> Iterator[Path]:
    """A folder for output; where the block fails, the folders that were made for it and are empty go again."""
    if is_remote(path):  # where there are none
        yield path
        return
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield path
    except BaseException:
        for folder in missing:
            with suppress(OSError):  # something was written after all
                folder.rmdir()
        raise


def check_apart(out: Path | str, sources: Iterable[Path | str]) -> None:
    """Refuse output that would take the place of its own input, or would lie among the files of a corpus."""
    target = Path(os.path.realpath(out))
    for source in map(Path, sources):
        if is_remote(source) and is_remote(out) and f"{address_of(out)}/".startswith(f"{address_of(source)}/"):
            raise InputError(f"{address_of(out)} lies in {address_of(source)}, which is read: choose another place")
        place = Path(os.path.realpath(source))
        if place.is_dir() and place in (target, *target.parents):
            raise InputError(f"{quoted_path(out)} lies in {quoted_path(source)}, which is read: choose another place")
        if place == target and place.exists():
            raise InputError(
                f"{quoted_path(out)} is what is read: writing there would destroy it, choose another place"
            )


def _file_to_write(path: Path) -> Path:
    """Where a file is to be written: a link leads there, and only plain files are replaced."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise InputError(f"{quoted_path(path)} is no plain file: choose another name")
    return target


def local_artifact(path: Path | str) -> Path:
    """The folder of an artifact; one of an object store is copied to a cache, once for the same content."""
    if not is_remote(path):
        return Path(path)
    found, address = opened(path), address_of(path)
    with _copied_manifest(found) as copied:
        if copied is None:
            raise ArtifactError(f"{quoted_path(address)} is not an artifact of plant (no {MANIFEST})")
        manifest, place = _parsed_manifest(copied), cache_folder() / "artifacts" / file_digest(copied / MANIFEST)
        if not (place / MANIFEST).is_file():
            with _folder_in_the_making(place) as folder:
                for name in manifest.files:
                    if Path(name).name != name:
                        raise ArtifactError(f"{address}: file {name!r} of the manifest is not a plain file")
                    found.child(name).fetch(folder / name)
                shutil.copyfile(copied / MANIFEST, folder / MANIFEST)
                _check_digests(folder, manifest)
    return place


@contextmanager
def _copied_manifest(found: Remote) -> Iterator[Path | None]:
    """A folder with the manifest of an artifact in a store; None where there is none."""
    with tempfile.TemporaryDirectory(prefix="plant-") as folder:
        if not found.child(MANIFEST).is_file():
            yield None
            return
        found.child(MANIFEST).fetch(Path(folder) / MANIFEST)
        yield Path(folder)


@contextmanager
def _uploaded_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that is copied to an address when the block ends well."""
    with tempfile.TemporaryDirectory(prefix="plant-") as name:
        yield Path(name)
        upload_artifact(Path(name), path)


def upload_artifact(folder: Path, path: Path | str) -> None:
    """Copy an artifact to an object store, its manifest last: without one, nothing is there.

    One that holds the same is left; one that is replaced is gone while the new one comes.
    """
    found, mine = opened(path), (folder / MANIFEST).read_bytes()
    earlier = found.names()
    if MANIFEST in earlier and UNFINISHED not in earlier and found.child(MANIFEST).read() == mine:
        return
    names = sorted(file.name for file in folder.iterdir() if file.is_file() and file.name != MANIFEST)
    with tempfile.NamedTemporaryFile(prefix="plant-") as mark:
        found.child(UNFINISHED).put(Path(mark.name))
    found.child(MANIFEST).delete()
    for name in names:
        found.child(name).put(folder / name)
    for name in set(earlier) - {*names, MANIFEST, UNFINISHED}:
        found.child(name).delete()
    found.child(MANIFEST).put(folder / MANIFEST)
    found.child(UNFINISHED).delete()


@contextmanager
def _folder_in_the_making(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its place when the block ends well, and vanishes otherwise."""
    with made_folder(path.parent), temporary_folder(path) as folder:
        yield folder
        folder.chmod(0o777 & ~_umask())
        for file in folder.iterdir():
            _sync(file)
        _sync(folder)
        _put_in_place(folder, path)


def _put_in_place(folder: Path, path: Path) -> None:
    """Let a folder take the place of another, unless that holds just the same: another writer was first.

    Who reads an artifact that several write then never finds it gone.
    """
    for _ in range(TRIES):
        if _holds_the_same(folder, path) or _has_moved(folder, path):
            return _sync(path.parent)
        time.sleep(random.uniform(0, PAUSE))
    raise InputError(f"{path} is written by others all the time: choose another place")


def _has_moved(folder: Path, path: Path) -> bool:
    """Rename, the older folder stepping aside since a folder cannot replace a full one; False: others did the same."""
    old = folder.with_name(folder.name + OLD)
    try:
        if path.exists():
            path.rename(old)
        folder.rename(path)
    except OSError as error:
        _step_back(old, path)
        if error.errno not in OTHERS_WERE_FIRST or not folder.exists():
            raise
        return False
    finally:
        shutil.rmtree(old, ignore_errors=True)
    return True


def _step_back(old: Path, path: Path) -> None:
    """Let the older folder return, unless somebody took its place or nothing had stepped aside."""
    try:
        old.rename(path)
    except OSError as error:
        if error.errno not in OTHERS_WERE_FIRST:
            raise


def _holds_the_same(folder: Path, path: Path) -> bool:
    """Whether every file of two folders is the same; the manifests are compared first, which tells most apart."""
    try:
        names = sorted(file.name for file in folder.iterdir())
        if MANIFEST not in names or (path / MANIFEST).read_bytes() != (folder / MANIFEST).read_bytes():
            return False
        if sorted(file.name for file in path.iterdir()) != names:
            return False
        return all(file_digest(path / name) == file_digest(folder / name) for name in names)
    except OSError:  # there is none, or it is about to be replaced
        return False


class _ReplacedError(ArtifactError):
    """A manifest was there and then was not."""


def _parsed_manifest(path: Path) -> Manifest:
    damaged = f"{path / MANIFEST} is damaged or was not written by plant: delete the folder and make it again"
    try:
        table = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        _check_format(path, table.get("format"))  # a newer manifest may say more than we know
        seal = table.pop(SEAL, None)
        manifest = Manifest(**table)
    except FileNotFoundError as error:
        raise _ReplacedError(f"{quoted_path(path)} is being replaced: try again") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(damaged) from error
    if not _is_plain(manifest) or not manifest.files or seal not in (None, _seal(table)):
        raise ArtifactError(damaged)
    return manifest


def _check_format(path: Path, number: Any) -> None:
    if isinstance(number, int) and number > FORMAT:
        raise ArtifactError(f"{path} has format {number:,}, newer than {FORMAT}: update plant to read it")


def _is_plain(manifest: Manifest) -> bool:
    """Whether all that a manifest says is of its kind."""
    texts = [manifest.kind, manifest.plant_version, *_texts(manifest)]
    tables = (manifest.recipe, manifest.inputs, manifest.facts, manifest.files)
    whole = isinstance(manifest.format, int) and not isinstance(manifest.format, bool) and manifest.format >= PLAIN
    return whole and all(isinstance(table, dict) for table in tables) and all(isinstance(text, str) for text in texts)


def _texts(manifest: Manifest) -> list[Any]:
    """What must be strings in the tables of a manifest."""
    tables = [table for table in (manifest.files, manifest.inputs) if isinstance(table, dict)]
    return [text for table in tables for pair in table.items() for text in pair]


def _seal(table: Mapping[str, Any]) -> str:
    return hashlib.sha256(_json(table).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """A digest of what a file holds."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_now(path: Path) -> str:
    """The digest of a file of an artifact; none where another writer has just replaced it."""
    with suppress(FileNotFoundError):
        return file_digest(path)
    return ""


def _json(content: Any) -> str:
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    # a file name or an option whose bytes are no UTF-8 has lone surrogates, which JSON can only spell out
    return text if text.isascii() or _encodes(text) else json.dumps(content, indent=2, sort_keys=True) + "\n"


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
