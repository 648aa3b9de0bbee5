"""Prediction over shards: each exactly once and whole, with the bytes of one process, whatever was killed."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import polars
import pytest

from plant.cli.main import main
from plant.cluster.coding import Coding
from plant.cluster.local import Local
from plant.cluster.pool import Here
from plant.cluster.predict import LEDGER, Done, find_shards, predict_shards
from plant.coder import Coder
from plant.errors import InputError
from plant.types import Note
from tests.made_up import notes_of

SHARDS, NOTES = 5, 6


@pytest.fixture(scope="module")
def coder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A coder that starts in the time of its imports."""
    folder = tmp_path_factory.mktemp("coder") / "coder"
    notes = notes_of(40)
    Coder("tfidf", "prepare.min_count=1").fit([n.text for n in notes], [n.codes for n in notes]).save(folder)
    return str(folder)


def lines(notes: list[Note]) -> str:
    return "".join(json.dumps({"id": note.id, "text": note.text}) + "\n" for note in notes)


def blocks() -> Iterator[list[Note]]:
    notes = notes_of(SHARDS * NOTES, seed=3)
    return (notes[first : first + NOTES] for first in range(0, len(notes), NOTES))


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    folder = tmp_path / "shards"
    folder.mkdir()
    for number, notes in enumerate(blocks()):
        (folder / f"part{number}.jsonl").write_text(lines(notes))
    return folder


def bytes_of(out: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(out.iterdir())}


def coded(coder: str, shards: Path, out: Path, coding: Coding = Coding(), pool: Here | Local = Here()) -> Done:  # noqa: B008
    return predict_shards(coder, find_shards([str(shards)]), out, coding, pool)


