"""From rows of the store to what goes over the wire."""

from typing import Any

from plant.serve.catalogue import Catalogue
from plant.serve.problems import Problem
from plant.serve.reader import Reader, outline
from plant.serve.schemas import CodeOut, DecidedOut, DecisionOut, LineOut, ModelOfNote, NoteOut
from plant.serve.store import Prediction, Row, Store
from plant.text.paragraphs import set_lines


def note_view(store: Store, note: str, reader: Reader, catalogue: Catalogue) -> NoteOut:
    """A note with its prediction, if there is one, and its decisions."""
    row, said = store.note(note), store.prediction(note)
    sections = outline(row["text"])
    lines = set_lines(row["text"], {section.start for section in sections})
    same = ("name", "number", "text", "sha256", "version", "state", "holder", "finished_by", "finished_at")
    return NoteOut(
        note=row["id"],
        **{name: row[name] for name in same},
        sections=sections,
        lines=[LineOut.model_construct(start=line.start, end=line.end, kind=line.kind) for line in lines],
        model=_model(said, reader) if said else None,
        codes=[CodeOut.model_validate(code) for code in said.codes] if said else None,
        decisions=decisions_view(store, note, catalogue, said),
    )


def decided_view(store: Store, note: str, catalogue: Catalogue) -> DecidedOut:
    """The version and the decisions of a note."""
    row = store.note(note)
    return DecidedOut(
        version=row["version"],
        state=row["state"],
        decisions=decisions_view(store, note, catalogue, store.prediction(note)),
    )


def decisions_view(store: Store, note: str, catalogue: Catalogue, said: Prediction | None) -> list[DecisionOut]:
    """The decisions of a note with the titles of their codes."""
    titles = {code["code"]: code["title"] for code in said.codes} if said else {}
    return [_decision(row, catalogue, titles) for row in store.decisions(note)]


def with_decisions(problem: Problem, store: Store, note: str, catalogue: Catalogue) -> Problem:
    """A refusal because of another's change, with what they decided, so that both can be shown."""
    decided = decided_view(store, note, catalogue).model_dump()["decisions"]
    return Problem(problem.status, problem.detail, more={**problem.more, "decisions": decided})


def _model(said: Prediction, reader: Reader) -> ModelOfNote:
    current = said.model_digest == reader.digest
    name = reader.name if current else said.model_digest[:8]
    return ModelOfNote(digest=said.model_digest, name=name, explainer=said.explainer, current=current, at=said.at)


def _decision(row: Row, catalogue: Catalogue, titles: dict[str, Any]) -> DecisionOut:
    same = ("code", "verdict", "place", "origin", "replaces", "evidence", "by", "at")
    return DecisionOut(
        **{name: row[name] for name in same},
        title=titles.get(row["code"]) or catalogue.title(row["code"]) or row["code"],
        chapter=catalogue.chapter(row["code"]),
        path=catalogue.path(row["code"]),
    )
