"""Where compiled kernels are kept: beside the package, in the user's cache, or else in a folder of their own.

Numba keeps what it compiled beside the source or in the user's cache folder, and refuses to start where it can write to
neither, as in a read-only install without a home. Then a folder for temporary files does.
"""

import os
from collections.abc import MutableMapping
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"
PACKAGE = Path(__file__).parent
ROOMS = ("text", "relevance", "train", "nn/planting", "nn/matching", "nn/language", "systems", "candidates")


def find_room(environment: MutableMapping[str, str], *, package: Path = PACKAGE) -> None:
    """Name a folder for compiled kernels where numba would find none; must come before numba is imported."""
    if VARIABLE not in environment and not _writable(package / "text") and not _writable(user_cache(environment)):
        environment[VARIABLE] = str(_own_folder())


def are_kept(environment: MutableMapping[str, str], *, package: Path = PACKAGE) -> bool:
    """Whether kernels were compiled on this machine before."""
    beside = [package / room / "__pycache__" for room in ROOMS]
    elsewhere = [Path(environment[VARIABLE])] if VARIABLE in environment else [user_cache(environment) / "numba"]
    return any(folder.is_dir() and next(folder.rglob("*.nbi"), None) for folder in [*beside, *elsewhere])


def user_cache(environment: MutableMapping[str, str]) -> Path:
    """The folder of the user's caches."""
    return Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache")


def _writable(folder: Path) -> bool:
    """Whether files can be made in a folder, or in the nearest one above it that is there."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _own_folder() -> Path:
    """A folder that nobody else can write: the same one next time where it can be trusted, or else a fresh one.

    What lies in it is run, so that a folder that somebody else made will not do.
    """
    import atexit  # rarely needed, and `import plant` is to be quick
    import shutil
    import stat
    import tempfile

    folder = Path(tempfile.gettempdir()) / f"plant-kernels-{os.getuid()}"
    if not folder.is_symlink():
        folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
        return folder
    fresh = Path(tempfile.mkdtemp(prefix="plant-kernels-"))
    atexit.register(shutil.rmtree, fresh, ignore_errors=True)
    return fresh
