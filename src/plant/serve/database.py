"""Where the store lies, SQLite in a file or PostgreSQL for several servers, and the one way to change either.

Whoever writes is alone: SQLite begins with `IMMEDIATE`, PostgreSQL with a lock that all servers share. What is read
within a change is therefore what the change is made to, on both, and the audit trail has one order.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, insert, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import StaticPool

import plant
from plant.errors import ArtifactError, InputError
from plant.serve.problems import Problem
from plant.serve.tables import MIGRATIONS, VERSIONED, VERSIONS, statements_of

MEMORY = ":memory:"
LOCK = 0x706C616E74  # "plant": the number of the lock that writers share
FIRST = {
    ("sqlite", "write"): "BEGIN IMMEDIATE",
    ("sqlite", "read"): "BEGIN",
    ("postgresql", "write"): f"SELECT pg_advisory_xact_lock({LOCK})",
    ("postgresql", "read"): "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
}
"""The first statement of a change, and of a look at things that belong together."""
AWAY = "the store does not answer: try again, with the same Idempotency-Key"
SETTINGS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")  # of SQLite
OPTIONS = "-c synchronous_commit=on -c lock_timeout=10s -c statement_timeout=60s -c client_encoding=UTF8"
POOL = {"pool_size": 8, "max_overflow": 24}  # as many as there are threads that ask
BUSY = frozenset({"SQLITE_BUSY", "SQLITE_LOCKED", "55P03", "57014", "57P01", "57P02", "57P03", "53300"})
FULL = frozenset({"SQLITE_FULL", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR", "53100", "25006"})


class Database:
    """An engine whose tables are of this version."""

    def __init__(self, address: Path | str, *, password: str = "") -> None:
        self.place = shown(address)
        self._engine = _engine(address, password)
        self._reading, self._writing = (self._engine.execution_options(begins=how) for how in ("read", "write"))
        alone = self._engine.dialect.name == "sqlite"  # waiting for SQLite is a sleep, for a lock it is not
        self._writers: Any = threading.RLock() if alone else nullcontext()
        self._readers: Any = self._writers if str(address) == MEMORY else nullcontext()
        try:
            with self.writing() as connection:
                _migrate(connection)
        except (SQLAlchemyError, Problem, UnicodeError) as error:  # the last of names that are no host's
            self._engine.dispose()
            raise ArtifactError(f"{self.place} is no store of a desk, or cannot be reached and written") from error
        except InputError:
            self._engine.dispose()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """What is read in the block belongs together."""
        with self._readers, _told(), self._reading.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """All that is changed in the block, or nothing; nobody else changes anything meanwhile."""
        with self._writers, _told(), self._writing.begin() as connection:
            yield connection

    def close(self) -> None:
        """Let go of all connections."""
        with self._writers:
            self._engine.dispose()


def is_url(address: Path | str) -> bool:
    """Whether a store is named by the address of a server."""
    return "://" in str(address)


def shown(address: Path | str) -> str:
    """An address as people may see it: without a password."""
    if not is_url(address):
        return str(address)
    try:
        return make_url(str(address)).render_as_string(hide_password=True)
    except ArgumentError:
        return "the address of the store"


def stamp(seconds: float) -> str:
    """A time as it is kept."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _engine(address: Path | str, password: str) -> Engine:
    engine = _postgresql(str(address), password) if is_url(address) else _sqlite(address)
    event.listen(engine, "begin", _begin)
    return engine


def _sqlite(path: Path | str) -> Engine:
    options: dict[str, Any] = {"poolclass": StaticPool} if str(path) == MEMORY else dict(POOL)
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"check_same_thread": False, "timeout": 10, "isolation_level": None},
        hide_parameters=True,  # errors would quote notes
        **options,
    )
    event.listen(engine, "connect", _set_up)
    return engine


def _postgresql(address: str, password: str) -> Engine:
    try:
        url = make_url(address)
    except ArgumentError as error:
        raise InputError("the address of the store is not understood: postgresql://USER@HOST/DATABASE") from error
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise InputError("a store is a file of SQLite, or postgresql://USER@HOST/DATABASE")
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise InputError("a store in PostgreSQL needs a further package: pip install 'plant-xmtc[postgres]'") from error
    url = url.set(drivername="postgresql+psycopg")
    url = url.set(password=password) if password else url
    return create_engine(
        url,
        connect_args={"connect_timeout": 10, "options": OPTIONS},
        pool_pre_ping=True,
        hide_parameters=True,
        **POOL,
    )


def _set_up(connection: Any, record: Any) -> None:
    for setting in SETTINGS:
        connection.execute(f"PRAGMA {setting}")


def _begin(connection: Connection) -> None:
    how = connection.get_execution_options().get("begins")
    if how:  # none while the pool looks whether a connection is alive
        connection.exec_driver_sql(FIRST[connection.dialect.name, how])


@contextmanager
def _told() -> Iterator[None]:
    """A full disk and a server that is away are told as such; what was stored before stays whole."""
    try:
        yield
    except DBAPIError as error:
        raise _problem(error) or error from error
    except PoolTimeout as error:
        raise Problem(503, AWAY) from error


def _problem(error: DBAPIError) -> Problem | None:
    name = str(getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None) or "")
    if name in FULL or name.startswith("SQLITE_IOERR"):
        return Problem(507, "the store cannot be written (is the disk full?): nothing was changed")
    if name in BUSY or name.startswith("08") or error.connection_invalidated or _is_unreachable(error, name):
        return Problem(503, AWAY)
    return None


def _is_unreachable(error: DBAPIError, name: str) -> bool:
    """A driver that found no server has no code of the server to tell."""
    return not name and type(error.orig).__name__ in ("OperationalError", "ConnectionTimeout", "InterfaceError")


def _migrate(connection: Connection) -> None:
    """Bring the tables to this version, step by step, in the transaction of the connection."""
    dialect = connection.dialect.name
    if dialect == "postgresql" and connection.exec_driver_sql("SHOW server_encoding").scalar() != "UTF8":
        raise InputError("the database of the store is not in UTF-8: make one with ENCODING 'UTF8'")
    connection.exec_driver_sql(VERSIONED)
    version = connection.execute(select(func.max(VERSIONS.c.number))).scalar() or 0
    if dialect == "sqlite":  # stores of the first version had no table of versions
        version = max(version, int(connection.exec_driver_sql("PRAGMA user_version").scalar() or 0))
    if version > len(MIGRATIONS):
        raise InputError("this store was written by a newer version of plant: take that one")
    for number, migration in enumerate(MIGRATIONS[version:], start=version + 1):
        for statement in statements_of(migration, dialect):
            connection.exec_driver_sql(statement)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        connection.execute(insert(VERSIONS).values(number=number, at=now, plant=plant.__version__))
        if dialect == "sqlite":
            connection.exec_driver_sql(f"PRAGMA user_version = {number}")
