"""Notes in work: the queue, what the coder says of each, what people decide, finishing, export."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import StreamingResponse

from plant.serve.catalogue import Catalogue
from plant.serve.desk import Asking, Desk, TheDesk
from plant.serve.export import export_lines
from plant.serve.formats import FORMATTED, KINDS, Coded, decided, exported
from plant.serve.problems import Problem
from plant.serve.reader import Explain, Wish
from plant.serve.schemas import (
    LARGEST,
    AddedOut,
    CodeOut,
    Counts,
    DecidedOut,
    DecideIn,
    ExplainIn,
    HoldIn,
    HoldOut,
    NoteOut,
    NotesIn,
    PredictNoteIn,
    QueueItem,
    QueueOut,
    State,
)
from plant.serve.store import Row, Step, Who
from plant.serve.views import decided_view, note_view, with_decisions

TOP = 30  # codes of a note on the desk besides the suggested ones
PAGE = 200  # notes of the queue in one answer

router = APIRouter(prefix="/v1", tags=["desk"])
NoteId = Annotated[str, Path(pattern=r"^[\w-]{16}$")]
IfMatch = Annotated[str, Header(alias="If-Match", max_length=40)]
Key = Annotated[str, Header(alias="Idempotency-Key", max_length=80, pattern=r"^[\w-]*$")]


@router.get("/queue")
async def queue(
    desk: TheDesk,
    who: Asking,
    state: Literal["", "open", "finished"] = "",
    after: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
) -> QueueOut:
    """Notes in the order in which they came, 200 at a time."""
    rows = await asyncio.to_thread(desk.store.queue, state=state, after=after, most=PAGE)
    same = ("name", "number", "state", "holder", "words", "decided")
    items = [QueueItem(note=row["id"], **{name: row[name] for name in same}) for row in rows]
    counts = await asyncio.to_thread(desk.store.counts)
    return QueueOut(items=items, counts=Counts(**counts), next=rows[-1]["number"] if len(rows) == PAGE else None)


@router.post("/notes")
async def add(asked: NotesIn, desk: TheDesk, who: Asking) -> AddedOut:
    """Put notes on the desk; those that are there already, by name and text, stay as they are."""
    if len(asked.notes) > desk.limits.together:
        raise Problem(413, f"{len(asked.notes):,} notes in one request; at most {desk.limits.together} are taken")
    for note in asked.notes:
        if len(note.text) > desk.limits.text:
            raise Problem(413, f"a note has {len(note.text):,} characters; at most {desk.limits.text:,} are taken")
        if note.text.isspace():
            raise Problem(422, "a note is empty")
    added = [await asyncio.to_thread(desk.store.add_note, who, note.name, note.text) for note in asked.notes]
    return AddedOut(notes=[note for note, _ in added], added=sum(new for _, new in added))


@router.get("/notes/{note}")
async def read(note: NoteId, desk: TheDesk, who: Asking, response: Response) -> NoteOut:
    """A note with what the coder said of it, if it was asked, and what people decided."""
    return await _view(desk, note, response)


@router.head("/notes/{note}")
async def version(note: NoteId, desk: TheDesk, who: Asking) -> Response:
    """The version of a note alone, for pages that watch whether someone else has changed it."""
    return Response(headers={"ETag": f'"{await asyncio.to_thread(desk.store.version, note)}"'})


@router.post("/notes/{note}/predict")
async def predict(note: NoteId, asked: PredictNoteIn, desk: TheDesk, who: Asking, response: Response) -> NoteOut:
    """Ask the coder, unless the same coder has answered in the same way before; decisions stay as they are."""
    said = await asyncio.to_thread(desk.store.prediction, note)
    asked_before = said and (said.model_digest, said.explainer) == (desk.reader.digest, asked.explainer)
    if asked.again or not asked_before:
        row = await asyncio.to_thread(desk.store.note, note)
        codes = await desk.read(Wish(TOP, True, asked.explainer), row["text"])
        body = [code.model_dump() for code in codes]
        await asyncio.to_thread(desk.store.keep_prediction, note, desk.reader.digest, asked.explainer, body)
    return await _view(desk, note, response)


@router.post("/notes/{note}/explain")
async def explain(note: NoteId, asked: ExplainIn, desk: TheDesk, who: Asking) -> CodeOut:
    """The words of a note that speak for one code, whatever its rank."""
    desk.known(asked.code)
    row = await asyncio.to_thread(desk.store.note, note)
    [found] = await desk.read(Explain(asked.code, asked.explainer), row["text"])
    return found


@router.post("/notes/{note}/decisions")
async def decide(
    note: NoteId, asked: DecideIn, desk: TheDesk, who: Asking, response: Response, if_match: IfMatch = "", key: Key = ""
) -> DecidedOut:
    """Accept, reject, clear, mark words, order: all of it or nothing, if the note is at the version of `If-Match`."""
    if len(asked.changes) > desk.limits.changes:
        raise Problem(413, f"{len(asked.changes):,} changes in one request; at most {desk.limits.changes} are made")
    step = _step(who, note, if_match, key)
    decided = await _stepped(desk, step, lambda: desk.store.decide(step, asked.changes, asked.order), response)
    for change in asked.changes:
        desk.metrics.decisions.labels(change.verdict).inc()
    return decided


@router.post("/notes/{note}/finish")
async def finish(
    note: NoteId, desk: TheDesk, who: Asking, response: Response, if_match: IfMatch = "", key: Key = ""
) -> DecidedOut:
    """Finish a note: what is accepted is its codes, in their order."""
    step = _step(who, note, if_match, key)
    return await _stepped(desk, step, lambda: desk.store.finish(step), response)


@router.post("/notes/{note}/reopen")
async def reopen(
    note: NoteId, desk: TheDesk, who: Asking, response: Response, if_match: IfMatch = "", key: Key = ""
) -> DecidedOut:
    """Open a finished note again."""
    step = _step(who, note, if_match, key)
    return await _stepped(desk, step, lambda: desk.store.finish(step, reopen=True), response)


@router.post("/notes/{note}/hold")
async def hold(note: NoteId, asked: HoldIn, desk: TheDesk, who: Asking) -> HoldOut:
    """Keep a note for who asks, for two minutes; `take` takes it over from someone else."""
    holder = await asyncio.to_thread(desk.store.hold, who, note, seconds=desk.limits.held, take=asked.take)
    return HoldOut(holder=holder, mine=holder == who.name)


@router.get("/export", response_class=StreamingResponse, responses=dict(FORMATTED))
async def export(
    desk: TheDesk, who: Asking, state: State = "finished", format: Literal["jsonl", "csv", "brat", "fhir"] = "jsonl"
) -> StreamingResponse:
    """What was decided, as JSON lines that `plant prepare` reads, with the words that people marked as evidence.

    Other formats hold the accepted codes alone; FHIR is a Bundle (R4) in a line for each note.
    """
    if format == "jsonl":
        return StreamingResponse(export_lines(desk.store, state=state), media_type=KINDS["jsonl"])
    catalogue = await desk.codes()
    coded = (_coded(note, decisions, catalogue) for note, decisions, _ in desk.store.finished(state=state))
    return exported(format, coded, system=desk.reader.system)


async def _view(desk: Desk, note: str, response: Response) -> NoteOut:
    view = await asyncio.to_thread(note_view, desk.store, note, desk.reader, await desk.codes())
    response.headers["ETag"] = f'"{view.version}"'
    return view


async def _stepped(desk: Desk, step: Step, act, response: Response) -> DecidedOut:  # type: ignore[no-untyped-def]
    """A step of a person and the note after it; who comes too late is told what the other decided."""
    catalogue = await desk.codes()
    try:
        await asyncio.to_thread(act)
    except Problem as problem:
        if problem.status == 412:
            raise with_decisions(problem, desk.store, step.note, catalogue) from problem
        raise
    view = await asyncio.to_thread(decided_view, desk.store, step.note, catalogue)
    response.headers["ETag"] = f'"{view.version}"'
    return view


def _coded(note: Row, decisions: list[Row], catalogue: Catalogue) -> Coded:
    """A note with its accepted codes, as other formats write it."""
    return decided(note, decisions, {row["code"]: catalogue.title(row["code"]) for row in decisions})


def _step(who: Who, note: str, if_match: str, key: str) -> Step:
    version = if_match.strip().removeprefix("W/").strip('"')
    if not version.isdecimal() or len(version) > 12:
        raise Problem(428, 'say which version you have seen: If-Match: "VERSION", as ETag gave it')
    return Step(who, note, int(version), key)
