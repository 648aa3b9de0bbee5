"""A user without rights on a package that is read-only to them, without a home: verbs work, and refusals are one line.

Only root can become somebody else, so that these are skipped for all others.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import plant

NOBODY = 65534
SWITCH = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
# where Python lies below root's own folder: may read everything, but still write nothing
READING = tuple(f"--{kind}=-all,+dac_read_search" for kind in ("inh-caps", "ambient-caps", "bounding-set"))
PLANT = "from plant.cli.main import main; main()"


@pytest.fixture(scope="module")
def nobody() -> tuple[str, ...]:
    """The words that start a program as a user without rights."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root with setpriv can become a user without rights")
    for words in ((*SWITCH, "--no-new-privs"), (*SWITCH, *READING)):
        if subprocess.run([*words, sys.executable, "-c", ""], capture_output=True, check=False).returncode == 0:
            return words
    pytest.skip("a user without rights cannot start this Python")


@pytest.fixture(scope="module")
def room() -> Iterator[Path]:
    """A folder that all may enter: a package that root owns, and notes in a folder of nobody's."""
    with tempfile.TemporaryDirectory(prefix="no-rights-") as name:
        room = Path(name)
        room.chmod(0o755)
        compiled = shutil.ignore_patterns("*.nbi", "*.nbc")
        shutil.copytree(Path(plant.__file__).parent, room / "plant", ignore=compiled)
        (room / "work").mkdir()
        rows = [f"n{number},fever and cough {number},I10;E11.9,train" for number in range(12)]
        (room / "work" / "notes.csv").write_text("\n".join(["id,text,codes,split", *rows]) + "\n")
        os.chown(room / "work", NOBODY, NOBODY)
        yield room


def called(nobody: tuple[str, ...], room: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"], "HOME": "/nonexistent", "TMPDIR": str(room / "work"), "PYTHONPATH": str(room),
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    command = [*nobody, sys.executable, "-c", PLANT, *arguments]
    return subprocess.run(command, cwd=room / "work", env=environment, capture_output=True, text=True, check=False)


def test_a_corpus_is_prepared_where_only_its_folder_can_be_written(nobody: tuple[str, ...], room: Path) -> None:
    done = called(nobody, room, "prepare", "notes.csv", "--out", "corpus")
    assert (done.returncode, "12 train notes" in done.stderr) == (0, True), done.stderr
    assert (room / "work" / "corpus").stat().st_uid == NOBODY
    assert not list((room / "plant").rglob("*.nbi"))
    assert list((room / "work" / f"plant-kernels-{NOBODY}").rglob("*.nbi"))


def test_a_folder_that_cannot_be_written_is_one_line(nobody: tuple[str, ...], room: Path) -> None:
    done = called(nobody, room, "prepare", "notes.csv", "--out", str(room / "plant" / "corpus"))
    said = [line for line in done.stderr.splitlines() if line.startswith("plant:")]
    assert (done.returncode, len(said), "Traceback" in done.stderr) == (2, 1, False), done.stderr
    assert "denied" in said[0].lower()
    assert not (room / "plant" / "corpus").exists()
