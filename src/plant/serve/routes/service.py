"""The service itself: who asks, whether it is well, what it counts; sessions of the page."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

import plant
from plant.serve.access import COOKIE
from plant.serve.desk import Asking, TheDesk
from plant.serve.gate import cookie_of
from plant.serve.problems import Problem
from plant.serve.schemas import LARGEST, AuditLine, AuditOut, MeOut, StateOut, TokenIn

PAGE = 1000  # lines of the trail in one answer

router = APIRouter(prefix="/v1", tags=["service"])


@router.get("/health")
async def health() -> StateOut:
    """The process answers."""
    return StateOut(state="alive")


@router.get("/ready")
async def ready(desk: TheDesk) -> StateOut:
    """The coder is loaded, the code book is laid out, the store answers, and the service is not about to stop."""
    if desk.closing:
        raise Problem(503, "the service is stopping")
    if not desk.catalogue.done():
        raise Problem(503, "the code book is being read")
    await asyncio.to_thread(desk.store.check)
    return StateOut(state="ready")


@router.get("/metrics")
async def metrics(desk: TheDesk, who: Asking) -> Response:
    """Counters in Prometheus' text form."""
    return Response(generate_latest(desk.metrics.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/me")
async def me(who: Asking) -> MeOut:
    """Who asks."""
    return MeOut(name=who.name, role=who.role, version=plant.__version__)


@router.get("/audit")
async def audit(desk: TheDesk, who: Asking, after: Annotated[int, Query(ge=0, le=LARGEST)] = 0) -> AuditOut:
    """The trail of all that was done, 1,000 lines at a time: who, when, what before and after, which coder."""
    rows = await asyncio.to_thread(desk.store.audit, after=after, most=PAGE)
    return AuditOut(lines=[AuditLine(**row) for row in rows], next=rows[-1]["id"] if len(rows) == PAGE else None)


@router.post("/session")
async def begin(asked: TokenIn, request: Request, desk: TheDesk, response: Response) -> StateOut:
    """Exchange a key for a session that scripts cannot read; it lasts for a working day."""
    session = await asyncio.to_thread(desk.store.keys.begin, asked.token)
    if session is None:
        raise Problem(401, "nobody has this key")
    encrypted = request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
    response.set_cookie(COOKIE, session, httponly=True, samesite="strict", path="/", secure=encrypted)
    return StateOut(state="open")


@router.delete("/session")
async def end(request: Request, desk: TheDesk, response: Response) -> StateOut:
    """Forget the session."""
    if session := cookie_of(request.headers.get("cookie", "")):
        await asyncio.to_thread(desk.store.keys.end, session)
    response.delete_cookie(COOKIE)
    return StateOut(state="closed")
