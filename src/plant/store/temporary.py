"""Temporary names beside what is written; they tell who writes, so that those of killed writers can be swept."""

import hashlib
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from plant.errors import InputError
from plant.store.remote import address_of, is_remote

OLD = ".old"  # what steps aside for a folder that takes its place
FORGOTTEN = 24 * 3600.0  # seconds without a change after which a writer of another machine is taken for dead
WRITER = re.compile(r"\.(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-[^.]+\.tmp(\.[a-z]+)?")
TEMPORARY = re.compile(r"\..+\.tmp(\.[a-z]+)?")


@contextmanager
def temporary_file(target: Path) -> Iterator[Path]:
    """An empty file beside `target`, which is gone when the block ends unless it was moved."""
    check_here(target)
    sweep(target)
    handle, name = tempfile.mkstemp(prefix=_prefix(target), suffix=".tmp", dir=target.parent)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """An empty folder beside `target`, which is gone with all it holds when the block ends unless it was moved."""
    check_here(target)
    sweep(target)
    folder = Path(tempfile.mkdtemp(prefix=_prefix(target), suffix=".tmp", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_here(target: Path) -> None:
    """Refuse an object store where files grow in place: its objects cannot, and a path would be a folder `s3:`."""
    if is_remote(target):
        raise InputError(
            f"{address_of(target)}: this command works in folders of this machine, copy what it made there"
        )


def cache_folder() -> Path:
    """Where what can be made or copied again is kept: $PLANT_CACHE, by itself the user's."""
    named = os.environ.get("PLANT_CACHE", "")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plant"


def sweep(target: Path) -> None:
    """Remove what killed writers of `target` left beside it; what somebody may still be writing stays."""
    with suppress(FileNotFoundError), os.scandir(target.parent) as entries:
        for entry in list(entries):
            left = entry.name.startswith(f".{target.name}.") and TEMPORARY.fullmatch(entry.name)
            if left and _is_abandoned(Path(entry.path)):
                _remove(Path(entry.path))


def _prefix(target: Path) -> str:
    """Hidden; what stands beside a temporary file keeps its name, so that it is swept with that."""
    name = target.name if TEMPORARY.fullmatch(target.name) else f".{target.name}"
    return f"{name}.{_machine()}-{os.getpid()}-"


@cache
def _machine() -> str:
    """This machine since it was started, as far as numbers of processes mean the same: containers have their own."""
    try:
        told = Path("/proc/sys/kernel/random/boot_id").read_text() + os.readlink("/proc/self/ns/pid")
    except OSError:  # no Linux
        told = platform.node()
    return hashlib.sha256(told.encode()).hexdigest()[:8]


def _is_abandoned(path: Path) -> bool:
    writer = WRITER.search(path.name)
    if writer and writer["machine"] == _machine():
        return not _is_alive(int(writer["process"]))
    return time.time() - _last_change(path) > FORGOTTEN


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _last_change(path: Path) -> float:
    """When a file, or anything in a folder, was last written; now, where it is gone meanwhile."""
    try:
        inside = list(path.iterdir()) if path.is_dir() and not path.is_symlink() else []
        return max(one.lstat().st_mtime for one in (path, *inside))
    except FileNotFoundError:
        return time.time()


def _remove(path: Path) -> None:
    """Whoever else sweeps may be faster."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
