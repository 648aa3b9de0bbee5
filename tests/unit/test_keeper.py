"""What is made from the same things is made once: in a run's folder, and in a folder that runs share."""

import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plant.store import fingerprint as fingerprints
from plant.store.artifact import open_artifact, save_artifact
from plant.store.fingerprint import fingerprint
from plant.store.keeper import Following, InFolder, Keeper, Kind, Origin, Shared

KIND = "numbers"


def save(number: int, path: Path, *, recipe: Mapping[str, Any], inputs: Mapping[str, str]) -> None:
    save_artifact(path, KIND, tensors={"number": np.array([number])}, recipe=recipe, inputs=inputs)


def load(path: Path) -> int:
    return int(open_artifact(path, KIND).tensors["number"][0])


def kept(keeper: Keeper, inputs: Mapping[str, str], number: int) -> int:
    """What the keeper has for some inputs; `number` where it has nothing."""
    return keeper.once("number", Origin(inputs), lambda: number, Kind(KIND, save, load))


def shared(folder: Path, run: str) -> Shared:
    return Shared(folder / "shared", InFolder(folder / run))


def test_a_folder_keeps_the_last_thing_of_a_name(tmp_path: Path) -> None:
    keeper = InFolder(tmp_path)
    assert [kept(keeper, {"seed": seed}, number) for seed, number in (("1", 10), ("1", 11), ("2", 12), ("1", 13))] == [
        10, 10, 12, 13,
    ]  # fmt: skip


def test_runs_share_what_has_the_same_inputs_and_nothing_else(tmp_path: Path) -> None:
    one, other = shared(tmp_path, "one"), shared(tmp_path, "other")
    assert [kept(one, {"seed": "1"}, 10), kept(other, {"seed": "1"}, 11), kept(other, {"seed": "2"}, 12)] == [
        10,
        10,
        12,
    ]
    assert kept(one, {"seed": "1"}, 13) == 10


@pytest.mark.parametrize("name", ["one", "other"])
def test_checkpoints_stay_with_their_run_and_go_with_it(tmp_path: Path, name: str) -> None:
    keeper = shared(tmp_path, name)
    checkpoint = keeper.checkpoint("model", Origin({"seed": "1"}))
    assert checkpoint.is_relative_to(tmp_path / name)
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    keeper.run.drop_checkpoints()
    keeper.run.drop_checkpoints()
    assert not checkpoint.exists()


def test_a_copied_source_is_the_same_source(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    (here / "notes.csv").write_text("id,text\n1,flu\n")
    shutil.copytree(here, there, copy_function=shutil.copyfile)
    assert fingerprint(str(here)) == fingerprint(str(there))
    (there / "notes.csv").write_text("id,text\n1,flq\n")  # as long as before
    assert fingerprint(str(here)) != fingerprint(str(there))


def test_a_large_file_is_known_by_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "READ_WHOLE", 3)
    notes = tmp_path / "notes.csv"
    notes.write_text("many notes")
    before = fingerprint(str(notes))
    os.utime(notes, ns=(0, 0))
    assert fingerprint(str(notes)) != before


def test_a_helper_waits_for_what_another_keeps_and_keeps_nothing_of_its_own(tmp_path: Path) -> None:
    leader = InFolder(tmp_path)
    later = threading.Timer(0.2, kept, (leader, {"seed": "1"}, 7))
    later.start()
    assert kept(Following(leader, helps=("coder",)), {"seed": "1"}, 8) == 7
    later.join()
    helper = Following(leader, helps=("number",))
    assert kept(helper, {"seed": "1"}, 9) == 7  # it is there: nobody makes it
    assert kept(helper, {"seed": "2"}, 9) == 9
    assert kept(leader, {"seed": "1"}, 10) == 7
