"""The training loop: phases of epochs, early stopping, best weights, and checkpoints that resume to the same bits."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from plant.train.checkpoint import resume_training, save_training
from plant.train.schedule import constant
from plant.train.seed import seed_of, seeded
from plant.train.statistics import RunningStatistics
from plant.train.together import ALONE, Together, check_size
from plant.types import Progress, silent

Batch = TypeVar("Batch")
Record = TypeVar("Record")  # what one epoch did; a dataclass of what JSON can hold
Logged = TypeVar("Logged", contravariant=True)
StateDicts = Mapping[str, Mapping[str, Tensor]]
BEST = "best"  # the state dict of the best weights in a checkpoint


@dataclass(frozen=True)
class Runtime(Generic[Logged]):
    """Where a training runs, keeps its checkpoint and reports; none of it changes the result."""

    checkpoint: Path | None = None
    device: str = "cpu"
    log: Callable[[Logged], None] = lambda record: None
    progress: Progress = silent
    together: Together = ALONE


@dataclass(frozen=True)
class State(Generic[Record]):
    """Where a training is; with the tensors of a checkpoint and the seed, all that is needed to go on."""

    epoch: int = 0  # epochs that are done
    step: int = 0  # batches done in this epoch, of `steps`
    steps: int = 0
    phase: str = ""
    loss_sum: float = 0.0  # over the steps of this epoch
    seconds: float = 0.0  # of this epoch
    best: float | None = None  # the highest score
    best_epoch: int = 0
    history: tuple[Record, ...] = ()


@dataclass(frozen=True)
class Phase:
    """Some epochs with a cycle of the learning rate of their own; `on_start` also runs when one is resumed."""

    name: str
    epochs: int
    on_start: Callable[[], None] = lambda: None


@runtime_checkable
class Task(Protocol[Batch, Record]):
    """What is learned: a model, its optimizer, the batches, and what is done with them."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def optimizer(self) -> Optimizer:
        """Its learning rates are the peaks that the schedule scales."""
        ...

    def batches(self, epoch: int) -> Sequence[Batch]:
        """The batches of an epoch, the same whenever it is run; every epoch has as many."""
        ...

    def training_step(self, batch: Batch) -> float:
        """Forward and backward: add to the gradients; what is returned adds to the loss of the epoch."""
        ...

    def validate(self, state: State[Record]) -> Record:
        """Measure the model at the end of an epoch."""
        ...

    def progress(self, state: State[Record]) -> tuple[str, int, int]:
        """What is counted, how much of it is done, and of how much."""
        ...

    def state_dicts(self) -> StateDicts:
        """The tensors that a checkpoint keeps, besides those of the optimizer; all processes of a training ask."""
        ...

    def load_state_dicts(self, saved: StateDicts) -> None:
        """Go on from what `state_dicts` gave."""
        ...


def early_stopping(patience: int, *, after: int = 0) -> Callable[[State[Record]], bool]:
    """Stop after `patience` epochs without a better score, not counting the first `after` ones; 0 never stops."""
    return lambda state: 0 < patience <= state.epoch - max(state.best_epoch, after)


@dataclass(frozen=True)
class Trainer(Generic[Record]):
    """How a task is trained.

    The gradients of `accumulate` batches make an update. With `score` the model ends with the weights of the epoch
    whose record scored highest. A checkpoint is written when `checkpoint_minutes` have passed since the last one.
    """

    record: Callable[..., Record]  # from the fields of a record, as a checkpoint keeps them
    phases: Sequence[Phase]
    schedule: Callable[[int, int], float] = constant  # the share of the peak learning rate at a step of a phase's steps
    accumulate: int = 1
    clip: float | None = None  # the largest norm of the gradient
    stop: Callable[[State[Record]], bool] = lambda state: False  # asked before each epoch
    score: Callable[[Record], float] | None = None
    checkpoint_minutes: float = 5.0

    def fit(
        self, task: Task[Batch, Record], runtime: Runtime[Record], *, seed: int, fingerprint: str = ""
    ) -> tuple[Record, ...]:
        """Train in place and return the record of each epoch; goes on from the checkpoint where there is one.

        A checkpoint with another `fingerprint` is one of another training, and not gone on from. Of several processes
        that train together the first writes checkpoints and logs; all go on from the same.
        """
        check_size(runtime.together, self.accumulate)
        with seeded(seed):
            return _Training(self, task, runtime, seed, fingerprint).run()


