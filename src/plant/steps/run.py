"""A run on disk: every step leaves an artifact, and what was made from the same things is not made again."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plant.data.corpus import Corpus, Role
from plant.data.store import KIND as CORPUS
from plant.data.store import load_corpus
from plant.errors import ArtifactError, InputError
from plant.evaluate.report.content import Report
from plant.evaluate.significance.resampling import Value
from plant.recipe.schema import Recipe
from plant.steps.evaluate import evaluate
from plant.steps.fit import MODELS, fit_coder, plan_of
from plant.steps.in_parts import coders_in_parts
from plant.steps.log import TrainingLog
from plant.steps.names import WITHOUT, Languages, decide, foreign_names, in_doubt
from plant.steps.predict import PREDICT
from plant.steps.prepare import Made, Request, inputs_of, prepare_once
from plant.steps.processes import cores
from plant.steps.step import Root, WalkSettings, planned, walk
from plant.steps.together import is_kept, shared_language_models, train_language_models
from plant.store.artifact import atomic_files, check_apart, read_manifest
from plant.store.keeper import LOOK, Following, InFolder, Notify, Shared, named_by, unchanged, unheard
from plant.systems.card import card_files, card_of
from plant.systems.coder import FittedCoder, save_coder
from plant.types import Progress, silent

if TYPE_CHECKING:
    from plant.train.together import Together

CARD = ("MAP", "micro-P", "micro-R", "micro-F1", "P@5", "P@15", "macro-F1 (mean of labels)")


@dataclass(frozen=True)
class Run:
    """What a run leaves: the coder, the report where some notes are reported, and what was cut of the corpus."""

    folder: Path
    coder: FittedCoder
    report: Report | None
    tokens_lost: int = 0
    notes_cut: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)  # of the corpus
    languages: Languages | None = None  # where notes and names of codes have different ones


def run(
    request: Request,
    recipe: Recipe,
    out: Path,
    *,
    name: str,
    shared: Path | None = None,
    events: Path | None = None,
    device: str = "cpu",
    progress: Progress = silent,
    notify: Notify = unheard,
    processes: int | None = None,
    together: "Together | None" = None,
) -> Run:
    """All steps from the notes to `out/coder` and the predictions of the reported notes.

    What other runs may use too (corpus, relevance, ranker, word vectors, language model) lies in `shared` if given.
    Epochs are told to TensorBoard in `events` if given. Processes that train `together` with this one call `assist`
    with the same.
    """
    list(plan_of(recipe))  # what a recipe has wrong is told before anything is read
    check_apart(out, [request.source])
    made, corpus = _prepared(request, _corpus_folder(request, recipe, out, shared), recipe, progress)
    notify("corpus", made.new)
    keeper = InFolder(out, notify)
    settings = WalkSettings(
        keeper=Shared(shared, keeper, own=("coder", "predictions")) if shared else keeper,
        device=device,
        log=TrainingLog(out / "training.jsonl", events).write,
        progress=progress,
        facts={"name": name, "splits": made.manifest.facts["split_manifest"], **_trained_by(together)},
        processes=processes or cores(),
        together=together,
    )
    languages = foreign_names(corpus)
    if in_doubt(corpus, recipe):
        _check_decided(together)
        recipe = _decided(corpus, recipe, out, settings, made.manifest.digest, notify)
    plan = coders_in_parts([*plan_of(recipe), planned(PREDICT, recipe)], together, keeper.rooms)
    steps = walk(plan, {"corpus": Root(corpus, made.manifest.digest)}, settings)
    if not is_kept(steps, "coder", together):
        train_language_models(steps, "coder")
    coder, reported = steps["coder"], (corpus.role == Role.REPORT).any()
    keeper.drop_checkpoints()
    predictions = steps["predictions"] if reported else None
    del steps  # and with it views and what was made on the way: evaluation needs the room
    report = None if predictions is None else evaluate(predictions, progress=progress)
    if report is not None:
        _write_card(coder, report, out / "coder")
    return Run(out, coder, report, corpus.tokens_lost, corpus.notes_cut, made.manifest.facts, languages)


def assist(
    request: Request, recipe: Recipe, out: Path, *, shared: Path | None, device: str, together: "Together"
) -> None:
    """Help the process that runs all steps to train: wait for what it makes, and leave nothing behind."""
    folder = _corpus_folder(request, recipe, out, shared)
    while not unchanged(folder, CORPUS, inputs_of(request, recipe)):
        time.sleep(LOOK)
    corpus, keeper = load_corpus(folder), InFolder(out)
    leader = Shared(shared, keeper, own=("coder", "predictions")) if shared else keeper
    settings = WalkSettings(leader, device, together=together)
    if in_doubt(corpus, recipe):
        _check_decided(together)
    plan = coders_in_parts([*plan_of(recipe), planned(MODELS, recipe)], together, keeper.rooms)
    steps = walk(plan, {"corpus": Root(corpus, read_manifest(folder).digest)}, settings)
    helps = ("coder", *(steps.plan[name].folder for name in shared_language_models(steps)))
    steps = replace(steps, settings=replace(settings, keeper=Following(leader, helps)))
    if not is_kept(steps, "coder", together):
        train_language_models(steps, "coder")
        steps["coder" if together.by_labels else "models"]  # who shares labels keeps a part of the coder


def _corpus_folder(request: Request, recipe: Recipe, out: Path, shared: Path | None) -> Path:
    return shared / named_by("corpus", inputs_of(request, recipe)) if shared else out / "corpus"


def _trained_by(together: "Together | None") -> dict[str, Any]:
    """Who shared the training, for people who ask why a bit differs; told where it was not one process alone."""
    if together is None or together.size == 1:
        return {}
    return {"trained_by": {"processes": together.size, "share": "labels" if together.by_labels else "notes"}}


def _check_decided(together: "Together | None") -> None:
    if together is not None and together.size > 1:
        raise InputError(
            "notes and names of codes have different languages, and whether names help is found out by one process: "
            f"decide it yourself (--set {WITHOUT}), or give names in the language of the notes (--codebook)"
        )


def _decided(corpus: Corpus, recipe: Recipe, out: Path, settings: WalkSettings, digest: str, notify: Notify) -> Recipe:
    """The recipe that believes names or the one that does not; its coder is put in the place of the run's."""
    rooms = out / "names"

    def fit(one: Recipe, way: str) -> FittedCoder:
        own = replace(settings, keeper=Shared(rooms / "shared", InFolder(rooms / way), own=("coder",)))
        return fit_coder(corpus, one, own, digest=digest)

    decided = decide(corpus, recipe, fit, progress=settings.progress)
    way = "with-names" if decided.recipe == recipe else "without-names"
    notify(
        f"{way} (MAP of the choosing notes: {decided.with_names:.4f} with, {decided.without_names:.4f} without)", True
    )
    manifest = read_manifest(rooms / way / "coder")
    if not unchanged(out / "coder", manifest.kind, manifest.inputs):
        save_coder(decided.coder, out / "coder", inputs=manifest.inputs)
    return decided.recipe


def _write_card(coder: FittedCoder, report: Report, folder: Path) -> None:
    """The coder's card once more, with the figures that are known now."""
    figures = {name: _figure(value) for name, value in report.measures.items() if name in CARD}
    for name, row in figures.items():
        if name in report.prior:
            row["prior"] = report.prior[name].value
    files = card_files(card_of(coder, figures))
    with atomic_files([folder / name for name in files]) as temporaries:
        for temporary, text in zip(temporaries, files.values(), strict=True):
            temporary.write_text(text, encoding="utf-8")


def _figure(value: Value) -> dict[str, float]:
    bounds = {} if value.low is None or value.high is None else {"low": value.low, "high": value.high}
    return {"value": value.value, **bounds}


def _prepared(request: Request, folder: Path, recipe: Recipe, progress: Progress) -> tuple[Made, Corpus]:
    """The corpus of a request; one that was damaged since it was made is made again."""
    made = prepare_once(request, folder, recipe, progress=progress)
    try:
        return made, load_corpus(folder)
    except ArtifactError:
        shutil.rmtree(folder)
    return prepare_once(request, folder, recipe, progress=progress), load_corpus(folder)
