"""Pools carry out every call once, whatever happens to workers; what goes wrong there is said as it would be here."""

import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plant.cli.main import main
from plant.cli.study import _pool_beside
from plant.cluster.local import Local
from plant.cluster.on_ray import OnRay
from plant.cluster.pool import Call, Here, Needs, Pool, pool_of
from plant.cluster.told import WorkerError, told
from plant.cluster.training import train_on_ray
from plant.errors import InputError, RecipeError


def square(number: int) -> int:
    return number * number


def opened(folder: str) -> list[str]:
    """A setup that leaves a trace of each worker that made it."""
    (Path(folder) / f"opened-{os.getpid()}").touch()
    return [folder]


def added(made: list[str], number: int) -> tuple[int, int]:
    made.append("")
    return number, os.getpid()


def killed_once(folder: str, number: int) -> int:
    """Kill the worker at the first try of an odd number."""
    mark = Path(folder) / str(number)
    if number % 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def killed_always(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


class OwnError(RecipeError):
    """A kind that one module alone knows."""


def failing(kind: str) -> None:
    if kind == "bug":
        raise KeyError("the text of a note")
    if kind == "disk":
        raise OSError(28, "No space left on device", "file.jsonl")
    if kind == "own":
        raise OwnError("a sentence")
    if kind == "torch":
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")
    raise {"input": InputError, "recipe": RecipeError, "memory": MemoryError}[kind]("a sentence")


@pytest.mark.parametrize("pool", [Here(), Local(1)], ids=["here", "local"])
def test_every_item_is_done_once_and_numbered(pool: Pool) -> None:
    assert sorted(pool.each(Call(square), list(range(7)))) == [(number, number * number) for number in range(7)]
    assert list(pool.each(Call(square), [])) == []


def test_a_worker_makes_its_setup_once(tmp_path: Path) -> None:
    results = list(Local(2).each(Call(added), list(range(9)), needs=Needs(setup=Call(opened, (str(tmp_path),)))))
    assert sorted(number for number, _ in results) == list(range(9))
    processes = {process for _, (_, process) in results}
    assert {int(file.name.removeprefix("opened-")) for file in tmp_path.iterdir()} >= processes
    assert len(list(tmp_path.iterdir())) <= 2
    assert os.getpid() not in processes


def test_a_killed_worker_is_replaced_and_its_item_done_again(tmp_path: Path) -> None:
    results = list(Local(2).each(Call(killed_once, (str(tmp_path),)), list(range(5))))
    assert sorted(results) == [(number, number) for number in range(5)]


def test_an_item_that_kills_every_worker_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 workers in a row were killed over the same part of the work .number 1."):
        list(Local(1).each(Call(killed_always), [5], needs=Needs(retries=1)))


@pytest.mark.parametrize(
    ("kind", "error", "said"),
    [("input", InputError, "a sentence"), ("recipe", RecipeError, "a sentence"), ("disk", OSError, "No space left"),
     ("memory", MemoryError, "^$"), ("torch", MemoryError, "^$"),
     ("own", RecipeError, "a sentence"), ("bug", WorkerError, "KeyError on a worker, raised at .*test_pool.py")],
)  # fmt: skip
def test_errors_of_workers_are_errors_here_without_what_a_bug_says(
    kind: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said) as found:
        told(failing, kind).value()
    assert "note" not in str(found.value).replace("test_pool", "")


def test_an_error_on_a_worker_ends_the_others() -> None:
    with pytest.raises(InputError, match="a sentence"):
        list(Local(1).each(Call(failing), ["input", "input", "input"]))


def test_a_setup_that_fails_is_told() -> None:
    with pytest.raises(RecipeError, match="a sentence"):
        list(Local(1).each(Call(added), [1], needs=Needs(setup=Call(failing, ("recipe",)))))


ENDLESS = """
import sys
from plant.cluster.local import Local
from plant.cluster.pool import Call
import time
if __name__ == "__main__":
    for _ in Local(2).each(Call(time.sleep), [600, 600]): pass
"""


@pytest.mark.timeout(3600)  # three processes that start, on the most crowded core
def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    running = subprocess.Popen([sys.executable, str(tmp_path / "endless.py")])
    while len(_children(running.pid)) < 3:  # a tracker of multiprocessing's among them
        time.sleep(0.1)
    children = _children(running.pid)
    running.kill()
    running.wait()
    while any(Path(f"/proc/{child}").exists() for child in children):
        time.sleep(0.1)


def _children(process: int) -> set[int]:
    found = Path(f"/proc/{process}/task/{process}/children")
    return {int(child) for child in found.read_text().split()} if found.exists() else set()


@pytest.mark.parametrize("workers", [0, -1])
def test_a_pool_of_nobody_is_refused(workers: int) -> None:
    with pytest.raises(InputError, match="at least 1"):
        pool_of("local", workers=workers)


def test_without_options_work_stays_here() -> None:
    with pool_of("") as pool:
        assert isinstance(pool, Here)


def test_absent_ray_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"--cluster needs Ray: pip install 'plant-xmtc\[cluster\]'"), pool_of("auto"):
        pass


