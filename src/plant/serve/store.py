"""The store of the desk: notes in work, what the coder said, what people decided, and who did what when.

SQLite with a write-ahead log and full synchronisation: what was acknowledged survives a killed process and a lost
power supply. Each step of a person is one transaction: version, decisions, marks, audit trail and the answer to a
repeated request change together or not at all.
"""

import hashlib
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plant.errors import ArtifactError, InputError
from plant.serve.problems import Problem
from plant.serve.schemas import Change
from plant.serve.tables import MIGRATIONS

Row = Mapping[str, Any]
DAY = 24 * 3600.0
REMEMBERED = DAY  # seconds for which a repeated request gets the same answer
AUDITED = ("at", "who", "role", "action", "note", "version", "code", "before", "after", "model_digest", "request")


@dataclass(frozen=True)
class Who:
    """Who does something, and as what."""

    name: str
    role: str = "coder"


@dataclass(frozen=True)
class Step:
    """What a person does to a note: from which version, and under which key it may be sent again."""

    who: Who
    note: str
    version: int | None = None
    key: str = ""


@dataclass(frozen=True)
class Prediction:
    """What a coder said of a note."""

    id: int
    model_digest: str
    explainer: str
    at: str
    codes: list[dict[str, Any]]

    def probability(self, code: str) -> float | None:
        """What was shown beside a code; None where it was not in the list."""
        return next((found["probability"] for found in self.codes if found["code"] == code), None)


