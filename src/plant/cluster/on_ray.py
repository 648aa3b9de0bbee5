"""The machines of a Ray cluster. The only module that imports Ray, and only when a cluster is asked for."""

import os
import platform
import secrets
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plant
from plant.cluster.pool import PLAIN, Call, Losses, Needs, limit_threads
from plant.cluster.told import Told, told
from plant.errors import InputError
from plant.store.artifact import atomic_file

MISSING = "--cluster needs Ray: pip install 'plant-xmtc[cluster]'"
PATIENCE, KNOCK = 300.0, 10.0  # seconds for nodes to start a worker and answer, and for a port to
MOST_SAID = 300  # letters of what Ray says


@contextmanager
def on_ray(address: str, *, workers: int | None = None) -> Iterator["OnRay"]:
    """The cluster at an address, as long as the block lasts; our work there ends with it, the cluster does not."""
    ray = ray_here()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        _check_answers(address)
        ray.init(address=address, log_to_driver=False, logging_level="error", configure_logging=False)
    except (OSError, ValueError, RuntimeError, ImportError, ray.exceptions.RayError) as error:
        raise InputError(_not_joined(address, error)) from error
    finally:
        signal.signal(signal.SIGTERM, handler)  # Ray puts its own in the place of ours
    try:
        pool = OnRay(ray, workers)
        pool.check_versions()
        yield pool
    finally:
        ray.shutdown()


def _not_joined(address: str, error: Exception) -> str:
    """Why there is no cluster to work on: nobody is there, or somebody who does not take us for one of theirs."""
    said, instead = " ".join(str(error).split())[:MOST_SAID], "or take --workers N for processes of this machine"
    if isinstance(error, ImportError):
        return f"Ray is here without all that --cluster needs ({said}): pip install 'plant-xmtc[cluster]', {instead}"
    return (
        f"no Ray cluster answers at --cluster {address} ({type(error).__name__}: {said}): start one, "
        f"give here the token (RAY_AUTH_MODE, RAY_AUTH_TOKEN) and the version of Ray of one that runs, {instead}"
    )


def _check_answers(address: str) -> None:
    """Knock at the port, if an address names one: Ray itself would wait for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        with socket.create_connection((host, int(port)), timeout=KNOCK):
            pass


def ray_here() -> Any:
    """Ray, as it is asked for here: quiet, and telling nobody."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # before it is imported: nothing is told to its makers
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a task without a GPU sees what its node sees
    try:
        import ray
    except ImportError as error:
        raise InputError(MISSING) from error
    return ray


