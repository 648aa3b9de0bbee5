"""Processes of this machine: each makes its setup once and is given one item after the other."""

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from typing import Any

from plant.cluster.pool import PLAIN, Call, Losses, Needs, limit_threads
from plant.cluster.told import Told, told
from plant.steps.processes import cores, end_with

SPAWN = get_context("spawn")  # forks would carry torch's threads along, which do not survive it


@dataclass(frozen=True)
class Local:
    """So many processes at most; one that is killed is replaced."""

    workers: int

    def each(self, work: Call, items: Sequence[Any], *, needs: Needs = PLAIN) -> Iterator[tuple[int, Any]]:
        crew = _Crew(work, items, needs, threads=max(1, cores() // self.workers))
        try:
            crew.start(min(self.workers, len(items)))
            while crew.workers:
                yield from crew.ready()
        finally:
            crew.end()

    def check_sees(self, *folders: Any) -> None:
        """One machine sees what it sees."""


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    item: int | None = None  # the number of the one it works on


@dataclass
class _Crew:
    """The processes of one list of items, and what is left of it."""

    work: Call
    items: Sequence[Any]
    needs: Needs
    threads: int
    waiting: list[int] = field(default_factory=list)  # the next one last
    workers: list[_Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting = list(reversed(range(len(self.items))))
        self.losses = Losses(self.needs.retries)

    def start(self, count: int) -> None:
        for _ in range(count):
            here, there = SPAWN.Pipe()
            process = SPAWN.Process(target=_serve, args=(there, os.getpid(), self.threads), daemon=True)
            process.start()
            there.close()
            here.send((self.work, self.needs.setup))
            self.workers.append(_Worker(process, here))
            self._employ(self.workers[-1])

    def ready(self) -> Iterator[tuple[int, Any]]:
        """Wait for some worker; its result, and work for it or for who takes its place."""
        heard = connection.wait([worker.pipe for worker in self.workers])
        for worker in [worker for worker in self.workers if worker.pipe in heard]:
            number = worker.item
            answer = _received(worker)
            if answer is None:
                self._replace(worker)
            elif number is not None:
                self._employ(worker)
                yield number, answer.value()

    def end(self) -> None:
        for worker in self.workers:
            worker.process.kill()  # what it had half written vanishes with the next writer of the same
        for worker in self.workers:
            worker.process.join()
            worker.pipe.close()
        self.workers = []

    def _employ(self, worker: _Worker) -> None:
        """Give a worker the next item; let it go where there is none."""
        worker.item = self.waiting.pop() if self.waiting else None
        try:
            worker.pipe.send(None if worker.item is None else (self.items[worker.item],))
        except (BrokenPipeError, ConnectionResetError):
            return  # it was killed meanwhile: heard of when it is waited for
        if worker.item is None:
            self._dismiss(worker)

    def _replace(self, worker: _Worker) -> None:
        self._dismiss(worker)
        if worker.item is not None:
            self.losses.add(worker.item)
            self.waiting.append(worker.item)
        if self.waiting:
            self.start(1)

    def _dismiss(self, worker: _Worker) -> None:
        worker.process.join()  # reaped: nobody takes it for alive
        worker.pipe.close()
        self.workers.remove(worker)


def _received(worker: _Worker) -> Told | None:
    """What a worker answers; None where it is gone."""
    try:
        return worker.pipe.recv()
    except (EOFError, ConnectionResetError):
        return None


def _serve(pipe: Connection, parent: int, threads: int) -> None:
    """The life of a worker: the first message says what is done, the others with what, the last is empty."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: our parent is told too, and ends us
    end_with(parent)
    limit_threads(threads)
    work, setup = pipe.recv()
    made: tuple[Any, ...] | None = None if setup is not None else ()
    while (message := pipe.recv()) is not None:
        if made is None:
            ready = told(setup)
            if ready.kind:
                pipe.send(ready)
                continue
            made = (ready.result,)
        pipe.send(told(work, *made, *message))