class Store:
    """A store in a file; `:memory:` is one that nobody keeps."""

    def __init__(self, path: Path | str, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        try:
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10)
            self._connection.row_factory = sqlite3.Row
            for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                self._connection.execute(f"PRAGMA {setting}")
            self._migrate()
        except sqlite3.DatabaseError as error:
            raise ArtifactError(f"{path} is no store of a desk, or cannot be written: {error}") from error

    def close(self) -> None:
        """Write the log into the file and let go of it."""
        with self._lock:
            self._connection.close()

    # notes

    def add_note(self, who: Who, name: str, text: str) -> tuple[str, bool]:
        """The id of a note under a name, and whether it is new; another text under the same name is refused."""
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
        with self._transaction():
            known = self._one("SELECT id, sha256 FROM notes WHERE name = ?", name) if name else None
            if known:
                if known["sha256"] != digest:
                    raise Problem(
                        409, "another text is on the desk under one of these names: give it a name of its own"
                    )
                return known["id"], False
            note = secrets.token_urlsafe(12)
            self._run(
                "INSERT INTO notes (id, name, text, sha256, words) VALUES (?, ?, ?, ?, ?)",
                *(note, name or note, text, digest, len(text.split())),
            )
            self._record(Step(who, note), "add", 0)
            return note, True

    def note(self, note: str) -> Row:
        """A note with its text."""
        found = self._one("SELECT * FROM notes WHERE id = ?", note)
        if not found:
            raise Problem(404, "there is no such note on this desk")
        return {**found, "holder": self._holder(found)}

    def version(self, note: str) -> int:
        """How often a note has changed."""
        found = self._one("SELECT version FROM notes WHERE id = ?", note)
        if not found:
            raise Problem(404, "there is no such note on this desk")
        return int(found["version"])

    def queue(self, *, state: str = "", after: int = 0, most: int = 200) -> list[Row]:
        """Notes in the order in which they came, from behind a number on."""
        rows = self._all(
            "SELECT number, id, name, state, holder, hold_until, words, "
            "(SELECT count(*) FROM decisions WHERE note = notes.id) AS decided "
            "FROM notes WHERE number > ? AND (? = '' OR state = ?) ORDER BY number LIMIT ?",
            *(after, state, state, most),
        )
        return [{**row, "holder": self._holder(row)} for row in rows]

    def counts(self) -> dict[str, int]:
        """How many notes are open and finished."""
        found = self._all("SELECT state, count(*) AS notes FROM notes GROUP BY state")
        return {"open": 0, "finished": 0, **{row["state"]: row["notes"] for row in found}}

    # what the coder says

    def keep_prediction(self, note: str, digest: str, explainer: str, codes: Sequence[Mapping[str, Any]]) -> None:
        """Keep what a coder said; what it said before stays, decisions point to it."""
        with self._transaction():
            self._run(
                "INSERT INTO predictions (note, model_digest, explainer, at, body) VALUES (?, ?, ?, ?, ?)",
                *(note, digest, explainer, self._now(), json.dumps(codes, ensure_ascii=False)),
            )

    def prediction(self, note: str) -> Prediction | None:
        """The latest that a coder said of a note."""
        found = self._one("SELECT * FROM predictions WHERE note = ? ORDER BY id DESC LIMIT 1", note)
        if not found:
            return None
        return Prediction(
            found["id"], found["model_digest"], found["explainer"], found["at"], json.loads(found["body"])
        )

    # what people decide

    def decisions(self, note: str) -> list[Row]:
        """The decisions of a note, accepted codes in reporting order first, each with the words marked for it."""
        with self._lock:
            rows = self._all("SELECT * FROM decisions WHERE note = ? ORDER BY verdict, place, at, code", note)
            marks = self._all('SELECT code, start, "end" FROM marks WHERE note = ? ORDER BY start, "end"', note)
        places: dict[str, list[dict[str, int]]] = {}
        for mark in marks:
            places.setdefault(mark["code"], []).append({"start": mark["start"], "end": mark["end"]})
        return [{**row, "evidence": places.get(row["code"], [])} for row in rows]

    def decide(self, step: Step, changes: Sequence[Change], order: Sequence[str] | None = None) -> int:
        """Make changes together and answer with the new version; a repeated request is answered as the first was."""
        with self._transaction():
            if (answered := self._answered(step)) is not None:
                return answered
            found, version = self._next_version(step, finished=False)
            seen = self.prediction(step.note)
            for change in changes:
                self._change(step, change, seen, length=len(found["text"]), version=version)
            if order is not None:
                self._order(step, order, version=version, digest=seen.model_digest if seen else "")
            self._remember(step, version)
            return version

    def finish(self, step: Step, *, reopen: bool = False) -> int:
        """Finish an open note, or open a finished one again; answers with the new version."""
        with self._transaction():
            if (answered := self._answered(step)) is not None:
                return answered
            _, version = self._next_version(step, finished=reopen)
            state, by, at = ("open", "", "") if reopen else ("finished", step.who.name, self._now())
            self._run(
                "UPDATE notes SET state = ?, finished_by = ?, finished_at = ?, holder = '' WHERE id = ?",
                *(state, by, at, step.note),
            )
            self._record(step, "reopen" if reopen else "finish", version)
            self._remember(step, version)
            return version

    def hold(self, who: Who, note: str, *, seconds: float, take: bool) -> str:
        """Who has a note from now on: who asks, unless someone else has it and it is not taken."""
        with self._transaction():
            found = self.note(note)
            if found["holder"] not in ("", who.name) and not take:
                return str(found["holder"])
            until = self._clock() + seconds
            self._run("UPDATE notes SET holder = ?, hold_until = ? WHERE id = ?", who.name, until, note)
            if found["holder"] not in ("", who.name):
                self._record(Step(who, note), "take", found["version"], before=found["holder"], after=who.name)
            return who.name

    def finished(self, *, state: str = "finished") -> Iterator[tuple[Row, list[Row], Prediction | None]]:
        """Notes of a state, one at a time, with their decisions and what the coder had said."""
        ids = [row["id"] for row in self._all("SELECT id FROM notes WHERE state = ? ORDER BY number", state)]
        for note in ids:
            with self._lock:
                yield self.note(note), self.decisions(note), self.prediction(note)

    # the trail

    def audit(self) -> list[Row]:
        """All that was done, from the first step on."""
        return self._all("SELECT * FROM audit ORDER BY id")

    def first_forgery(self) -> int | None:
        """The number of the first step whose hash does not follow from all before it; None where the trail is whole."""
        previous = ""
        for row in self.audit():
            if row["previous"] != previous or row["hash"] != _chained(previous, [row[name] for name in AUDITED]):
                return int(row["id"])
            previous = row["hash"]
        return None

    # within a transaction

    def _next_version(self, step: Step, *, finished: bool) -> tuple[Row, int]:
        """The note before the step, and its version after it; refused where someone else was faster or has it."""
        found = self.note(step.note)
        if found["holder"] not in ("", step.who.name):
            raise Problem(409, f"{found['holder']} has this note open: take it over first")
        if (found["state"] == "finished") != finished:
            raise Problem(409, "this note is not finished" if finished else "this note is finished: reopen it first")
        wanted = found["version"] if step.version is None else step.version
        changed = self._run(
            "UPDATE notes SET version = version + 1, changed_by = ?, changed_at = ? WHERE id = ? AND version = ?",
            *(step.who.name, self._now(), step.note, wanted),
        )
        if not changed:
            now = {"version": found["version"], "by": found["changed_by"], "at": found["changed_at"]}
            raise Problem(412, "the note has changed since it was read: read it again", more=now)
        return found, wanted + 1

    def _change(self, step: Step, change: Change, seen: Prediction | None, *, length: int, version: int) -> None:
        before = self._one("SELECT * FROM decisions WHERE note = ? AND code = ?", step.note, change.code)
        if change.verdict == "none":
            self._run("DELETE FROM decisions WHERE note = ? AND code = ?", step.note, change.code)
        else:
            self._put(step, change, seen, before)
        self._mark(step, change, length)
        digest = seen.model_digest if seen else ""
        told = {"before": before["verdict"] if before else "none", "after": change.verdict}
        self._record(step, "decide", version, code=change.code, digest=digest, **told)

    def _put(self, step: Step, change: Change, seen: Prediction | None, before: Row | None) -> None:
        probability = seen.probability(change.code) if seen else None
        replaces = change.replaces if change.replaces is not None else (before["replaces"] if before else "")
        origin = "changed" if replaces else ("added" if probability is None else "model")
        place = before["place"] if before else self._last_place(step.note) + 1
        self._run(
            "INSERT OR REPLACE INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(step.note, change.code, change.verdict, place, origin, replaces),
            *(seen.id if seen else None, probability, step.who.name, self._now()),
        )

    def _mark(self, step: Step, change: Change, length: int) -> None:
        if change.evidence is None and change.verdict != "none":
            return
        places = change.evidence or []
        if any(not place.start < place.end <= length for place in places):
            raise Problem(422, "marked words lie outside of the note's text")
        self._run("DELETE FROM marks WHERE note = ? AND code = ?", step.note, change.code)
        for place in places:
            row = (step.note, change.code, place.start, place.end, step.who.name)
            self._run("INSERT OR IGNORE INTO marks VALUES (?, ?, ?, ?, ?)", *row)

    def _order(self, step: Step, order: Sequence[str], *, version: int, digest: str) -> None:
        rows = self._all(
            "SELECT code FROM decisions WHERE note = ? AND verdict = 'accept' ORDER BY place, at, code", step.note
        )
        accepted = [row["code"] for row in rows]
        if sorted(order) != sorted(accepted):
            raise Problem(422, "the order must name every accepted code once")
        for place, code in enumerate(order):
            self._run("UPDATE decisions SET place = ? WHERE note = ? AND code = ?", place, step.note, code)
        self._record(step, "order", version, before=" ".join(accepted), after=" ".join(order), digest=digest)

    def _last_place(self, note: str) -> int:
        found = self._one("SELECT max(place) AS last FROM decisions WHERE note = ?", note)
        return -1 if not found or found["last"] is None else int(found["last"])

    def _answered(self, step: Step) -> int | None:
        if not step.key:
            return None
        found = self._one("SELECT note, answer FROM requests WHERE key = ?", _key(step))
        if found and found["note"] != step.note:
            raise Problem(422, "this key was used for another note: make a new one for each request")
        return int(found["answer"]) if found else None

    def _remember(self, step: Step, version: int) -> None:
        self._run("DELETE FROM requests WHERE at < ?", self._clock() - REMEMBERED)
        if step.key:
            self._run("INSERT INTO requests VALUES (?, ?, ?, ?)", _key(step), step.note, str(version), self._clock())

    def _record(
        self,
        step: Step,
        action: str,
        version: int,
        *,
        code: str = "",
        before: str = "",
        after: str = "",
        digest: str = "",
    ) -> None:
        """A line of the trail, chained to the one before it by its hash."""
        last = self._one("SELECT hash FROM audit ORDER BY id DESC LIMIT 1")
        previous = last["hash"] if last else ""
        who = step.who
        row = (self._now(), who.name, who.role, action, step.note, version, code, before, after, digest, step.key)
        self._run(
            f"INSERT INTO audit ({', '.join(AUDITED)}, previous, hash) VALUES ({', '.join('?' * (len(AUDITED) + 2))})",
            *(*row, previous, _chained(previous, row)),
        )

    # the connection

    def _migrate(self) -> None:
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version > len(MIGRATIONS):
            raise InputError("this store was written by a newer version of plant: take that one")
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            self._connection.executescript(f"BEGIN; {script} PRAGMA user_version = {number}; COMMIT;")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing; a full disk is told as such, what was stored before stays whole."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except BaseException as error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.OperationalError):
                    raise Problem(
                        507, "the store cannot be written (is the disk full?): nothing was changed"
                    ) from error
                raise

    def _run(self, statement: str, *values: Any) -> int:
        return self._connection.execute(statement, values).rowcount

    def _all(self, statement: str, *values: Any) -> list[Row]:
        with self._lock:
            return [dict(row) for row in self._connection.execute(statement, values).fetchall()]

    def _one(self, statement: str, *values: Any) -> Row | None:
        rows = self._all(statement, *values)
        return rows[0] if rows else None

    def _holder(self, row: Row) -> str:
        return row["holder"] if row["hold_until"] > self._clock() else ""

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")


def _key(step: Step) -> str:
    return f"{step.who.name} {step.key}"


def _chained(previous: str, row: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps([previous, *row], ensure_ascii=False).encode("utf-8")).hexdigest()
