"""The tables of the store, and how a store of an earlier version becomes one of this."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Column, Dialect, Float, Integer, LargeBinary, MetaData, String, Table, Text
from sqlalchemy.types import TypeDecorator, TypeEngine


class Words(TypeDecorator[str]):
    """Any text of a note: PostgreSQL's own kind of text cannot hold U+0000, so it keeps the bytes."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Bytes or text, whichever holds everything."""
        return dialect.type_descriptor(LargeBinary() if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        """From us to the store."""
        return value.encode("utf-8") if value is not None and dialect.name == "postgresql" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """From the store to us."""
        return bytes(value).decode("utf-8") if value is not None and dialect.name == "postgresql" else value


METADATA = MetaData()


def _table(called: str, /, **kinds: TypeEngine[Any] | type[TypeEngine[Any]]) -> Table:
    return Table(called, METADATA, *(Column(column, kind) for column, kind in kinds.items()))


NOTES = _table(
    "notes", number=BigInteger, id=String, name=Words, text=Words, sha256=String, words=Integer, state=String,
    holder=String, hold_until=Float, version=Integer, changed_by=String, changed_at=String, finished_by=String,
    finished_at=String,
)  # fmt: skip
PREDICTIONS = _table(
    "predictions", id=BigInteger, note=String, model_digest=String, explainer=String, at=String, body=String
)
DECISIONS = _table(
    "decisions", note=String, code=String, verdict=String, place=Integer, origin=String, replaces=String,
    prediction=BigInteger, probability=Float, by=String, at=String,
)  # fmt: skip
MARKS = _table("marks", note=String, code=String, start=Integer, end=Integer, by=String)
AUDIT = _table(
    "audit", id=BigInteger, at=String, who=String, role=String, action=String, note=String, version=Integer,
    code=String, before=String, after=String, model_digest=String, request=String, previous=String, hash=String,
)  # fmt: skip
REQUESTS = _table("requests", key=String, note=String, answer=String, at=Float)
KEYS = _table(
    "keys", id=BigInteger, name=String, role=String, digest=String, made_at=String, made_by=String, revoked_at=String
)
SESSIONS = _table("sessions", digest=String, key=BigInteger, until=Float)
VERSIONS = _table("versions", number=Integer, at=String, plant=String)

KINDS: Mapping[str, Mapping[str, str]] = {
    "sqlite": {
        "counted": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "words": "TEXT",
        "whole": "INTEGER",
        "real": "REAL",
    },
    "postgresql": {
        "counted": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "words": "BYTEA",
        "whole": "BIGINT",
        "real": "DOUBLE PRECISION",
    },
}
"""How the two databases write the kinds of columns that they call by different names."""

ONLY_GROWS: Mapping[str, tuple[str, ...]] = {
    "sqlite": (
        "CREATE TRIGGER audit_stays BEFORE UPDATE ON audit "
        "BEGIN SELECT RAISE (ABORT, 'the audit trail only grows'); END",
        "CREATE TRIGGER audit_keeps BEFORE DELETE ON audit "
        "BEGIN SELECT RAISE (ABORT, 'the audit trail only grows'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION audit_only_grows() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the audit trail only grows'; END $$",
        "CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_only_grows()",
    ),
}

VERSIONED = "CREATE TABLE IF NOT EXISTS versions (number INTEGER PRIMARY KEY, at TEXT NOT NULL, plant TEXT NOT NULL)"
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE notes (
            number {counted}, id TEXT NOT NULL UNIQUE, name {words} NOT NULL UNIQUE,
            text {words} NOT NULL, sha256 TEXT NOT NULL, words INTEGER NOT NULL,
            state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'finished')),
            holder TEXT NOT NULL DEFAULT '', hold_until {real} NOT NULL DEFAULT 0,
            version INTEGER NOT NULL DEFAULT 0, changed_by TEXT NOT NULL DEFAULT '',
            changed_at TEXT NOT NULL DEFAULT '',
            finished_by TEXT NOT NULL DEFAULT '', finished_at TEXT NOT NULL DEFAULT ''
        )""",
        """CREATE TABLE predictions (
            id {counted}, note TEXT NOT NULL REFERENCES notes (id),
            model_digest TEXT NOT NULL, explainer TEXT NOT NULL, at TEXT NOT NULL, body TEXT NOT NULL
        )""",
        "CREATE INDEX predictions_of_note ON predictions (note, id)",
        """CREATE TABLE decisions (
            note TEXT NOT NULL REFERENCES notes (id), code TEXT NOT NULL,
            verdict TEXT NOT NULL CHECK (verdict IN ('accept', 'reject')), place INTEGER NOT NULL,
            origin TEXT NOT NULL CHECK (origin IN ('model', 'added', 'changed')), replaces TEXT NOT NULL,
            prediction {whole}, probability {real}, by TEXT NOT NULL, at TEXT NOT NULL,
            PRIMARY KEY (note, code)
        )""",
        """CREATE TABLE marks (
            note TEXT NOT NULL REFERENCES notes (id), code TEXT NOT NULL, start INTEGER NOT NULL,
            "end" INTEGER NOT NULL, by TEXT NOT NULL, PRIMARY KEY (note, code, start, "end")
        )""",
        """CREATE TABLE audit (
            id {counted}, at TEXT NOT NULL, who TEXT NOT NULL, role TEXT NOT NULL,
            action TEXT NOT NULL, note TEXT NOT NULL, version INTEGER NOT NULL, code TEXT NOT NULL,
            before TEXT NOT NULL, after TEXT NOT NULL, model_digest TEXT NOT NULL, request TEXT NOT NULL,
            previous TEXT NOT NULL, hash TEXT NOT NULL
        )""",
        "{only_grows}",
        """CREATE TABLE requests (
            key TEXT NOT NULL PRIMARY KEY, note TEXT NOT NULL, answer TEXT NOT NULL, at {real} NOT NULL
        )""",
    ),
    (
        """CREATE TABLE keys (
            id {counted}, name TEXT NOT NULL, role TEXT NOT NULL, digest TEXT NOT NULL UNIQUE,
            made_at TEXT NOT NULL, made_by TEXT NOT NULL, revoked_at TEXT NOT NULL DEFAULT ''
        )""",
        """CREATE TABLE sessions (
            digest TEXT NOT NULL PRIMARY KEY, key {whole} NOT NULL REFERENCES keys (id), until {real} NOT NULL
        )""",
    ),
)
"""One tuple of statements for each version; what is here is never changed, only added to."""


def statements_of(migration: tuple[str, ...], dialect: str) -> list[str]:
    """A migration as a database writes it."""
    found: list[str] = []
    for statement in migration:
        found += ONLY_GROWS[dialect] if statement == "{only_grows}" else [statement.format(**KINDS[dialect])]
    return found
