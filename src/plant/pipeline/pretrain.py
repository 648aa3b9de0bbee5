"""Pretraining on disk: a language model of a corpus, of more text, and from the starting point that the user has."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from plant.artifact import read_manifest
from plant.data.corpus import Corpus, Documents, Role, take, training_view
from plant.data.encode import encode_texts
from plant.data.sources.bare import read_texts
from plant.data.store import load_corpus
from plant.errors import InputError
from plant.keeper import InFolder, digest_of
from plant.nn.language_model import LanguageModel
from plant.nn.language_model_store import KIND, load_language_model
from plant.nn.published_weights import read_published
from plant.pipeline.prepare import fingerprint
from plant.recipe import Pretrain, Recipe
from plant.stages.pretrain import Pretrained, load_pretrained, more_text, pretrain, save_pretrained, without_held_out
from plant.stages.transform import ENCODER
from plant.train.language_model import Epoch
from plant.types import Progress, silent

NOTES_AT_A_TIME = 1000


@dataclass(frozen=True)
class Start:
    """Where a model starts: at random, from an earlier model, or from the published weights and words."""

    model: str = ""
    published: tuple[str, str] | None = None

    def load(self, recipe: Pretrain) -> LanguageModel | None:
        """The model to start from, None for a random start."""
        if self.model and self.published:
            raise InputError("--start and --published exclude each other: a model starts from one of them")
        if self.published:
            return read_published(*self.published, direction=recipe.direction)
        return load_language_model(self.model) if self.model else None


def pretrain_once(
    corpus_path: Path,
    out: Path,
    recipe: Recipe,
    *,
    texts: Sequence[str] = (),
    text_column: str = "",
    start: Start = Start(),  # noqa: B008  # frozen
    device: str = "cpu",
    told: Callable[[str], None] = lambda sentence: None,
    log: Callable[[Epoch], None] = lambda epoch: None,
    progress: Progress = silent,
) -> Pretrained:
    """Train the language model of a corpus and of more `texts` into `out`, unless one of the same things is there."""
    inputs = _inputs(corpus_path, recipe, texts, text_column, start)
    keeper = InFolder(out.parent, told=lambda name, new: told(f"{'written' if new else 'already there'}: {out}"))

    def make() -> Pretrained:
        corpus = load_corpus(corpus_path)
        return pretrain(
            training_view(corpus),
            recipe.pretrain,
            seed=recipe.seed,
            more=[*more_text(corpus, recipe.pretrain), *further_text(texts, text_column, corpus, recipe, told)],
            dev=None if recipe.pretrain.held_out_text else dev_text(corpus),
            start=start.load(recipe.pretrain),
            checkpoint=keeper.checkpoint(out.name, inputs),
            device=device,
            log=log,
            progress=progress,
        )

    table = {"pretrain": asdict(recipe.pretrain), "seed": recipe.seed}
    return keeper.once(
        out.name,
        inputs,
        make,
        kind=KIND,
        save=lambda made, path, inputs: save_pretrained(made, path, recipe=table, inputs=inputs),
        load=load_pretrained,
    )


def dev_text(corpus: Corpus) -> Documents | None:
    """The choosing notes, on which a language model is measured."""
    rows = np.flatnonzero(corpus.role == Role.CHOOSE)
    return take(corpus.documents, rows) if len(rows) else None


def further_text(
    texts: Sequence[str],
    text_column: str,
    corpus: Corpus,
    recipe: Recipe,
    told: Callable[[str], None],
) -> Iterator[Documents]:
    """The texts of files as documents of the corpus's vocabulary, without held-out notes unless the recipe says so."""
    section = recipe.masked if recipe.encoder.name == ENCODER else recipe.pretrain
    for name in texts:
        repeated, notes = 0, read_texts(name, text_column=text_column)
        while some := list(islice(notes, NOTES_AT_A_TIME)):
            encoded = encode_texts([note.text for note in some], corpus.vocab, recipe.prepare)
            kept, found = (encoded, 0) if section.held_out_text else without_held_out(encoded, corpus)
            repeated += found
            yield kept
        if repeated:
            told(f"{name}: {repeated:,} texts left out, they are held-out notes of the corpus")


def _inputs(corpus: Path, recipe: Recipe, texts: Sequence[str], text_column: str, start: Start) -> dict[str, str]:
    """Digests of everything that decides the model."""
    files = [fingerprint(name) for name in (*texts, *(start.published or ()))]
    return {
        "corpus": read_manifest(corpus, "corpus").digest,
        "recipe": digest_of(
            {"pretrain": asdict(recipe.pretrain), "prepare": asdict(recipe.prepare), "seed": recipe.seed}
        ),
        **({"files": digest_of([*files, text_column])} if files else {}),
        **({"start": read_manifest(start.model).digest} if start.model else {}),
    }
