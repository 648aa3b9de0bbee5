"""Training the network of one level of a label tree on candidates; its weights are averaged over the last epochs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from plant.data.batches import shuffled_batches
from plant.data.collate import collate
from plant.data.corpus import Documents
from plant.nn.asked import padded, scores_of
from plant.nn.classifier import Classifier
from plant.recipe.schema import Fit
from plant.train.history import ClassifierEpoch
from plant.train.loop import Phase, Runtime, State, StateDicts, Trainer, early_stopping
from plant.train.precision import mixed_precision
from plant.train.schedule import SCHEDULES


@dataclass(frozen=True)
class LevelLessons:
    """Fitted notes, the nodes that each is asked for and those that are right, and how choosing notes are measured."""

    fitted: Documents
    asked: Sequence[NDArray[np.int32]]
    right: Sequence[NDArray[np.int32]]
    measured: Callable[[], Mapping[str, float]]
    name: str


def train_level(
    classifier: Classifier,
    lessons: LevelLessons,
    recipe: Fit,
    *,
    average_from: int,
    seed: int,
    runtime: Runtime[ClassifierEpoch],
) -> tuple[ClassifierEpoch, ...]:
    """Train in place; from epoch `average_from` on (0: never) what is measured and kept is the mean of the epochs."""
    task = _LevelTask(classifier.to(runtime.device), lessons, recipe, average_from, seed, runtime)
    trainer = Trainer(
        ClassifierEpoch,
        [Phase(lessons.name, recipe.epochs)],
        schedule=SCHEDULES[recipe.schedule],
        accumulate=recipe.accumulate,
        clip=recipe.clip,
        stop=early_stopping(recipe.patience),
        score=lambda epoch: -epoch.measures["loss"] if recipe.measure == "loss" else epoch.measures[recipe.measure],
        checkpoint_minutes=recipe.checkpoint_minutes,
    )
    return trainer.fit(task, runtime, seed=seed, fingerprint=lessons.name)


@dataclass
class _LevelTask:
    """Nodes of notes; `latest` are the weights that training goes on from while their mean is in the network."""

    model: Classifier
    lessons: LevelLessons
    recipe: Fit
    average_from: int
    seed: int
    runtime: Runtime[ClassifierEpoch]
    latest: dict[str, Tensor] | None = None
    mean: dict[str, Tensor] | None = None
    averaged: int = 0

    @cached_property
    def optimizer(self) -> torch.optim.AdamW:
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        recipe = self.recipe
        return torch.optim.AdamW(parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)

    def batches(self, epoch: int) -> Sequence[NDArray[np.intp]]:
        if self.latest is not None:
            self.model.load_state_dict(self.latest)
            self.latest = None
        lengths = np.diff(self.lessons.fitted.token_starts)
        return shuffled_batches(lengths, size=self.recipe.batch, seed=self.seed, epoch=epoch)

    def training_step(self, rows: NDArray[np.intp]) -> float:
        device, numbers = self.runtime.device, rows.tolist()
        batch = collate(self.lessons.fitted, rows).to(device)
        nodes, mask = padded([self.lessons.asked[row] for row in numbers])
        right = np.zeros(nodes.shape, np.float32)
        for place, row in enumerate(numbers):
            right[place] = np.isin(nodes[place].numpy(), self.lessons.right[row])
        with mixed_precision(device, wanted=self.recipe.mixed_precision):
            logits = scores_of(self.model, self.model.encode(batch), nodes.to(device))
        # as in other trainings: the sum over labels, the mean over notes
        losses = F.binary_cross_entropy_with_logits(logits, torch.from_numpy(right).to(device), reduction="none")
        loss = torch.where(mask.to(device), losses, 0.0).sum() / len(rows)
        (loss / self.recipe.accumulate).backward()
        return float(loss.detach()) * len(rows)

    def validate(self, state: State[ClassifierEpoch]) -> ClassifierEpoch:
        self._average(state.epoch + 1)
        self.model.eval()
        loss = state.loss_sum / max(1, len(self.lessons.fitted))
        return ClassifierEpoch(
            state.epoch + 1, state.phase, loss, dict(self.lessons.measured()), round(state.seconds, 3)
        )

    def _average(self, epoch: int) -> None:
        """Put the mean of the epochs so far in the place of the weights, until training goes on."""
        if not self.average_from or epoch < self.average_from:
            return
        self.latest = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        self.averaged += 1
        self.mean = averaged(self.mean, self.latest, self.averaged)
        self.model.load_state_dict(self.mean)

    def progress(self, state: State[ClassifierEpoch]) -> tuple[str, int, int]:
        return f"{self.lessons.name}: epoch {state.epoch + 1} of {self.recipe.epochs}", state.step, state.steps

    def state_dicts(self) -> StateDicts:
        now = self.model.state_dict() if self.latest is None else self.latest
        return {"now": now, "mean": self.mean or {}, "count": {"averaged": torch.tensor(self.averaged)}}

    def load_state_dicts(self, saved: StateDicts) -> None:
        self.model.load_state_dict(dict(saved["now"]))
        self.latest, self.mean = None, dict(saved["mean"]) or None
        self.averaged = int(saved["count"]["averaged"])


def averaged(mean: Mapping[str, Tensor] | None, latest: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
    """The mean of `count` sets of weights, from that of all but the latest (Izmailov et al. 2018)."""
    if mean is None:
        return {name: tensor.clone() for name, tensor in latest.items()}
    return {
        name: mean[name] + (tensor - mean[name]) / count if tensor.is_floating_point() else tensor.clone()
        for name, tensor in latest.items()
    }
