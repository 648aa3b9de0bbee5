"""What goes over the wire, typed; offsets are code points of the note's text."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Verdict = Literal["accept", "reject"]
Origin = Literal["model", "added", "changed"]
State = Literal["open", "finished"]
PRINTED = r"^[^\x00-\x1f\x7f]*$"  # in one line
Code = Annotated[str, Field(min_length=1, max_length=64, pattern=PRINTED)]
LARGEST = 2**53 - 1  # that every reader of JSON, and every database, takes as a whole number
Version = int


class Strict(BaseModel):
    """What is sent to us: unknown fields are refused, so that a slip is not silently ignored."""

    model_config = ConfigDict(extra="forbid")


class Place(Strict):
    """Characters `start` to `end` (excluded)."""

    start: Annotated[int, Field(ge=0, le=LARGEST)]
    end: Annotated[int, Field(ge=1, le=LARGEST)]


class PhraseOut(BaseModel):
    """Words that speak for a code: how much, what stands near that changes their meaning, the name they hold."""

    start: int
    end: int
    weight: float
    caution: str = ""
    cue: Place | None = None
    matched: str = ""
    why: str = ""


class CodeOut(BaseModel):
    """A code that the coder ranks; `suggested` says that it passes the threshold."""

    code: str
    title: str
    chapter: str
    path: list[str]
    probability: float
    threshold: float
    suggested: bool
    evidence: list[PhraseOut] = []


class ModelOut(BaseModel):
    """A loaded coder: what it is, and the digest by which its answers can be told apart."""

    name: str
    digest: str
    recipe: str
    codes: int
    system: str
    explainers: list[str]


class ModelsOut(BaseModel):
    """All loaded coders, and how many codes a search finds."""

    models: list[ModelOut]
    catalogue: int


class MeOut(BaseModel):
    """Who asks, and what they may do."""

    name: str
    role: str
    version: str


class NoteIn(Strict):
    """A note to be put on the desk, or to be coded at once; `name` tells people which it is."""

    text: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(max_length=200)] = ""


class NotesIn(Strict):
    """Notes for the queue."""

    notes: Annotated[list[NoteIn], Field(min_length=1)]


class PredictIn(Strict):
    """Notes to be coded at once; nothing of them is kept."""

    notes: Annotated[list[NoteIn], Field(min_length=1)]
    top: Annotated[int, Field(ge=0)] = 15
    evidence: bool = True
    explainer: Annotated[str, Field(max_length=40)] = ""


class PredictionOut(BaseModel):
    """The ranked codes of one note."""

    name: str
    codes: list[CodeOut]


class PredictOut(BaseModel):
    """The codes of several notes, in their order."""

    model: str
    notes: list[PredictionOut]


class ExplainIn(Strict):
    """A code to be explained, for a text or for a note on the desk."""

    code: Code
    explainer: Annotated[str, Field(max_length=40)] = ""


class ExplainTextIn(ExplainIn):
    """The same for a text that is not on the desk."""

    text: Annotated[str, Field(min_length=1)]


class SearchIn(Strict):
    """What a coder types, and the words of the note that were selected."""

    q: str = ""
    words: str = ""
    limit: Annotated[int, Field(ge=1)] = 20


class HitOut(BaseModel):
    """A code that a search finds; `matched` is the name that holds the words, where it is not the title."""

    code: str
    title: str
    chapter: str
    matched: str
    kind: Literal["code", "title", "synonym"]
    known: bool
    leaf: bool


class SearchOut(BaseModel):
    """The best codes for what was typed."""

    total: int
    hits: list[HitOut]


class QueueItem(BaseModel):
    """A note of the queue."""

    note: str
    name: str
    number: int
    state: State
    holder: str
    words: int
    decided: int


class Counts(BaseModel):
    """How many notes there are."""

    open: int
    finished: int


class QueueOut(BaseModel):
    """A part of the queue; `next` continues it."""

    items: list[QueueItem]
    counts: Counts
    next: int | None


class SectionOut(BaseModel):
    """A section of a note, from its heading on."""

    start: int
    end: int
    title: str


class LineOut(BaseModel):
    """What is laid out as one: a line, lines that flow together, a part of an endless line."""

    start: int
    end: int
    kind: Literal["", "heading", "flow", "endless"]


class ModelOfNote(BaseModel):
    """The coder whose answer a note shows; `current` is false where another has been loaded since."""

    digest: str
    name: str
    explainer: str
    current: bool
    at: str


class DecisionOut(BaseModel):
    """What a person decided of a code."""

    code: str
    title: str
    chapter: str
    path: list[str]
    verdict: Verdict
    place: int
    origin: Origin
    replaces: str
    evidence: list[Place]
    by: str
    at: str


class NoteOut(BaseModel):
    """A note, what the coder says of it (`codes` is null until it was asked), and what people decided."""

    note: str
    name: str
    number: int
    text: str
    sha256: str
    version: Version
    state: State
    holder: str
    finished_by: str
    finished_at: str
    sections: list[SectionOut]
    lines: list[LineOut]
    model: ModelOfNote | None
    codes: list[CodeOut] | None
    decisions: list[DecisionOut]


class Change(Strict):
    """A decision, or none any more; `evidence`, where given, takes the place of what was marked before."""

    code: Code
    verdict: Literal["accept", "reject", "none"]
    evidence: list[Place] | None = None
    replaces: Annotated[str, Field(max_length=64, pattern=PRINTED)] | None = None


class DecideIn(Strict):
    """Changes that are made together; `order` is the reporting order of accepted codes."""

    changes: list[Change] = []
    order: list[Code] | None = None


class DecidedOut(BaseModel):
    """The note's version and all its decisions after a change."""

    version: Version
    state: State
    decisions: list[DecisionOut]


class HoldIn(Strict):
    """`take`: also from someone else."""

    take: bool = False


class HoldOut(BaseModel):
    """Who has the note, and whether that is who asks."""

    holder: str
    mine: bool


class PredictNoteIn(Strict):
    """`again`: also where the coder has answered before."""

    explainer: Annotated[str, Field(max_length=40)] = ""
    again: bool = False


class AddedOut(BaseModel):
    """The ids of notes that were put on the desk, in their order, and how many of them are new."""

    notes: list[str]
    added: int


class AuditLine(BaseModel):
    """A step that was made; its hash follows from all lines before it."""

    id: int
    at: str
    who: str
    role: str
    action: str
    note: str
    version: int
    code: str
    before: str
    after: str
    model_digest: str
    request: str
    previous: str
    hash: str


class AuditOut(BaseModel):
    """A part of the trail; `next` continues it."""

    lines: list[AuditLine]
    next: int | None


class TokenIn(Strict):
    """A key, to be exchanged for a session of the page."""

    token: Annotated[str, Field(min_length=1, max_length=200)]


class StateOut(BaseModel):
    """Health and readiness."""

    state: str
