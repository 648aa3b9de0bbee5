"""Training a transformer to answer prompts: whether a code whose title it reads is one of the note that follows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor

from plant.data.batches import shuffled_batches
from plant.nn.language.prompts import Pages, PromptedModel, load_parameters
from plant.recipe.schema import Fit
from plant.train.history import ClassifierEpoch
from plant.train.loop import Phase, Runtime, State, StateDicts, Trainer, early_stopping
from plant.train.precision import mixed_precision
from plant.train.schedule import SCHEDULES

Lesson = tuple[Pages, Bool[Tensor, "pair"]]
"""Pages, and whether the code of each pair is right."""


@dataclass(frozen=True)
class PromptLessons:
    """Fitted notes by row: their lengths, how some are asked about, and how the choosing notes are measured."""

    lengths: NDArray[np.int64]
    pages: Callable[[NDArray[np.intp]], Lesson]
    measured: Callable[[], Mapping[str, float]]


def train_prompted(
    model: PromptedModel,
    lessons: PromptLessons,
    recipe: Fit,
    *,
    seed: int,
    runtime: Runtime[ClassifierEpoch] = Runtime(),  # noqa: B008  # frozen
) -> tuple[ClassifierEpoch, ...]:
    """Train in place to the weights that were best on the choosing notes; goes on from a checkpoint if there is one."""
    task = _PromptedTask(model.to(runtime.device), lessons, recipe, seed, runtime)
    trainer = Trainer(
        ClassifierEpoch,
        [Phase("all", recipe.epochs)],
        schedule=SCHEDULES[recipe.schedule],
        accumulate=recipe.accumulate,
        clip=recipe.clip,
        stop=early_stopping(recipe.patience),
        score=lambda epoch: _score(epoch, recipe.measure),
        checkpoint_minutes=recipe.checkpoint_minutes,
    )
    return trainer.fit(task, runtime, seed=seed)


def _score(epoch: ClassifierEpoch, measure: str) -> float:
    return -epoch.measures["loss"] if measure == "loss" else epoch.measures[measure]


@dataclass(frozen=True)
class _PromptedTask:
    """Candidates of notes, some notes at a time."""

    model: PromptedModel
    lessons: PromptLessons
    recipe: Fit
    seed: int
    runtime: Runtime[ClassifierEpoch]

    @cached_property
    def optimizer(self) -> torch.optim.AdamW:
        recipe = self.recipe
        return torch.optim.AdamW(
            self.model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, eps=1e-7
        )

    def batches(self, epoch: int) -> Sequence[NDArray[np.intp]]:
        return shuffled_batches(self.lessons.lengths, size=self.recipe.batch, seed=self.seed, epoch=epoch)

    def training_step(self, rows: NDArray[np.intp]) -> float:
        device = self.runtime.device
        pages, right = self.lessons.pages(rows)
        with mixed_precision(device, wanted=self.recipe.mixed_precision):
            loss = self.model.loss(pages.to(device), right.to(device))
        (loss / self.recipe.accumulate).backward()
        return float(loss.detach()) * len(rows)

    def validate(self, state: State[ClassifierEpoch]) -> ClassifierEpoch:
        self.model.eval()
        loss = state.loss_sum / max(1, len(self.lessons.lengths))
        return ClassifierEpoch(
            state.epoch + 1, state.phase, loss, dict(self.lessons.measured()), round(state.seconds, 3)
        )

    def progress(self, state: State[ClassifierEpoch]) -> tuple[str, int, int]:
        best = "" if state.best is None else f", best {self.recipe.measure} {abs(state.best):.4f}"
        return f"epoch {state.epoch + 1} of {self.recipe.epochs} (prompts{best})", state.step, state.steps

    def state_dicts(self) -> StateDicts:
        return {"model": dict(self.model.named_parameters())}

    def load_state_dicts(self, saved: StateDicts) -> None:
        load_parameters(self.model, saved["model"])
