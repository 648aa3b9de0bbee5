"""`plant` in a process of its own, which ends with the one that started it."""

import errno
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from plant.errors import InputError

LOOK = 0.25  # seconds between looks whether a log is free
WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
PATIENCE = 60.0  # seconds in which a run that lost its parent is surely gone


@dataclass(frozen=True)
class Spent:
    """What a process used: its largest resident memory, and the seconds of all its threads."""

    peak_megabytes: float
    cpu_seconds: float


def in_own_process(arguments: Sequence[str], log: Path) -> Spent | None:
    """`plant` in a process of its own, so that its memory is its own: what it used, None where it failed."""
    start = f"from plant.steps.processes import end_with; end_with({os.getpid()})"
    command = [sys.executable, "-c", f"{start}; from plant.cli.main import main; main()", *arguments]
    with log.open("a", encoding="utf-8") as lines:
        _lock(lines, log)
        lines.truncate(0)
        # in a session of its own, it is interrupted once, by us, and not by the terminal too
        process = subprocess.Popen(command, stdout=lines, stderr=lines, start_new_session=True)
        try:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)  # it cannot know that it was waited for
        except BaseException:
            process.terminate()
            process.wait()
            raise
    return None if status else Spent(usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime)


def _lock(lines: TextIO, log: Path) -> None:
    """Wait until nobody writes this log; the child holds the lock as long as it lives, whatever becomes of us."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(lines, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise InputError(f"{log.parent} is being fitted by another process: wait for it, or end it") from None
        except OSError as error:
            if error.errno not in WITHOUT_LOCKS:
                raise
            raise InputError(
                f"{log.parent} is on a file system without locks, so nobody can tell whether its run is being fitted: "
                "choose another --out, or have it mounted with locks (of Lustre: flock)"
            ) from error
        time.sleep(LOOK)
