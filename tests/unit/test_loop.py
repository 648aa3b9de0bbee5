"""The training loop with a toy task: what it runs, when it stops, what it keeps, and that a resumed run is the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from plant.train.checkpoint import load_checkpoint, save_checkpoint
from plant.train.loop import Phase, Runtime, State, StateDicts, Trainer, early_stopping
from plant.train.schedule import one_cycle
from plant.train.seed import seeded
from plant.train.statistics import RunningStatistics
from plant.train.together import ALONE

BATCHES = 3
POINTS = torch.linspace(-1, 1, 4 * BATCHES).reshape(BATCHES, 4, 1)


@dataclass(frozen=True)
class ToyEpoch:
    number: int
    phase: str
    loss: float
    score: float


@dataclass
class ToyTask:
    """A line through noisy points: dropout draws from torch, and `drift` is a tensor beside the weights."""

    scores: Sequence[float] = ()  # of the epochs
    accumulate: int = 1
    drift: Tensor = field(default_factory=lambda: torch.zeros(1))
    rates: list[float] = field(default_factory=list)

    @cached_property
    def model(self) -> nn.Module:
        with seeded(0):
            return nn.Sequential(nn.Linear(1, 8), nn.Dropout(0.5), nn.Linear(8, 1))

    @cached_property
    def optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.model.parameters(), lr=0.1)

    def batches(self, epoch: int) -> Sequence[Tensor]:
        return [POINTS[(number + epoch) % BATCHES] for number in range(BATCHES)]

    def training_step(self, points: Tensor) -> float:
        self.rates.append(self.optimizer.param_groups[0]["lr"])
        loss = (self.model(points) - 3 * points + self.drift).square().mean()
        self.drift = loss.detach().reshape(1) / 10
        (loss / self.accumulate).backward()
        return float(loss.detach())

    @torch.no_grad()
    def validate(self, state: State[ToyEpoch]) -> ToyEpoch:
        self.model.eval()
        score = self.scores[state.epoch] if self.scores else -float((self.model(POINTS) - 3 * POINTS).square().mean())
        return ToyEpoch(state.epoch + 1, state.phase, state.loss_sum / state.steps, score)

    def progress(self, state: State[ToyEpoch]) -> tuple[str, int, int]:
        return state.phase, state.epoch * state.steps + state.step, state.steps

    def state_dicts(self) -> StateDicts:
        return {"model": self.model.state_dict(), "extra": {"drift": self.drift}}

    def load_state_dicts(self, saved: StateDicts) -> None:
        self.model.load_state_dict(dict(saved["model"]))
        self.drift = saved["extra"]["drift"]


PHASES = (Phase("first", 2), Phase("second", 2))
TRAINER = Trainer(
    ToyEpoch, PHASES, schedule=one_cycle, clip=1.0, score=lambda epoch: epoch.score, checkpoint_minutes=0.0
)  # fmt: skip
ALL_STEPS = BATCHES * sum(phase.epochs for phase in PHASES)


class KilledError(Exception):
    """The end of a run that did not end."""


def killing(at: int) -> Callable[[str, int, int | None], None]:
    def progress(what: str, done: int, total: int | None) -> None:
        if done == at:
            raise KilledError

    return progress


def fitted(task: ToyTask, trainer: Trainer[ToyEpoch] = TRAINER, runtime: Runtime[ToyEpoch] = Runtime()):  # noqa: B008
    """The history and the weights of a training."""
    history = trainer.fit(task, runtime, seed=7)
    return history, {name: tensor.tolist() for name, tensor in task.model.state_dict().items()}


def counting(epochs: int, **options: object) -> Trainer[ToyEpoch]:
    return replace(TRAINER, phases=[Phase("all", epochs)], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("step", range(1, ALL_STEPS + 1))
def test_a_training_killed_at_any_step_goes_on_to_the_same_bits(tmp_path: Path, step: int, accumulate: int) -> None:
    checkpoint, trainer = tmp_path / "checkpoint", replace(TRAINER, accumulate=accumulate)
    whole = fitted(ToyTask(accumulate=accumulate), trainer)
    with pytest.raises(KilledError):
        fitted(ToyTask(accumulate=accumulate), trainer, Runtime(checkpoint, progress=killing(step)))
    resumed = fitted(ToyTask(accumulate=accumulate), trainer, Runtime(checkpoint))
    assert resumed == whole


def test_a_training_that_was_whole_is_not_run_again(tmp_path: Path) -> None:
    runtime = Runtime[ToyEpoch](tmp_path / "checkpoint")
    whole, again = fitted(ToyTask(), runtime=runtime), ToyTask()
    assert fitted(again, runtime=runtime) == whole
    assert again.rates == []


def test_a_checkpoint_of_another_training_is_not_gone_on_from(tmp_path: Path) -> None:
    runtime = Runtime[ToyEpoch](tmp_path / "checkpoint")
    TRAINER.fit(ToyTask(), runtime, seed=7, fingerprint="one")
    same, other = ToyTask(), ToyTask()
    TRAINER.fit(same, runtime, seed=7, fingerprint="one")
    TRAINER.fit(other, runtime, seed=7, fingerprint="other")
    assert (len(same.rates), len(other.rates)) == (0, ALL_STEPS)


def test_no_checkpoint_is_written_in_the_middle_of_an_accumulation(tmp_path: Path) -> None:
    checkpoint, found = tmp_path / "checkpoint", set()

    def look(what: str, done: int, total: int | None) -> None:
        saved = load_checkpoint(checkpoint)
        found.add(saved.state["step"] if saved else 0)

    fitted(ToyTask(), replace(TRAINER, accumulate=2), Runtime(checkpoint, progress=look))
    assert found == {0, 2}  # of three batches, the last of which makes an update alone


def test_a_checkpoint_waits_for_its_minutes(tmp_path: Path) -> None:
    fitted(ToyTask(), replace(TRAINER, checkpoint_minutes=5.0), Runtime(tmp_path / "checkpoint"))
    assert not (tmp_path / "checkpoint").exists()


def test_the_learning_rate_has_a_cycle_in_each_phase() -> None:
    task = ToyTask()
    fitted(task)
    cycle = [0.1 * one_cycle(step, 2 * BATCHES) for step in range(2 * BATCHES)]
    assert task.rates == cycle * 2


def test_a_phase_starts_once_and_one_that_is_over_not_again(tmp_path: Path) -> None:
    started: list[str] = []
    phases = [Phase(name, 2, lambda name=name: started.append(name)) for name in ("first", "second")]
    trainer, checkpoint = replace(TRAINER, phases=phases), tmp_path / "checkpoint"
    with pytest.raises(KilledError):
        fitted(ToyTask(), trainer, Runtime(checkpoint, progress=killing(3 * BATCHES + 2)))
    assert started == ["first", "second"]
    history, _ = fitted(ToyTask(), trainer, Runtime(checkpoint))
    assert started == ["first", "second", "second"]
    assert [epoch.phase for epoch in history] == ["first", "first", "second", "second"]


def test_gradients_of_accumulated_batches_make_one_update() -> None:
    updates = []
    task = ToyTask()
    task.optimizer.register_step_post_hook(lambda *_: updates.append(len(task.rates)))
    fitted(task, counting(1, accumulate=2))
    assert updates == [2, 3]


def norms_of_updates(clip: float | None) -> list[float]:
    """The norm of the gradient that each update was made of."""
    task, norms = ToyTask(), []
    parameters = list(task.model.parameters())
    task.optimizer.register_step_pre_hook(
        lambda *_: norms.append(float(nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])))
    )
    fitted(task, counting(1, clip=clip))
    return norms


def test_the_gradient_is_clipped_where_a_norm_is_given() -> None:
    assert norms_of_updates(0.01) == pytest.approx([0.01] * BATCHES, rel=1e-3)
    assert min(norms_of_updates(None)) > 0.01


def test_the_model_ends_with_the_weights_of_the_best_epoch() -> None:
    scores = [0.1, 0.3, 0.2, 0.3]  # of equals, the first
    _, best = fitted(ToyTask(scores), counting(4, schedule=lambda step, total: 1.0))
    _, second = fitted(ToyTask(scores), counting(2, schedule=lambda step, total: 1.0))
    _, last = fitted(ToyTask(scores), counting(4, schedule=lambda step, total: 1.0, score=None))
    assert best == second
    assert best != last


@pytest.mark.parametrize(("patience", "epochs"), [(0, 8), (1, 3), (2, 6), (3, 7)])
def test_early_stopping_waits_so_many_epochs_for_a_better_score(patience: int, epochs: int) -> None:
    task = ToyTask([0.1, 0.2, 0.1, 0.3, 0.3, 0.2, 0.1, 0.0])
    history, _ = fitted(task, counting(8, stop=early_stopping(patience)))
    assert len(history) == epochs


def test_early_stopping_does_not_count_the_epochs_of_earlier_phases() -> None:
    task, phases = ToyTask([0.3, 0.2, 0.1, 0.1, 0.1, 0.1]), [Phase("first", 3), Phase("second", 3)]
    history, _ = fitted(task, replace(TRAINER, phases=phases, stop=early_stopping(2, after=3)))
    assert [epoch.phase for epoch in history] == ["first"] * 3 + ["second"] * 2


def test_any_rule_on_the_history_stops_a_training() -> None:
    def plateau(state: State[ToyEpoch]) -> bool:
        scores = [epoch.score for epoch in state.history]
        return len(scores) > 1 and scores[-1] < scores[-2] + 0.1

    history, _ = fitted(ToyTask([0.0, 0.5, 0.8, 0.85, 2.0]), counting(5, stop=plateau))
    assert len(history) == 4


def test_a_training_that_stopped_early_stays_stopped(tmp_path: Path) -> None:
    trainer, runtime = counting(5, stop=early_stopping(1)), Runtime[ToyEpoch](tmp_path / "checkpoint")
    scores = [0.2, 0.1, 0.9, 0.9, 0.9]
    assert fitted(ToyTask(scores), trainer, runtime) == fitted(ToyTask(scores), trainer, runtime)


def test_each_epoch_is_logged_once_though_a_run_is_killed(tmp_path: Path) -> None:
    logged: list[ToyEpoch] = []
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(KilledError):
        fitted(ToyTask(), runtime=Runtime(checkpoint, log=logged.append, progress=killing(2 * BATCHES + 1)))
    history, _ = fitted(ToyTask(), runtime=Runtime(checkpoint, log=logged.append))
    assert tuple(logged) == history


def test_progress_is_told_after_each_step() -> None:
    told: list[tuple[str, int]] = []
    fitted(ToyTask(), runtime=Runtime(progress=lambda what, done, total: told.append((what, done))))
    assert told == [("first" if step <= 2 * BATCHES else "second", step) for step in range(1, ALL_STEPS + 1)]


def test_the_random_state_of_the_caller_is_left_alone(tmp_path: Path) -> None:
    runtime = Runtime[ToyEpoch](tmp_path / "checkpoint")
    before = torch.get_rng_state()
    for _ in range(2):  # the second goes on from a checkpoint, which holds a random state
        fitted(ToyTask(), runtime=runtime)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_a_step_draws_does_not_depend_on_the_steps_before() -> None:
    drawn: dict[int, list[float]] = {}

    class Drawing(ToyTask):
        def training_step(self, points: Tensor) -> float:
            drawn.setdefault(len(self.rates), []).append(float(torch.rand(())))
            if self.accumulate == 2:
                torch.rand(5)  # as a longer note would
            return super().training_step(points)

    for accumulate in (1, 2):
        fitted(Drawing(accumulate=accumulate))
    assert all(first == second for first, second in drawn.values())
    assert len({first for first, _ in drawn.values()}) == ALL_STEPS


def test_a_checkpoint_whose_random_numbers_ran_on_is_not_gone_on_from(tmp_path: Path) -> None:
    runtime = Runtime[ToyEpoch](tmp_path / "checkpoint")
    fitted(ToyTask(), runtime=runtime)
    found, again = load_checkpoint(tmp_path / "checkpoint"), ToyTask()
    assert found is not None
    save_checkpoint(tmp_path / "checkpoint", found.tensors, {k: v for k, v in found.state.items() if k != "format"})
    fitted(again, runtime=runtime)
    assert len(again.rates) == ALL_STEPS


def test_running_means_move_as_torch_moves_them() -> None:
    """Two micro-batches an update, three uses in one of them, and a module that is never used."""
    plain, ours = (nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(2, momentum=0.3)) for _ in range(2))
    statistics = RunningStatistics.of(ours)
    for _ in range(4):
        for number, uses in ((0, 1), (1, 3)):
            inputs = [torch.randn(5, 3) for _ in range(uses)]
            for one in inputs:
                plain[0](one)
            with statistics.micro_batch(number):
                for one in inputs:
                    ours[0](one)
        statistics.update(ALONE, micro_batches=2)
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], tensor)
