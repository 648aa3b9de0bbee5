"""A run on disk: every step leaves an artifact, and what was made from the same things is not made again."""

from dataclasses import dataclass
from pathlib import Path

from plant.data.corpus import Role
from plant.data.store import load_corpus
from plant.evaluate.report.content import Report
from plant.recipe.schema import Recipe
from plant.steps.evaluate import evaluate
from plant.steps.fit import plan_of
from plant.steps.log import TrainingLog
from plant.steps.predict import PREDICT
from plant.steps.prepare import Request, inputs_of, prepare_once
from plant.steps.step import Root, WalkSettings, planned, walk
from plant.store.keeper import InFolder, Notify, Shared, named_by, unheard
from plant.systems.coder import FittedCoder
from plant.types import Progress, silent


@dataclass(frozen=True)
class Run:
    """What a run leaves: the coder, the report where some notes are reported, and what was cut of the corpus."""

    folder: Path
    coder: FittedCoder
    report: Report | None
    tokens_lost: int = 0
    notes_cut: int = 0


def run(
    request: Request,
    recipe: Recipe,
    out: Path,
    *,
    name: str,
    shared: Path | None = None,
    device: str = "cpu",
    progress: Progress = silent,
    notify: Notify = unheard,
) -> Run:
    """All steps from the notes to `out/coder` and the predictions of the reported notes.

    What other runs may use too (corpus, relevance, ranker, word vectors, language model) lies in `shared` if given.
    """
    plan = [*plan_of(recipe), planned(PREDICT, recipe)]  # what a recipe has wrong is told before anything is read
    out.mkdir(parents=True, exist_ok=True)
    folder = shared / named_by("corpus", inputs_of(request, recipe)) if shared else out / "corpus"
    made = prepare_once(request, folder, recipe, progress=progress)
    notify("corpus", made.new)
    corpus = load_corpus(folder)
    keeper = InFolder(out, notify)
    settings = WalkSettings(
        keeper=Shared(shared, keeper, own=("coder", "predictions")) if shared else keeper,
        device=device,
        log=TrainingLog(out / "training.jsonl", out / "events").write,
        progress=progress,
        facts={"name": name, "splits": made.manifest.facts["split_manifest"]},
    )
    steps = walk(plan, {"corpus": Root(corpus, made.manifest.digest)}, settings)
    coder, reported = steps["coder"], (corpus.role == Role.REPORT).any()
    keeper.drop_checkpoints()
    predictions = steps["predictions"] if reported else None
    del steps  # and with it views and what was made on the way: evaluation needs the room
    report = None if predictions is None else evaluate(predictions, progress=progress)
    return Run(out, coder, report, corpus.tokens_lost, corpus.notes_cut)
