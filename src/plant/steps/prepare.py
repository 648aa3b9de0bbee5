"""prepare: a source of notes becomes a corpus; one that was made from the same things is not made again."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from plant.data import store
from plant.data.builder import build_corpus
from plant.data.corpus import Corpus
from plant.data.notes import Source, checked
from plant.data.roles import Plan
from plant.data.sources import open_source
from plant.data.sources.options import SourceOptions
from plant.recipe.schema import Recipe
from plant.store.artifact import Manifest, check_apart, check_replaceable, made_folder, read_manifest
from plant.store.fingerprint import files_digest, fingerprint
from plant.store.keeper import digest_of, unchanged
from plant.store.temporary import temporary_folder
from plant.types import Progress, silent


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


def prepare(
    source: Source,
    recipe: Recipe,
    *,
    plan: Plan | None = None,
    make_splits: str = "random",
    workspace: Path | None = None,
    progress: Progress = silent,
) -> Corpus:
    """The corpus of a source; large arrays lie in files of `workspace`, which must outlive the corpus."""
    return build_corpus(
        checked(source.notes()),
        source.codebook,
        recipe.prepare,
        plan=plan,
        make_splits=make_splits,
        workspace=workspace,
        total=source.total,
        progress=progress,
    )


def prepare_once(request: Request, out: Path, recipe: Recipe, *, progress: Progress = silent) -> Made:
    """Prepare a corpus at `out` unless one of the same source, options and recipe is there."""
    section = {"request": asdict(request), "prepare": asdict(recipe.prepare)}
    inputs = inputs_of(request, recipe)
    if unchanged(out, store.KIND, inputs):
        return Made(read_manifest(out), new=False)
    check_replaceable(out, store.KIND)
    check_apart(out, [request.source])
    with made_folder(out.parent), temporary_folder(out) as workspace:
        source = open_source(request.source, options=request.options, progress=progress)
        corpus = prepare(
            source,
            recipe,
            plan=request.plan,
            make_splits=request.make_splits,
            workspace=workspace,
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
