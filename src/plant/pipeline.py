"""A run on disk: every stage leaves an artifact, and what was made from the same things is not made again."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from plant.artifact import Manifest, check_replaceable, read_manifest
from plant.data import store
from plant.data.corpus import Corpus, Role
from plant.data.roles import Plan
from plant.data.sources import open_source
from plant.data.sources.options import SourceOptions
from plant.evaluate import scored as predictions
from plant.evaluate.report import Report
from plant.keeper import InFolder, digest_of, unchanged
from plant.recipe import Recipe, recipe_table
from plant.stages import fitted as coders
from plant.stages.evaluate import evaluate
from plant.stages.everything import Settings, fit_coder, member_recipes
from plant.stages.fitted import FittedCoder, load_coder, save_coder
from plant.stages.predict import score_role
from plant.stages.prepare import prepare
from plant.train.classifier import Epoch
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


@dataclass(frozen=True)
class Run:
    """What a run leaves: the coder, and the report where some notes are reported."""

    folder: Path
    coder: FittedCoder
    report: Report | None


def run(
    request: Request,
    recipe: Recipe,
    out: Path,
    *,
    name: str,
    device: str = "cpu",
    progress: Progress = silent,
    told: Callable[[str, bool], None] = lambda name, new: None,
) -> Run:
    """All stages from the notes to `out/coder` and the predictions of the reported notes."""
    out.mkdir(parents=True, exist_ok=True)
    first = member_recipes(recipe)[0]
    made = prepare_once(request, out / "corpus", first, progress=progress)
    told("corpus", made.new)
    corpus = store.load_corpus(out / "corpus")
    digest = made.manifest.digest
    keeper = InFolder(out, told)
    settings = Settings(keeper, device, TrainingLog(out / "training.jsonl", out / "events").write, progress)
    inputs = {"corpus": digest, "recipe": digest_of(recipe_table(recipe))}
    splits = made.manifest.facts["split_manifest"]
    coder = keeper.once(
        "coder",
        inputs,
        lambda: fit_coder(corpus, recipe, settings, digest=digest, facts={"name": name, "splits": splits}),
        kind=coders.KIND,
        save=save_coder,
        load=load_coder,
    )
    return Run(out, coder, _reported(corpus, coder, keeper, inputs, name=name, progress=progress))


def prepare_once(request: Request, out: Path, recipe: Recipe, *, progress: Progress = silent) -> Made:
    """Prepare a corpus at `out` unless one of the same source, options and recipe is there."""
    section = {"request": asdict(request), "prepare": asdict(recipe.prepare), "seed": recipe.seed}
    inputs = {"source": fingerprint(request.source), "request": digest_of(section)}
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


def fingerprint(source: str) -> str:
    """A digest of what a source holds, by the names, sizes and times of its files; of its name where it is no file."""
    path = Path(source)
    files = sorted(path.rglob("*")) if path.is_dir() else [path] if path.is_file() else []
    stats = [(str(file.relative_to(path)), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return digest_of([source if not files else "files", stats])


@dataclass(frozen=True)
class TrainingLog:
    """One JSON line per epoch, and the same for TensorBoard where it is installed."""

    path: Path
    events: Path

    def write(self, member: str, epoch: Epoch) -> None:
        """Append an epoch."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"member": member, **asdict(epoch)}) + "\n")
        self._write_events(member, epoch)

    def _write_events(self, member: str, epoch: Epoch) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        with SummaryWriter(str(self.events / member)) as writer:
            writer.add_scalar("loss", epoch.loss, epoch.number)
            for name, value in epoch.measures.items():
                writer.add_scalar(f"choosing notes/{name}", value, epoch.number)


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
