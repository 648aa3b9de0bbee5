"""How a transformer is taught to re-rank by prompts; apart from the fitted one, which is opened without training."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plant.data.batches import together
from plant.data.corpus import Documents, TrainingView
from plant.evaluate.choosing.judge import BestScores, Judge, best_scores
from plant.evaluate.choosing.pairs import are_many
from plant.evaluate.scores.lists import Lists
from plant.nn.language.prompts import PromptedModel, PromptPlan, answers_of
from plant.nn.language.transformer import Transformer, check_window
from plant.nn.parts.table import ENCODERS
from plant.recipe.schema import Recipe
from plant.systems.kept import KeptSystem, titles_of
from plant.systems.system import FittedSystem, probabilities, readings
from plant.train.history import ClassifierEpoch
from plant.train.loop import Runtime
from plant.train.prompted import Lesson, PromptLessons, train_prompted
from plant.train.seed import seeded


def fit_kept(
    view: TrainingView,
    choosing: Documents,
    recipe: Recipe,
    transformer: Transformer,
    *,
    first: FittedSystem | None,
    head: Mapping[str, Tensor],
    judge: Judge,
    runtime: Runtime[ClassifierEpoch] = Runtime(),  # noqa: B008  # frozen
) -> tuple[KeptSystem, tuple[ClassifierEpoch, ...]]:
    """Train on the first system's candidates of the fitted notes, which are those that taught that system."""
    system = _untrained(view, recipe, transformer, first, head, runtime.device)
    lengths = np.diff(view.documents.token_starts)
    lessons = PromptLessons(lengths, _lessons(system, view.documents), lambda: judge(_said(system, choosing)))
    history = train_prompted(system.model, lessons, recipe.fit, seed=recipe.seed, runtime=runtime)
    system.model.eval()
    return system, history


def _untrained(
    view: TrainingView,
    recipe: Recipe,
    transformer: Transformer,
    first: FittedSystem | None,
    head: Mapping[str, Tensor],
    device: str,
) -> KeptSystem:
    options = {**ENCODERS.options(recipe.encoder.name), **recipe.encoder.options}
    check_window(options["window"], transformer.config, option="encoder.window")
    plan = PromptPlan(options["window"], recipe.kept.prompt, options["overlap"])
    yes, no = answers_of(transformer.tokenizer, new=not options["folder"])
    titles = titles_of(view.codes, view.codebook, transformer.tokenizer, plan)
    with seeded(recipe.seed):
        model = PromptedModel(transformer, yes=yes, no=no, head=head)
    shape = replace(transformer, weights={}, pooler={})
    return KeptSystem(model.to(device), shape, titles, plan, first, recipe.kept.candidates, device)


def _candidates(system: KeptSystem, documents: Documents) -> list[list[int]]:
    """The labels that are asked for in each document."""
    if system.first is None:
        return system.candidates(None, len(documents))
    found: dict[int, list[int]] = {}
    for rows, reading in readings(system.first, documents, size=together(len(system.titles))):
        found |= zip(rows.tolist(), system.candidates(reading, len(rows)), strict=True)
    return [found[row] for row in range(len(documents))]


def _lessons(system: KeptSystem, documents: Documents) -> Callable[[NDArray[np.intp]], Lesson]:
    """The pages of some fitted notes, and which of their candidates are right."""
    candidates, readable = _candidates(system, documents), system.readable(documents)

    def lesson(rows: NDArray[np.intp]) -> Lesson:
        numbers = rows.tolist()
        asked = [candidates[row] for row in numbers]
        right = [np.isin(labels, documents.labels_of(row)) for row, labels in zip(numbers, asked, strict=True)]
        return system.pages(readable, numbers, asked), torch.from_numpy(np.concatenate(right))

    return lesson


def _said(system: KeptSystem, choosing: Documents) -> NDArray[np.float32] | BestScores:
    """The probabilities of the choosing notes, or the best of them where all would be too many."""
    n_labels = len(system.titles)
    if not are_many(len(choosing), n_labels):
        return probabilities(system, choosing, n_labels=n_labels)
    few = readings(system, choosing, size=together(n_labels))
    return best_scores(((rows, reading.scores) for rows, reading in few), Lists(choosing.labels, choosing.label_starts))
