"""The service itself: who asks, whether it is well, what it counts; sessions of the page."""

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

import plant
from plant.serve.access import COOKIE
from plant.serve.desk import Asking, TheDesk
from plant.serve.gate import cookie_of
from plant.serve.problems import Problem
from plant.serve.schemas import MeOut, StateOut, TokenIn

router = APIRouter(prefix="/v1", tags=["service"])


@router.get("/health")
async def health() -> StateOut:
    """The process answers."""
    return StateOut(state="alive")


@router.get("/ready")
async def ready(desk: TheDesk) -> StateOut:
    """The coder is loaded, the code book is laid out, and the service is not about to stop."""
    if desk.closing:
        raise Problem(503, "the service is stopping")
    if not desk.catalogue.done():
        raise Problem(503, "the code book is being read")
    return StateOut(state="ready")


@router.get("/metrics")
async def metrics(desk: TheDesk, who: Asking) -> Response:
    """Counters in Prometheus' text form."""
    return Response(generate_latest(desk.metrics.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/me")
async def me(who: Asking) -> MeOut:
    """Who asks."""
    return MeOut(name=who.name, role=who.role, version=plant.__version__)


@router.post("/session")
async def begin(asked: TokenIn, desk: TheDesk, response: Response) -> StateOut:
    """Exchange a token for a session that scripts cannot read."""
    session = desk.access.begin(asked.token)
    if session is None:
        raise Problem(401, "nobody has this token")
    response.set_cookie(COOKIE, session, httponly=True, samesite="strict", path="/")
    return StateOut(state="open")


@router.delete("/session")
async def end(request: Request, desk: TheDesk, response: Response) -> StateOut:
    """Forget the session."""
    desk.access.end(cookie_of(request.headers.get("cookie", "")))
    response.delete_cookie(COOKIE)
    return StateOut(state="closed")
