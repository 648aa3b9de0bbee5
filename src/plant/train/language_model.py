"""Training a language model on contiguous streams of text, with checkpoints that resume to the same bits."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from plant.data.batches import sorted_batches
from plant.data.corpus import Documents
from plant.errors import RecipeError
from plant.nn.language.awd_lstm import Carry, LanguageModel
from plant.nn.language.next_word import IGNORED, next_word_loss, sample_words
from plant.recipe.schema import Pretrain
from plant.text.vocab import PADDING
from plant.train.loop import Phase, Runtime, State, StateDicts, Trainer
from plant.train.precision import mixed_precision
from plant.train.schedule import one_cycle
from plant.train.streams import Text, streams
from plant.train.together import ALONE, Together, check_size


@dataclass(frozen=True)
class Segment:
    """What some streams read and foresee, [stream, time]: a micro-batch of an update, which reads a segment of all."""

    read: NDArray[np.int32]
    foreseen: NDArray[np.int32]
    group: int = 0  # which streams
    of_words: float = 1.0  # their share of what the update foresees, and of its streams: the loss is a mean over
    of_streams: float = 1.0  # words, the price of large states one over places


@dataclass(frozen=True)
class Fluency:
    """How well a text is foreseen: e to the mean cross-entropy of a word, and the share of words guessed first."""

    perplexity: float
    accuracy: float


@dataclass(frozen=True)
class LanguageModelEpoch:
    """What one epoch of training did; `perplexity` and `accuracy` are those of the dev text, None without any."""

    number: int
    loss: float
    perplexity: float | None
    accuracy: float | None
    seconds: float
    tokens_per_second: float


def train_language_model(
    model: LanguageModel,
    text: Text,
    recipe: Pretrain,
    *,
    seed: int,
    dev: Documents | None = None,
    runtime: Runtime[LanguageModelEpoch] = Runtime(),  # noqa: B008  # frozen
) -> tuple[LanguageModelEpoch, ...]:
    """Train in place; goes on from the checkpoint where there is one. The dev text is only ever measured."""
    if recipe.accumulate > recipe.batch:
        raise RecipeError(f"pretrain.accumulate divides the {recipe.batch} streams of pretrain.batch: at most as many")
    check_size(runtime.together, recipe.accumulate, f"--set pretrain.accumulate={runtime.together.size}")
    task = _LanguageModelTask(model.to(runtime.device), text, recipe, seed, dev, runtime.device, runtime.together)
    trainer = Trainer(
        LanguageModelEpoch,
        [Phase("all", recipe.epochs)],
        schedule=one_cycle,
        accumulate=recipe.accumulate,
        clip=recipe.clip,
        checkpoint_minutes=recipe.checkpoint_minutes,
    )
    return trainer.fit(task, runtime, seed=seed)


@torch.no_grad()
def fluency(
    model: LanguageModel, documents: Documents, *, batch: int = 16, segment: int = 64, together: Together = ALONE
) -> Fluency:
    """Measure a model on documents, each read from its beginning, its end included in what is foreseen.

    Processes share the batches; their figures are added in the order of segments, the same whoever computed them.
    """
    model.eval()
    figures: list[float] = []  # loss, hits and words of each segment
    for number, rows in enumerate(sorted_batches(np.diff(documents.token_starts), size=batch)):
        tokens, targets = _questions([documents.tokens_of(int(row)) for row in rows], model.direction)
        mine = number % together.size == together.rank
        figures += _foreseen(model, tokens, targets, segment) if mine else [0.0] * 3 * -(-tokens.shape[1] // segment)
    found = together.totals(figures)
    loss, hits, count = (sum(found[place::3]) for place in range(3))
    return Fluency(math.exp(loss / max(1, count)), hits / max(1, count))


def _foreseen(model: LanguageModel, tokens: Tensor, targets: Tensor, segment: int) -> list[float]:
    """Loss, hits and words of each segment of some documents."""
    carry: Carry | None = None
    figures: list[float] = []
    for inputs, wanted in zip(tokens.split(segment, 1), targets.split(segment, 1), strict=True):
        logits, carry = model(inputs.to(model.bias.device), carry)
        kept = wanted != IGNORED
        scores, words = logits[kept.to(logits.device)].float().log_softmax(-1).cpu(), wanted[kept]
        loss = -float(scores.gather(1, words.unsqueeze(1)).double().sum())
        figures += [loss, float((scores.argmax(1) == words).sum()), float(len(words))]
    return figures


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
class _LanguageModelTask:
    """The next word in streams of text; `carries` are the states in which the last segment of each group ended."""

    model: LanguageModel
    text: Text
    recipe: Pretrain
    seed: int
    dev: Documents | None
    device: str
    together: Together = ALONE
    carries: dict[int, Carry] = field(default_factory=dict)  # of the groups of streams that this process reads

    @cached_property
    def groups(self) -> list[slice]:
        """The streams of each micro-batch."""
        parts = np.array_split(np.arange(self.recipe.batch), self.recipe.accumulate)
        return [slice(int(part[0]), int(part[-1]) + 1) for part in parts]

    @cached_property
    def optimizer(self) -> Optimizer:
        return torch.optim.AdamW(
            self.model.parameters(), lr=self.recipe.learning_rate, betas=(0.9, 0.99),
            weight_decay=self.recipe.weight_decay, fused=True,
        )  # fmt: skip

    @cached_property
    def shares(self) -> Tensor:
        return torch.from_numpy(self.text.shares(len(self.model.vocab))).to(self.device)

    def batches(self, epoch: int) -> Sequence[Segment]:
        batch, bptt, direction = self.recipe.batch, self.recipe.bptt, self.model.direction
        read, foreseen = streams(self.text, batch=batch, direction=direction, seed=self.seed, epoch=epoch)
        columns = [slice(first, first + bptt) for first in range(0, read.shape[1], bptt)]
        return [part for some in columns for part in self._divided(read[:, some], foreseen[:, some])]

    def _divided(self, read: NDArray[np.int32], foreseen: NDArray[np.int32]) -> list[Segment]:
        """A segment of all streams as the micro-batches of an update: the mean over all is theirs, weighed."""
        words = [int((foreseen[streams] != IGNORED).sum()) for streams in self.groups]
        return [
            Segment(read[some], foreseen[some], group, words[group] / max(1, sum(words)), len(read[some]) / len(read))
            for group, some in enumerate(self.groups)
        ]

    def training_step(self, segment: Segment) -> float:
        inputs, targets = (torch.from_numpy(part).long() for part in (segment.read, segment.foreseen))
        loss, calm = self._losses(inputs.to(self.device), targets.to(self.device), segment.group)
        (loss * segment.of_words + calm * segment.of_streams).backward()
        return float(loss.detach()) * int((targets != IGNORED).sum())

    def _losses(self, inputs: Tensor, targets: Tensor, group: int) -> tuple[Tensor, Tensor]:
        """The mean cross-entropy of a segment, and the price of large and of jumping states."""
        with mixed_precision(self.device, wanted=self.recipe.mixed_precision):
            states, carry = self.model.network(inputs, self.carries.get(group))
        # truncated at the segment
        self.carries[group] = tuple((hidden.detach(), cell.detach()) for hidden, cell in carry)
        states = states.float()
        dropped = self.model.dropped(states)
        loss = self._loss(dropped.flatten(0, 1), targets.flatten())
        if states.shape[1] < 2:  # no jump to measure
            return loss, torch.zeros_like(loss)
        calm = self.recipe.ar * dropped.square().mean() + self.recipe.tar * states.diff(dim=1).square().mean()
        return loss, calm

    def _loss(self, states: Tensor, targets: Tensor) -> Tensor:
        words, bias = self.model.network.words, self.model.bias
        if self.recipe.sampled_words <= 0:
            return next_word_loss(states, words, bias, targets)
        sample = sample_words(targets, self.shares, drawn=self.recipe.sampled_words)
        return next_word_loss(states, words[sample.words], bias[sample.words] - sample.log_chance, sample.targets)

    def progress(self, state: State[LanguageModelEpoch]) -> tuple[str, int, int]:
        done = (state.epoch + state.step / state.steps) * self.text.n_questions
        return "tokens read", round(done), self.recipe.epochs * self.text.n_questions

    def validate(self, state: State[LanguageModelEpoch]) -> LanguageModelEpoch:
        self.carries = {}  # the next epoch reads from the beginning
        measured = fluency(self.model, self.dev, together=self.together) if self.dev is not None else None
        return LanguageModelEpoch(
            number=state.epoch + 1,
            loss=state.loss_sum / self.text.n_questions,
            perplexity=measured.perplexity if measured else None,
            accuracy=measured.accuracy if measured else None,
            seconds=round(state.seconds, 3),
            tokens_per_second=round(self.text.n_questions / max(state.seconds, 1e-9), 1),
        )

    def state_dicts(self) -> StateDicts:
        return {"model": self.model.state_dict(), "carry": _named(self._carry_of_all())}

    def load_state_dicts(self, saved: StateDicts) -> None:
        self.model.load_state_dict(dict(saved["model"]))
        carry = _carry_from(saved["carry"], self.device)
        mine = range(self.together.rank, len(self.groups) if carry else 0, self.together.size)
        self.carries = {n: tuple((h[self.groups[n]], c[self.groups[n]]) for h, c in carry) for n in mine}

    def _carry_of_all(self) -> Carry:
        """Those of all streams, whoever reads them; of none where an epoch begins."""
        if not self.carries:
            return ()
        sizes = [size for size in self.model.network.sizes for _ in "hc"]
        rows = np.zeros((self.recipe.batch, sum(sizes)), np.float32)
        for group, carry in self.carries.items():
            rows[self.groups[group]] = torch.cat([part for pair in carry for part in pair], 1).cpu().numpy()
        parts = torch.from_numpy(self.together.gathered(rows)).split(sizes, 1)
        return tuple(zip(parts[0::2], parts[1::2], strict=True))


def _named(carry: Carry) -> dict[str, Tensor]:
    return {f"{n}.{part}": t for n, pair in enumerate(carry) for part, t in zip("hc", pair, strict=True)}


def _carry_from(named: Mapping[str, Tensor], device: str) -> Carry:
    layers = range(len(named) // 2)
    return tuple((named[f"{n}.h"].to(device), named[f"{n}.c"].to(device)) for n in layers)
