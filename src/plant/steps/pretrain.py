"""pretrain: from the fitted notes' text, and more text if there is any, to a language model of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from plant.data.corpus import Documents, TrainingView
from plant.errors import InputError, RecipeError
from plant.nn.language.awd_lstm import AWDLSTM, LANGUAGE_MODEL_DROPOUTS, LanguageModel, with_vocab
from plant.nn.language.published import read_published
from plant.nn.language.store import KIND, language_model_from, load_language_model, save_language_model
from plant.recipe.schema import Pretrain
from plant.steps.step import Step, Work
from plant.steps.texts import FurtherText, needs_text, text_to_learn, text_to_measure
from plant.steps.together import shares_streams
from plant.store.artifact import Manifest, open_artifact
from plant.store.checks import check_count, check_epochs, well_formed
from plant.store.keeper import Kind
from plant.text.vocab import Vocab
from plant.train.language_model import LanguageModelEpoch, train_language_model
from plant.train.loop import Runtime
from plant.train.seed import seeded
from plant.train.streams import Text, text_of
from plant.train.together import ALONE, Together


@dataclass(frozen=True)
class Pretrained:
    """A trained language model, how its training went, on how many tokens, and whether held-out text was among them."""

    model: LanguageModel
    history: tuple[LanguageModelEpoch, ...]
    tokens: int
    held_out_text: bool = False


def pretrain(
    view: TrainingView,
    recipe: Pretrain,
    *,
    more: Sequence[Documents] = (),
    dev: Documents | None = None,
    start: LanguageModel | None = None,
    runtime: Runtime[LanguageModelEpoch] = Runtime(),  # noqa: B008  # frozen
) -> Pretrained:
    """Train on the view's text and on `more`, from random weights or from `start`; `dev` is measured, never learned."""
    text = text_of([view.documents, *more])
    if not len(text):
        raise InputError("there is no word to train a language model on: the notes have none of the vocabulary")
    with seeded(recipe.seed):
        model = _random_start(view.vocab, recipe, text) if start is None else started(start, view.vocab, recipe)
    history = train_language_model(model, text, recipe, seed=recipe.seed, dev=dev, runtime=runtime)
    return Pretrained(model.cpu().eval(), history, len(text.tokens), recipe.held_out_text)


def save_pretrained(
    pretrained: Pretrained,
    path: Path | str,
    *,
    recipe: Mapping[str, Any] | None = None,
    inputs: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Manifest:
    """Write a language model with the history of its training."""
    own = {
        "tokens": pretrained.tokens,
        "held_out_text": pretrained.held_out_text,
        "history": [asdict(epoch) for epoch in pretrained.history],
    }
    return save_language_model(pretrained.model, path, recipe=recipe, inputs=inputs, facts={**own, **(facts or {})})


def load_pretrained(path: Path | str) -> Pretrained:
    """Read what `save_pretrained` wrote."""
    artifact = open_artifact(path, KIND)
    facts = artifact.manifest.facts
    with well_formed(path):
        check_epochs(facts.get("history", ()))
        history = tuple(LanguageModelEpoch(**epoch) for epoch in facts.get("history", ()))
        model = language_model_from(artifact)
        tokens = check_count("tokens", facts.get("tokens", 0))
    return Pretrained(model, history, tokens, bool(facts.get("held_out_text", False)))


def new_language_model(vocab: Vocab, recipe: Pretrain) -> LanguageModel:
    """A model of the recipe's shape with starting weights from torch's random state."""
    network = AWDLSTM(len(vocab), embedding=recipe.embedding, hidden=recipe.hidden, layers=recipe.layers)
    network.dropouts = LANGUAGE_MODEL_DROPOUTS.times(recipe.dropout)
    return LanguageModel(vocab, network, direction=recipe.direction)


def _random_start(vocab: Vocab, recipe: Pretrain, text: Text) -> LanguageModel:
    """A new model that already knows how frequent each word is."""
    model = new_language_model(vocab, recipe)
    shares = torch.from_numpy(text.shares(len(vocab)))
    model.bias.data = shares.clamp(min=0.5 / text.n_questions).log()
    return model


def started(start: LanguageModel, vocab: Vocab, recipe: Pretrain) -> LanguageModel:
    """An earlier model with the words of `vocab`; its shape must be the recipe's."""
    theirs = {
        "embedding": start.network.size,
        "hidden": start.network.sizes[0],
        "layers": len(start.network.sizes),
        "direction": start.direction,
    }
    differing = [f"pretrain.{name}={value}" for name, value in theirs.items() if value != getattr(recipe, name)]
    if differing:
        raise RecipeError(
            f"the model to start from has another shape than the recipe: use --set {' --set '.join(differing)}"
        )
    model = with_vocab(start, vocab)
    model.network.dropouts = LANGUAGE_MODEL_DROPOUTS.times(recipe.dropout)
    return model


@dataclass(frozen=True)
class Start:
    """Where a model starts: at random, from an earlier model, or from the published weights and words."""

    model: str = ""
    published: tuple[str, ...] = ()  # the file of the weights, and that of the words

    def load(self, recipe: Pretrain) -> LanguageModel | None:
        """The model to start from, None for a random start."""
        if self.model and self.published:
            raise InputError("--start and --published exclude each other: a model starts from one of them")
        if self.published:
            return read_published(*self.published, direction=recipe.direction)
        return load_language_model(self.model) if self.model else None


def _together(work: Work, section: Pretrain) -> Together:
    together = work.settings.together
    return together if together is not None and shares_streams(section, together) else ALONE


def pretrain_step(
    further: FurtherText = FurtherText(),  # noqa: B008  # frozen
    start: Start = Start(),  # frozen
    log: Callable[[LanguageModelEpoch], None] = lambda epoch: None,
) -> Step:
    """The step that trains a language model, on the user's text too and from where the user says."""

    def make(work: Work) -> Pretrained:
        section = work.section(Pretrain)
        return pretrain(
            work["view"],
            section,
            more=text_to_learn(work, section, further),
            dev=text_to_measure(work, section),
            start=start.load(section),
            runtime=Runtime(work.checkpoint, work.settings.device, log, work.progress, _together(work, section)),
        )

    return Step(
        "language-model",
        make,
        lambda recipe: needs_text(recipe.pretrain, further),
        sections=("pretrain", *(("prepare",) if further.files else ())),
        kind=LANGUAGE_MODEL,
        folder="language-model-{pretrain.direction}",
        files=lambda recipe: (*further.inputs, *start.published, *([start.model] if start.model else [])),
    )


LANGUAGE_MODEL = Kind(KIND, save_pretrained, load_pretrained)
PRETRAIN = pretrain_step()
