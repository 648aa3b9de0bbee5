"""Processes of this machine that train one model together, started and restarted by torch's own launcher."""

import logging
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from plant.cluster.pool import limit_threads
from plant.cluster.told import read_told, told_of, write_told
from plant.errors import InputError
from plant.steps.processes import cores

RESTARTS = 3  # of all processes, after one was killed: they go on from the checkpoint
PATIENCE = 1800  # seconds: no other machine can be lost, and on a crowded one even torch's own store answers late
CUT_SHORT = 2  # the exit code of a process that was told to end, or whose error a user can mend
START = "from plant.cluster.launch import one_process; from plant.cli.main import carry_out; one_process(carry_out)"
LOUD = ("torch.distributed.elastic.multiprocessing.api", "torch.distributed.elastic.agent.server.api")


def launch(processes: int, arguments: Sequence[str]) -> None:
    """Let so many processes carry out `plant` with the same arguments; each is told which of them it is.

    What goes wrong that a user can mend is raised here, once, and not tried again.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from plant.train.together import OWN_STORE

    limit_threads(max(1, cores() // processes))
    os.environ[OWN_STORE] = "1"
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",  # with a fixed port, restarts meet the ports of the dead
        rdzv_endpoint="localhost:0",
        local_addr="127.0.0.1",
        rdzv_configs=dict.fromkeys(("read_timeout", "join_timeout", "close_timeout", "heartbeat_timeout"), PATIENCE)
        | {"keep_alive_max_attempt": PATIENCE},
        max_restarts=RESTARTS,
    )
    with TemporaryDirectory(prefix="plant-") as place, _told_once(words := Path(place) / "said.json"):
        try:
            elastic_launch(config, sys.executable)("-c", START, str(words), *arguments)
        except SignalException as error:  # torch's handlers are in the place of ours
            raise KeyboardInterrupt from error
        except ChildFailedError as error:
            if not words.exists():
                code = min(failure.exitcode for failure in error.failures.values())
                raise InputError(
                    f"a process ended with code {code}, {RESTARTS + 1} times in all: its last lines stand above; "
                    "run the same command to go on"
                ) from error
        except RendezvousError as error:
            raise InputError(
                f"processes of this machine do not find each other ({type(error).__name__}): is it too crowded? "
                "Run the same command to go on"
            ) from error
        if words.exists():
            read_told(words).value()


def one_process(carry_out: Callable[[Sequence[str]], None]) -> None:
    """What each process does, once more after a kill; an error that a user can mend is written down and ends all."""
    words, arguments = Path(sys.argv[1]), sys.argv[2:]
    if words.exists():
        return  # said by a process of the group before: the same would be said again
    try:
        carry_out(arguments)
    except KeyboardInterrupt:
        sys.exit(CUT_SHORT)
    except Exception as error:
        if not told_of(error).is_mendable:
            raise
        write_told(told_of(error), words)
        sys.exit(CUT_SHORT)


@contextmanager
def _told_once(words: Path) -> Iterator[None]:
    """Torch tells of processes that fail by themselves, not of those that have said why or that it ends."""

    def is_news(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR and not words.exists()

    loggers = [logging.getLogger(name) for name in LOUD]
    for logger in loggers:
        logger.addFilter(is_news)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_news)
