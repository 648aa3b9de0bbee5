"""The same calls on a real Ray cluster of two nodes on this machine: same bytes, kills, and what it must not keep.

A minute and nine CPU seconds for the cluster alone, so `slow`: `python -m pytest -m slow tests/e2e/test_cluster.py`.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import plant
from plant.cluster.coding import Coding
from plant.cluster.pool import Call, Here, Needs, Pool, pool_of
from plant.cluster.predict import find_shards, predict_shards
from plant.cluster.relate import by_workers
from plant.coder import Coder
from plant.errors import InputError
from plant.recipe.schema import Relate
from plant.steps.relate import relate
from plant.store.artifact import read_manifest
from plant.studies.fittings import Notes
from plant.studies.study import study
from tests.made_up import notes_of
from tests.relevance_samples import random_view

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(7200),  # many processes on few cores
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install 'plant-xmtc[cluster]'"),
]
SECRET, SPLITS = "zyxwsecretword", ("train", "train", "dev")
ENDLESS = 3500  # seconds: longer than anything takes on the most crowded core
PATIENCE = 300  # seconds in which a node starts; Ray's own 30 are too few where many share a core
NODE = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100_000_000, "wait": False}
# Ray reads these once, when it is first imported: how long a node may take to start, and to answer before it is dead
SLOW = {
    "raylet_start_wait_time_s": PATIENCE,
    "health_check_timeout_ms": 60_000,
    "health_check_initial_delay_ms": 60_000,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and a node of one core each; a start costs nine CPU seconds, so one serves all tests."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.update({f"RAY_{name}": str(value) for name, value in SLOW.items()})
    from ray.cluster_utils import Cluster

    rooms = [str(Path(plant.__file__).parents[1]), str(Path(__file__).parents[2])]
    os.environ["PYTHONPATH"] = os.pathsep.join(rooms)
    found = Cluster(initialize_head=True, head_node_args=NODE)
    found.add_node(**NODE)
    found.wait_for_nodes(PATIENCE)
    yield found
    found.shutdown()


@pytest.fixture(scope="module")
def pool(cluster: Any) -> Iterator[Pool]:
    with pool_of(cluster.address, workers=2) as found:
        yield found


def square(number: int) -> int:
    return number * number


def killed_once(folder: str, number: int) -> int:
    mark = Path(folder) / str(number)
    if number == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def endless_on(node: str, folder: str, number: int) -> int:
    """On one node this leaves a trace and never ends, elsewhere it is done at once."""
    import ray

    if ray.get_runtime_context().get_node_id() == node:
        (Path(folder) / str(number)).touch()
        time.sleep(ENDLESS)
    return number


def failing(number: int) -> None:
    raise InputError("a sentence for people")


def test_every_item_is_done_once(pool: Pool) -> None:
    assert sorted(pool.each(Call(square), [1, 2, 3])) == [(0, 1), (1, 4), (2, 9)]


def test_an_error_is_the_sentence_without_a_traceback_of_ray(pool: Pool) -> None:
    with pytest.raises(InputError, match="^a sentence for people$"):
        list(pool.each(Call(failing), [1]))


def test_a_killed_worker_is_replaced(pool: Pool, tmp_path: Path) -> None:
    assert sorted(pool.each(Call(killed_once, (str(tmp_path),)), [0, 1, 2])) == [(0, 0), (1, 1), (2, 2)]


def test_a_folder_that_nodes_do_not_see_is_told(pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool.check_sees(tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("plant.cluster.on_ray._is_file", never)
    with pytest.raises(InputError, match="node .* does not see"):
        pool.check_sees(tmp_path)


def never(path: str) -> bool:
    return False


def test_no_cluster_is_one_line() -> None:
    with pytest.raises(InputError, match="no Ray cluster answers at --cluster"), pool_of("127.0.0.1:1"):
        pass


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notes that all have one marked word, and a coder of them."""
    folder = tmp_path_factory.mktemp("shards")
    notes = notes_of(40)
    Coder("tfidf", "prepare.min_count=1").fit([n.text for n in notes], [n.codes for n in notes]).save(folder / "coder")
    (folder / "in").mkdir()
    for number in range(4):
        rows = [{"id": n.id, "text": f"{n.text} {SECRET}"} for n in notes[number * 10 : number * 10 + 10]]
        (folder / "in" / f"part{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_prediction_has_the_bytes_of_one_process_and_ray_keeps_no_word_of_a_note(
    cluster: Any, pool: Pool, shards: Path
) -> None:
    coder, found = str(shards / "coder"), find_shards([str(shards / "in")])
    predict_shards(coder, found, shards / "here", Coding(), Here())
    predict_shards(coder, found, shards / "ray", Coding(), pool)
    (shards / "bad.jsonl").write_text(f'{{"id": "x", "text": "{SECRET}"}}\n{{"{SECRET}": 1\n')
    with pytest.raises(InputError, match="line 2"):
        predict_shards(coder, find_shards([str(shards / "bad.jsonl")]), shards / "bad", Coding(), pool)
    theirs = {file.name: file.read_bytes() for file in (shards / "ray").iterdir()}
    assert theirs == {file.name: file.read_bytes() for file in (shards / "here").iterdir()}
    assert not words_kept(Path(cluster.head_node.get_session_dir_path()))


