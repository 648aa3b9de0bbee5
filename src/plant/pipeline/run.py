"""A run on disk: every stage leaves an artifact, and what was made from the same things is not made again."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from plant.data import store
from plant.data.corpus import Corpus, Role
from plant.evaluate.report.content import Report
from plant.evaluate.scores import scored as predictions
from plant.pipeline.prepare import Request, inputs_of, prepare_once, recipe_files, recipe_inputs
from plant.recipe.reading import recipe_table
from plant.recipe.schema import Recipe
from plant.stages import fitted as coders
from plant.stages.evaluate import evaluate
from plant.stages.everything import Settings, fit_coder, member_recipes
from plant.stages.fitted import FittedCoder, load_coder, save_coder
from plant.stages.predict import score_role
from plant.store.artifact import atomic_file
from plant.store.keeper import InFolder, Shared, named_by
from plant.train.classifier import ClassifierEpoch
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
    told: Callable[[str, bool], None] = lambda name, new: None,
) -> Run:
    """All stages from the notes to `out/coder` and the predictions of the reported notes.

    What other runs may use too (corpus, relevance, ranker, word vectors, language model) lies in `shared` if given.
    """
    out.mkdir(parents=True, exist_ok=True)
    members = member_recipes(recipe)
    first = members[0]
    folder = shared / named_by("corpus", inputs_of(request, first)) if shared else out / "corpus"
    made = prepare_once(request, folder, first, progress=progress)
    told("corpus", made.new)
    corpus = store.load_corpus(folder)
    digest = made.manifest.digest
    keeper = InFolder(out, told)
    stages = Shared(shared, keeper) if shared else keeper
    settings = Settings(stages, device, TrainingLog(out / "training.jsonl", out / "events").write, progress)
    inputs = {"corpus": digest, **recipe_inputs(recipe, members)}
    files = recipe_files(members).get("files", "")
    facts = {"name": name, "splits": made.manifest.facts["split_manifest"]}
    coder = keeper.once(
        "coder",
        inputs,
        lambda: fit_coder(corpus, recipe, settings, digest=digest, files=files, facts=facts),
        kind=coders.KIND,
        save=save_coder,
        load=load_coder,
    )
    keeper.drop_checkpoints()
    report = _reported(corpus, coder, keeper, inputs, name=name, progress=progress)
    return Run(out, coder, report, corpus.tokens_lost, corpus.notes_cut)


@dataclass(frozen=True)
class TrainingLog:
    """One JSON line per epoch, and the same for TensorBoard where it is installed.

    An epoch that is trained again, after a kill or with another recipe, takes the place of the one before and of those
    that came after it.
    """

    path: Path
    events: Path

    def write(self, member: str, epoch: ClassifierEpoch) -> None:
        """Write an epoch behind the earlier ones."""
        written = self.path.read_text(encoding="utf-8").splitlines() if self.path.is_file() else []
        kept = [line for line in written if _stays(line, member, epoch.number)]
        with atomic_file(self.path) as temporary:
            temporary.write_text("\n".join([*kept, json.dumps({"member": member, **asdict(epoch)})]) + "\n")
        self._write_events(member, epoch)

    def _write_events(self, member: str, epoch: ClassifierEpoch) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        with SummaryWriter(str(self.events / member)) as writer:
            writer.add_scalar("loss", epoch.loss, epoch.number)
            for name, value in epoch.measures.items():
                writer.add_scalar(f"choosing notes/{name}", value, epoch.number)


def _stays(line: str, member: str, number: int) -> bool:
    """Whether a line is whole, and tells of another member or an earlier epoch."""
    if not line.endswith("}"):
        return False
    told = json.loads(line)
    return bool(told["member"] != member or told["number"] < number)


def _reported(
    corpus: Corpus, coder: FittedCoder, keeper: InFolder, inputs: dict[str, str], *, name: str, progress: Progress
) -> Report | None:
    """The predictions of the reported notes, kept in the run, and their report."""
    if not (corpus.role == Role.REPORT).any():
        return None

    def save(scored: predictions.Scored, path: Path, inputs: Any) -> None:
        predictions.save_scored(scored, path, recipe=recipe_table(coder.recipe), inputs=inputs)

    scored = keeper.once(
        "predictions",
        inputs,
        lambda: score_role(
            coder, corpus, Role.REPORT, system=name, splits=coder.facts.get("splits", {}), progress=progress
        ),
        kind=predictions.KIND,
        save=save,
        load=predictions.load_scored,
    )
    return evaluate(scored, progress=progress)
