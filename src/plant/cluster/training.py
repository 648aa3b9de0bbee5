"""Processes of a Ray cluster that train one model together, placed and restarted by Ray Train."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plant.cluster.launch import RESTARTS
from plant.cluster.on_ray import MISSING, OnRay, on_ray, ray_here
from plant.cluster.pool import Call, Needs
from plant.cluster.told import read_told, told, write_told
from plant.errors import InputError
from plant.store.artifact import made_folder
from plant.store.temporary import temporary_folder

KEPT = "ray-train"  # what Ray keeps of its own accord, as long as it works
WORDS = "said.json"  # what a process said that a user can mend: it is not tried again
ONE = Needs(gigabytes=0.0)  # what a process takes of a node: a core; how much memory, nobody knows before
PATIENCE = 1800  # seconds for the slowest process, as of `ranked`


def train_on_ray(
    part: Call, address: str, *, workers: int | None, most: int, room: Path, began: Callable[[], None] = lambda: None
) -> None:
    """Let `part` be carried out by each of so many processes of a cluster; a killed one starts all again.

    Results come from folders that all nodes see, `room` among them; nothing else comes back but what a user can mend.
    """
    if address.startswith("ray://"):
        raise InputError("processes that train together are started from a node of the cluster: --cluster auto")
    _check_trains()
    with on_ray(address, workers=workers) as pool, made_folder(room), temporary_folder(room / "training") as place:
        pool.check_sees(place)
        words, processes = place.resolve() / WORDS, _processes(pool, workers, most)
        began()
        _fit(pool, part, processes, words)
        if words.is_file():
            read_told(words).value()


def _check_trains() -> None:
    """Refuse a Ray that cannot train before a cluster is asked; it has parts that are installed by themselves."""
    ray_here()
    try:
        import ray.train.torch  # noqa: F401
    except ImportError as error:
        raise InputError(f"{MISSING} (what is there cannot train: {' '.join(str(error).split())})") from error


def _processes(pool: OnRay, workers: int | None, most: int) -> int:
    """How many train: as many as are asked for, or as there is room for and can share the work."""
    room = pool.checked_places(ONE)
    if workers is not None and workers > room:
        raise InputError(f"the cluster has room for {room} processes of one core, not for {workers}: take fewer")
    return workers or min(most, room)


def _fit(pool: OnRay, part: Call, processes: int, words: Path) -> None:
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    gpus = float(pool.ray.cluster_resources().get("GPU", 0.0)) >= processes
    trainer = TorchTrainer(
        one_process,
        train_loop_config={"part": part, "folder": os.getcwd(), "words": str(words)},
        scaling_config=ScalingConfig(num_workers=processes, use_gpu=gpus, resources_per_worker={"CPU": 1}),
        torch_config=TorchConfig(timeout_s=PATIENCE),
        run_config=RunConfig(
            name="run", storage_path=str(words.parent / KEPT), failure_config=FailureConfig(max_failures=RESTARTS)
        ),
    )
    handler = signal.getsignal(signal.SIGINT)
    try:
        trainer.fit()
    except SystemExit as error:  # after Ctrl-C, as if all were done
        raise KeyboardInterrupt from error
    except Exception as error:  # of any kind that Ray has; what it says may quote what a worker said
        if not words.is_file():
            raise InputError(
                f"processes of the cluster ended, {RESTARTS + 1} times in all ({type(error).__name__}): Ray's logs "
                "tell why; run the same command to go on"
            ) from error
    finally:
        signal.signal(signal.SIGINT, handler)  # Ray's own would ask a training that has ended


def one_process(about: dict[str, Any]) -> None:
    """What Ray calls in each process, once more after a kill; an error that a user can mend is written down."""
    words = Path(about["words"])
    if words.exists():
        return  # said by a process of the group before: the same would be said again
    os.chdir(about["folder"])
    said = told(about["part"])
    if said.is_mendable:
        write_told(said, words)
    said.value()
