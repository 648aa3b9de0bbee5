"""Preparing on disk: a corpus that was made from the same things is not made again."""

import hashlib
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from plant.data import store
from plant.data.roles import Plan
from plant.data.sources import open_source
from plant.data.sources.options import SourceOptions
from plant.recipe.schema import Recipe
from plant.stages.prepare import prepare
from plant.store.artifact import Manifest, check_replaceable, read_manifest
from plant.store.keeper import digest_of, unchanged
from plant.types import Progress, silent

READ_WHOLE = 64 << 20  # bytes: larger files are known by their size and time


@dataclass(frozen=True)
class Request:
    """What a run reads and how it parts the notes."""

    source: str
    options: SourceOptions = field(default_factory=SourceOptions)
    plan: Plan = field(default_factory=Plan)
    make_splits: str = "random"


@dataclass(frozen=True)
class Made:
    """An artifact that a stage left behind; `new` is false where it was there already."""

    manifest: Manifest
    new: bool


def prepare_once(request: Request, out: Path, recipe: Recipe, *, progress: Progress = silent) -> Made:
    """Prepare a corpus at `out` unless one of the same source, options and recipe is there."""
    section = {"request": asdict(request), "prepare": asdict(recipe.prepare)}
    inputs = inputs_of(request, recipe)
    if unchanged(out, store.KIND, inputs):
        return Made(read_manifest(out), new=False)
    check_replaceable(out, store.KIND)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as workspace:
        source = open_source(request.source, options=request.options, progress=progress)
        corpus = prepare(
            source,
            recipe,
            plan=request.plan,
            make_splits=request.make_splits,
            workspace=Path(workspace),
            progress=progress,
        )
        manifest = store.save_corpus(corpus, out, recipe=section, inputs=inputs, source=source)
    return Made(manifest, new=True)


def inputs_of(request: Request, recipe: Recipe) -> dict[str, str]:
    """All that decides what a prepared corpus holds."""
    section = {"request": asdict(request), "prepare": asdict(recipe.prepare)}
    options = request.options
    named = files_digest((options.codebook, options.codes_file, options.splits))
    return {"source": fingerprint(request.source), "request": digest_of(section), **named}


def recipe_inputs(recipe: Recipe, members: Sequence[Recipe]) -> dict[str, str]:
    """All that a recipe decides: its knobs, those of its members, and what the files hold that they name."""
    tables = {"members": digest_of([asdict(member) for member in members])} if recipe.members else {}
    return {"recipe": digest_of(asdict(recipe)), **tables, **recipe_files(members)}


def recipe_files(members: Sequence[Recipe]) -> dict[str, str]:
    """A digest of the files and folders that recipes name; nothing where they name none."""
    naming = [name for member in members for name in (member.naming.synonyms, member.naming.codes)]
    return files_digest([*naming, *(str(member.encoder.options.get("folder", "")) for member in members)])


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
