"""Training a classifier: phases that unfreeze it, early stopping on the choosing notes, and the best weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plant.data.batches import predict_in_batches, prediction_batches, shuffled_batches, together
from plant.data.collate import collate
from plant.data.corpus import Documents
from plant.evaluate.choosing.judge import BestScores, Judge, best_scores
from plant.evaluate.choosing.pairs import are_many
from plant.evaluate.scores.lists import Lists
from plant.nn.classifier import Classifier
from plant.nn.parts.protocols import passes, reads_from_end, reads_windows
from plant.recipe.schema import Fit
from plant.tensors import Batch, Encoded, OnHost
from plant.train.history import ClassifierEpoch
from plant.train.loop import Phase, Runtime, State, StateDicts, Trainer, early_stopping
from plant.train.phases import ParameterGroup, freeze, parameter_groups, phases
from plant.train.precision import mixed_precision
from plant.train.schedule import SCHEDULES


@dataclass(frozen=True)
class Notes:
    """The notes of a training and how many labels there are; `judge` measures the choosing notes."""

    fitted: Documents
    choosing: Documents
    n_labels: int
    judge: Judge
    judged: int | None = None  # how many labels the judge sees, where they are more: those of all processes, ...
    widened: Callable[[NDArray[np.float32]], NDArray[np.float32]] = lambda rows: rows  # ... and how they get there


def train_classifier(
    classifier: Classifier,
    notes: Notes,
    recipe: Fit,
    *,
    seed: int,
    runtime: Runtime[ClassifierEpoch] = Runtime(),  # noqa: B008  # frozen
) -> tuple[ClassifierEpoch, ...]:
    """Train in place to the weights that were best on the choosing notes; goes on from a checkpoint if there is one."""
    task = _ClassifierTask(classifier.to(runtime.device), notes, recipe, seed, runtime)
    before_last = sum(phase.epochs for phase in task.phases[:-1])  # unfreezing a layer always gets its chance
    trainer = Trainer(
        ClassifierEpoch,
        task.phases,
        schedule=SCHEDULES[recipe.schedule],
        accumulate=recipe.accumulate,
        clip=recipe.clip,
        stop=early_stopping(recipe.patience, after=before_last),
        score=lambda epoch: _score(epoch, recipe.measure),
        checkpoint_minutes=recipe.checkpoint_minutes,
    )
    history = trainer.fit(task, runtime, seed=seed)
    freeze(task.groups, below=0)  # nothing: what a phase froze may be trained again
    return history


def _score(epoch: ClassifierEpoch, measure: str) -> float:
    """What early stopping looks at: more is better."""
    return -epoch.measures["loss"] if measure == "loss" else epoch.measures[measure]


@dataclass
class _ClassifierTask:
    """Labels of notes; `states` are those of all fitted notes while the encoder is frozen, where memory allows."""

    classifier: Classifier
    notes: Notes
    recipe: Fit
    seed: int
    runtime: Runtime[ClassifierEpoch]
    states: list[Tensor] | None = None

    @property
    def model(self) -> Classifier:
        return self.classifier

    @cached_property
    def groups(self) -> list[ParameterGroup]:
        return parameter_groups(self.classifier, self.recipe)

    @cached_property
    def n_layers(self) -> int:
        return sum(group.layer is not None for group in self.groups)

    @cached_property
    def phases(self) -> list[Phase]:
        return phases(self.recipe, n_layers=self.n_layers, on_start=self._start_phase)

    @cached_property
    def optimizer(self) -> torch.optim.AdamW:
        return _optimizer(self.groups, self.recipe)

    def _start_phase(self, first_layer: int) -> None:
        freeze(self.groups, below=first_layer)
        self.states = None  # those of the phase before, lest there be room for both
        self.states = self._stored_states() if first_layer >= self.n_layers else None

    def batches(self, epoch: int) -> Sequence[NDArray[np.intp]]:
        lengths = np.diff(self.notes.fitted.token_starts)
        return shuffled_batches(lengths, size=self.recipe.batch, seed=self.seed, epoch=epoch)

    def training_step(self, rows: NDArray[np.intp]) -> float:
        times = passes(self.classifier.criterion)
        rows = np.tile(rows, times)
        batch = collate(self.notes.fitted, rows, n_labels=self.notes.n_labels).to(self.runtime.device)
        batch = replace(batch, passes=times)
        with mixed_precision(self.runtime.device, wanted=self.recipe.mixed_precision):
            encoded = self._encoded(batch, rows)
        # losses here are means over labels; their sum over labels keeps the step independent of the number of labels
        loss = self.classifier.loss_of(encoded, batch) * self.notes.n_labels
        (loss / self.recipe.accumulate).backward()
        return float(loss.detach()) * (len(rows) // times)

    def _encoded(self, batch: Batch, rows: NDArray[np.intp]) -> Encoded:
        if self.states is None:
            encoded = self.classifier.encode_looked_at(batch)
            return replace(encoded, states=encoded.states.float())
        width = self.states[0].shape[1]
        states, mask = torch.zeros(*batch.tokens.shape, width), torch.zeros(batch.tokens.shape, dtype=torch.bool)
        for place, row in enumerate(rows):
            states[place, : len(self.states[row])] = self.states[row]
            mask[place, : len(self.states[row])] = True
        on_host = None if batch.on_host is None else OnHost(batch.on_host.tokens, mask)
        device = self.runtime.device
        from_end = reads_from_end(self.classifier.encoder)
        states, mask = states.to(device), mask.to(device)
        return Encoded(states, batch.tokens, mask, on_host=on_host, from_end=from_end, structure=batch.structure)

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
        size, progress = self.recipe.batch, self.runtime.progress
        for rows in prediction_batches(documents, size=size, what="reading notes once", progress=progress):
            encoded = self.classifier.encode(collate(documents, rows).to(self.runtime.device))
            for place, row in enumerate(rows):
                states[row] = encoded.states[place][encoded.mask[place]].cpu()
        return states

    @torch.no_grad()
    def _probabilities(self, documents: Documents) -> NDArray[np.float32] | BestScores:
        """Those of all labels, or of the best of each note where all would be too many."""
        self.classifier.eval()

        def predict(rows: NDArray[np.intp]) -> NDArray[np.float32]:
            logits = self.classifier(collate(documents, rows).to(self.runtime.device)).logits
            return self.notes.widened(torch.sigmoid(logits).cpu().numpy())

        n_labels = self.notes.judged or self.notes.n_labels
        turns, others = count(), self.runtime.together

        def share(rows: NDArray[np.intp]) -> NDArray[np.float32]:
            mine = next(turns) % others.size == others.rank
            return predict(rows) if mine else np.zeros((len(rows), n_labels), np.float32)

        if not are_many(len(documents), n_labels):
            size = self.recipe.batch
            return others.gathered(predict_in_batches(share, documents, n_labels=n_labels, size=size))
        few = prediction_batches(documents, size=min(self.recipe.batch, together(n_labels)))
        return best_scores(((rows, predict(rows)) for rows in few), Lists(documents.labels, documents.label_starts))

    def validate(self, state: State[ClassifierEpoch]) -> ClassifierEpoch:
        measures = dict(self.notes.judge(self._probabilities(self.notes.choosing)))
        loss = state.loss_sum / len(self.notes.fitted)
        return ClassifierEpoch(state.epoch + 1, state.phase, loss, measures, round(state.seconds, 3))

    def progress(self, state: State[ClassifierEpoch]) -> tuple[str, int, int]:
        total = sum(phase.epochs for phase in self.phases)
        best = "" if state.best is None else f", best {self.recipe.measure} {abs(state.best):.4f}"
        return f"epoch {state.epoch + 1} of {total} ({state.phase}{best})", state.step, state.steps

    def state_dicts(self) -> StateDicts:
        return {"now": self.classifier.state_dict()}

    def load_state_dicts(self, saved: StateDicts) -> None:
        self.classifier.load_state_dict(dict(saved["now"]))


def _optimizer(groups: Sequence[ParameterGroup], recipe: Fit) -> torch.optim.AdamW:
    settings = [{"params": list(group.parameters), "lr": recipe.learning_rate * group.rate} for group in groups]
    return torch.optim.AdamW(
        settings, lr=recipe.learning_rate, betas=(0.9, 0.99), weight_decay=recipe.weight_decay, fused=True
    )
