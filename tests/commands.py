"""A command of plant within the process of the tests: as a program it would load the same again each time."""

import contextlib
import io
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

from plant.cli.main import main
from plant.studies.processes import Spent


def ended(*arguments: str, cwd: Path, stdin: str = "") -> CompletedProcess[str]:
    """What a command in a folder ended with and printed; an exception that it lets through is a traceback of it."""
    printed, told, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    try:
        with contextlib.chdir(cwd), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
            main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    except Exception:
        code = 1
        told.write(traceback.format_exc())
    finally:
        sys.stdin = before
    return CompletedProcess(arguments, code, printed.getvalue(), told.getvalue())


def in_this_process(arguments: Sequence[str], log: Path) -> Spent | None:
    """What a study calls for a run, without the seconds in which a new process loads its libraries."""
    with log.open("w") as lines, contextlib.redirect_stdout(lines), contextlib.redirect_stderr(lines):
        try:
            main(arguments)
        except SystemExit as end:
            return None if end.code else Spent(peak_megabytes=1.0, cpu_seconds=60.0)
    return None
