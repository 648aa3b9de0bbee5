"""A training that is killed and run again ends with the same bits as one that was left alone."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from plant.data.corpus import Role, gold_codes, held_out, training_view
from plant.nn.parts.build import Given
from plant.recipe.reading import load_recipe
from plant.recipe.schema import Fit, Part, Recipe
from plant.steps.prepare import Request
from plant.steps.relate import relate
from plant.steps.run import run
from plant.store.artifact import open_artifact
from plant.systems.fit_classifier import TrainedClassifier, fit_classifier
from plant.train.loop import Runtime
from plant.types import Progress, silent
from tests.made_up import corpus_of, notes_of

ROOT = Path(__file__).parents[2]
RECIPE = Recipe(
    encoder=Part("bilstm", {"hidden": 6, "embedding": 6, "frozen": False, "dropout": 0.4}),
    decoder=Part("planted", {"planted": False, "dropout": 0.4}),
    fit=Fit(frozen_epochs=1, epochs=3, batch=6, accumulate=2, patience=0, checkpoint_minutes=0.0),
)


class PowerCutError(Exception):
    """Stands for the power cut."""


def killer(steps: int) -> Progress:
    """A progress that stops the training after so many steps."""
    done = 0

    def progress(what: str, step: int, total: int | None) -> None:
        nonlocal done
        done += what.startswith("epoch")
        if done == steps:
            raise PowerCutError

    return progress


def trained(checkpoint: Path | None, progress: Progress = silent, recipe: Recipe = RECIPE) -> TrainedClassifier:
    corpus = corpus_of(notes_of(40))
    view = training_view(corpus)
    given = Given(view.vocab, view.codes, view.codebook, view.label_shares(), relevance=relate(view, recipe.relate))
    choosing = held_out(corpus, Role.CHOOSE, view.codes)
    gold = gold_codes(corpus, Role.CHOOSE)
    runtime = Runtime(checkpoint, progress=progress)
    return fit_classifier(view, choosing, recipe, given, gold=gold, runtime=runtime)


def weights(fitted: TrainedClassifier) -> dict[str, torch.Tensor]:
    return fitted.classifier.state_dict()


@pytest.fixture(scope="module")
def whole() -> TrainedClassifier:
    return trained(None)


@pytest.fixture(scope="module")
def uninterrupted(whole: TrainedClassifier) -> dict[str, torch.Tensor]:
    return weights(whole)


@pytest.mark.parametrize("steps", [1, 2, 4, 5, 9, 15])
def test_a_killed_training_goes_on_to_the_same_weights(
    uninterrupted: dict[str, torch.Tensor], tmp_path: Path, steps: int
) -> None:
    with pytest.raises(PowerCutError):
        trained(tmp_path / "checkpoint", killer(steps))
    resumed = weights(trained(tmp_path / "checkpoint"))
    assert uninterrupted.keys() == resumed.keys()
    for name, tensor in uninterrupted.items():
        assert torch.equal(tensor, resumed[name]), name


def test_being_killed_twice_changes_nothing(uninterrupted: dict[str, torch.Tensor], tmp_path: Path) -> None:
    for steps in (3, 6):
        with pytest.raises(PowerCutError):
            trained(tmp_path / "checkpoint", killer(steps))
    for name, tensor in weights(trained(tmp_path / "checkpoint")).items():
        assert torch.equal(tensor, uninterrupted[name]), name


def test_another_seed_gives_other_weights(uninterrupted: dict[str, torch.Tensor]) -> None:
    other = weights(trained(None, recipe=replace(RECIPE, seed=2)))
    assert not torch.equal(uninterrupted["decoder.learned.weights"], other["decoder.learned.weights"])


def test_early_stopping_keeps_the_best_weights(whole: TrainedClassifier) -> None:
    best = max(whole.history, key=lambda epoch: epoch.measures["MAP"])
    assert best.measures["MAP"] >= whole.history[-1].measures["MAP"]
    assert [epoch.phase for epoch in whole.history] == ["encoder frozen", "all", "all", "all"]


PROGRAM = """
import sys
from pathlib import Path
from tests.e2e.test_fit_resume import run_demo
run_demo(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def run_demo(notes: Path, folder: Path) -> None:
    changes = ["fit.epochs=6", "fit.checkpoint_minutes=0", "rank.epochs=2", "prepare.min_count=1", "fit.batch=4",
               "encoder.filters=8", "encoder.embedding=8"]  # fmt: skip
    run(Request(str(notes)), load_recipe("plant-demo", changes), folder, name="x")


def test_a_run_survives_kill_9(tmp_path: Path) -> None:
    notes = tmp_path / "notes.jsonl"
    with notes.open("w") as file:
        for note in notes_of(80):
            file.write(json.dumps({"id": note.id, "text": note.text, "codes": note.codes, "split": note.split}) + "\n")
    run_demo(notes, tmp_path / "whole")
    command = [sys.executable, "-c", PROGRAM, str(notes), str(tmp_path / "killed")]
    threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}  # another number rounds otherwise
    running = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **threads})
    while not list((tmp_path / "killed").glob("checkpoints/model*")) and running.poll() is None:
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert not (tmp_path / "killed" / "coder").exists()
    run_demo(notes, tmp_path / "killed")
    assert _tensors(tmp_path / "whole") == _tensors(tmp_path / "killed")


def _tensors(run: Path) -> dict[str, bytes]:
    return {name: np.asarray(array).tobytes() for name, array in open_artifact(run / "coder").tensors.items()}