@dataclass(frozen=True)
class OnRay:
    """Actors of a cluster: each makes its setup once and is given one item after the other; lost ones are replaced."""

    ray: Any
    workers: int | None = None

    def each(self, work: Call, items: Sequence[Any], *, needs: Needs = PLAIN) -> Iterator[tuple[int, Any]]:
        ray, losses = self.ray, Losses(needs.retries)
        waiting, running = list(reversed(range(len(items)))), dict[Any, tuple[int, Any]]()

        def employ(actor: Any) -> None:
            number = waiting.pop()
            running[actor.do.remote(items[number])] = number, actor

        try:
            room = self.checked_places(needs) if items else 0
            for _ in range(min(len(items), self.workers or room)):
                employ(self._actor(work, needs))
            while running:
                done, _ = ray.wait(list(running), num_returns=1)
                number, actor = running.pop(done[0])
                answer = self._answer(done[0])
                if answer is None:
                    losses.add(number)
                    waiting.append(number)
                    employ(self._actor(work, needs))
                    continue
                if waiting:
                    employ(actor)
                else:
                    ray.kill(actor)
                yield number, answer.value()
        finally:
            for _, actor in running.values():
                ray.kill(actor)

    def check_sees(self, *folders: Path) -> None:
        """A token is written to each folder here and looked for by every node."""
        for folder in folders:
            token = folder.resolve() / f".seen-{secrets.token_hex(8)}"
            with atomic_file(token) as temporary:
                temporary.write_text("")
            try:
                for name, seen in self._everywhere(Call(_is_file, (str(token),))).items():
                    if not seen:
                        raise InputError(
                            f"node {name} does not see {folder.resolve()}: share it under the same path on all nodes"
                        )
            finally:
                token.unlink(missing_ok=True)

    def check_versions(self) -> None:
        """Refuse nodes whose plant, Python or libraries differ: they would compute other bits, or fail late."""
        mine = versions()
        for name, theirs in self._everywhere(Call(versions)).items():
            other = {what: version for what, version in theirs.items() if mine[what] != version}
            if other:
                said = ", ".join(f"{what} {version} instead of {mine[what]}" for what, version in other.items())
                raise InputError(f"node {name} has {said}: install the same everywhere")

    def places(self, needs: Needs = PLAIN) -> int:
        """How many workers the nodes have room for, whoever uses them now."""
        return sum(_places(node["Resources"], needs) for node in self.ray.nodes() if node["Alive"])

    def checked_places(self, needs: Needs = PLAIN) -> int:
        """The same, but none is refused: Ray would wait for ever for a node that has so much."""
        if found := self.places(needs):
            return found
        wanted = {"cores": needs.cpus, "GPUs": needs.gpus, "GB": needs.gigabytes}
        amounts = ", ".join(f"{amount:.3g} {what}" for what, amount in wanted.items() if amount)
        raise InputError(
            f"no node of the cluster has room for a worker ({amounts}): "
            "start one that has (ray start --address HEAD --num-cpus N --memory BYTES)"
        )

    def _actor(self, work: Call, needs: Needs) -> Any:
        options = {"num_cpus": needs.cpus, "num_gpus": needs.gpus, "memory": int(needs.gigabytes * 1e9)}
        kind = self.ray.remote(_Actor).options(**options, max_restarts=0, max_task_retries=0)
        return kind.remote(work, needs.setup, max(1, int(needs.cpus)))

    def _answer(self, reference: Any) -> Told | None:
        """What a worker answers; None where it is gone, with its node or alone."""
        lost = self.ray.exceptions
        with suppress(lost.RayActorError, lost.WorkerCrashedError, lost.NodeDiedError, lost.OutOfMemoryError):
            return self.ray.get(reference)
        return None

    def _everywhere(self, call: Call) -> Mapping[str, Any]:
        """What a call gives on each node that lives, by its address."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node for node in self.ray.nodes() if node["Alive"]]
        task = self.ray.remote(_called)
        asked = [
            task.options(
                num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ).remote(call)
            for node in nodes
        ]
        names = [f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})" for node in nodes]
        answers = {name: self._heard(name, reference) for name, reference in zip(names, asked, strict=True)}
        return {name: answer.value() for name, answer in answers.items() if answer is not None}

    def _heard(self, name: str, reference: Any) -> Told | None:
        """What a node answers; None where it is gone: one that has just died is listed as alive for a while."""
        errors = self.ray.exceptions
        try:
            return self.ray.get(reference, timeout=PATIENCE)
        except (errors.TaskUnschedulableError, errors.NodeDiedError):
            return None
        except errors.RayTaskError as error:  # ours tell what goes wrong, so it was never begun
            raise InputError(
                f"node {name} cannot load this plant: install the same there, and start Ray from where it is installed"
            ) from error
        except (errors.RayError, TimeoutError) as error:
            raise InputError(f"node {name} does not answer ({type(error).__name__})") from error


class _Actor:
    """A worker of Ray's: the same life as that of a process of this machine."""

    def __init__(self, work: Call, setup: Call | None, threads: int) -> None:
        limit_threads(threads)
        self.work, self.setup = work, setup
        self.made: tuple[Any, ...] | None = None if setup is not None else ()

    def do(self, item: Any) -> Told:
        if self.made is None:
            assert self.setup is not None
            ready = told(self.setup)
            if ready.kind:
                return ready
            self.made = (ready.result,)
        return told(self.work, *self.made, item)


def _places(resources: Mapping[str, float], needs: Needs) -> int:
    """How many workers one node has room for; of memory as of cores, since a worker is never on two nodes."""
    wanted = {"CPU": needs.cpus, "GPU": needs.gpus, "memory": needs.gigabytes * 1e9}
    return min(int(resources.get(name, 0.0) / amount) for name, amount in wanted.items() if amount)


def _called(call: Call) -> Told:
    return told(call)


def _is_file(path: str) -> bool:
    return Path(path).is_file()


def versions() -> dict[str, str]:
    """What decides the bits of results, as far as names tell."""
    from importlib.metadata import version

    libraries = {name: version(name) for name in ("torch", "numpy", "numba")}
    return {"plant": plant.__version__, "python": platform.python_version(), **libraries}
