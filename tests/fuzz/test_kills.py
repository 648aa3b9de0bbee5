"""Runs killed at random points, and runs on a full disk: what is there is whole, and a rerun ends in the same bits.

Many minutes, so `slow`: `make fuzz` runs them.
"""

import hashlib
import io
import multiprocessing
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from plant.cli.main import main
from plant.store.artifact import MANIFEST, open_artifact
from tests.made_up import notes_of

KILLS, FULL_DISKS = int(os.environ.get("PLANT_KILLS", "20")), int(os.environ.get("PLANT_DISKS", "50"))
RECIPES = {
    "tfidf": (),
    "candidates": (),
    "plant-interaction": ("fit.epochs=2", "fit.checkpoint_minutes=0", "rank.epochs=2", "prepare.min_count=1"),
    "caml-small": ("fit.epochs=3", "fit.checkpoint_minutes=0", "vectors.epochs=1", "prepare.min_count=1"),
    "plant-cnn": ("fit.epochs=2", "fit.checkpoint_minutes=0", "rank.epochs=2", "prepare.min_count=1"),
}
pytestmark = pytest.mark.slow


def write_notes(path: Path, n: int = 60) -> None:
    """Made-up notes whose codes have names."""
    rows = [f"{note.id},{note.text},{';'.join(note.codes)},{note.split}" for note in notes_of(n)]
    path.write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
    names = [f"C{label}\tsignc{label}x" for label in range(5)]
    path.with_name("names.tsv").write_text("\n".join(["code\tdescription", *names]) + "\n")


def arguments_of(recipe: str, notes: Path, out: Path) -> list[str]:
    changes = [f"--set={change}" for change in RECIPES[recipe]]
    book = f"--codebook={notes.with_name('names.tsv')}"
    return ["run", str(notes), "--recipe", recipe, "--out", str(out), "--device", "cpu", book, *changes]


def bits(run: Path) -> dict[str, str]:
    """A digest of every file of the artifacts of a run, but for what the clock said of each epoch."""
    files = [file for artifact in artifacts(run) for file in artifact.iterdir()]
    return {str(file.relative_to(run)): hashlib.sha256(timeless(file)).hexdigest() for file in sorted(files)}


def timeless(file: Path) -> bytes:
    """The bytes of a file; of a manifest without the seconds of epochs, and the seal over them."""
    if file.name != MANIFEST:
        return file.read_bytes()
    return re.sub(rb'"(seconds|tokens_per_second|seal)": "?[\w.e+-]+"?', rb'"\1": 0', file.read_bytes())


def artifacts(run: Path) -> Iterator[Path]:
    return (manifest.parent for manifest in run.rglob(MANIFEST) if not manifest.parent.name.startswith("."))


SERVER = multiprocessing.get_context("forkserver")  # has imported all that runs need: a run is nothing but its work
SERVER.set_forkserver_preload(["plant.cli.run", "plant.steps.classifier", "plant.systems.candidates", "tests.made_up"])


def run_quietly(arguments: list[str], log: str) -> None:
    """A whole `plant run`, whose words go to a file."""
    with open(log, "a", encoding="utf-8") as said, redirect_stdout(said), redirect_stderr(said):
        main(arguments)


def finished(arguments: list[str], log: Path, *, kill_after: float | None = None) -> bool:
    """Whether a run came to its end; `kill_after` so many seconds it is killed, without a last word."""
    running = SERVER.Process(target=run_quietly, args=(arguments, str(log)))
    running.start()
    running.join(kill_after)
    if running.is_alive():
        os.kill(running.pid or 0, signal.SIGKILL)
        running.join()
    assert running.exitcode in (0, -signal.SIGKILL), log.read_text()
    return running.exitcode == 0


def kill_times(draw: random.Random, seconds: float) -> Iterator[float]:
    """Points of the course, for ever: one in each tenth of it, in any order, and then tenths anew."""
    while True:
        for tenth in draw.sample(range(10), 10):
            yield (tenth + draw.random()) / 10 * seconds


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_run_that_is_killed_again_and_again_ends_in_the_same_bits(tmp_path: Path, recipe: str) -> None:
    write_notes(tmp_path / "notes.csv", 40)
    log = tmp_path / "log"
    assert finished(arguments_of(recipe, tmp_path / "notes.csv", tmp_path / "warm"), log)  # compiles and imports
    begun = time.monotonic()
    assert finished(arguments_of(recipe, tmp_path / "notes.csv", tmp_path / "alone"), log)
    seconds, killed, rounds, found = time.monotonic() - begun, 0, 0, set()
    times = kill_times(random.Random(recipe), seconds)
    while killed < KILLS:
        out = tmp_path / f"round{rounds}"
        while killed < KILLS and not finished(
            arguments_of(recipe, tmp_path / "notes.csv", out), log, kill_after=next(times)
        ):
            killed += 1
            for artifact in artifacts(out):
                open_artifact(artifact)  # whole, whenever it was killed
            found.add(len(list(artifacts(out))))
        assert finished(arguments_of(recipe, tmp_path / "notes.csv", out), log)
        assert bits(out) == bits(tmp_path / "alone")
        rounds += 1
    print(f"{recipe}: {killed} kills over {rounds} runs of {seconds:.1f} s, artifacts then {sorted(found)}, bits equal")


def run_in_process(arguments: list[str]) -> tuple[int, str]:
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        try:
            main(arguments)
        except SystemExit as end:
            return int(end.code or 0), said.getvalue()
    raise AssertionError("a command ends the program")


def mount(folder: Path, kilobytes: int, *, again: bool = False) -> bool:
    options = f"{'remount,' if again else ''}size={kilobytes}k"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or not mount(folder, 64):
        pytest.skip("only root can mount a small file system")
    subprocess.run(["umount", "-l", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


@pytest.mark.usefixtures("unchecked")
def test_a_full_disk_tears_nothing_and_space_heals_it(tmp_path: Path, disk: Path) -> None:
    write_notes(tmp_path / "notes.csv")
    alone = tmp_path / "alone"
    assert run_in_process(arguments_of("tfidf", tmp_path / "notes.csv", alone))[0] == 0
    needed = sum(file.stat().st_size for file in alone.rglob("*") if file.is_file()) // 1024
    draw, told = random.Random(20), 0
    for number in range(FULL_DISKS):
        assert mount(disk, 4 + round(needed * number / FULL_DISKS + draw.uniform(0, 4)))
        code, said = run_in_process(arguments_of("tfidf", tmp_path / "notes.csv", disk / "run"))
        assert (code, "Traceback" in said) in ((2, False), (0, False)), said
        assert code == 0 or "the disk is full" in said, said
        told += code == 2
        for artifact in artifacts(disk):
            open_artifact(artifact)
        assert not list(disk.rglob(".*")), "half-written"
        report = {file.suffix for file in (disk / "run" / "report").glob("*")}
        assert report in (set(), {".html", ".md", ".json"})
        assert mount(disk, 100_000, again=True)
        assert run_in_process(arguments_of("tfidf", tmp_path / "notes.csv", disk / "run"))[0] == 0
        assert bits(disk / "run") == bits(alone)
        subprocess.run(["umount", "-l", str(disk)], check=True)  # arrays that are mapped may outlive the run
    print(f"{FULL_DISKS} small disks, {told} of them full; {needed} KB needed")
    assert told >= FULL_DISKS // 2
