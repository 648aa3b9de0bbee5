"""transform: the transformer of a recipe, from a folder or new, and further trained on the corpus's text if asked."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plant.data.corpus import Documents, TrainingView
from plant.data.subwords import with_subwords
from plant.errors import InputError, RecipeError
from plant.nn.language.masked import MaskedModel
from plant.nn.language.transformer import (
    POOLER,
    Transformer,
    check_window,
    network_of,
    new_config,
    read_folder,
    read_head,
)
from plant.nn.parts.table import ENCODERS
from plant.recipe.schema import Masked, Recipe
from plant.steps.step import Step, Work
from plant.steps.texts import FurtherText, needs_text, text_to_learn, text_to_measure
from plant.store.artifact import Manifest, is_artifact, open_artifact, save_artifact
from plant.store.checks import check_epochs, check_finite, well_formed
from plant.store.keeper import Kind
from plant.text.subwords import SubwordTokenizer, tokenizer_from_json, train_wordpiece
from plant.train.loop import Runtime
from plant.train.masked import MaskedEpoch, SubwordWindows, train_masked
from plant.train.seed import seeded

KIND = "transformer"
ENCODER = "transformer"
SHAPE = ("folder", "pieces", "hidden", "layers", "heads")


@dataclass(frozen=True)
class Transformed:
    """A transformer, how its further training went, on how many sub-words, and whether held-out text was among them."""

    transformer: Transformer
    history: tuple[MaskedEpoch, ...] = ()
    subwords: int = 0
    held_out_text: bool = False


def transform(
    view: TrainingView,
    shape: Mapping[str, Any],
    recipe: Masked,
    *,
    more: Sequence[Documents] = (),
    dev: Documents | None = None,
    runtime: Runtime[MaskedEpoch] = Runtime(),  # noqa: B008  # frozen
) -> Transformed:
    """A transformer of some shape, trained on the view's text and on `more` for as many epochs as the recipe says."""
    start = _start(view, shape, recipe.seed)
    if not recipe.epochs:
        return Transformed(start)
    check_window(recipe.window, start.config, option="masked.window")
    text = windows_of([view.documents, *more], start.tokenizer, recipe)
    if not len(text):
        raise InputError("there is no text to train a transformer on: the fitted notes have no words")
    with seeded(recipe.seed):
        model = MaskedModel(start, head=head_of(shape["folder"]))
    history = train_masked(
        model,
        start.tokenizer,
        text,
        recipe,
        seed=recipe.seed,
        dev=None if dev is None else windows_of([dev], start.tokenizer, recipe),
        runtime=runtime,
    )
    return Transformed(model.trained(start), history, int((text.lengths - 2).sum()), recipe.held_out_text)


def shape_of(recipe: Recipe) -> dict[str, Any]:
    """The options of the encoder that decide its transformer."""
    if recipe.encoder.name != ENCODER:
        raise RecipeError(f"this recipe has encoder {recipe.encoder.name!r}: only a transformer guesses hidden words")
    return {name: recipe.encoder.options.get(name, ENCODERS.options(ENCODER)[name]) for name in SHAPE}


def windows_of(documents: Sequence[Documents], tokenizer: SubwordTokenizer, recipe: Masked) -> SubwordWindows:
    """All sub-words of some documents in windows that do not cross from one document to the next."""
    size = recipe.window
    rows: list[np.ndarray] = []
    for some in documents:
        cut = with_subwords(some, tokenizer).subwords
        assert cut is not None
        for start, end in zip(cut.starts[:-1].tolist(), cut.starts[1:].tolist(), strict=True):
            rows.extend(cut.numbers[first : min(first + size, end)] for first in range(start, end, size))
    numbers = np.full((len(rows), size + 2), tokenizer.padding, np.int64)
    lengths = np.array([len(row) + 2 for row in rows], np.int64)
    numbers[:, 0] = tokenizer.first
    for place, row in enumerate(rows):
        numbers[place, 1 : len(row) + 1] = row
        numbers[place, len(row) + 1] = tokenizer.last
    return SubwordWindows(numbers, lengths)


