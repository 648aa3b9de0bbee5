"""A PostgreSQL server of the tests' own: made, started and stopped by them, reached through a socket in its folder."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg

OWNERS = ("postgres", "nobody")  # the server refuses to run as root


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    folder: Path
    numbers: "count[int]"

    def new_database(self, encoding: str = "UTF8") -> str:
        """The address of an empty database."""
        name = f"desk{next(self.numbers)}"
        self._run(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
        return f"postgresql://plant@/{name}?host={self.folder}"

    def drop(self, address: str) -> None:
        """Take a database away, whoever is using it."""
        self._run(f"DROP DATABASE {address.partition('@/')[2].partition('?')[0]} WITH (FORCE)")

    def _run(self, statement: str) -> None:
        with psycopg.connect(host=str(self.folder), user="plant", dbname="postgres", autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[arg-type]


def why_not() -> str:
    """What is missing to run a server here; empty where nothing is."""
    if not _programs():
        return "needs PostgreSQL: apt-get install postgresql"
    if os.geteuid() == 0 and not _owner():
        return "PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody' here"
    return ""


@contextmanager
def running_server(*, settings: str = "-c fsync=off") -> Iterator[Server]:
    """A server that runs as long as the block."""
    folder = Path(tempfile.mkdtemp(prefix="plant-pg-"))  # not pytest's: nobody but its owner could enter that
    try:
        if owner := _owner():
            shutil.chown(folder, owner)
        _run("initdb", "--pgdata", folder / "data", "--username=plant", "--auth=trust", "--no-sync", "--encoding=UTF8")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c shared_buffers=16MB {settings}"
        act = ("pg_ctl", "--pgdata", folder / "data", "--wait", "--silent", "--log", folder / "log")
        _run(*act, "--options", options, "start")
        try:
            yield Server(folder, count())
        finally:
            _run(*act, "--mode=immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """The folder of initdb and pg_ctl: Debian keeps it out of the way."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    named = shutil.which("initdb")
    return next((program.parent for program in [*programs, *([Path(named)] if named else [])]), None)


def _owner() -> str:
    """As whom the server runs; empty for who runs the tests."""
    if os.geteuid() != 0:
        return ""
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in OWNERS if name in known), "")


def _run(program: str, *arguments: Path | str) -> None:
    programs = _programs()
    assert programs is not None
    command = [str(programs / program), *map(str, arguments)]
    done = subprocess.run(
        command,
        user=_owner() or None,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
