"""MLflow and TensorBoard are told of knobs, figures and epochs, and of no word of a note."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from plant.cli import tracking
from plant.cli.main import main
from plant.steps.log import TrainingLog
from plant.train.history import ClassifierEpoch
from tests.made_up import notes_of


class Recorder:
    """Stands for the package: keeps what it is told."""

    def __init__(self) -> None:
        self.params: dict[str, str] = {}
        self.metrics: dict[str, list[float]] = {}
        self.uri = ""

    def set_tracking_uri(self, uri: str) -> None:
        self.uri = uri

    @contextmanager
    def start_run(self, run_name: str) -> Iterator[None]:
        yield

    def log_params(self, params: dict[str, str]) -> None:
        self.params |= params

    def log_metric(self, key: str, value: float, step: int = 0) -> None:
        self.metrics.setdefault(key, []).append(value)


def ended(folder: Path, *options: str) -> Any:
    rows = [f"{note.id},{note.text},{';'.join(note.codes)},{note.split}" for note in notes_of(40)]
    (folder / "notes.csv").write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
    with pytest.raises(SystemExit) as end:
        main(["run", str(folder / "notes.csv"), "--recipe", "prior", "--out", str(folder / "run"), *options])
    return end.value.code


def test_a_run_is_told_to_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setitem(sys.modules, "mlflow", recorder)
    assert ended(tmp_path, "--mlflow", "file:somewhere") == 0
    assert recorder.uri == "file:somewhere"
    assert recorder.params["system"] == "prior"
    assert 0 < recorder.metrics["MAP"][0] <= 1
    assert not any("@" in name for name in recorder.metrics)
    told = f"{recorder.params} {recorder.metrics}"
    assert "wordb" not in told
    assert "n17" not in told


def test_a_server_that_does_not_answer_is_one_line_and_the_run_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Silent(Recorder):
        """Never answers."""

        def start_run(self, run_name: str) -> Any:
            raise ConnectionError("HTTPConnectionPool: wordb")

    monkeypatch.setitem(sys.modules, "mlflow", Silent())
    assert ended(tmp_path, "--mlflow", "http://nowhere") == 2
    said = capsys.readouterr().err
    assert "MLflow could not be told (ConnectionError); the run itself is whole" in said
    assert "wordb" not in said
    assert (tmp_path / "run" / "report" / "report.json").is_file()


def test_a_missing_package_is_told_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert ended(tmp_path, "--mlflow", "x") == 2
    assert "pip install mlflow" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_missing_tensorboard_is_told_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    assert ended(tmp_path, "--tensorboard") == 2
    assert "pip install tensorboard" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_tensorboard_is_told_of_epochs_where_somebody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, float, int]] = []

    class Writer:
        """Stands for the writer of events."""

        def __init__(self, folder: str) -> None:
            assert folder == str(tmp_path / "events" / "plant-cnn")

        def __enter__(self) -> "Writer":
            return self

        def __exit__(self, *error: object) -> None:
            told.append(("closed", 0.0, 0))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            told.append((name, value, step))

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    epoch = ClassifierEpoch(2, "whole", 0.5, {"MAP": 0.25}, 1.0)
    TrainingLog(tmp_path / "training.jsonl").write("plant-cnn", epoch)
    assert told == []
    TrainingLog(tmp_path / "training.jsonl", tmp_path / "events").write("plant-cnn", epoch)
    assert told == [("loss", 0.5, 2), ("choosing notes/MAP", 0.25, 2), ("closed", 0.0, 0)]
