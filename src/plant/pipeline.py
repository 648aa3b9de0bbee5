"""Stages on disk: what is already there and made from the same things is not made again."""

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from plant.artifact import Manifest, check_replaceable, is_artifact, read_manifest
from plant.data import store
from plant.data.roles import Plan
from plant.data.sources import open_source
from plant.data.sources.options import SourceOptions
from plant.recipe import Recipe
from plant.stages.prepare import prepare
from plant.types import Progress, silent


@dataclass(frozen=True)
class Made:
    """An artifact that a stage left behind; `new` is false where it was there already."""

    manifest: Manifest
    new: bool


def prepare_once(
    source: str,
    out: Path,
    recipe: Recipe,
    *,
    options: SourceOptions,
    plan: Plan,
    make_splits: str = "random",
    progress: Progress = silent,
) -> Made:
    """Prepare a corpus at `out` unless one of the same source, options and recipe is there."""
    request = {"options": asdict(options), "plan": asdict(plan), "make_splits": make_splits, "seed": recipe.seed}
    section = {"request": request, "prepare": asdict(recipe.prepare)}
    inputs = {"source": fingerprint(source), "request": _digest(section)}
    if unchanged(out, store.KIND, inputs):
        return Made(read_manifest(out), new=False)
    check_replaceable(out, store.KIND)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as workspace:
        opened = open_source(source, options=options)
        corpus = prepare(
            opened, recipe, plan=plan, make_splits=make_splits, workspace=Path(workspace), progress=progress
        )
        manifest = store.save_corpus(corpus, out, recipe=section, inputs=inputs, source=opened)
    return Made(manifest, new=True)


def unchanged(path: Path, kind: str, inputs: Mapping[str, str]) -> bool:
    """Whether an artifact of that kind, made from just these inputs, lies at `path`."""
    return is_artifact(path, kind) and read_manifest(path, kind).inputs == dict(inputs)


def fingerprint(source: str) -> str:
    """A digest of what a source holds, by the names, sizes and times of its files; of its name where it is no file."""
    path = Path(source)
    files = sorted(path.rglob("*")) if path.is_dir() else [path] if path.is_file() else []
    stats = [(str(file.relative_to(path)), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return _digest([source if not files else "files", stats])


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