def test_relevance_found_by_workers_of_the_cluster_is_that_of_one_process(pool: Pool, tmp_path: Path) -> None:
    view = random_view(4, n_documents=80, n_tokens=40)
    one, two = (relate(view, Relate(keep=6), find=find) for find in (None, by_workers(pool, tmp_path / "relevance")))
    assert [one.tokens.tobytes(), one.scores.tobytes()] == [two.tokens.tobytes(), two.scores.tobytes()]
    assert list(tmp_path.iterdir()) == []


def test_work_of_a_lost_node_is_done_elsewhere(cluster: Any, pool: Pool, tmp_path: Path) -> None:
    extra = cluster.add_node(**{**NODE, "num_cpus": 2})
    cluster.wait_for_nodes(PATIENCE)

    def lose() -> None:
        """The node, when it works on something."""
        while not list(tmp_path.iterdir()):
            time.sleep(0.1)
        cluster.remove_node(extra, allow_graceful=False)

    threading.Thread(target=lose, daemon=True).start()
    work, needs = Call(endless_on, (extra.node_id, str(tmp_path))), Needs(gigabytes=0.1)
    done = sorted(replace(pool, workers=4).each(work, list(range(6)), needs=needs))
    assert done == [(number, number) for number in range(6)]
    assert list(tmp_path.iterdir()), "nothing was lost"


STUDIED = ("plant-demo", "caml-small")
FEW = ("prepare.min_count=1", "vectors.size=8", "rank.epochs=2", "fit.epochs=12", "fit.patience=0")


def fitting_worker(out: Path) -> tuple[int, int]:
    """A worker of the cluster whose run of this study trains just now, and the raylet of its node."""
    found: list[str] = []
    while not found:
        time.sleep(0.1)
        training = {log.parent for log in out.glob("*-seed2/training.jsonl") if log.stat().st_size}
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = file.read_bytes().decode(errors="replace")
                if any(str(folder) in words for folder in training):
                    found += re.findall(r"end_with\((\d+)\)", words)
    worker = int(found[0])
    return worker, int(re.findall(r"PPid:\s+(\d+)", Path(f"/proc/{worker}/status").read_text())[0])


def lose(what: str, cluster: Any, out: Path) -> None:
    """Kill a worker that fits, or all of the node that it is on."""
    while True:
        worker, raylet = fitting_worker(out)
        if what == "worker":
            return os.kill(worker, signal.SIGKILL)
        for node in cluster.worker_nodes:  # without its head there is no cluster
            if node.all_processes["raylet"][0].process.pid == raylet:
                return cluster.remove_node(node, allow_graceful=False)


