"""Learning from text on disk: what the trainings of a language model and of a transformer share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from plant.data.corpus import Corpus, Documents, Role, TrainingView, take, training_view
from plant.data.encode import encode_texts
from plant.data.sources.bare import read_texts
from plant.data.store import load_corpus
from plant.pipeline.prepare import fingerprint
from plant.recipe.schema import Masked, Pretrain, Recipe
from plant.stages.pretrain import more_text, without_held_out
from plant.store.artifact import read_manifest
from plant.store.keeper import InFolder, Load, Save, digest_of
from plant.train.loop import Runtime
from plant.types import Progress, silent

NOTES_AT_A_TIME = 1000
Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Job:
    """A training that is asked for: on which corpus and which further texts, into which folder, and who hears of it."""

    corpus: Path
    out: Path
    recipe: Recipe
    texts: Sequence[str] = ()
    text_column: str = ""
    device: str = "cpu"
    told: Callable[[str], None] = lambda sentence: None
    log: Callable[[Any], None] = lambda epoch: None
    progress: Progress = silent

    def inputs(self, *further: str) -> dict[str, str]:
        """Digests of the corpus, of the texts and of `further` files."""
        files = [fingerprint(name) for name in (*self.texts, *further)]
        digest = read_manifest(self.corpus, "corpus").digest
        return {"corpus": digest, **({"files": digest_of([*files, self.text_column])} if files else {})}


@dataclass(frozen=True)
class Lesson:
    """What a job gives to a stage that trains: text to learn, text to be measured on, and where it runs."""

    view: TrainingView
    more: Sequence[Documents]
    dev: Documents | None
    runtime: Runtime[Any]


def train_once(
    job: Job,
    section: Pretrain | Masked,
    train: Callable[[Lesson], Thing],
    *,
    inputs: Mapping[str, str],
    kind: str,
    save: Save[Thing],
    load: Load[Thing],
) -> Thing:
    """What `train` makes of a job, unless the same is there already."""
    out = job.out
    keeper = InFolder(out.parent, told=lambda name, new: job.told(f"{'written' if new else 'already there'}: {out}"))

    def make() -> Thing:
        corpus = load_corpus(job.corpus)
        return train(
            Lesson(
                view=training_view(corpus),
                more=[*more_text(corpus, section), *_further_text(job, section, corpus)],
                dev=None if section.held_out_text else _dev_text(corpus),
                runtime=Runtime(keeper.checkpoint(out.name, inputs), job.device, job.log, job.progress),
            )
        )

    return keeper.once(out.name, inputs, make, kind=kind, save=save, load=load)


def _dev_text(corpus: Corpus) -> Documents | None:
    """The choosing notes, on which a language model is measured."""
    rows = np.flatnonzero(corpus.role == Role.CHOOSE)
    return take(corpus.documents, rows) if len(rows) else None


def _further_text(job: Job, section: Pretrain | Masked, corpus: Corpus) -> Iterator[Documents]:
    """The texts of files as documents of the corpus's vocabulary, without held-out notes unless the recipe says so."""
    for name in job.texts:
        repeated, notes = 0, read_texts(name, text_column=job.text_column)
        while some := list(islice(notes, NOTES_AT_A_TIME)):
            encoded = encode_texts([note.text for note in some], corpus.vocab, job.recipe.prepare)
            kept, found = (encoded, 0) if section.held_out_text else without_held_out(encoded, corpus)
            repeated += found
            yield kept
        if repeated:
            job.told(f"{name}: {repeated:,} texts left out, they are held-out notes of the corpus")
