"""prepare: a source of notes becomes a corpus; one that was made from the same things is not made again."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from plant.data import store
from plant.data.builder import build_corpus, build_shards
from plant.data.corpus import Corpus
from plant.data.notes import Source, checked
from plant.data.roles import Plan
from plant.data.shards import PLACE, SHARD, joined_corpus, open_shards, shards_in
from plant.data.sources import open_source
from plant.data.sources.files import stem_of
from plant.data.sources.options import SourceOptions
from plant.errors import InputError, quoted_path
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
    """Prepare a corpus at `out` unless one of the same source, options and recipe is there.

    Where the source is a corpus in shards, these are put together, without reading a note again.
    """
    section = {"request": asdict(request), "prepare": asdict(recipe.prepare)}
    inputs = inputs_of(request, recipe)
    if unchanged(out, store.KIND, inputs):
        return Made(read_manifest(out), new=False)
    check_replaceable(out, store.KIND)
    check_apart(out, [request.source])
    shards = shards_in(request.source)
    _check_prepared(shards, request, recipe)
    with made_folder(out.parent), temporary_folder(out) as workspace:
        if shards:
            source = _source_of(request.source, shards)
            corpus = joined_corpus(open_shards(shards).shards, workspace)
        else:
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


def prepare_shards_once(
    request: Request, sources: Sequence[str], out: Path, recipe: Recipe, *, progress: Progress = silent
) -> dict[str, Made]:
    """Prepare a corpus for each of several sources, under its name at `out`, as if all were one."""
    names = [stem_of(Path(source)) for source in sources]
    _check_shards(request.options, names)
    section = {"request": asdict(request), "prepare": asdict(recipe.prepare)}
    all_inputs = {"source": digest_of([fingerprint(source) for source in sources]), **_request_inputs(request, recipe)}
    inputs = {name: {**all_inputs, SHARD: name} for name in names}
    if all(unchanged(out / name, store.KIND, inputs[name]) for name in names):
        return {name: Made(read_manifest(out / name), new=False) for name in names}
    for name in names:
        check_replaceable(out / name, store.KIND)
        check_apart(out / name, sources)
    made = {}
    with made_folder(out), ExitStack() as stack:
        places = [stack.enter_context(temporary_folder(out / name)) for name in names]
        opened = [open_source(source, options=request.options, progress=progress) for source in sources]
        seen: set[bytes] = set()  # ids differ in all sources
        corpora = build_shards(
            [checked(source.notes(), seen=seen) for source in opened],
            opened[0].codebook,
            recipe.prepare,
            plan=request.plan,
            make_splits=request.make_splits,
            workspaces=places,
            totals=[source.total for source in opened],
            progress=progress,
        )
        for number, (name, corpus, source) in enumerate(zip(names, corpora, opened, strict=True)):
            own = {**section, PLACE: [number, len(names)]}
            manifest = store.save_corpus(corpus, out / name, recipe=own, inputs=inputs[name], source=source)
            made[name] = Made(manifest, new=True)
    return made


def _check_prepared(shards: Sequence[Path], request: Request, recipe: Recipe) -> None:
    """Refuse options that shards were not prepared with: what these decide is decided."""
    if not shards:
        return
    made = read_manifest(shards[0]).recipe
    asked, default = _choices(asdict(request)), _choices(asdict(Request(request.source)))
    before, knobs = _choices(made["request"]), json.loads(json.dumps(asdict(recipe.prepare)))
    others = [f"--{name.replace('_', '-')}" for name in asked if asked[name] not in (default[name], before[name])]
    others += [f"prepare.{name}" for name in knobs if knobs[name] != made["prepare"][name]]
    if others:
        raise InputError(
            f"{quoted_path(request.source)} was prepared with another value of {', '.join(others)}: prepare it again "
            "with that one, or leave it as it was"
        )


def _choices(request: Mapping[str, Any]) -> dict[str, Any]:
    """What options say of notes, wherever these lie, as JSON gives it back."""
    plain = json.loads(json.dumps(request))
    return {**plain["options"], **plain["plan"], "make_splits": plain["make_splits"]}


def _source_of(name: str, shards: Sequence[Path]) -> Source:
    """What is told of notes that were read before."""
    left_out: Counter[str] = Counter()
    for shard in shards:
        left_out.update(read_manifest(shard).facts["left_out"])
    return Source(Path(name).name, lambda: iter(()), facts=left_out)


def _check_shards(options: SourceOptions, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise InputError("two of the sources have the same name: rename one")
    if options.label_set != "full" or options.min_code_count is not None:
        raise InputError(
            "codes of several sources are not counted before they are read: leave --label-set and "
            "--min-code-count away, or name a folder that holds all"
        )


def inputs_of(request: Request, recipe: Recipe) -> dict[str, str]:
    """All that decides what a prepared corpus holds."""
    return {"source": fingerprint(request.source), **_request_inputs(request, recipe)}


def _request_inputs(request: Request, recipe: Recipe) -> dict[str, str]:
    section = {"request": asdict(request), "prepare": asdict(recipe.prepare)}
    options = request.options
    named = files_digest((options.codebook, options.codes_file, options.splits))
    return {"request": digest_of(section), **named}