def save_transformed(
    transformed: Transformed,
    path: Path | str,
    *,
    recipe: Mapping[str, Any] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> Manifest:
    """Write a transformer as an artifact that `encoder.folder` may name."""
    transformer = transformed.transformer
    pooler = {f"{POOLER}{name}": tensor for name, tensor in transformer.pooler.items()}
    return save_artifact(
        path,
        KIND,
        tensors={name: tensor.numpy() for name, tensor in {**transformer.weights, **pooler}.items()},
        files={"config.json": json.dumps(dict(transformer.config)), "subwords.json": transformer.tokenizer.to_json()},
        recipe=recipe,
        inputs=inputs,
        facts={
            "subwords": transformed.subwords,
            "held_out_text": transformed.held_out_text,
            "history": [asdict(epoch) for epoch in transformed.history],
        },
    )


def load_transformed(path: Path | str) -> Transformed:
    """Read what `save_transformed` wrote."""
    artifact = open_artifact(path, KIND)
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in artifact.tensors.items()}
    facts = artifact.manifest.facts
    with well_formed(path):
        check_finite(artifact.tensors)
        check_epochs(facts["history"])
        transformer = Transformer(
            config=artifact.table("config.json"),
            tokenizer=tokenizer_from_json(artifact.text("subwords.json")),
            weights={name: tensor for name, tensor in tensors.items() if not name.startswith(POOLER)},
            pooler={name.removeprefix(POOLER): t for name, t in tensors.items() if name.startswith(POOLER)},
        )
        history = tuple(MaskedEpoch(**epoch) for epoch in facts["history"])
        return Transformed(transformer, history, facts["subwords"], facts["held_out_text"])


def _start(view: TrainingView, shape: Mapping[str, Any], seed: int) -> Transformer:
    """The checkpoint of the shape's folder, or a new network with a tokenizer learned from the fitted text alone."""
    if shape["folder"]:
        return _read(shape["folder"])
    texts = (view.documents.text_of(row) for row in range(len(view.documents)))
    if not len(view.documents.text):
        raise InputError("a transformer reads the texts, which this corpus was prepared without: set keep_text = true")
    tokenizer = train_wordpiece(texts, size=shape["pieces"])
    sizes = {name: shape[name] for name in ("hidden", "layers", "heads")}
    config = new_config(len(tokenizer), **sizes, padding=tokenizer.padding)
    with seeded(seed):
        weights = network_of(config, {}).state_dict()
    return Transformer(config, tokenizer, weights)


def _read(folder: str) -> Transformer:
    return load_transformed(folder).transformer if is_artifact(folder, KIND) else read_folder(folder)


def head_of(folder: str) -> Mapping[str, torch.Tensor]:
    """The checkpoint's own head for hidden words, where there is a checkpoint with one."""
    return {} if not folder or is_artifact(folder, KIND) else read_head(folder)


def transform_step(
    further: FurtherText = FurtherText(),  # noqa: B008  # frozen
    log: Callable[[MaskedEpoch], None] = lambda epoch: None,
) -> Step:
    """The step that makes a recipe's transformer; kept only where it was trained, which takes long."""

    def make(work: Work) -> Transformed:
        section = work.section(Masked)
        return transform(
            work["view"],
            work.knobs["shape"],
            section,
            more=text_to_learn(work, section, further) if section.epochs else (),
            dev=text_to_measure(work, section) if section.epochs else None,
            runtime=Runtime(work.checkpoint, work.settings.device, log, work.progress),
        )

    return Step(
        KIND,
        make,
        lambda recipe: needs_text(recipe.masked, further),
        sections=("masked", *(("prepare",) if further.files else ())),
        kind=TRANSFORMER,
        knobs=lambda recipe: {"shape": shape_of(recipe)},
        files=lambda recipe: (shape_of(recipe)["folder"], *further.inputs),
        kept=lambda recipe: recipe.masked.epochs > 0,
    )


TRANSFORMER = Kind(KIND, save_transformed, load_transformed)
TRANSFORM = transform_step()
