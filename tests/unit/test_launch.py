"""Processes that torch's launcher starts and restarts: what is wrong is said once, and not tried again."""

import logging
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousConnectionError

from plant.cluster.launch import LOUD, launch, one_process
from plant.cluster.told import read_told, told, write_told
from plant.errors import InputError


def failing(error: BaseException) -> Callable[[Sequence[str]], None]:
    def carry_out(words: Sequence[str]) -> None:
        raise error

    return carry_out


def test_what_a_user_can_mend_is_written_down_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = tmp_path / "said.json"
    monkeypatch.setattr(sys, "argv", ["-c", str(words), "run", "notes.csv"])
    with pytest.raises(SystemExit, match="2"):
        one_process(failing(InputError("line 2 has no text")))
    one_process(failing(AssertionError("begun again")))
    with pytest.raises(InputError, match="^line 2 has no text$"):
        read_told(words).value()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("error", "said"),
    [(FileNotFoundError(2, "No such file", "notes.csv"), FileNotFoundError), (OSError(28, "No space left"), OSError),
     (BrokenPipeError(32, "Broken pipe"), BrokenPipeError), (RuntimeError("out of memory"), MemoryError)],
    ids=["file", "disk", "reader", "memory"],
)  # fmt: skip
def test_files_disks_and_memory_are_told_as_by_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: type[Exception]
) -> None:
    monkeypatch.setattr(sys, "argv", ["-c", str(tmp_path / "said.json")])
    with pytest.raises(SystemExit, match="2"):
        one_process(failing(error))
    with pytest.raises(said):
        read_told(tmp_path / "said.json").value()


@pytest.mark.parametrize(
    ("error", "ends"),
    [(KeyboardInterrupt(), SystemExit), (KeyError("a bug"), KeyError), (ConnectionError(), OSError)],
    ids=["told to end", "bug", "connection"],
)
def test_what_may_pass_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, ends: type[BaseException]
) -> None:
    """A process is also told to end when another one was killed."""
    monkeypatch.setattr(sys, "argv", ["-c", str(tmp_path / "said.json")])
    with pytest.raises(ends):
        one_process(failing(error))
    assert not list(tmp_path.iterdir())


def launching(monkeypatch: pytest.MonkeyPatch, end: Callable[[Path], None]) -> None:
    """A launcher of torch's that ends so; it is given the path for words."""

    def elastic_launch(config: Any, executable: str) -> Callable[..., None]:
        return lambda option, start, words, *arguments: end(Path(words))

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr("torch.distributed.launcher.api.elastic_launch", elastic_launch)


@pytest.mark.parametrize("said", [True, False])
def test_torch_tells_of_failures_that_nobody_explains(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, said: bool
) -> None:
    def end(words: Path) -> None:
        if said:
            write_told(told(failing(InputError("line 2 has no text")), []), words)
        for level in (logging.WARNING, logging.ERROR):
            logging.getLogger(LOUD[0]).log(level, "a process ends")

    launching(monkeypatch, end)
    with pytest.raises(InputError) if said else nullcontext():
        launch(2, ["run", "demo"])
    assert [record.levelname for record in caplog.records] == ([] if said else ["ERROR"])
    logging.getLogger(LOUD[0]).warning("heard again")
    assert caplog.records[-1].message == "heard again"


def test_an_interrupted_launcher_is_an_interrupted_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended in a traceback of torch's."""

    def end(words: Path) -> None:
        raise SignalException("got signal", signal.SIGINT)

    launching(monkeypatch, end)
    with pytest.raises(KeyboardInterrupt):
        launch(2, ["run", "demo"])


def test_processes_that_do_not_find_each_other_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's store has a minute to answer, which on a crowded machine was too little and ended in a traceback."""

    def end(words: Path) -> None:
        raise RendezvousConnectionError("the text of a note")

    launching(monkeypatch, end)
    with pytest.raises(InputError, match=r"do not find each other \(RendezvousConnectionError\)"):
        launch(2, ["run", "demo"])


@pytest.mark.parametrize("restarted", [True, False])
def test_what_a_process_said_is_raised_by_the_command(monkeypatch: pytest.MonkeyPatch, restarted: bool) -> None:
    def end(words: Path) -> None:
        write_told(told(failing(InputError("line 2 has no text")), []), words)
        if not restarted:
            raise ChildFailedError("plant", {0: SimpleNamespace(exitcode=2)})  # type: ignore[dict-item]

    monkeypatch.setattr(ChildFailedError, "__init__", lambda self, name, failures: None)
    launching(monkeypatch, end)
    with pytest.raises(InputError, match="^line 2 has no text$"):
        launch(2, ["run", "demo"])
