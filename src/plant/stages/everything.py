"""All stages one after the other: from a corpus to a fitted coder."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plant.codes.files import read_codebook
from plant.data.corpus import Corpus, Documents, Role, TrainingView, gold_codes, held_out, take, training_view
from plant.errors import InputError, RecipeError
from plant.evaluate.choosing.blend import fit_blend
from plant.evaluate.choosing.calibration import calibrated, fit_temperature, logits_of
from plant.nn.language import store as language_model_store
from plant.nn.language.awd_lstm import LanguageModel
from plant.nn.language.transformer import Transformer
from plant.nn.parts.build import Given, asked_for, check_parts, takes
from plant.nn.planting import ranker_store
from plant.nn.planting.ranker import Ranker
from plant.nn.planting.ranker_store import TrainedRanker, load_ranker, save_ranker
from plant.recipe.reading import load_recipe
from plant.recipe.schema import Recipe
from plant.relevance import store as relevance_store
from plant.relevance.relevance import Relevance
from plant.relevance.store import load_relevance, name_files, save_relevance
from plant.stages.extend import UNSEEN, add_codes
from plant.stages.fit import fit, frequencies, thresholds
from plant.stages.fitted import FittedCoder
from plant.stages.linear import TfidfModel, fit_prior, fit_tfidf
from plant.stages.models import (
    AveragedModel,
    BlendedModel,
    ClassifierModel,
    LinearModel,
    Model,
    PriorModel,
    probabilities,
    subwords_unread,
)
from plant.stages.naming import name_labels
from plant.stages.pretrain import Pretrained, load_pretrained, more_text, pretrain, save_pretrained
from plant.stages.rank import rank
from plant.stages.relate import relate
from plant.stages.transform import ENCODER, Transformed, inputs_of, load_transformed, save_transformed, transform
from plant.stages.transform import KIND as TRANSFORMER
from plant.stages.vectors import KIND as VECTORS
from plant.stages.vectors import load_vectors, save_vectors, vectors
from plant.store.keeper import InMemory, Keeper, digest_of
from plant.train.classifier import Epoch
from plant.train.epochs import Surroundings
from plant.types import Progress, silent

Log = Callable[[str, Epoch], None]
"""Called as `log(member, epoch)` after each epoch."""


@dataclass(frozen=True)
class Settings:
    """How a run is carried out; none of it changes the result."""

    keeper: Keeper = field(default_factory=InMemory)
    device: str = "cpu"
    log: Log = lambda member, epoch: None
    progress: Progress = silent


def fit_coder(
    corpus: Corpus,
    recipe: Recipe,
    settings: Settings | None = None,
    *,
    digest: str = "",
    files: str = "",
    facts: Mapping[str, Any] | None = None,
) -> FittedCoder:
    """Fit every member of a recipe, then thresholds and temperature.

    To the keeper, `digest` stands for the corpus and `files` for what the files hold that the recipe names.
    """
    settings = settings or Settings()
    members = member_recipes(recipe)
    view = training_view(corpus)
    choosing = held_out(corpus, Role.CHOOSE, view.codes)
    if not len(choosing.labels):
        raise InputError(
            "no note is left for choosing thresholds: fit on more notes, or say with --choose which to use"
        )
    histories: dict[str, tuple[Epoch, ...]] = {}
    models: list[Model] = []
    for number, member in enumerate(members):
        name = f"member{number}" if recipe.members else "model"
        stages = _Stages(corpus, view, choosing, member, settings, digest, name, files)
        model, history = stages.model()
        models.append(model)
        histories[name] = history
    model = models[0] if len(models) == 1 else _together(tuple(models), recipe, view, choosing)
    unread = sum(subwords_unread(model, documents) for model in models for documents in (view.documents, choosing))
    told = {**(facts or {}), "history": _plain(histories), **({"subwords_unread": unread} if unread else {})}
    fitted = _tuned(model, members, recipe, view, choosing, told)
    table = next((member.naming.codes for member in members if member.naming.codes), "")
    return _with_further_codes(fitted, table, corpus, view) if table else fitted


def _together(models: tuple[Model, ...], recipe: Recipe, view: TrainingView, choosing: Documents) -> Model:
    """The members as one model, weighed on the choosing notes where the recipe asks for it."""
    if recipe.choose.blend == "mean":
        return AveragedModel(models)
    counts = np.bincount(view.documents.labels, minlength=len(view.codes))
    log_odds = logits_of((counts + UNSEEN) / (len(view.documents) + 2 * UNSEEN)).astype(np.float32)
    scores = [probabilities(model, choosing, n_labels=len(view.codes)) for model in models]
    return BlendedModel(models, log_odds, fit_blend(scores, log_odds, choosing.targets(len(view.codes))))


def _with_further_codes(fitted: FittedCoder, table: str, corpus: Corpus, view: TrainingView) -> FittedCoder:
    """The coder with the codes of a table, known by their names; thresholds are tuned with them."""
    book = read_codebook(Path(table), system=view.codebook.system)
    grown = add_codes(fitted, book, view)
    choosing = grown.reread(held_out(corpus, Role.CHOOSE, grown.codes))
    scores = grown.probabilities(choosing)
    tuned = thresholds(scores, choosing, fitted.recipe.choose, n_labels=len(grown.codes))
    return replace(grown, thresholds=tuned)


def member_recipes(recipe: Recipe) -> tuple[Recipe, ...]:
    """The recipes of a recipe's members, with its seed and its [prepare]; the recipe itself where it names none.

    Their parts are checked: what a recipe has wrong is told before anything is read.
    """
    members = (recipe,) if recipe.system != "members" else _members(recipe)
    for member in members:
        if member.system == "classifier":
            check_parts(member)
    return members


def _members(recipe: Recipe) -> tuple[Recipe, ...]:
    """The members, each with those changes of the recipe that are for what it has."""
    taken = [_taken(name, recipe.changes) for name in recipe.members]
    for change in recipe.changes:
        if not any(change in changes for changes in taken):
            names, key = ", ".join(recipe.members), change.partition("=")[0]
            raise RecipeError(f"this recipe is made of members ({names}), none of which has {key.strip()!r} to set")
    members = tuple(
        replace(load_recipe(name, changes), seed=recipe.seed, prepare=recipe.prepare)
        for name, changes in zip(recipe.members, taken, strict=True)
    )
    if not members or any(member.system == "members" for member in members):
        raise RecipeError("a recipe of members needs the names of at least one recipe, none of them with members")
    return members


def _taken(name: str, changes: tuple[str, ...]) -> tuple[str, ...]:
    """The changes that a member takes; an earlier one may bring the part that a later one is for."""
    taken: tuple[str, ...] = ()
    for change in changes:
        if takes(load_recipe(name, taken), change):
            taken = (*taken, change)
    return taken


def _tuned(
    model: Model,
    members: tuple[Recipe, ...],
    recipe: Recipe,
    view: TrainingView,
    choosing: Documents,
    facts: Mapping[str, Any],
) -> FittedCoder:
    """Thresholds, and the temperature where the recipe asks for it, from the choosing notes."""
    scores = probabilities(model, choosing, n_labels=len(view.codes))
    temperature = 1.0
    if recipe.choose.calibrate:
        temperature = fit_temperature(logits_of(scores), choosing.targets(len(view.codes)))
        scores = calibrated(scores, temperature).astype(np.float32)
    origin = f"{recipe.choose.goal} on {len(choosing):,} notes held out for choosing ({recipe.choose.thresholds})"
    return FittedCoder(
        recipe=recipe,
        members=members,
        vocab=view.vocab,
        codebook=view.codebook,
        codes=view.codes,
        model=model,
        thresholds=thresholds(scores, choosing, recipe.choose, n_labels=len(view.codes)),
        temperature=temperature,
        train_counts=label_counts(view),
        train_documents=len(view.documents),
        facts={**facts, "threshold_origin": origin},
    )


@dataclass(frozen=True)
class _Stages:
    """The stages of one member; each asks the keeper before it works."""

    corpus: Corpus
    view: TrainingView
    choosing: Documents
    recipe: Recipe
    settings: Settings
    digest: str
    name: str
    files: str = ""

    def model(self) -> tuple[Model, tuple[Epoch, ...]]:
        if self.recipe.system == "prior":
            return PriorModel(fit_prior(self.view)), ()
        if self.recipe.system == "tfidf":
            return LinearModel(self._tfidf()), ()
        given = self.given()
        checkpoint = self.settings.keeper.checkpoint(self.name, self._inputs())
        fitted = fit(
            self.view,
            self.choosing,
            self.recipe,
            given,
            gold=gold_codes(self.corpus, Role.CHOOSE),
            checkpoint=checkpoint,
            device=self.settings.device,
            log=lambda epoch: self.settings.log(self.name, epoch),
            progress=self.settings.progress,
        )
        return ClassifierModel(self.recipe, fitted.classifier, given, self.settings.device), fitted.history

    def _tfidf(self) -> TfidfModel:
        options = asdict(self.recipe.tfidf)
        return fit_tfidf(self.view, **options, seed=self.recipe.seed, progress=self.settings.progress)

    def given(self) -> Given:
        """What the recipe's parts ask for, made in the order in which one needs the other."""
        asked = asked_for(self.recipe)
        given = Given(self.view.vocab, self.view.codes, self.view.codebook, frequencies(self.view))
        if asked & {"relevance", "ranker"}:
            relevance = self._relevance()
            ranker = self._ranker(relevance) if "ranker" in asked else None
            given = replace(given, relevance=relevance, ranker=ranker)
        if "language_model" in asked:
            given = replace(given, language_model=self._language_model())
        if "transformer" in asked and self.recipe.encoder.name == ENCODER:
            given = replace(given, transformer=self._transformer())
        if "word_vectors" in asked and self.recipe.vectors.train:
            given = replace(given, word_vectors=self._word_vectors())
        if "names" in asked:
            given = replace(given, names=name_labels(self.view, self.recipe, self.settings.progress))
        return given

    def _relevance(self) -> Relevance:
        def save(relevance: Relevance, path: Path, inputs: Mapping[str, str]) -> None:
            vocab, codebook, recipe = self.view.vocab, self.view.codebook, asdict(self.recipe.relate)
            save_relevance(relevance, path, vocab=vocab, codebook=codebook, recipe=recipe, inputs=inputs)

        return self.settings.keeper.once(
            "relevance",
            self._inputs("relate"),
            lambda: relate(self.view, self.recipe.relate, self.settings.progress),
            kind=relevance_store.KIND,
            save=save,
            load=load_relevance,
        )

    def _ranker(self, relevance: Relevance) -> Ranker:
        recipe = self.recipe.rank
        from_model = recipe.vectors == "language-model"
        inputs = self._inputs("relate", "rank", "seed", *["pretrain"] * from_model)

        def make() -> TrainedRanker:
            return rank(
                relevance,
                recipe,
                seed=self.recipe.seed,
                vectors=self._language_model().network.words.detach().numpy() if from_model else None,
                checkpoint=self.settings.keeper.checkpoint("ranker", inputs),
                progress=self.settings.progress,
            )

        def save(trained: TrainedRanker, path: Path, inputs: Mapping[str, str]) -> None:
            files = name_files(self.view.vocab, self.view.codebook, self.view.codes)
            save_ranker(trained, path, files=files, recipe=asdict(recipe), inputs=inputs)

        once = self.settings.keeper.once
        return once("ranker", inputs, make, kind=ranker_store.KIND, save=save, load=load_ranker).ranker

    def _language_model(self) -> LanguageModel:
        recipe, inputs = self.recipe.pretrain, self._inputs("pretrain", "seed")
        name = f"language-model-{recipe.direction}"

        def make() -> Pretrained:
            return pretrain(
                self.view,
                recipe,
                seed=self.recipe.seed,
                more=more_text(self.corpus, recipe),
                dev=None if recipe.held_out_text else self.choosing,
                surroundings=self._surroundings(name, inputs),
            )

        def save(pretrained: Pretrained, path: Path, inputs: Mapping[str, str]) -> None:
            save_pretrained(pretrained, path, recipe=asdict(recipe), inputs=inputs)

        once = self.settings.keeper.once
        kind = language_model_store.KIND
        return once(name, inputs, make, kind=kind, save=save, load=load_pretrained).model

    def _transformer(self) -> Transformer:
        recipe = self.recipe
        if not recipe.masked.epochs:  # nothing that takes long, and nothing to keep besides the coder
            return transform(self.view, recipe).transformer
        inputs = {"corpus": self.digest, **inputs_of(recipe)}

        def make() -> Transformed:
            return transform(
                self.view,
                recipe,
                more=more_text(self.corpus, recipe.masked),
                dev=None if recipe.masked.held_out_text else self.choosing,
                surroundings=self._surroundings("transformer", inputs),
            )

        def save(made: Transformed, path: Path, inputs: Mapping[str, str]) -> None:
            save_transformed(made, path, recipe=asdict(recipe.masked), inputs=inputs)

        once = self.settings.keeper.once
        kind = TRANSFORMER
        return once("transformer", inputs, make, kind=kind, save=save, load=load_transformed).transformer

    def _word_vectors(self) -> NDArray[np.float32]:
        def save(found: NDArray[np.float32], path: Path, inputs: Mapping[str, str]) -> None:
            save_vectors(found, path, vocab=self.view.vocab, recipe=self.recipe.vectors, inputs=inputs)

        return self.settings.keeper.once(
            "word-vectors",
            self._inputs("vectors"),
            lambda: vectors(
                self.view,
                self.recipe.vectors,
                more=[unlabelled(self.corpus)],
                progress=self.settings.progress,
            ),
            kind=VECTORS,
            save=save,
            load=load_vectors,
        )

    def _surroundings(self, name: str, inputs: Mapping[str, str]) -> Surroundings[object]:
        settings = self.settings
        return Surroundings(settings.keeper.checkpoint(name, inputs), settings.device, progress=settings.progress)

    def _inputs(self, *sections: str) -> dict[str, str]:
        """The corpus and the sections of the recipe that decide a stage; all of it where none are named."""
        table = asdict(self.recipe)
        chosen = {section: table[section] for section in sections} if sections else table
        files = {"files": self.files} if self.files and not sections else {}  # no section alone names a file
        return {"corpus": self.digest, "recipe": digest_of(chosen), **files}


def unlabelled(corpus: Corpus) -> Documents:
    """The notes without codes, for language models and word vectors."""
    return take(corpus.documents, np.flatnonzero(corpus.role == Role.UNLABELLED))


def _plain(histories: Mapping[str, tuple[Epoch, ...]]) -> dict[str, list[dict[str, Any]]]:
    return {name: [asdict(epoch) for epoch in history] for name, history in histories.items()}


def label_counts(view: TrainingView) -> NDArray[np.int64]:
    """In how many fitted notes each label stands."""
    return np.bincount(view.documents.labels, minlength=len(view.codes)).astype(np.int64)
