"""Several writers of one place, and what killed ones leave beside it."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plant.store.artifact import atomic_file, open_artifact, save_artifact
from plant.store.keeper import InFolder, Kind, Origin
from plant.store.temporary import FORGOTTEN, OLD, temporary_file, temporary_folder

WRITERS, SAVES = 4, 40
FORK = multiprocessing.get_context("fork")
ORIGIN = Origin({"made": "of nothing"})


def save_often(path: Path, own: bool, failed: "multiprocessing.SimpleQueue[str]") -> None:
    """What one of several writers does: with `own` content it replaces that of others, else they all write the same."""
    try:
        for number in range(SAVES):
            value = os.getpid() + number if own else 7
            save_artifact(path, "thing", tensors={"value": np.array([value])}, inputs=dict(ORIGIN.inputs))
            assert own or open_artifact(path, "thing").tensors["value"][0] == 7
    except BaseException as error:
        failed.put(repr(error))


@pytest.mark.parametrize("own", [True, False], ids=["of different things", "of the same thing"])
def test_writers_of_one_folder_do_not_fail_and_leave_one_whole_artifact(tmp_path: Path, own: bool) -> None:
    failed = FORK.SimpleQueue()
    writers = [FORK.Process(target=save_often, args=(tmp_path / "thing", own, failed)) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert failed.empty() or failed.get() == ""
    assert open_artifact(tmp_path / "thing", "thing").tensors["value"].shape == (1,)
    assert [file.name for file in tmp_path.iterdir()] == ["thing"]


def test_what_is_there_already_stays_where_it_is(tmp_path: Path) -> None:
    for _ in range(2):
        save_artifact(tmp_path / "thing", "thing", tensors={"value": np.arange(3)}, beside={"card.md": "1"})
        kept = (tmp_path / "thing").stat().st_ino
    save_artifact(tmp_path / "thing", "thing", tensors={"value": np.arange(3)}, beside={"card.md": "1"})
    assert (tmp_path / "thing").stat().st_ino == kept
    save_artifact(tmp_path / "thing", "thing", tensors={"value": np.arange(3)}, beside={"card.md": "2"})
    assert (tmp_path / "thing" / "card.md").read_text() == "2"


def test_a_damaged_artifact_is_replaced_by_a_whole_one_of_the_same_manifest(tmp_path: Path) -> None:
    save_artifact(tmp_path / "thing", "thing", tensors={"value": np.arange(3)})
    tensors = tmp_path / "thing" / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-1])
    save_artifact(tmp_path / "thing", "thing", tensors={"value": np.arange(3)})
    assert open_artifact(tmp_path / "thing").tensors["value"].tolist() == [0, 1, 2]


def test_a_writer_whom_others_pass_at_each_step_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Theirs was there before ours, and again before the older one could return: that ended in an error."""
    save_artifact(tmp_path / "thing", "thing", tensors={"value": np.arange(1)})
    rename, passed = Path.rename, list[str]()

    def passed_by(self: Path, target: Path) -> Path:
        if target.name == "thing" and len(passed) < 2:
            passed.append(self.name)
            theirs = self if self.name.endswith(OLD) else self.with_name(self.name + OLD)
            if not target.exists():
                shutil.copytree(theirs, target)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", passed_by)
    save_artifact(tmp_path / "thing", "thing", tensors={"value": np.arange(2)})
    assert [name.endswith(OLD) for name in passed] == [False, True]
    assert len(open_artifact(tmp_path / "thing", "thing").tensors["value"]) == 2
    assert [file.name for file in tmp_path.iterdir()] == ["thing"]


def make_often(folder: Path, together: Any, failed: "multiprocessing.SimpleQueue[str]") -> None:
    """What one of several runs with one `--shared` does: all ask for the same thing at once, again and again."""
    kind = Kind("thing", lambda value, path, **about: save_artifact(path, "thing", tensors={"x": value}, **about),
                lambda path: open_artifact(path, "thing").tensors["x"])  # fmt: skip
    for number in range(50):
        together.wait()
        try:
            found = InFolder(folder / str(number)).once("thing", ORIGIN, lambda: np.arange(5), kind)
            assert np.array_equal(found, np.arange(5))
        except BaseException as error:
            failed.put(repr(error))


def test_four_keepers_on_one_shared_folder_never_fail(tmp_path: Path) -> None:
    failed, together = FORK.SimpleQueue(), FORK.Barrier(4)
    keepers = [FORK.Process(target=make_often, args=(tmp_path, together, failed)) for _ in range(4)]
    for keeper in keepers:
        keeper.start()
    for keeper in keepers:
        keeper.join()
    assert failed.empty() or failed.get() == ""
    assert not list(tmp_path.rglob(".*"))


KILLED = """
import os, signal, sys
from pathlib import Path
from plant.store.artifact import atomic_file, save_artifact
from plant.store import artifact
import numpy as np
target = Path(sys.argv[1])
if sys.argv[2] == "file":
    with atomic_file(target) as temporary:
        temporary.write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)
artifact._put_in_place = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
save_artifact(target, "thing", tensors={"value": np.arange(3)})
"""


@pytest.mark.parametrize("what", ["file", "folder"])
def test_the_next_writer_sweeps_what_a_killed_one_left(tmp_path: Path, what: str) -> None:
    target = tmp_path / "thing"
    assert subprocess.run([sys.executable, "-c", KILLED, str(target), what]).returncode == -signal.SIGKILL
    assert [file.name.startswith(".thing.") for file in tmp_path.iterdir()] == [True]
    if what == "file":
        with atomic_file(target) as temporary:
            temporary.write_text("whole")
    else:
        save_artifact(target, "thing", tensors={"value": np.arange(3)})
    assert [file.name for file in tmp_path.iterdir()] == ["thing"]


def test_what_others_are_writing_is_not_swept(tmp_path: Path) -> None:
    with temporary_file(tmp_path / "thing") as one, temporary_folder(tmp_path / "thing") as other:
        with atomic_file(tmp_path / "thing") as third:
            third.write_text("whole")
        assert one.is_file()
        assert other.is_dir()
    assert [file.name for file in tmp_path.iterdir()] == ["thing"]


def test_writers_of_other_machines_have_a_day(tmp_path: Path) -> None:
    """Their processes cannot be asked for; names of earlier versions told no process."""
    fresh, stale = tmp_path / ".thing.00000000-1-abc.tmp", tmp_path / f".thing.00000000-2-abc.tmp{OLD}"
    older, foreign = tmp_path / ".thing.q1w2e3r4.tmp", tmp_path / ".thing.txt"
    long_ago = time.time() - FORGOTTEN - 60
    for file in (fresh, stale, older, foreign):
        file.write_text("half")
    for file in (stale, older, foreign):
        os.utime(file, (long_ago, long_ago))
    with atomic_file(tmp_path / "thing") as temporary:
        temporary.write_text("whole")
    assert sorted(file.name for file in tmp_path.iterdir()) == [fresh.name, foreign.name, "thing"]
