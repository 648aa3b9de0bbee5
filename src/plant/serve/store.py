"""The store of the desk: notes in work, what the coder said, what people decided, and who did what when.

SQLite with a write-ahead log and full synchronisation, or PostgreSQL (`database.py`): what was acknowledged survives a
killed process and a lost power supply. Each step of a person is one transaction: version, decisions, marks, audit trail
and the answer to a repeated request change together or not at all.
"""

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from plant.serve import trail
from plant.serve.database import Database, stamp
from plant.serve.keys import Keys
from plant.serve.problems import Problem
from plant.serve.schemas import Change
from plant.serve.tables import DECISIONS, MARKS, NOTES, PREDICTIONS, REQUESTS
from plant.serve.trail import Line, Who

__all__ = ["Prediction", "Row", "Step", "Store", "Who"]

Row = Mapping[str, Any]
DAY = 24 * 3600.0
REMEMBERED = DAY  # seconds for which a repeated request gets the same answer


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
    """A store in a file or at an address of PostgreSQL; `:memory:` is one that nobody keeps."""

    def __init__(self, address: Path | str, *, password: str = "", clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._database = Database(address, password=password)
        self.keys = Keys(self._database, clock=clock)

    @property
    def place(self) -> str:
        """Where it lies, as people may see it."""
        return self._database.place

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def check(self) -> None:
        """Refuse where the database does not answer."""
        with self._database.reading() as connection:
            connection.execute(select(1))

    # notes

    def add_note(self, who: Who, name: str, text: str) -> tuple[str, bool]:
        """The id of a note under a name, and whether it is new; another text under the same name is refused."""
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
        with self._database.writing() as connection:
            known = _first(connection, select(NOTES.c.id, NOTES.c.sha256).where(NOTES.c.name == name)) if name else None
            if known:
                if known["sha256"] != digest:
                    raise Problem(
                        409, "another text is on the desk under one of these names: give it a name of its own"
                    )
                return known["id"], False
            note = secrets.token_urlsafe(12)
            row = {"id": note, "name": name or note, "text": text, "sha256": digest, "words": len(text.split())}
            connection.execute(insert(NOTES).values(**row))
            self._record(connection, Step(who, note), "add", 0)
            return note, True

    def note(self, note: str) -> Row:
        """A note with its text."""
        with self._database.reading() as connection:
            return self._note(connection, note)

    def version(self, note: str) -> int:
        """How often a note has changed."""
        with self._database.reading() as connection:
            found = _first(connection, select(NOTES.c.version).where(NOTES.c.id == note))
        if not found:
            raise Problem(404, "there is no such note on this desk")
        return int(found["version"])

    def queue(self, *, state: str = "", after: int = 0, most: int = 200) -> list[Row]:
        """Notes in the order in which they came, from behind a number on."""
        decided = select(func.count()).where(DECISIONS.c.note == NOTES.c.id).scalar_subquery()
        columns = [NOTES.c[name] for name in ("number", "id", "name", "state", "holder", "hold_until", "words")]
        query = select(*columns, decided.label("decided")).where(NOTES.c.number > after)
        if state:
            query = query.where(NOTES.c.state == state)
        with self._database.reading() as connection:
            rows = _all(connection, query.order_by(NOTES.c.number).limit(most))
        return [{**row, "holder": self._holder(row)} for row in rows]

    def counts(self) -> dict[str, int]:
        """How many notes are open and finished."""
        with self._database.reading() as connection:
            found = _all(connection, select(NOTES.c.state, func.count().label("notes")).group_by(NOTES.c.state))
        return {"open": 0, "finished": 0, **{row["state"]: row["notes"] for row in found}}

    # what the coder says

    def keep_prediction(self, note: str, digest: str, explainer: str, codes: Sequence[Mapping[str, Any]]) -> None:
        """Keep what a coder said; what it said before stays, decisions point to it."""
        body = json.dumps(codes, ensure_ascii=False)
        row = {"note": note, "model_digest": digest, "explainer": explainer, "at": self._now(), "body": body}
        with self._database.writing() as connection:
            connection.execute(insert(PREDICTIONS).values(**row))

    def prediction(self, note: str) -> Prediction | None:
        """The latest that a coder said of a note."""
        with self._database.reading() as connection:
            return _prediction(connection, note)

    # what people decide

    def decisions(self, note: str) -> list[Row]:
        """The decisions of a note, accepted codes in reporting order first, each with the words marked for it."""
        with self._database.reading() as connection:
            return _decisions(connection, note)

    def decide(self, step: Step, changes: Sequence[Change], order: Sequence[str] | None = None) -> int:
        """Make changes together and answer with the new version; a repeated request is answered as the first was."""
        with self._database.writing() as connection:
            if (answered := _answered(connection, step)) is not None:
                return answered
            found, version = self._next_version(connection, step, finished=False)
            seen = _prediction(connection, step.note)
            for change in changes:
                self._change(connection, step, change, seen, length=len(found["text"]), version=version)
            if order is not None:
                self._order(connection, step, order, version=version, digest=seen.model_digest if seen else "")
            self._remember(connection, step, version)
            return version

    def finish(self, step: Step, *, reopen: bool = False) -> int:
        """Finish an open note, or open a finished one again; answers with the new version."""
        with self._database.writing() as connection:
            if (answered := _answered(connection, step)) is not None:
                return answered
            _, version = self._next_version(connection, step, finished=reopen)
            state, by, at = ("open", "", "") if reopen else ("finished", step.who.name, self._now())
            row = {"state": state, "finished_by": by, "finished_at": at, "holder": ""}
            connection.execute(update(NOTES).where(NOTES.c.id == step.note).values(**row))
            self._record(connection, step, "reopen" if reopen else "finish", version)
            self._remember(connection, step, version)
            return version

    def hold(self, who: Who, note: str, *, seconds: float, take: bool) -> str:
        """Who has a note from now on: who asks, unless someone else has it and it is not taken."""
        with self._database.writing() as connection:
            found = self._note(connection, note)
            if found["holder"] not in ("", who.name) and not take:
                return str(found["holder"])
            row = {"holder": who.name, "hold_until": self._clock() + seconds}
            connection.execute(update(NOTES).where(NOTES.c.id == note).values(**row))
            if found["holder"] not in ("", who.name):
                taken = {"before": found["holder"], "after": who.name}
                self._record(connection, Step(who, note), "take", found["version"], **taken)
            return who.name

    def finished(self, *, state: str = "finished") -> Iterator[tuple[Row, list[Row], Prediction | None]]:
        """Notes of a state, one at a time, with their decisions and what the coder had said."""
        with self._database.reading() as connection:
            ids = connection.execute(select(NOTES.c.id).where(NOTES.c.state == state).order_by(NOTES.c.number))
            notes = list(ids.scalars())
        for note in notes:
            with self._database.reading() as connection:
                found = self._note(connection, note), _decisions(connection, note), _prediction(connection, note)
            yield found

    # the trail

    def audit(self, *, after: int = 0, most: int | None = None) -> list[Row]:
        """All that was done, from behind a number on."""
        with self._database.reading() as connection:
            return [dict(row) for row in trail.lines(connection, after=after, most=most)]

    def first_forgery(self) -> int | None:
        """The number of the first step whose hash does not follow from all before it; None where the trail is whole."""
        with self._database.reading() as connection:
            return trail.first_forgery(connection)

    # within a transaction

    def _note(self, connection: Connection, note: str) -> Row:
        found = _first(connection, select(NOTES).where(NOTES.c.id == note))
        if not found:
            raise Problem(404, "there is no such note on this desk")
        return {**found, "holder": self._holder(found)}

    def _next_version(self, connection: Connection, step: Step, *, finished: bool) -> tuple[Row, int]:
        """The note before the step, and its version after it; refused where someone else was faster or has it."""
        found = self._note(connection, step.note)
        if found["holder"] not in ("", step.who.name):
            raise Problem(409, f"{found['holder']} has this note open: take it over first")
        if (found["state"] == "finished") != finished:
            raise Problem(409, "this note is not finished" if finished else "this note is finished: reopen it first")
        wanted = found["version"] if step.version is None else step.version
        if wanted != found["version"]:
            now = {"version": found["version"], "by": found["changed_by"], "at": found["changed_at"]}
            raise Problem(412, "the note has changed since it was read: read it again", more=now)
        row = {"version": wanted + 1, "changed_by": step.who.name, "changed_at": self._now()}
        connection.execute(update(NOTES).where(NOTES.c.id == step.note).values(**row))
        return found, wanted + 1

    def _change(
        self, connection: Connection, step: Step, change: Change, seen: Prediction | None, *, length: int, version: int
    ) -> None:
        here = (DECISIONS.c.note == step.note, DECISIONS.c.code == change.code)
        before = _first(connection, select(DECISIONS).where(*here))
        if change.verdict == "none":
            connection.execute(delete(DECISIONS).where(*here))
        else:
            row = self._decision(connection, step, change, seen, before)
            put = update(DECISIONS).where(*here) if before else insert(DECISIONS)
            connection.execute(put.values(**row))
        _mark(connection, step, change, length)
        digest = seen.model_digest if seen else ""
        told = {"before": before["verdict"] if before else "none", "after": change.verdict}
        self._record(connection, step, "decide", version, code=change.code, digest=digest, **told)

    def _decision(
        self, connection: Connection, step: Step, change: Change, seen: Prediction | None, before: Row | None
    ) -> Row:
        probability = seen.probability(change.code) if seen else None
        replaces = change.replaces if change.replaces is not None else (before["replaces"] if before else "")
        return {
            "note": step.note,
            "code": change.code,
            "verdict": change.verdict,
            "place": before["place"] if before else _last_place(connection, step.note) + 1,
            "origin": "changed" if replaces else ("added" if probability is None else "model"),
            "replaces": replaces,
            "prediction": seen.id if seen else None,
            "probability": probability,
            "by": step.who.name,
            "at": self._now(),
        }

    def _order(self, connection: Connection, step: Step, order: Sequence[str], *, version: int, digest: str) -> None:
        accepted = [row["code"] for row in _decisions(connection, step.note) if row["verdict"] == "accept"]
        if sorted(order) != sorted(accepted):
            raise Problem(422, "the order must name every accepted code once")
        for place, code in enumerate(order):
            here = (DECISIONS.c.note == step.note, DECISIONS.c.code == code)
            connection.execute(update(DECISIONS).where(*here).values(place=place))
        told = {"before": " ".join(accepted), "after": " ".join(order)}
        self._record(connection, step, "order", version, digest=digest, **told)

    def _remember(self, connection: Connection, step: Step, version: int) -> None:
        connection.execute(delete(REQUESTS).where(REQUESTS.c.at < self._clock() - REMEMBERED))
        if step.key:
            row = {"key": _key(step), "note": step.note, "answer": str(version), "at": self._clock()}
            connection.execute(insert(REQUESTS).values(**row))

    def _record(
        self, connection: Connection, step: Step, action: str, version: int, *, digest: str = "", **more: str
    ) -> None:
        who = step.who
        line = Line(
            self._now(), who.name, who.role, action, step.note, version, model_digest=digest, request=step.key, **more
        )
        trail.record(connection, line)

    def _holder(self, row: Row) -> str:
        return row["holder"] if row["hold_until"] > self._clock() else ""

    def _now(self) -> str:
        return stamp(self._clock())


def _all(connection: Connection, query: Any) -> list[Row]:
    return [dict(row) for row in connection.execute(query).mappings()]


def _first(connection: Connection, query: Any) -> Row | None:
    found = connection.execute(query).mappings().first()
    return dict(found) if found else None


def _prediction(connection: Connection, note: str) -> Prediction | None:
    query = select(PREDICTIONS).where(PREDICTIONS.c.note == note).order_by(PREDICTIONS.c.id.desc()).limit(1)
    found = _first(connection, query)
    if not found:
        return None
    said = json.loads(found["body"])
    return Prediction(found["id"], found["model_digest"], found["explainer"], found["at"], said)


def _decisions(connection: Connection, note: str) -> list[Row]:
    marks = select(MARKS).where(MARKS.c.note == note).order_by(MARKS.c.start, MARKS.c.end)
    places: dict[str, list[dict[str, int]]] = {}
    for mark in _all(connection, marks):
        places.setdefault(mark["code"], []).append({"start": mark["start"], "end": mark["end"]})
    rows = _all(connection, select(DECISIONS).where(DECISIONS.c.note == note))
    rows.sort(key=lambda row: (row["verdict"], row["place"], row["at"], row["code"]))  # databases sort letters apart
    return [{**row, "evidence": places.get(row["code"], [])} for row in rows]


def _mark(connection: Connection, step: Step, change: Change, length: int) -> None:
    if change.evidence is None and change.verdict != "none":
        return
    places = {(place.start, place.end) for place in change.evidence or []}
    if any(not start < end <= length for start, end in places):
        raise Problem(422, "marked words lie outside of the note's text")
    connection.execute(delete(MARKS).where(MARKS.c.note == step.note, MARKS.c.code == change.code))
    same = {"note": step.note, "code": change.code, "by": step.who.name}
    if places:
        connection.execute(insert(MARKS), [{**same, "start": start, "end": end} for start, end in sorted(places)])


def _last_place(connection: Connection, note: str) -> int:
    last = connection.execute(select(func.max(DECISIONS.c.place)).where(DECISIONS.c.note == note)).scalar()
    return -1 if last is None else int(last)


def _answered(connection: Connection, step: Step) -> int | None:
    if not step.key:
        return None
    found = _first(connection, select(REQUESTS.c.note, REQUESTS.c.answer).where(REQUESTS.c.key == _key(step)))
    if found and found["note"] != step.note:
        raise Problem(422, "this key was used for another note: make a new one for each request")
    return int(found["answer"]) if found else None


def _key(step: Step) -> str:
    return f"{step.who.name} {step.key}"
