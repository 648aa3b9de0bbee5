"""Coding of texts that are not on the desk, and the code book."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Response

from plant.serve.desk import Asking, TheDesk
from plant.serve.formats import FORMATTED, Format, answer, proposed, wanted
from plant.serve.problems import Problem
from plant.serve.reader import Explain, Wish
from plant.serve.schemas import (
    CodeOut,
    ExplainTextIn,
    HitOut,
    ModelsOut,
    NoteIn,
    PredictIn,
    PredictionOut,
    PredictOut,
    SearchIn,
    SearchOut,
)

router = APIRouter(prefix="/v1", tags=["coding"])


@router.get("/models")
async def models(desk: TheDesk, who: Asking) -> ModelsOut:
    """The coders that are loaded, with the digests by which their answers can be told apart."""
    described = await asyncio.to_thread(desk.reader.described)
    return ModelsOut(models=[described], catalogue=len((await desk.codes()).codes))


@router.post("/predict", response_model=PredictOut, responses=dict(FORMATTED))
async def predict(
    asked: PredictIn, desk: TheDesk, who: Asking, format: Format = "", accept: Annotated[str, Header()] = ""
) -> Response:
    """The ranked codes of one note or many, with the words that speak for each; nothing is kept.

    `format`, or else `Accept`, asks for JSON lines, a CSV table, brat's files in an archive, or a FHIR R4 Bundle.
    """
    if len(asked.notes) > desk.limits.together:
        raise Problem(413, f"{len(asked.notes):,} notes in one request; at most {desk.limits.together} are read")
    wish = Wish(min(asked.top, desk.limits.top), asked.evidence, asked.explainer)
    found = await asyncio.gather(*(desk.read(wish, note.text) for note in asked.notes))
    form = wanted(format, accept)
    pairs = list(zip(asked.notes, found, strict=True))
    if form != "json":
        named = [proposed(note.name or str(number), note.text, codes) for number, (note, codes) in enumerate(pairs)]
        return answer(form, named, system=desk.reader.system)
    notes = [_prediction(note, codes) for note, codes in pairs]
    body = PredictOut.model_construct(model=desk.reader.digest, notes=notes)
    return Response(body.model_dump_json(), media_type="application/json")  # our own values are not checked again


@router.post("/explain")
async def explain(asked: ExplainTextIn, desk: TheDesk, who: Asking) -> CodeOut:
    """The words of a text that speak for one code, whatever its rank."""
    desk.known(asked.code)
    [found] = await desk.read(Explain(asked.code, asked.explainer), asked.text)
    return found


@router.post("/codes/search")
async def search(asked: SearchIn, desk: TheDesk, who: Asking) -> SearchOut:
    """Codes by code, by words as they are typed, by synonyms; without a query, by the words that are selected."""
    catalogue = await desk.codes()
    query = (asked.q.strip() or asked.words)[: desk.limits.query]
    found = catalogue.search(query, limit=min(asked.limit, desk.limits.hits))
    hits = [
        HitOut(
            code=hit.code,
            title=catalogue.title(hit.code),
            chapter=catalogue.chapter(hit.code),
            matched=hit.matched,
            kind=hit.kind,
            known=hit.code in catalogue.known,
            leaf=hit.code in catalogue.leaves,
        )
        for hit in found.hits
    ]
    return SearchOut(total=found.total, hits=hits)


def _prediction(note: NoteIn, codes: list[CodeOut]) -> PredictionOut:
    return PredictionOut.model_construct(name=note.name, codes=codes)
