"""A language model whose training is killed ends with the same bits as one that was left alone."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from plant.cli.main import main

ROOT = Path(__file__).parents[2]
SMALL = ("embedding=8", "hidden=12", "layers=2", "epochs=3", "batch=4", "bptt=8", "checkpoint_minutes=0.0")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from plant.cli.main import main; main()", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


def plant(*arguments: str) -> None:
    with pytest.raises(SystemExit) as done:
        main(arguments)
    assert done.value.code == 0


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notes")
    words = ["chest", "pain", "fever", "cough", "normal", "heart", "sounds", "discharged"]
    lines = [
        {"id": f"n{n}", "text": " ".join(words[(n * k + k) % 8] for k in range(1, 40)), "labels": [f"I{n % 3}"],
         "split": "dev" if n % 5 == 0 else "train"}
        for n in range(30)
    ]  # fmt: skip
    (folder / "notes.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    plant("prepare", str(folder / "notes.jsonl"), "--out", str(folder / "corpus"), "--codes-column", "labels")
    return folder / "corpus"


def pretrain_command(corpus: Path, out: Path) -> list[str]:
    settings = [part for setting in SMALL for part in ("--set", f"pretrain.{setting}")]
    return ["pretrain", str(corpus), "--out", str(out), *settings]


def killed_at_checkpoint(corpus: Path, out: Path, number: int) -> int:
    """Kill a training without warning once its checkpoint was written `number` times; returns how often it was."""
    process = subprocess.Popen(command(*pretrain_command(corpus, out)), env=environment(), stderr=subprocess.DEVNULL)
    seen: set[int] = set()
    while len(seen) < number and process.poll() is None:
        seen |= {file.stat().st_mtime_ns for file in (out.parent / "checkpoints").glob("*.safetensors")}
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return len(seen)


def test_a_killed_training_goes_on_to_the_same_bits(corpus: Path, tmp_path: Path) -> None:
    plant(*pretrain_command(corpus, tmp_path / "whole" / "lm"))
    whole = (tmp_path / "whole" / "lm" / "tensors.safetensors").read_bytes()
    for number in (1, 4):
        out = tmp_path / f"killed{number}" / "lm"
        assert killed_at_checkpoint(corpus, out, number) >= 1
        assert not out.exists()
        plant(*pretrain_command(corpus, out))
        assert (out / "tensors.safetensors").read_bytes() == whole
        assert not list((out.parent / "checkpoints").iterdir())
