"""Training a transformer to guess hidden sub-words, with checkpoints that resume to the same bits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from plant.nn.language.masked import MaskedModel, Questions, ask, masked_loss
from plant.recipe.schema import Masked
from plant.text.subwords import SubwordTokenizer
from plant.train.loop import Phase, Runtime, State, StateDicts, Trainer
from plant.train.precision import mixed_precision
from plant.train.schedule import slanted_triangular
from plant.train.seed import seeded


@dataclass(frozen=True)
class SubwordWindows:
    """Windows of sub-words between two special ones; shorter ones end in padding."""

    numbers: NDArray[np.int64]  # [window, position]
    lengths: NDArray[np.int64]  # special ones included

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class MaskedEpoch:
    """What one epoch did: mean cross-entropy of hidden sub-words, and the same on dev text (None without any)."""

    number: int
    loss: float
    dev_loss: float | None
    seconds: float


def train_masked(
    model: MaskedModel,
    tokenizer: SubwordTokenizer,
    text: SubwordWindows,
    recipe: Masked,
    *,
    seed: int,
    dev: SubwordWindows | None = None,
    runtime: Runtime[MaskedEpoch] = Runtime(),  # noqa: B008  # frozen
) -> tuple[MaskedEpoch, ...]:
    """Train in place; goes on from the checkpoint where there is one. The dev text is only ever measured."""
    task = _MaskedTask(model.to(runtime.device), tokenizer, text, recipe, seed, dev, runtime.device)
    trainer = Trainer(
        MaskedEpoch,
        [Phase("all", recipe.epochs)],
        schedule=slanted_triangular,
        clip=recipe.clip,
        checkpoint_minutes=recipe.checkpoint_minutes,
    )
    return trainer.fit(task, runtime, seed=seed)


@dataclass(frozen=True)
class _MaskedTask:
    """Hidden sub-words, in windows that are shuffled anew for each epoch."""

    model: MaskedModel
    tokenizer: SubwordTokenizer
    text: SubwordWindows
    recipe: Masked
    seed: int
    dev: SubwordWindows | None
    device: str

    @cached_property
    def optimizer(self) -> Optimizer:
        recipe = self.recipe
        return torch.optim.AdamW(self.model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)

    def batches(self, epoch: int) -> Sequence[NDArray[np.intp]]:
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.text))
        return [order[first : first + self.recipe.batch] for first in range(0, len(order), self.recipe.batch)]

    def training_step(self, rows: NDArray[np.intp]) -> float:
        with mixed_precision(self.device, wanted=self.recipe.mixed_precision):
            loss = self._loss(self.text, rows)
        loss.backward()
        return float(loss.detach())

    def progress(self, state: State[MaskedEpoch]) -> tuple[str, int, int]:
        done = state.epoch * state.steps + state.step
        return "guessing hidden words", done, self.recipe.epochs * state.steps

    def validate(self, state: State[MaskedEpoch]) -> MaskedEpoch:
        return MaskedEpoch(
            number=state.epoch + 1,
            loss=state.loss_sum / max(1, state.steps),
            dev_loss=self._dev_loss(),
            seconds=round(state.seconds, 3),
        )

    def state_dicts(self) -> StateDicts:
        return {"model": dict(self.model.named_parameters())}

    def load_state_dicts(self, saved: StateDicts) -> None:
        for name, parameter in self.model.named_parameters():  # tied weights stand in the state once
            parameter.data.copy_(saved["model"][name])

    def _loss(self, text: SubwordWindows, rows: NDArray[np.intp]) -> Tensor:
        longest = int(text.lengths[rows].max())
        numbers = torch.from_numpy(text.numbers[rows, :longest])
        lengths = torch.from_numpy(text.lengths[rows]).unsqueeze(1)
        places = torch.arange(longest)
        words = (places > 0) & (places < lengths - 1)
        n_subwords = self.model.network.config.vocab_size
        questions = ask(numbers, words, self.tokenizer, share=self.recipe.share, n_subwords=n_subwords)
        if not bool(questions.asked.any()):  # a few short texts: ask for one sub-word, or there is nothing to learn
            asked = torch.zeros_like(questions.asked)
            asked[0, 1] = True
            questions = Questions(questions.inputs, asked)
        there = Questions(questions.inputs.to(self.device), questions.asked.to(self.device))
        logits = self.model(there, (places < lengths).to(self.device))
        return masked_loss(logits, numbers[questions.asked].to(self.device))

    @torch.no_grad()
    def _dev_loss(self) -> float | None:
        """Measured with hidden places of its own, the same each time."""
        if self.dev is None or not len(self.dev):
            return None
        self.model.eval()
        blocks = np.array_split(np.arange(len(self.dev)), math.ceil(len(self.dev) / self.recipe.batch))
        with seeded(0):
            return float(np.mean([float(self._loss(self.dev, block)) for block in blocks]))