def test_a_shard_has_the_bytes_of_one_file_by_itself(coder: str, shards: Path, tmp_path: Path) -> None:
    done = coded(coder, shards, tmp_path / "out")
    assert (done.notes, done.unchanged) == (SHARDS * NOTES, 0)
    for number in range(SHARDS):
        with pytest.raises(SystemExit) as end:
            main(["predict", coder, str(shards / f"part{number}.jsonl"), "--out", str(tmp_path / "one.jsonl")])
        assert end.value.code == 0
        assert (tmp_path / "out" / f"part{number}.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


def test_processes_write_the_same_bytes_and_the_same_ledger(coder: str, shards: Path, tmp_path: Path) -> None:
    for name, pool in {"here": Here(), "local": Local(2)}.items():
        coded(coder, shards, tmp_path / name, pool=pool)
    assert bytes_of(tmp_path / "here") == bytes_of(tmp_path / "local")


def test_every_kind_of_table_is_a_shard_and_parquet_an_output(coder: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for suffix, notes in zip(("jsonl", "csv", "parquet"), blocks(), strict=False):
        table = polars.DataFrame([{"id": note.id, "text": note.text} for note in notes])
        path = tmp_path / "in" / f"{suffix}s.{suffix}"
        {"jsonl": table.write_ndjson, "csv": table.write_csv, "parquet": table.write_parquet}[suffix](path)
    done = coded(coder, tmp_path / "in", tmp_path / "out", Coding(form="parquet", evidence=False))
    assert [line.file for line in done.lines] == ["csvs.parquet", "jsonls.parquet", "parquets.parquet"]
    read = polars.read_parquet(tmp_path / "out" / "csvs.parquet")
    assert read["id"].to_list() == [note.id for note in list(blocks())[1]]


def test_parts_without_rows_are_shards_without_notes(
    coder: str, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs that write in parts leave empty files, which ended the command."""
    for part in shards.glob("part[1-4]*"):
        part.unlink()
    (shards / "none.jsonl").touch()
    (shards / "packed.csv.gz").write_bytes(gzip.compress(b"", mtime=0))
    polars.DataFrame({"id": [], "text": []}, schema={"id": str, "text": str}).write_parquet(shards / "nothing.parquet")
    with pytest.raises(SystemExit, match="0"):
        main(["predict", coder, str(shards), "--out", str(tmp_path / "out")])
    assert f"{NOTES} notes of 4 shards coded: {tmp_path / 'out'}; 3 of them without notes" in capsys.readouterr().err
    sizes = {file.name: file.stat().st_size > 0 for file in (tmp_path / "out").glob("*.jsonl") if file.name != LEDGER}
    assert sizes == {"none.jsonl": False, "nothing.jsonl": False, "packed.jsonl": False, "part0.jsonl": True}


def test_what_is_done_is_not_done_again(coder: str, shards: Path, tmp_path: Path) -> None:
    coded(coder, shards, tmp_path / "out")
    whole = bytes_of(tmp_path / "out")
    times = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "out").glob("part*")}
    assert coded(coder, shards, tmp_path / "out").unchanged == SHARDS
    (tmp_path / "out" / "part1.jsonl").unlink()
    (tmp_path / "out" / "part3.jsonl").write_text("damaged")
    assert coded(coder, shards, tmp_path / "out").unchanged == SHARDS - 2
    assert bytes_of(tmp_path / "out") == whole
    again = {name for name, time in times.items() if (tmp_path / "out" / name).stat().st_mtime_ns != time}
    assert again == {"part1.jsonl", "part3.jsonl"}


def test_a_changed_shard_is_done_again_and_with_other_options_all_are(coder: str, shards: Path, tmp_path: Path) -> None:
    coded(coder, shards, tmp_path / "out")
    (shards / "part0.jsonl").write_text(lines([Note("new", "signc1x and more")]))
    assert coded(coder, shards, tmp_path / "out").unchanged == SHARDS - 1
    assert coded(coder, shards, tmp_path / "out", Coding(top=3)).unchanged == 0


def test_a_changed_coder_does_all_again(coder: str, shards: Path, tmp_path: Path) -> None:
    coded(coder, shards, tmp_path / "out")
    found = Coder.load(coder)
    Coder(found.recipe, fitted=replace(found.fitted, thresholds=found.fitted.thresholds / 2)).save(tmp_path / "other")
    assert coded(str(tmp_path / "other"), shards, tmp_path / "out").unchanged == 0


def test_a_line_that_was_half_written_is_dropped(coder: str, shards: Path, tmp_path: Path) -> None:
    coded(coder, shards, tmp_path / "out")
    whole, ledger = bytes_of(tmp_path / "out"), tmp_path / "out" / LEDGER
    ledger.write_bytes(whole[LEDGER][:-40])
    assert coded(coder, shards, tmp_path / "out").unchanged == SHARDS - 1
    assert bytes_of(tmp_path / "out") == whole


def test_a_file_of_somebody_else_is_not_taken_for_the_ledger(coder: str, shards: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / LEDGER).write_text('{"mine": 1}\n{"mine": 2}\n')
    with pytest.raises(InputError, match="not written by plant predict"):
        coded(coder, shards, tmp_path / "out")


def test_a_bad_note_leaves_other_shards_and_names_its_own(coder: str, shards: Path, tmp_path: Path) -> None:
    (shards / "part4.jsonl").write_text(lines([Note("a", "signc1x"), Note("a", "signc2x")]))
    with pytest.raises(InputError, match="part4.jsonl: two notes have the id 'a'"):
        coded(coder, shards, tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").glob("part*")) == [f"part{n}.jsonl" for n in range(4)]
    done = coded(coder, shards, tmp_path / "out", Coding(skip_bad=True))
    assert done.lines[4].skipped == ((2, "two notes have the id 'a': ids must differ in the whole source"),)


def test_shards_are_files_patterns_and_folders(shards: Path) -> None:
    (shards / ".hidden.jsonl").touch()
    (shards / "readme.txt").touch()
    names = [f"part{number}" for number in range(SHARDS)]
    assert list(find_shards([str(shards)])) == names
    assert list(find_shards([f"{shards}/part*.jsonl"])) == names
    assert list(find_shards([str(shards / "part2.jsonl"), str(shards / "part0.jsonl")])) == ["part2", "part0"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("shards/part0.jsonl", "other/part0.csv.gz", "--out", "out"), "would both be written as 'part0'"),
     (("shards/x*.jsonl", "--out", "out"), "no file is named like shards/x*.jsonl"),
     (("empty", "--out", "out"), "empty holds no tables"),
     (("shards",), "name it with --out"),
     (("shards", "--out", "coded.jsonl"), "name it with --out"),
     (("shards", "--out", "shards"), "which is read"),
     (("shards/part0.jsonl", "shards/part1.jsonl", "--out", "shards"), "would destroy it"),
     (("-", "--workers", "2", "--out", "out"), "standard input cannot be one of several shards"),
     (("shards", "--format", "brat", "--out", "out"), "brat is a folder of its own"),
     (("shards", "--workers", "0", "--out", "out"), "--workers 0")],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line(
    coder: str, shards: Path, arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(shards.parent)
    (shards.parent / "empty").mkdir()
    (shards.parent / "other").mkdir()
    (shards.parent / "other" / "part0.csv.gz").touch()
    with pytest.raises(SystemExit) as end:
        main(["predict", coder, *arguments])
    assert (end.value.code, said in capsys.readouterr().err) == (2, True)
    assert not Path("out").exists()


def predicting(coder: str, shards: Path, out: Path) -> "subprocess.Popen[bytes]":
    program = "from plant.cli.main import main; main()"
    arguments = ["predict", coder, str(shards), "--out", str(out), "--workers", "2"]
    return subprocess.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.DEVNULL)


def kill_and_resume(coder: str, shards: Path, folder: Path, kills: int) -> None:
    """Kill a command, or one of its workers, at random times, then let it end."""
    whole, draw = folder / "whole", random.Random(18)
    begun = time.monotonic()
    assert predicting(coder, shards, whole).wait() == 0
    seconds = time.monotonic() - begun
    for number in range(kills):
        running = predicting(coder, shards, folder / "killed")
        time.sleep(draw.uniform(0.3, 1) * seconds)
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        victim = int(draw.choice(children)) if number % 2 and children else running.pid
        with suppress(ProcessLookupError):  # that worker was just done
            os.kill(victim, signal.SIGKILL)
        running.wait()
    assert predicting(coder, shards, folder / "killed").wait() == 0
    assert bytes_of(folder / "killed") == bytes_of(whole)


@pytest.mark.slow
def test_a_prediction_killed_at_ten_random_times_goes_on_to_the_same_bytes(coder: str, tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    notes = notes_of(1200, seed=5)
    for number in range(12):
        (tmp_path / "shards" / f"part{number}.jsonl").write_text(lines(notes[number * 100 : number * 100 + 100]))
    kill_and_resume(coder, tmp_path / "shards", tmp_path, kills=10)