@dataclass
class _Training(Generic[Batch, Record]):
    """A training that is under way."""

    trainer: Trainer[Record]
    task: Task[Batch, Record]
    runtime: Runtime[Record]
    seed: int
    fingerprint: str
    state: State[Record] = field(default_factory=State)
    best_weights: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.peaks = [group["lr"] for group in self.task.optimizer.param_groups]
        self.saved_at = time.monotonic()
        self.statistics = RunningStatistics.of(self.task.model)

    def run(self) -> tuple[Record, ...]:
        self.task.optimizer.zero_grad(set_to_none=True)
        self._resume()
        first = 0
        for phase in self.trainer.phases:
            self._run_phase(phase, first)
            first += phase.epochs
        if self.best_weights:
            self.task.model.load_state_dict(self.best_weights)
        return self.state.history

    def _run_phase(self, phase: Phase, first: int) -> None:
        """The epochs that are left of a phase that begins with epoch `first`."""
        end = first + phase.epochs
        if self._goes_on(end):
            phase.on_start()
        while self._goes_on(end):
            self._run_epoch(phase, first)
            self._finish_epoch()

    def _goes_on(self, end: int) -> bool:
        return self.state.epoch < end and not self.trainer.stop(self.state)

    def _run_epoch(self, phase: Phase, first: int) -> None:
        started = time.monotonic() - self.state.seconds
        self.task.model.train()
        batches = self.task.batches(self.state.epoch)
        self.state = replace(self.state, phase=phase.name, steps=len(batches))
        earlier = (self.state.epoch - first) * len(batches)  # steps of the phase
        losses: list[float] = []  # of the micro-batches of an update
        for step in range(self.state.step, len(batches)):
            self._set_learning_rates(earlier + step, phase.epochs * len(batches))
            losses.append(self._loss_of(batches[step], step))
            complete = (step + 1) % self.trainer.accumulate == 0
            if complete or step + 1 == len(batches):
                self._update(len(losses))
                due = self._count(losses)
                losses = []
            self.state = replace(self.state, step=step + 1, seconds=time.monotonic() - started)
            self.runtime.progress(*self.task.progress(self.state))
            if complete and step + 1 < len(batches) and due:  # gradients are in no checkpoint; validation comes first
                self._save()

    def _loss_of(self, batch: Batch, step: int) -> float:
        """Add to the gradients, where the micro-batch is ours; its loss, 0 where another process computes it."""
        together, number = self.runtime.together, step % self.trainer.accumulate
        if number % together.size != together.rank:
            return 0.0
        torch.manual_seed(seed_of(self.seed, self.state.epoch, step))  # the caller's state is kept by `fit`
        with self.statistics.micro_batch(number):
            loss = self.task.training_step(batch)
        together.computed(number, self._parameters())
        return loss

    def _count(self, losses: list[float]) -> bool:
        """Add up in the order of micro-batches: the sum is the same whoever computed them. Whether to save is told too.

        That is what the clock of the first process says; all must know, since each may hold a part of what is kept.
        """
        *totals, due = self.runtime.together.totals([*losses, float(self._is_due())])
        for loss in totals:
            self.state = replace(self.state, loss_sum=self.state.loss_sum + loss)
        return due > 0

    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for group in self.task.optimizer.param_groups for parameter in group["params"]]

    def _set_learning_rates(self, step: int, total: int) -> None:
        share = self.trainer.schedule(step, total)
        for peak, group in zip(self.peaks, self.task.optimizer.param_groups, strict=True):
            group["lr"] = peak * share

    def _update(self, micro_batches: int) -> None:
        optimizer, clip = self.task.optimizer, self.trainer.clip
        self.runtime.together.sum_gradients(self._parameters(), micro_batches=micro_batches)
        self.statistics.update(self.runtime.together, micro_batches=micro_batches)
        if clip is not None:
            self.runtime.together.clip(self._parameters(), clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def _finish_epoch(self) -> None:
        record, state = self.task.validate(self.state), self.state
        self.state = State(
            epoch=state.epoch + 1, best=state.best, best_epoch=state.best_epoch, history=(*state.history, record)
        )
        if self.trainer.score is not None:
            self._keep_if_best(self.trainer.score(record))
        if self.runtime.together.rank == 0:
            self.runtime.log(record)
        if self.runtime.together.totals([float(self._is_due())])[0] > 0:
            self._save()

    def _keep_if_best(self, score: float) -> None:
        if self.state.best is None or score > self.state.best:
            self.state = replace(self.state, best=score, best_epoch=self.state.epoch)
            self.best_weights = {name: tensor.clone() for name, tensor in self.task.model.state_dict().items()}

    def _save(self) -> None:
        path = self.runtime.checkpoint
        assert path is not None  # or nothing was due
        tensors, optimizer = {**self.task.state_dicts(), BEST: self.best_weights}, self.task.optimizer
        if self.runtime.together.rank == 0:
            wait, about = self.runtime.together.wait, asdict(self.state)
            save_training(path, tensors, about, optimizer=optimizer, fingerprint=self.fingerprint, wait=wait)
        self.saved_at = time.monotonic()

    def _is_due(self) -> bool:
        minutes = (time.monotonic() - self.saved_at) / 60
        keeps = self.runtime.checkpoint is not None and self.runtime.together.rank == 0
        return keeps and minutes >= self.trainer.checkpoint_minutes

    def _resume(self) -> None:
        optimizer, names = self.task.optimizer, (*self.task.state_dicts(), BEST)
        saved = resume_training(self.runtime.checkpoint, *names, optimizer=optimizer, fingerprint=self.fingerprint)
        if saved is None:
            return
        self.task.load_state_dicts(saved.parts)
        self.best_weights = dict(saved.parts[BEST])
        history = tuple(self.trainer.record(**fields) for fields in saved.state["history"])
        self.state = State(**{**saved.state, "history": history})
