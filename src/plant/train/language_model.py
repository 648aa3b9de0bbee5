"""Training a language model on contiguous streams of text, with checkpoints that resume to the same bits."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plant.data.batches import sorted_batches
from plant.data.corpus import Documents
from plant.nn.language_model import Carry, LanguageModel
from plant.nn.next_word import IGNORED, next_word_loss, sample_words
from plant.recipe import Pretrain
from plant.text.vocab import PADDING
from plant.train.checkpoint import resume_training, save_training
from plant.train.precision import mixed_precision
from plant.train.schedule import one_cycle
from plant.train.seed import seeded
from plant.train.streams import Text, streams
from plant.types import Progress, silent


@dataclass(frozen=True)
class Fluency:
    """How well a text is foreseen: e to the mean cross-entropy of a word, and the share of words guessed first."""

    perplexity: float
    accuracy: float


@dataclass(frozen=True)
class Epoch:
    """What one epoch of training did; `perplexity` and `accuracy` are those of the dev text, None without any."""

    number: int
    loss: float
    perplexity: float | None
    accuracy: float | None
    seconds: float
    tokens_per_second: float


@dataclass(frozen=True)
class State:
    """Where a training is; with the weights, the carry and the random state, all that is needed to go on."""

    epoch: int = 0
    step: int = 0  # segments done in this epoch
    loss_sum: float = 0.0
    seconds: float = 0.0
    history: tuple[Epoch, ...] = ()


def train_language_model(
    model: LanguageModel,
    text: Text,
    recipe: Pretrain,
    *,
    seed: int,
    dev: Documents | None = None,
    checkpoint: Path | None = None,
    device: str = "cpu",
    log: Callable[[Epoch], None] = lambda epoch: None,
    progress: Progress = silent,
) -> tuple[Epoch, ...]:
    """Train in place; goes on from `checkpoint` where there is one. The dev text is only ever measured."""
    with seeded(seed):
        return _Training(model.to(device), text, recipe, seed, dev, checkpoint, device, log, progress).run()


@torch.no_grad()
def fluency(model: LanguageModel, documents: Documents, *, batch: int = 16, segment: int = 64) -> Fluency:
    """Measure a model on documents, each read from its beginning, its end included in what is foreseen."""
    model.eval()
    loss = hits = count = 0.0
    for rows in sorted_batches(np.diff(documents.token_starts), size=batch):
        carry: Carry | None = None
        tokens, targets = _questions([documents.tokens_of(int(row)) for row in rows], model.direction)
        for inputs, wanted in zip(tokens.split(segment, 1), targets.split(segment, 1), strict=True):
            logits, carry = model(inputs.to(model.bias.device), carry)
            kept = wanted != IGNORED
            scores, words = logits[kept.to(logits.device)].float().log_softmax(-1).cpu(), wanted[kept]
            loss -= float(scores.gather(1, words.unsqueeze(1)).double().sum())
            hits += int((scores.argmax(1) == words).sum())
            count += len(words)
    return Fluency(math.exp(loss / max(1, count)), hits / max(1, count))


def _questions(documents: list[Any], direction: str) -> tuple[Tensor, Tensor]:
    """What is read and what is foreseen: a document after, and before, the token that parts documents."""
    width = max(len(tokens) for tokens in documents) + 1
    read, foreseen = (torch.full((len(documents), width), value) for value in (PADDING, IGNORED))
    for row, tokens in enumerate(documents):
        ordered = torch.from_numpy(np.array(tokens if direction == "forward" else tokens[::-1], np.int64))
        read[row, 1 : len(tokens) + 1] = ordered
        foreseen[row, : len(tokens)] = ordered
        foreseen[row, len(tokens)] = PADDING
    return read, foreseen


@dataclass
class _Training:
    """One training run; `state` and `carry` are replaced as it goes on."""

    model: LanguageModel
    text: Text
    recipe: Pretrain
    seed: int
    dev: Documents | None
    checkpoint: Path | None
    device: str
    log: Callable[[Epoch], None]
    progress: Progress
    state: State = field(default_factory=State)
    carry: Carry | None = None

    def __post_init__(self) -> None:
        recipe = self.recipe
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.99), weight_decay=recipe.weight_decay,
            fused=True,
        )  # fmt: skip
        self.steps = math.ceil(math.ceil(self.text.n_questions / recipe.batch) / recipe.bptt)
        self.shares = torch.from_numpy(self.text.shares(len(self.model.vocab))).to(self.device)
        self.saved_at = time.monotonic()

    def run(self) -> tuple[Epoch, ...]:
        self._resume()
        while self.state.epoch < self.recipe.epochs:
            self._run_epoch()
        return self.state.history

    def _run_epoch(self) -> None:
        self.model.train()
        started = time.monotonic() - self.state.seconds
        for inputs, targets in self._segments():
            loss = self._step(inputs.to(self.device), targets.to(self.device))
            step, seconds = self.state.step + 1, time.monotonic() - started
            self.state = replace(self.state, step=step, loss_sum=self.state.loss_sum + loss, seconds=seconds)
            done = (self.state.epoch + step / self.steps) * self.text.n_questions
            self.progress("tokens read", round(done), self.recipe.epochs * self.text.n_questions)
            if step < self.steps and time.monotonic() - self.saved_at >= 60 * self.recipe.checkpoint_minutes:
                self._save()
        self._finish_epoch()

    def _segments(self) -> Iterator[tuple[Tensor, Tensor]]:
        """What is left of this epoch's text."""
        read, foreseen = streams(
            self.text, batch=self.recipe.batch, direction=self.model.direction, seed=self.seed, epoch=self.state.epoch
        )
        for step in range(self.state.step, self.steps):
            columns = slice(step * self.recipe.bptt, (step + 1) * self.recipe.bptt)
            yield torch.from_numpy(read[:, columns]).long(), torch.from_numpy(foreseen[:, columns]).long()

    def _step(self, inputs: Tensor, targets: Tensor) -> float:
        """One update; returns the sum of the cross-entropy over the segment."""
        share = one_cycle(self.state.epoch * self.steps + self.state.step, self.recipe.epochs * self.steps)
        for settings in self.optimizer.param_groups:
            settings["lr"] = self.recipe.learning_rate * share
        with mixed_precision(self.device, wanted=self.recipe.mixed_precision):
            states, carry = self.model.network(inputs, self.carry)
        self.carry = tuple((hidden.detach(), cell.detach()) for hidden, cell in carry)  # truncated at the segment
        states = states.float()
        dropped = self.model.dropped(states)
        loss = self._loss(dropped.flatten(0, 1), targets.flatten())
        calm = self.recipe.ar * dropped.square().mean() + self.recipe.tar * states.diff(dim=1).square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        (loss + calm if states.shape[1] > 1 else loss).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimizer.step()
        return float(loss.detach()) * int((targets != IGNORED).sum())

    def _loss(self, states: Tensor, targets: Tensor) -> Tensor:
        words, bias = self.model.network.words, self.model.bias
        if self.recipe.sampled_words <= 0:
            return next_word_loss(states, words, bias, targets)
        sample = sample_words(targets, self.shares, drawn=self.recipe.sampled_words)
        return next_word_loss(states, words[sample.words], bias[sample.words] - sample.log_chance, sample.targets)

    def _finish_epoch(self) -> None:
        state = self.state
        measured = fluency(self.model, self.dev) if self.dev is not None else None
        epoch = Epoch(
            number=state.epoch + 1,
            loss=state.loss_sum / self.text.n_questions,
            perplexity=measured.perplexity if measured else None,
            accuracy=measured.accuracy if measured else None,
            seconds=round(state.seconds, 3),
            tokens_per_second=round(self.text.n_questions / max(state.seconds, 1e-9), 1),
        )
        self.state, self.carry = State(epoch=epoch.number, history=(*state.history, epoch)), None
        self.log(epoch)
        self._save()

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        parts = {"model": self.model.state_dict(), "carry": _named(self.carry or ())}
        save_training(self.checkpoint, parts, asdict(self.state), optimizer=self.optimizer)
        self.saved_at = time.monotonic()

    def _resume(self) -> None:
        saved = resume_training(self.checkpoint, "model", "carry", optimizer=self.optimizer)
        if saved is None:
            return
        self.model.load_state_dict(saved.parts["model"])
        self.carry = _carry_from(saved.parts["carry"], self.device)
        history = tuple(Epoch(**epoch) for epoch in saved.state["history"])
        self.state = State(**{**saved.state, "history": history})


def _named(carry: Carry) -> dict[str, Tensor]:
    return {f"{n}.{part}": t for n, pair in enumerate(carry) for part, t in zip("hc", pair, strict=True)}


def _carry_from(named: Mapping[str, Tensor], device: str) -> Carry | None:
    layers = range(len(named) // 2)
    return tuple((named[f"{n}.h"].to(device), named[f"{n}.c"].to(device)) for n in layers) or None
