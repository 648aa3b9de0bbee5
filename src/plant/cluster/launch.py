"""Processes of this machine that train one model together, started and restarted by torch's own launcher."""

import os
import sys
import uuid
from collections.abc import Sequence

from plant.cluster.pool import limit_threads
from plant.errors import InputError
from plant.steps.processes import cores

RESTARTS = 3  # of all processes, after one was killed: they go on from the checkpoint
MENDABLE = 2  # the exit code of what a user can mend, said by the process itself


def launch(processes: int, arguments: Sequence[str]) -> None:
    """Let so many processes carry out `plant` with the same arguments; each is told which of them it is."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
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
        max_restarts=RESTARTS,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "plant", *arguments)
    except ChildFailedError as error:
        codes = sorted({failure.exitcode for failure in error.failures.values()})
        if MENDABLE in codes:
            sys.exit(MENDABLE)
        raise InputError(
            f"a process ended with code {codes[0]}, {RESTARTS + 1} times in all: its last lines stand above; "
            "run the same command to go on"
        ) from error
