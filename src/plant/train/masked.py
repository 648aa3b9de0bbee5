"""Training a transformer to guess hidden sub-words, with checkpoints that resume to the same bits."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from plant.nn.masked import MaskedModel, Questions, ask, masked_loss
from plant.recipe import Masked
from plant.text.subwords import SubwordTokenizer
from plant.train.checkpoint import resume_training, save_training
from plant.train.precision import mixed_precision
from plant.train.schedule import slanted_triangular
from plant.train.seed import seeded
from plant.types import Progress, silent


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


@dataclass(frozen=True)
class State:
    """Where a training is; with the weights and the random state, all that is needed to go on."""

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    seconds: float = 0.0
    history: tuple[Epoch, ...] = ()


def train_masked(
    model: MaskedModel,
    tokenizer: SubwordTokenizer,
    text: Text,
    recipe: Masked,
    *,
    seed: int,
    dev: Text | None = None,
    checkpoint: Path | None = None,
    device: str = "cpu",
    log: Callable[[Epoch], None] = lambda epoch: None,
    progress: Progress = silent,
) -> tuple[Epoch, ...]:
    """Train in place; goes on from `checkpoint` where there is one. The dev text is only ever measured."""
    with seeded(seed):
        return _Training(model.to(device), tokenizer, text, recipe, seed, dev, checkpoint, device, log, progress).run()


@dataclass
class _Training:
    """One training run; `state` is replaced as it goes on."""

    model: MaskedModel
    tokenizer: SubwordTokenizer
    text: Text
    recipe: Masked
    seed: int
    dev: Text | None
    checkpoint: Path | None
    device: str
    log: Callable[[Epoch], None]
    progress: Progress
    state: State = field(default_factory=State)

    def __post_init__(self) -> None:
        recipe = self.recipe
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
        )
        self.steps = math.ceil(len(self.text) / recipe.batch)
        self.saved_at = time.monotonic()

    def run(self) -> tuple[Epoch, ...]:
        self._resume()
        while self.state.epoch < self.recipe.epochs:
            self._run_epoch()
        return self.state.history

    def _run_epoch(self) -> None:
        self.model.train()
        order = np.random.default_rng([self.seed, self.state.epoch]).permutation(len(self.text))
        started, size = time.monotonic() - self.state.seconds, self.recipe.batch
        for step in range(self.state.step, self.steps):
            loss = self._step(order[step * size : (step + 1) * size])
            seconds, total = time.monotonic() - started, self.state.loss_sum + loss
            self.state = replace(self.state, step=step + 1, loss_sum=total, seconds=seconds)
            done = self.state.epoch * self.steps + step + 1
            self.progress("guessing hidden words", done, self.recipe.epochs * self.steps)
            if step + 1 < self.steps and time.monotonic() - self.saved_at >= 60 * self.recipe.checkpoint_minutes:
                self._save()
        self._finish_epoch()

    def _step(self, rows: NDArray[np.intp]) -> float:
        """One update; returns the mean cross-entropy."""
        share = slanted_triangular(self.state.epoch * self.steps + self.state.step, self.recipe.epochs * self.steps)
        for settings in self.optimizer.param_groups:
            settings["lr"] = self.recipe.learning_rate * share
        with mixed_precision(self.device, wanted=self.recipe.mixed_precision):
            loss = self._loss(self.text, rows)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimizer.step()
        return float(loss.detach())

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

    def _finish_epoch(self) -> None:
        state = self.state
        loss = state.loss_sum / max(1, self.steps)
        epoch = Epoch(state.epoch + 1, loss, self._dev_loss(), round(state.seconds, 3))
        self.state = State(epoch=epoch.number, history=(*state.history, epoch))
        self.log(epoch)
        self._save()

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        parts = {"model": dict(self.model.named_parameters())}
        save_training(self.checkpoint, parts, asdict(self.state), optimizer=self.optimizer)
        self.saved_at = time.monotonic()

    def _resume(self) -> None:
        saved = resume_training(self.checkpoint, "model", optimizer=self.optimizer)
        if saved is None:
            return
        for name, parameter in self.model.named_parameters():  # tied weights stand in the state once
            parameter.data.copy_(saved.parts["model"][name])
        history = tuple(Epoch(**epoch) for epoch in saved.state["history"])
        self.state = State(**{**saved.state, "history": history})
