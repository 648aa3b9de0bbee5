"""The audit trail: who did what when, to which can only be added, and whose lines are chained by hashes.

It holds no text of notes: names of people, codes, versions and digests alone.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from sqlalchemy import Connection, insert, select

from plant.serve.tables import AUDIT


@dataclass(frozen=True)
class Who:
    """Who does something, and as what."""

    name: str
    role: str = "coder"


@dataclass(frozen=True)
class Line:
    """A line of the trail, before it is chained."""

    at: str
    who: str
    role: str
    action: str
    note: str = ""
    version: int = 0
    code: str = ""
    before: str = ""
    after: str = ""
    model_digest: str = ""
    request: str = ""


AUDITED = tuple(field.name for field in fields(Line))


def record(connection: Connection, line: Line) -> None:
    """Add a line, chained to the one before it by its hash."""
    previous = connection.execute(select(AUDIT.c.hash).order_by(AUDIT.c.id.desc()).limit(1)).scalar() or ""
    values = {name: getattr(line, name) for name in AUDITED}
    connection.execute(insert(AUDIT).values(**values, previous=previous, hash=chained(previous, astuple(line))))


def lines(connection: Connection, *, after: int = 0, most: int | None = None) -> Iterator[Mapping[str, Any]]:
    """The trail from behind a number on."""
    query = select(AUDIT).where(AUDIT.c.id > after).order_by(AUDIT.c.id).limit(most)
    yield from map(dict, connection.execute(query).mappings())


def first_forgery(connection: Connection) -> int | None:
    """The number of the first line whose hash does not follow from all before it; None where the trail is whole."""
    previous = ""
    for row in lines(connection):
        if row["previous"] != previous or row["hash"] != chained(previous, [row[name] for name in AUDITED]):
            return int(row["id"])
        previous = row["hash"]
    return None


def chained(previous: str, values: Sequence[Any]) -> str:
    """The hash of a line, which depends on all before it."""
    return hashlib.sha256(json.dumps([previous, *values], ensure_ascii=False).encode("utf-8")).hexdigest()
