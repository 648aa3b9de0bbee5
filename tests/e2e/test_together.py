"""Processes that train one model together end with the bits of one process, and go on after kills to the same."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from plant.cli.together import without_places
from plant.errors import InputError
from plant.nn.parts.table import ENCODERS
from plant.store.artifact import open_artifact
from plant.train.together import ALONE, OWN_STORE, Ranked, check_size, interface_to, ranked
from tests.made_up import notes_of
from tests.trained_together import digest_of

pytestmark = pytest.mark.timeout(7200)  # many processes on few cores
ENDLESS = 3500  # seconds: longer than anything takes on the most crowded core
LEARNING = [name for name in ENCODERS.builders if name != "none"]  # has nothing to train
ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def trained(
    out: Path, processes: int, encoders: Sequence[str], accumulate: int, *options: str
) -> dict[str, dict[str, Any]]:
    """What so many processes write down; one is not told of any others."""
    command = [sys.executable, "-m", "tests.trained_together", str(out), ",".join(encoders), str(accumulate), *options]
    group = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    environments = [{**os.environ, **group, "RANK": str(rank), "OMP_NUM_THREADS": "1"} for rank in range(processes)]
    running = [subprocess.Popen(command, cwd=ROOT, env=environment) for environment in environments]
    assert [process.wait(timeout=ENDLESS) for process in running] == [0] * processes
    found: dict[str, dict[str, Any]] = json.loads(out.read_text())
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "encoders", [["multires"], ["language-model"], LEARNING], ids=["one", "language-model", "every"]
)
def test_two_processes_train_encoders_to_the_bits_of_one(tmp_path: Path, encoders: list[str]) -> None:
    """Dropout on, running means, two micro-batches an update, the last update of an epoch with one."""
    one = {encoder: digest_of(encoder, 2, ALONE, tmp_path / "one.json") for encoder in encoders}  # in this process
    assert trained(tmp_path / "two.json", 2, encoders, 2) == one
    assert len({found["weights"] for found in one.values()}) == len(encoders)


@pytest.mark.slow
def test_four_processes_are_near_and_repeat_themselves_and_exact_ones_have_the_bits(tmp_path: Path) -> None:
    one, four, again, exact, few = (
        trained(tmp_path / f"{name}.json", count, ["cnn"], 4, *options)["cnn"]
        for name, count, options in (
            ("one", 1, ()), ("four", 4, ()), ("again", 4, ()), ("exact", 4, ("exact",)), ("two", 2, ("exact",)),
        )
    )  # fmt: skip
    np.testing.assert_allclose(four["flat"], one["flat"], rtol=0, atol=1e-5)
    assert four == again
    assert one == exact == few


@pytest.mark.slow
def test_processes_that_do_not_divide_the_update_share_it_all_the_same(tmp_path: Path) -> None:
    one, two = (trained(tmp_path / f"{count}.json", count, ["cnn"], 3)["cnn"] for count in (1, 2))
    np.testing.assert_allclose(two["flat"], one["flat"], rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kill", "model", "options"),
    [("sum:1", "cnn", ()), ("save:0", "cnn", ()), ("sum:1", "language-model", ()), ("save:0", "cnn", ("labels",))],
)
def test_a_killed_process_is_started_again_and_nothing_is_lost(
    tmp_path: Path, kill: str, model: str, options: tuple[str, ...]
) -> None:
    one = trained(tmp_path / "one.json", 2 if options else 1, [model], 2, *options)
    launch = ["torch.distributed.run", "--nnodes", "1", "--nproc-per-node", "2", "--max-restarts", "2"]
    rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--local-addr", "127.0.0.1"]
    program = ["-m", "tests.trained_together", str(tmp_path / "killed.json"), model, "2", *options]
    environment = {**os.environ, "PLANT_KILL": kill, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", OWN_STORE: "1"}
    command = [sys.executable, "-m", *launch, *rendezvous, *program]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=ENDLESS, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "killed").exists()
    assert json.loads((tmp_path / "killed.json").read_text()) == one
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.slow
def test_labels_spread_over_processes_give_the_classifier_of_one(tmp_path: Path) -> None:
    """A planted decoder and label attention, dropout on, three processes for five labels; checkpoints in parts."""
    encoders = ["cnn", "bigru"]
    one = trained(tmp_path / "one.json", 1, encoders, 2)
    three = trained(tmp_path / "three.json", 3, encoders, 2, "labels")
    for encoder in encoders:
        np.testing.assert_allclose(three[encoder]["flat"], one[encoder]["flat"], rtol=0, atol=1e-5)
        assert three[encoder]["losses"] == pytest.approx(one[encoder]["losses"], rel=1e-5)
    assert len(list(tmp_path.glob("three-*-of-3.checkpoint"))) == 6


def test_more_processes_than_micro_batches_are_refused() -> None:
    check_size(ALONE, 1)
    with pytest.raises(
        InputError, match="3 processes share the micro-batches of an update, of which this training has 2"
    ):
        check_size(Ranked(0, 3), 2)


def summed(rank: int, size: int, port: int, folder: str, large: int) -> None:
    """What one process does: a parameter without gradient here, one without gradient anywhere."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    from plant.train import together as module

    module.LARGE = large
    with module.ranked() as together:
        everywhere, here, nowhere = (nn.Parameter(torch.zeros(3, 2)) for _ in range(3))
        everywhere.grad = torch.tensor([[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
        everywhere.grad[2 * rank, 0] += 2.0  # rows of its own, and one that both have
        here.grad = torch.tensor([[5.0, 6.0], [0.0, 0.0], [0.0, 7.0]]) if rank == 1 else None
        sent = SentNumbers()
        with sent.counted():
            together.sum_gradients([everywhere, here, nowhere], micro_batches=2)
        totals = together.totals([0.5, float(rank)])
        found = [None if p.grad is None else p.grad.tolist() for p in (everywhere, here, nowhere)]
        (Path(folder) / str(rank)).write_text(json.dumps([found, totals, sent.floats]))


@dataclass
class SentNumbers:
    """How many floats processes sum."""

    floats: int = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        sum_of = torch.distributed.all_reduce

        def count(tensor: torch.Tensor, **options: Any) -> None:
            self.floats += tensor.numel() * tensor.is_floating_point()
            sum_of(tensor, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("torch.distributed.all_reduce", count)
            yield


@pytest.mark.slow
@pytest.mark.parametrize(("large", "floats"), [(7, 3 + 18), (6, 3 + 2 * (2 + 2 + 0))], ids=["whole", "touched-rows"])
def test_a_gradient_that_is_missing_here_is_zero_and_missing_everywhere_it_stays_so(
    tmp_path: Path, large: int, floats: int
) -> None:
    """Sent whole, and, as of large tables, the rows alone that some process touched."""
    import multiprocessing

    port, spawn = free_port(), multiprocessing.get_context("spawn")
    running = [spawn.Process(target=summed, args=(rank, 2, port, str(tmp_path), large)) for rank in range(2)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    for rank in range(2):
        everywhere, here = [[4.0, 4.0], [0.0, 0.0], [2.0, 0.0]], [[5.0, 6.0], [0.0, 0.0], [0.0, 7.0]]
        assert json.loads((tmp_path / str(rank)).read_text()) == [[everywhere, here, None], [1.0, 1.0], floats]


def test_a_launcher_whose_restarts_would_hang_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes found the addresses of the dead in a store that outlived them."""
    for name, value in (
        ("WORLD_SIZE", "2"),
        ("TORCHELASTIC_MAX_RESTARTS", "3"),
        ("TORCHELASTIC_USE_AGENT_STORE", "True"),
    ):
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"would hang after a restart: set {OWN_STORE}=1"), ranked():
        pass


def test_the_way_to_the_other_machines_is_found() -> None:
    assert interface_to("127.0.0.1") == "lo"
    assert interface_to("127.0.0.2") == "lo"  # not by its name: by the address from which it is reached
    assert interface_to("nowhere.invalid") == ""


def test_processes_are_not_told_again_how_many_they_are() -> None:
    words = ["run", "notes.csv", "--workers", "2", "--out", "x", "--workers=3", "--set", "fit.accumulate=2"]
    assert without_places(words) == ["run", "notes.csv", "--out", "x", "--set", "fit.accumulate=2"]


CHANGES = ("fit.epochs=2", "fit.accumulate=2", "fit.batch=4", "rank.epochs=2", "prepare.min_count=1",
           "encoder.filters=8", "encoder.embedding=8")  # fmt: skip
PARTED = [f"tensors-0000{number}-of-00002.safetensors" for number in range(2)]


def write_notes(path: Path) -> None:
    rows = [f"{note.id},{note.text},{';'.join(note.codes)},{note.split}" for note in notes_of(60)]
    path.write_text("\n".join(["id,text,codes,split", *rows]) + "\n")


def called(*words: str, changes: Sequence[str] = CHANGES) -> None:
    """A command as users start it."""
    options = [word for change in changes for word in ("--set", change)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "plant", *words, *options], env=environment, check=True, timeout=ENDLESS)


@pytest.mark.slow
def test_a_run_with_workers_leaves_the_coder_of_one_process(tmp_path: Path) -> None:
    """Called again, with the coder there, the processes find nothing to train."""
    write_notes(tmp_path / "notes.csv")
    run = ("run", str(tmp_path / "notes.csv"), "--recipe", "plant-demo", "--out")
    for out, workers in (("one", ()), ("two", ("--workers", "2")), ("two", ("--workers", "2"))):
        called(*run, str(tmp_path / out), *workers)
    one, two = ((tmp_path / out / "coder" / "tensors.safetensors").read_bytes() for out in ("one", "two"))
    assert one == two


@pytest.mark.slow
def test_what_is_wrong_with_notes_is_one_line_of_all_processes(tmp_path: Path) -> None:
    """It was said by each of them, four times over, with what torch had to say about it."""
    (tmp_path / "notes.csv").write_text("id,text,codes\na,fever,R50\na,cough,R05\n")
    command = ["run", str(tmp_path / "notes.csv"), "--recipe", "plant-demo", "--set", "fit.accumulate=2"]
    done = subprocess.run(
        [sys.executable, "-m", "plant", *command, "--out", str(tmp_path / "out"), "--workers", "2"],
        capture_output=True, text=True, timeout=ENDLESS,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if not line.startswith(("compiling", "reading"))]
    assert (done.returncode, len(said)) == (2, 1), done.stderr
    assert "two notes have the id 'a'" in said[0]


@pytest.mark.slow
def test_a_run_that_shares_labels_leaves_a_coder_in_parts_that_is_one_process_s(tmp_path: Path) -> None:
    """Listed words and dropout: up to the order of sums the coder of one process, and opened as any other."""
    write_notes(tmp_path / "notes.csv")
    run = ("run", str(tmp_path / "notes.csv"), "--recipe", "plant-demo", "--out")
    changes = (*CHANGES, "decoder.dropout=0.3")
    called(*run, str(tmp_path / "one"), changes=changes)
    called(*run, str(tmp_path / "two"), "--workers", "2", "--share", "labels", changes=changes)
    one, two = (open_artifact(tmp_path / out / "coder") for out in ("one", "two"))
    assert sorted(file.name for file in two.path.glob("tensors-*")) == PARTED
    assert one.tensors.keys() == two.tensors.keys()
    for name, array in one.tensors.items():
        np.testing.assert_allclose(two.tensors[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
    assert not (tmp_path / "two" / "checkpoints").exists()
    assert (tmp_path / "two" / "report" / "report.html").is_file()  # the coder was opened, and coded notes


@pytest.mark.slow
def test_pretrain_with_workers_leaves_the_language_model_of_one_process(tmp_path: Path) -> None:
    write_notes(tmp_path / "notes.csv")
    called("prepare", str(tmp_path / "notes.csv"), "--out", str(tmp_path / "corpus"), changes=["prepare.min_count=1"])
    changes = ("pretrain.embedding=8", "pretrain.hidden=8", "pretrain.layers=2", "pretrain.epochs=2",
               "pretrain.batch=4", "pretrain.accumulate=2")  # fmt: skip
    for out, workers in (("one", ()), ("two", ("--workers", "2")), ("two", ("--workers", "2"))):
        called("pretrain", str(tmp_path / "corpus"), "--out", str(tmp_path / out), *workers, changes=changes)
    one, two = ((tmp_path / out / "tensors.safetensors").read_bytes() for out in ("one", "two"))
    assert one == two
    assert not list(tmp_path.glob(".*"))