@pytest.mark.parametrize("what", ["worker", "node"])
def test_a_study_that_loses_a_worker_or_a_node_ends_in_the_bits_of_the_serial_one(
    cluster: Any, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv(
        "OMP_NUM_THREADS", "1"
    )  # as Ray has it for work of one core: sums of two threads round otherwise
    rows = [{"id": n.id, "text": n.text, "codes": list(n.codes), "split": n.split} for n in notes_of(150)]
    source = tmp_path / "notes.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)))
    plan = {"overrides": FEW, "notes": Notes(str(source), ("--report", "test"))}
    study(STUDIED, (1, 2), out=tmp_path / "one", **plan)  # type: ignore[arg-type]
    if what == "node":
        cluster.add_node(**NODE)  # in place of the one that goes
        cluster.wait_for_nodes(PATIENCE)
    killer = threading.Thread(target=lose, args=(what, cluster, tmp_path / "two"), daemon=True)
    killer.start()
    found = study(STUDIED, (1, 2), out=tmp_path / "two", pool=replace(pool, workers=3), **plan)  # type: ignore[arg-type]
    assert not killer.is_alive(), "nobody was killed"
    assert not found.failed
    parts = [f"{name}-seed{seed}/{part}" for name in STUDIED for seed in (1, 2) for part in ("coder", "predictions")]
    digests = [{part: read_manifest(tmp_path / out / part).files for part in parts} for out in ("one", "two")]
    assert digests[0] == digests[1]


def started(*words: str) -> "subprocess.Popen[str]":
    """A program of its own: this process is a client of the cluster already."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    root, pipe = Path(__file__).parents[2], subprocess.PIPE
    return subprocess.Popen([sys.executable, *words], cwd=root, env=environment, stdout=pipe, stderr=pipe, text=True)


def ended(program: "subprocess.Popen[str]") -> None:
    _, said = program.communicate(timeout=ENDLESS)
    assert program.returncode == 0, said[-3000:]


def commanded(*words: str) -> None:
    ended(started(*words))


@pytest.mark.parametrize("kill", ["", "sum:1"])
def test_ray_train_ends_with_the_bits_of_one_process_also_after_a_kill(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kill: str
) -> None:
    """A classifier and a language model, two micro-batches an update, dropout on."""
    models = "cnn,language-model"
    commanded("-m", "tests.trained_together", str(tmp_path / "one.json"), models, "2")
    monkeypatch.setenv("PLANT_KILL", kill)
    (tmp_path / "ray").mkdir()
    commanded("-m", "tests.trained_together", str(tmp_path / "ray" / "two.json"), models, "2", f"ray:{cluster.address}")
    assert (tmp_path / "ray" / "two.json").read_text() == (tmp_path / "one.json").read_text()
    assert (tmp_path / "ray" / "killed").exists() == bool(kill)
    assert not list((tmp_path / "ray").glob(".*"))


def test_a_training_whose_node_is_lost_ends_with_the_bits_of_one_process(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between backward and sum, and a spare node takes its place."""
    commanded("-m", "tests.trained_together", str(tmp_path / "one.json"), "cnn", "2")
    cluster.add_node(**NODE)
    cluster.wait_for_nodes(PATIENCE)
    monkeypatch.setenv("PLANT_KILL", f"node:{cluster.head_node.node_id}")
    (tmp_path / "ray").mkdir()
    out, mark = tmp_path / "ray" / "two.json", tmp_path / "ray" / "killed"
    program = started("-m", "tests.trained_together", str(out), "cnn", "2", f"ray:{cluster.address}")
    while not (mark.exists() and mark.read_text()):
        assert program.poll() is None
        time.sleep(0.5)
    lost = next(node for node in cluster.worker_nodes if node.node_id == mark.read_text())
    cluster.remove_node(lost, allow_graceful=False)
    ended(program)
    assert out.read_text() == (tmp_path / "one.json").read_text()


def words_kept(session: Path) -> list[Path]:
    """The files of Ray's that have the marked word of all notes."""
    time.sleep(1)
    files = [file for file in session.rglob("*") if file.is_file()]
    assert len(files) > 10
    return [file for file in files if SECRET.encode() in file.read_bytes()]


def test_a_run_and_a_language_model_are_made_on_the_cluster(cluster: Any, tmp_path: Path) -> None:
    notes = notes_of(60)
    rows = [
        json.dumps({"id": n.id, "text": f"{n.text} {SECRET}", "codes": list(n.codes), "split": SPLITS[place % 3]})
        for place, n in enumerate(notes)
    ]
    (tmp_path / "notes.jsonl").write_text("\n".join(rows))
    changes = ("fit.accumulate=2", "fit.batch=4", "fit.epochs=1", "fit.frozen_epochs=0", "pretrain.accumulate=2",
               "pretrain.embedding=8", "pretrain.hidden=8", "pretrain.layers=2", "pretrain.epochs=1",
               "pretrain.batch=4", "rank.epochs=1", "prepare.min_count=1")  # fmt: skip
    options = ["--recipe", "plant", *(word for change in changes for word in ("--set", change))]
    for out, places in (("one", ()), ("two", ("--cluster", cluster.address))):
        commanded("-m", "plant", "run", str(tmp_path / "notes.jsonl"), "--out", str(tmp_path / out), *places, *options)
        corpus, model = str(tmp_path / "one" / "corpus"), str(tmp_path / out / "alone")
        commanded("-m", "plant", "pretrain", corpus, "--out", model, *places, *options)
    assert not words_kept(Path(cluster.head_node.get_session_dir_path()))
    made = ("coder", "language-model-forward", "alone")
    one, two = (
        [(tmp_path / out / name / "tensors.safetensors").read_bytes() for name in made] for out in ("one", "two")
    )
    assert one == two
