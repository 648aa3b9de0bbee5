"""Work side by side in forks of this process: what they leave, they leave in files."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing import connection, get_context
from typing import Any

from plant.types import Progress, silent

LOOK = 1.0  # seconds between looks for the parent
Job = Callable[[], object]


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(jobs: Sequence[Job], *, processes: int, progress: Progress = silent) -> None:
    """Do each job in a fork, in this order and so many at a time; all that is in memory is shared until it is changed.

    A job that fails leaves nothing: whoever asks for its thing makes it himself, and is told why. Where forks are not
    safe nothing is done.
    """
    if sys.platform != "linux":
        return
    waiting, running = list(reversed(jobs)), list[Any]()
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                running.append(get_context("fork").Process(target=_done, args=(waiting.pop(), os.getpid())))
                running[-1].start()
            connection.wait([process.sentinel for process in running])
            running = [process for process in running if process.is_alive()]
            progress("made side by side", len(jobs) - len(waiting) - len(running), len(jobs))
    finally:
        for process in running:
            process.terminate()
            process.join()


def _done(job: Job, parent: int) -> None:
    end_with(parent)
    try:
        job()
    except BaseException:  # told when the thing is made again; a traceback of this process would help nobody
        os._exit(1)


def end_with(parent: int) -> None:
    """Let this process be interrupted when the one that started it is gone, even if that was killed."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=look, daemon=True).start()