class _UnjoinedError(Exception):
    """The kind of Ray's own errors."""


@pytest.mark.parametrize(
    ("error", "said"),
    [(_UnjoinedError("no authentication\ntoken was found"), "Error: no authentication token was.*RAY_AUTH_TOKEN"),
     (RuntimeError("Version mismatch: Ray 2.50"), "Version mismatch: Ray 2.50.*the version of Ray of one that runs"),
     (ConnectionError("Failed to connect"), "no Ray cluster answers at --cluster auto .*start one"),
     (ImportError("Ray Client requires ray[client]"), r"\(Ray Client requires .*pip install 'plant-xmtc\[cluster\]'")],
    ids=["token", "version", "nobody", "client"],
)  # fmt: skip
def test_a_cluster_that_cannot_be_joined_is_one_line_that_says_why(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    """A token that is missing ended in a traceback, one that is wrong in a cluster that nobody had started."""

    def init(**options: Any) -> None:
        raise error

    ray = SimpleNamespace(init=init, exceptions=SimpleNamespace(RayError=_UnjoinedError))
    monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=said) as found, pool_of("auto"):
        pass
    assert "\n" not in str(found.value)


def test_a_ray_that_cannot_train_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As `pip install ray` leaves it."""
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace())  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"pip install 'plant-xmtc\[cluster\]' \(what is there cannot train"):
        train_on_ray(Call(square, (1,)), "auto", workers=2, most=2, room=tmp_path)


def test_no_verb_imports_ray() -> None:
    program = (
        "import sys, pkgutil, importlib, plant.cli, plant.cluster\n"
        "for room in (plant.cli, plant.cluster):\n"
        "    for found in pkgutil.iter_modules(room.__path__, room.__name__ + '.'):\n"
        "        importlib.import_module(found.name)\n"
        "print([name for name in sys.modules if name.partition('.')[0] == 'ray'])"
    )
    said: Any = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_the_environment_alone_starts_no_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study that nobody asked to part needs no cluster, whatever the environment names."""
    monkeypatch.setenv("PLANT_CLUSTER", "127.0.0.1:1")
    with _pool_beside(Namespace(workers=None, cluster="", so_far=False), tmp_path) as pool:
        assert pool is None


@pytest.mark.parametrize("words", [["study", "--corpus", "demo"], ["tune", "demo", "--range", "tfidf.cost=1..2"]])
def test_an_address_is_no_folder_of_this_machine(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A study at an address left its logs in a folder `s3:`."""
    monkeypatch.chdir(tmp_path)
    for more in (["--out", "s3://bucket/study"], ["--out", "here"]):
        if more[1] == "here":
            words = ["s3://bucket/notes" if word == "demo" else word for word in words]
        with pytest.raises(SystemExit, match="2"):
            main([*words, *more])
        assert "of this machine, copy" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def node(alive: bool = True, **resources: float) -> dict[str, Any]:
    return {"Alive": alive, "Resources": resources}


def on(*nodes: dict[str, Any]) -> OnRay:
    return OnRay(SimpleNamespace(nodes=lambda: list(nodes)))


def test_a_cluster_has_room_where_a_node_that_lives_has_cores_and_memory() -> None:
    """Cores of one node and memory of another are no place."""
    nodes = [node(CPU=4.0, memory=3.5e9), node(CPU=1.0, memory=9e9), node(memory=9e9), node(False, CPU=8.0, memory=9e9)]
    assert on(*nodes).places(Needs(gigabytes=1.0)) == 3 + 1
    assert on(*nodes).places(Needs(cpus=2.0, gigabytes=0.0)) == 2


def test_a_cluster_without_room_is_told_and_not_waited_for() -> None:
    with pytest.raises(InputError, match=r"no node of the cluster has room for a worker \(1 cores, 4 GB\)"):
        list(on(node(CPU=2.0, memory=3e9)).each(Call(square), [1], needs=Needs(gigabytes=4.0)))
    assert list(on(node()).each(Call(square), [])) == []


class _Errors(SimpleNamespace):
    """The kinds of errors that Ray has, as far as they are told apart."""

    class RayError(Exception): ...

    class RayTaskError(RayError): ...

    class NodeDiedError(RayError): ...

    class TaskUnschedulableError(RayError): ...


@pytest.mark.parametrize(
    ("error", "said"),
    [(_Errors.RayTaskError, "node n cannot load this plant"), (TimeoutError, r"node n does not answer \(TimeoutError")],
)
def test_a_node_that_cannot_be_used_is_named(error: type[Exception], said: str) -> None:
    def get(reference: Any, timeout: float) -> None:
        raise error("the text of a note")

    with pytest.raises(InputError, match=said) as found:
        OnRay(SimpleNamespace(get=get, exceptions=_Errors))._heard("n", None)
    assert "note" not in str(found.value)


def test_no_pool_of_this_machine_imports_ray_or_torch() -> None:
    imports = "import sys, plant.cli.predict, plant.cluster.predict, plant.cluster.local"
    program = f"{imports}; print({{'ray', 'torch'}} & set(sys.modules))"
    said: Any = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"
