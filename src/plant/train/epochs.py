"""Epochs of training that a kill interrupts and a checkpoint resumes to the same bits: what language models share."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from torch import Tensor, nn
from torch.optim import Optimizer

from plant.train.checkpoint import resume_training, save_training
from plant.types import Progress, silent

Epoch = TypeVar("Epoch")
Told = TypeVar("Told", contravariant=True)
Parts = Mapping[str, Mapping[str, Tensor]]


@dataclass(frozen=True)
class Surroundings(Generic[Told]):
    """Where a training runs, keeps its checkpoint and tells of itself; none of it changes the result."""

    checkpoint: Path | None = None
    device: str = "cpu"
    log: Callable[[Told], None] = lambda epoch: None
    progress: Progress = silent


@dataclass(frozen=True)
class State(Generic[Epoch]):
    """Where a training is; with its parts and the random state, all that is needed to go on."""

    epoch: int = 0
    step: int = 0  # done in this epoch
    loss_sum: float = 0.0
    seconds: float = 0.0
    history: tuple[Epoch, ...] = ()


class Course(Protocol[Epoch]):
    """What is learned and how; `steps` make an epoch."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def optimizer(self) -> Optimizer: ...

    @property
    def steps(self) -> int: ...

    def updates(self, epoch: int, first: int) -> Iterator[float]:
        """Do the updates of an epoch from step `first` on; after each one, what it adds to the sum of the loss."""
        ...

    def done(self, state: State[Epoch]) -> tuple[str, int, int]:
        """What is counted for people, how much of it is done, and of how much."""
        ...

    def measured(self, state: State[Epoch]) -> Epoch:
        """Close an epoch: what it did."""
        ...

    def parts(self) -> Parts:
        """The tensors that a checkpoint keeps."""
        ...

    def take_back(self, parts: Parts) -> None:
        """Go on from the tensors that a checkpoint kept."""
        ...


def run_epochs(
    course: Course[Epoch],
    surroundings: Surroundings[Epoch],
    kind: Callable[..., Epoch],
    *,
    epochs: int,
    minutes: float,
) -> tuple[Epoch, ...]:
    """All epochs that are left, saved after each one and every `minutes`; `kind` makes an epoch of what was saved."""
    path, saved_at = surroundings.checkpoint, time.monotonic()
    state = _resumed(course, path, kind)
    while state.epoch < epochs:
        course.model.train()
        started = time.monotonic() - state.seconds
        for loss in course.updates(state.epoch, state.step):
            seconds, total = time.monotonic() - started, state.loss_sum + loss
            state = replace(state, step=state.step + 1, loss_sum=total, seconds=seconds)
            surroundings.progress(*course.done(state))
            if state.step < course.steps and time.monotonic() - saved_at >= 60 * minutes:
                saved_at = _saved(course, path, state)
        epoch = course.measured(state)
        state = State(epoch=state.epoch + 1, history=(*state.history, epoch))
        surroundings.log(epoch)
        saved_at = _saved(course, path, state)
    return state.history


def descend(optimizer: Optimizer, loss: Tensor, *, rate: float, clip: float) -> None:
    """One update at the learning rate of this step."""
    for settings in optimizer.param_groups:
        settings["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_([p for settings in optimizer.param_groups for p in settings["params"]], clip)
    optimizer.step()


def _saved(course: Course[Any], path: Path | None, state: State[Any]) -> float:
    """When that was."""
    if path is not None:
        save_training(path, course.parts(), asdict(state), optimizer=course.optimizer)
    return time.monotonic()


def _resumed(course: Course[Epoch], path: Path | None, kind: Callable[..., Epoch]) -> State[Epoch]:
    saved = resume_training(path, *course.parts(), optimizer=course.optimizer)
    if saved is None:
        return State()
    course.take_back(saved.parts)
    return State(**{**saved.state, "history": tuple(kind(**epoch) for epoch in saved.state["history"])})
