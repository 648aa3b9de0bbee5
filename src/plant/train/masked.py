"""Training a transformer to guess hidden sub-words, with checkpoints that resume to the same bits."""

import math
from collections.abc import Iterator
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
from plant.train.epochs import Parts, State, Surroundings, descend, run_epochs
from plant.train.precision import mixed_precision
from plant.train.schedule import slanted_triangular
from plant.train.seed import seeded


@dataclass(frozen=True)
class Text:
    """Windows of sub-words between two special ones; shorter ones end in padding."""

    numbers: NDArray[np.int64]  # [window, position]
    lengths: NDArray[np.int64]  # special ones included

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Epoch:
    """What one epoch did: mean cross-entropy of hidden sub-words, and the same on dev text (None without any)."""

    number: int
    loss: float
    dev_loss: float | None
    seconds: float


def train_masked(
    model: MaskedModel,
    tokenizer: SubwordTokenizer,
    text: Text,
    recipe: Masked,
    *,
    seed: int,
    dev: Text | None = None,
    surroundings: Surroundings[Epoch] = Surroundings(),  # noqa: B008  # frozen
) -> tuple[Epoch, ...]:
    """Train in place; goes on from the checkpoint where there is one. The dev text is only ever measured."""
    device, minutes = surroundings.device, recipe.checkpoint_minutes
    with seeded(seed):
        course = _Guessing(model.to(device), tokenizer, text, recipe, seed, dev, device)
        return run_epochs(course, surroundings, Epoch, epochs=recipe.epochs, minutes=minutes)


@dataclass(frozen=True)
class _Guessing:
    """Sub-words are hidden and guessed, in windows that are shuffled anew for each epoch."""

    model: MaskedModel
    tokenizer: SubwordTokenizer
    text: Text
    recipe: Masked
    seed: int
    dev: Text | None
    device: str

    @cached_property
    def optimizer(self) -> Optimizer:
        recipe = self.recipe
        return torch.optim.AdamW(self.model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)

    @cached_property
    def steps(self) -> int:
        return math.ceil(len(self.text) / self.recipe.batch)

    def updates(self, epoch: int, first: int) -> Iterator[float]:
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.text))
        for step in range(first, self.steps):
            with mixed_precision(self.device, wanted=self.recipe.mixed_precision):
                loss = self._loss(self.text, order[step * self.recipe.batch : (step + 1) * self.recipe.batch])
            share = slanted_triangular(epoch * self.steps + step, self.recipe.epochs * self.steps)
            descend(self.optimizer, loss, rate=self.recipe.learning_rate * share, clip=self.recipe.clip)
            yield float(loss.detach())

    def done(self, state: State[Epoch]) -> tuple[str, int, int]:
        done = state.epoch * self.steps + state.step
        return "guessing hidden words", done, self.recipe.epochs * self.steps

    def measured(self, state: State[Epoch]) -> Epoch:
        return Epoch(
            number=state.epoch + 1,
            loss=state.loss_sum / max(1, self.steps),
            dev_loss=self._dev_loss(),
            seconds=round(state.seconds, 3),
        )

    def parts(self) -> Parts:
        return {"model": dict(self.model.named_parameters())}

    def take_back(self, parts: Parts) -> None:
        for name, parameter in self.model.named_parameters():  # tied weights stand in the state once
            parameter.data.copy_(parts["model"][name])

    def _loss(self, text: Text, rows: NDArray[np.intp]) -> Tensor:
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
