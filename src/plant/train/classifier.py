"""Training a classifier: phases, early stopping on the choosing notes, and checkpoints that resume to the same bits."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from plant.data.batches import collate, shuffled_batches, sorted_batches
from plant.data.corpus import Documents
from plant.nn.classifier import Classifier
from plant.nn.parts.protocols import reads_windows
from plant.recipe.schema import Fit
from plant.store.safetensors import room_for
from plant.tensors import Batch, Encoded
from plant.train.checkpoint import resume_training, save_training
from plant.train.phases import Group, Phase, encoder_layers, freeze, parameter_groups, phases
from plant.train.precision import mixed_precision
from plant.train.schedule import SCHEDULES
from plant.train.seed import seeded
from plant.types import Progress, silent

Judge = Callable[[NDArray[np.float32]], Mapping[str, float]]
"""From the probabilities of the choosing notes to measures by name."""


@dataclass(frozen=True)
class Epoch:
    """What one epoch of training did."""

    number: int
    phase: str
    loss: float
    measures: Mapping[str, float]
    seconds: float


@dataclass(frozen=True)
class State:
    """Where a training is; with the weights and the random state, all that is needed to go on."""

    epoch: int = 0
    step: int = 0  # batches done in this epoch
    loss_sum: float = 0.0
    best: float | None = None
    best_epoch: int = 0
    seconds: float = 0.0
    history: tuple[Epoch, ...] = ()


@dataclass(frozen=True)
class Notes:
    """The notes of a training and how many labels there are; `judge` measures the choosing notes."""

    fitted: Documents
    choosing: Documents
    n_labels: int
    judge: Judge


def train_classifier(
    classifier: Classifier,
    notes: Notes,
    recipe: Fit,
    *,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
    log: Callable[[Epoch], None] = lambda epoch: None,
    progress: Progress = silent,
) -> tuple[Epoch, ...]:
    """Train in place to the weights that were best on the choosing notes; goes on from `checkpoint` if there is one."""
    with seeded(seed):
        training = _Training(classifier.to(device), notes, recipe, seed, device, checkpoint, log, progress)
        return training.run()


@torch.no_grad()
def probabilities(
    classifier: Classifier, documents: Documents, *, n_labels: int, batch: int = 16, device: str = "cpu",
    progress: Progress = silent,
) -> NDArray[np.float32]:  # fmt: skip
    """The probability of each label for each document."""
    classifier.eval()
    result = room_for(len(documents), n_labels)
    done = 0
    for rows in sorted_batches(np.diff(documents.token_starts), size=batch):
        logits = classifier(collate(documents, rows).to(device)).logits
        result[rows] = torch.sigmoid(logits).cpu().numpy()
        done += len(rows)
        progress("reading notes", done, len(documents))
    return result


@dataclass
class _Training:
    """One training run; `state` is replaced as it goes on."""

    classifier: Classifier
    notes: Notes
    recipe: Fit
    seed: int
    device: str
    checkpoint: Path | None
    log: Callable[[Epoch], None]
    progress: Progress
    state: State = field(default_factory=State)
    best_weights: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.groups = parameter_groups(self.classifier, self.recipe)
        self.phases = phases(self.recipe, n_layers=len(encoder_layers(self.classifier)))
        self.optimizer = _optimizer(self.groups, self.recipe)
        self.saved_at = time.monotonic()

    def run(self) -> tuple[Epoch, ...]:
        self._resume()
        first = 0
        for phase in self.phases:
            if self.state.epoch < first + phase.epochs and not self._stopped():
                self._run_phase(phase, first)
            first += phase.epochs
        self.classifier.load_state_dict(self.best_weights)
        for group in self.groups:
            for parameter in group.parameters:
                parameter.requires_grad_(True)
        return self.state.history

    def _run_phase(self, phase: Phase, first: int) -> None:
        freeze(self.groups, phase)
        stored = self._stored_states() if phase.first_layer >= len(encoder_layers_of(self.groups)) else None
        while self.state.epoch < first + phase.epochs and not self._stopped():
            self._run_epoch(phase, first, stored)

    def _run_epoch(self, phase: Phase, first: int, stored: list[Tensor] | None) -> None:
        self.classifier.train()
        if stored is not None:
            self.classifier.encoder.train(False)  # type: ignore[attr-defined]
        lengths = np.diff(self.notes.fitted.token_starts)
        batches = shuffled_batches(lengths, size=self.recipe.batch, seed=self.seed, epoch=self.state.epoch)
        started = time.monotonic() - self.state.seconds
        for step in range(self.state.step, len(batches)):
            self._set_rates((self.state.epoch - first) * len(batches) + step, phase.epochs * len(batches))
            loss = self._backward(batches[step], stored)
            if (step + 1) % self.recipe.accumulate == 0 or step + 1 == len(batches):
                self._update()
            seconds = time.monotonic() - started
            self.state = replace(self.state, step=step + 1, loss_sum=self.state.loss_sum + loss, seconds=seconds)
            self._tell(phase, len(batches))
            if (step + 1) % self.recipe.accumulate == 0 and step + 1 < len(batches):
                self._save_if_due()
        self._finish_epoch(phase, len(batches))

    def _backward(self, rows: NDArray[np.intp], stored: list[Tensor] | None) -> float:
        batch = collate(self.notes.fitted, rows, n_labels=self.notes.n_labels).to(self.device)
        with mixed_precision(self.device, wanted=self.recipe.mixed_precision):
            encoded = self._encoded(batch, rows, stored)
        # losses here are means over labels; their sum over labels keeps the step independent of the number of labels
        loss = self.classifier.loss_of(encoded, batch) * self.notes.n_labels
        (loss / self.recipe.accumulate).backward()
        return float(loss.detach()) * len(rows)

    def _encoded(self, batch: Batch, rows: NDArray[np.intp], stored: list[Tensor] | None) -> Encoded:
        if stored is None:
            encoded = self.classifier.encode(batch)
            return replace(encoded, states=encoded.states.float())
        width = stored[0].shape[1]
        states, mask = torch.zeros(*batch.tokens.shape, width), torch.zeros(batch.tokens.shape, dtype=torch.bool)
        for place, row in enumerate(rows):
            states[place, : len(stored[row])] = stored[row]
            mask[place, : len(stored[row])] = True
        return Encoded(states.to(self.device), batch.tokens, mask.to(self.device))

    @torch.no_grad()
    def _stored_states(self) -> list[Tensor] | None:
        """The states of every fitted note under the frozen encoder, or None where they would take too much memory."""
        documents = self.notes.fitted
        if reads_windows(self.classifier.decoder):
            return None
        if len(documents.tokens) * self.classifier.encoder.size * 4 > self.recipe.cache_gigabytes * 1e9:
            return None
        self.classifier.eval()
        states: list[Tensor] = [torch.empty(0)] * len(documents)
        done = 0
        for rows in sorted_batches(np.diff(documents.token_starts), size=self.recipe.batch):
            encoded = self.classifier.encode(collate(documents, rows).to(self.device))
            for place, row in enumerate(rows):
                states[row] = encoded.states[place][encoded.mask[place]].cpu()
            done += len(rows)
            self.progress("reading notes once", done, len(documents))
        return states

    def _update(self) -> None:
        parameters = [p for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        nn.utils.clip_grad_norm_(parameters, self.recipe.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _set_rates(self, step: int, total: int) -> None:
        share = SCHEDULES[self.recipe.schedule](step, total)
        for group, settings in zip(self.groups, self.optimizer.param_groups, strict=True):
            settings["lr"] = self.recipe.learning_rate * group.rate * share

    def _finish_epoch(self, phase: Phase, n_batches: int) -> None:
        state = self.state
        scores = probabilities(
            self.classifier, self.notes.choosing, n_labels=self.notes.n_labels, batch=self.recipe.batch,
            device=self.device,
        )  # fmt: skip
        loss = state.loss_sum / len(self.notes.fitted)
        epoch = Epoch(state.epoch + 1, phase.name, loss, dict(self.notes.judge(scores)), round(state.seconds, 3))
        value = self._goodness(epoch)
        better = state.best is None or value > state.best
        if better:
            self.best_weights = {name: tensor.clone() for name, tensor in self.classifier.state_dict().items()}
        self.state = State(
            epoch=epoch.number,
            best=value if better else state.best,
            best_epoch=epoch.number if better else state.best_epoch,
            history=(*state.history, epoch),
        )
        self.log(epoch)
        self._save_if_due()

    def _goodness(self, epoch: Epoch) -> float:
        return -epoch.measures["loss"] if self.recipe.measure == "loss" else epoch.measures[self.recipe.measure]

    def _stopped(self) -> bool:
        """Early stopping counts in the last phase only: unfreezing a layer always gets its chance."""
        last = sum(phase.epochs for phase in self.phases[:-1])
        waited = self.state.epoch - max(self.state.best_epoch, last)
        return 0 < self.recipe.patience <= waited

    def _save_if_due(self) -> None:
        if time.monotonic() - self.saved_at >= 60 * self.recipe.checkpoint_minutes:
            self._save()

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        parts = {"now": self.classifier.state_dict(), "best": self.best_weights}
        save_training(self.checkpoint, parts, asdict(self.state), optimizer=self.optimizer)
        self.saved_at = time.monotonic()

    def _resume(self) -> None:
        saved = resume_training(self.checkpoint, "now", "best", optimizer=self.optimizer)
        if saved is None:
            return
        self.classifier.load_state_dict(saved.parts["now"])
        self.best_weights = dict(saved.parts["best"])
        history = tuple(Epoch(**epoch) for epoch in saved.state["history"])
        self.state = State(**{**saved.state, "history": history})

    def _tell(self, phase: Phase, n_batches: int) -> None:
        total = sum(p.epochs for p in self.phases)
        best = "" if self.state.best is None else f", best {self.recipe.measure} {abs(self.state.best):.4f}"
        what = f"epoch {self.state.epoch + 1} of {total} ({phase.name}{best})"
        self.progress(what, self.state.step, n_batches)


def encoder_layers_of(groups: Sequence[Group]) -> list[Group]:
    """The groups that are layers of the encoder."""
    return [group for group in groups if group.layer is not None]


def _optimizer(groups: Sequence[Group], recipe: Fit) -> torch.optim.AdamW:
    settings = [{"params": list(group.parameters)} for group in groups]
    return torch.optim.AdamW(
        settings, lr=recipe.learning_rate, betas=(0.9, 0.99), weight_decay=recipe.weight_decay, fused=True
    )
