"""Keys of people and programs, and the sessions of the page that they open; kept as digests in the store.

Several servers over one store know the same keys, and a key that is revoked opens nothing from then on.
"""

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Select, delete, insert, select, update

from plant.errors import InputError, unknown
from plant.serve.database import Database, stamp
from plant.serve.tables import KEYS, SESSIONS
from plant.serve.trail import Line, Who, record

ROLES = ("coder", "reviewer", "admin")
"""Each may do what those before it may: a reviewer also puts notes on the desk, reopens and exports; an admin reads
the audit trail."""

NAME = re.compile(r"[\w.@-]{1,60}")
WORKDAY = 12 * 3600.0  # seconds that a session of the page lasts


class Keys:
    """The keys of a store."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    def add(self, by: Who, name: str, role: str) -> str:
        """A new key for a person, who loses the one they had; it is told this once."""
        check_name(name)
        if role not in ROLES:
            raise InputError(unknown("role", role, ROLES))
        key, now = secrets.token_urlsafe(24), stamp(self._clock())
        with self._database.writing() as connection:
            self._revoke(connection, name)
            row = {"name": name, "role": role, "digest": digest_of(key), "made_at": now, "made_by": by.name}
            connection.execute(insert(KEYS).values(**row, revoked_at=""))
            record(connection, Line(now, by.name, by.role, "add-key", before=name, after=role))
        return key

    def revoke(self, by: Who, name: str) -> bool:
        """Take a person's key away, with the sessions that it opened; whether they had one."""
        with self._database.writing() as connection:
            had = self._revoke(connection, name)
            if had:
                record(connection, Line(stamp(self._clock()), by.name, by.role, "revoke-key", before=name))
        return had

    def all(self) -> list[Mapping[str, Any]]:
        """All keys that ever were, without their digests, in the order in which they were made."""
        columns = [KEYS.c[name] for name in ("name", "role", "made_at", "made_by", "revoked_at")]
        with self._database.reading() as connection:
            return [dict(row) for row in connection.execute(select(*columns).order_by(KEYS.c.id)).mappings()]

    def are_there(self) -> bool:
        """Whether somebody has a key."""
        return any(not key["revoked_at"] for key in self.all())

    def holder(self, key: str) -> Who | None:
        """Who has a key; None for nobody that we know."""
        with self._database.reading() as connection:
            found = connection.execute(_valid().where(KEYS.c.digest == digest_of(key))).mappings().first()
        return Who(found["name"], found["role"]) if found else None

    def begin(self, key: str) -> str | None:
        """A session for a key."""
        session = secrets.token_urlsafe(32)
        with self._database.writing() as connection:
            found = connection.execute(_valid().where(KEYS.c.digest == digest_of(key))).mappings().first()
            if not found:
                return None
            now = self._clock()
            connection.execute(delete(SESSIONS).where(SESSIONS.c.until < now))
            row = {"digest": digest_of(session), "key": found["id"], "until": now + WORKDAY}
            connection.execute(insert(SESSIONS).values(**row))
        return session

    def of_session(self, session: str) -> Who | None:
        """Who opened a session that is not over."""
        query = _valid().join(SESSIONS, SESSIONS.c.key == KEYS.c.id).where(SESSIONS.c.digest == digest_of(session))
        with self._database.reading() as connection:
            found = connection.execute(query.where(SESSIONS.c.until >= self._clock())).mappings().first()
        return Who(found["name"], found["role"]) if found else None

    def end(self, session: str) -> None:
        """Forget a session."""
        with self._database.writing() as connection:
            connection.execute(delete(SESSIONS).where(SESSIONS.c.digest == digest_of(session)))

    def _revoke(self, connection: Connection, name: str) -> bool:
        valid = (KEYS.c.name == name, KEYS.c.revoked_at == "")
        keys = select(KEYS.c.id).where(*valid)
        connection.execute(delete(SESSIONS).where(SESSIONS.c.key.in_(keys)))
        changed = connection.execute(update(KEYS).where(*valid).values(revoked_at=stamp(self._clock())))
        return bool(changed.rowcount)


def is_name(name: str) -> bool:
    """Whether a person can be called so: names stand in answers and in the trail."""
    return bool(NAME.fullmatch(name))


def check_name(name: str) -> None:
    """Refuse a name that nobody can have."""
    if not is_name(name):
        raise InputError("the name of a key has letters, digits and . _ @ - only, 60 at most")


def digest_of(key: str) -> str:
    """What is kept of a key: keys are random, so that a plain hash cannot be turned back."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _valid() -> Select[Any]:
    return select(KEYS.c.id, KEYS.c.name, KEYS.c.role).where(KEYS.c.revoked_at == "")
