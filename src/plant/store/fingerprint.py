"""Digests of what files and folders hold."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from plant.store.keeper import digest_of

READ_WHOLE = 64 << 20  # bytes: larger files are known by their size and time


def files_digest(names: Iterable[str]) -> dict[str, str]:
    """A digest of what files hold, as a further input; none where no file is named."""
    named = [fingerprint(name) if name else "" for name in names]
    return {"files": digest_of(named)} if any(named) else {}


def fingerprint(source: str) -> str:
    """A digest of what the files of a source hold, so that a copy is the same source; of its name where it is none."""
    path = Path(source)
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    files = [(str(file.relative_to(path)), _contents(file)) for file in found if file.is_file()]
    return digest_of([source if not files else "files", files])


def _contents(file: Path) -> str:
    """What a file holds; of a large one, which would take long to read every time, its size and time."""
    about = file.stat()
    if about.st_size > READ_WHOLE:
        return f"{about.st_size} {about.st_mtime_ns}"
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
