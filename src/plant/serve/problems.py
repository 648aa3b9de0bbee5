"""Answers that say what is wrong (RFC 9457), in our own words: nothing that was submitted is repeated."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from plant.errors import PlantError

MEDIA = "application/problem+json"
TITLES: Mapping[int, str] = {
    400: "Not understood",
    401: "Who are you?",
    403: "Not allowed",
    404: "Not found",
    405: "Not done here",
    408: "Sent too slowly",
    409: "Not possible now",
    412: "Changed by someone else",
    413: "Too large",
    415: "Not JSON",
    421: "Another host",
    422: "Not as expected",
    428: "Version missing",
    429: "Too many requests",
    500: "A fault of ours",
    503: "Not in time",
    507: "Disk full",
}


class Problem(Exception):  # noqa: N818, the name that RFC 9457 gives it
    """A request that is refused; `more` are further fields of the answer."""

    def __init__(self, status: int, detail: str, *, more: Mapping[str, Any] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.more = status, detail, dict(more or {})


def problem_body(status: int, detail: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The fields of an answer that says what is wrong."""
    return {**(more or {}), "type": "about:blank", "title": TITLES.get(status, ""), "status": status, "detail": detail}


def problem_answer(status: int, detail: str, more: Mapping[str, Any] | None = None) -> JSONResponse:
    """The same as an answer; where it is worth trying again, it says when."""
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    return JSONResponse(problem_body(status, detail, more), status, headers=headers, media_type=MEDIA)


async def on_problem(request: Request, error: Exception) -> JSONResponse:
    """For `Problem`."""
    assert isinstance(error, Problem)
    return problem_answer(error.status, error.detail, error.more)


async def on_plant_error(request: Request, error: Exception) -> JSONResponse:
    """For what a user can mend: errors of ours never quote a note."""
    return problem_answer(422, str(error))


async def on_http_error(request: Request, error: Exception) -> JSONResponse:
    """For what the framework refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)
    return problem_answer(error.status_code, TITLES.get(error.status_code, "Not possible"))


async def on_invalid(request: Request, error: Exception) -> JSONResponse:
    """For bodies of another shape: where and what, without the values and without keys that we did not name."""
    assert isinstance(error, RequestValidationError)
    return problem_answer(422, "; ".join(map(_sentence, error.errors()[:5])))


def _sentence(error: Mapping[str, Any]) -> str:
    if error["type"] == "json_invalid":
        return "the body is no JSON"
    return f"{_place(error['loc'], error['type'])}: {error['msg']}"


def _place(location: Sequence[Any], kind: str) -> str:
    """Where in the request: a key that nobody expected is left out, it may be anything."""
    known = location[:-1] if kind == "extra_forbidden" else location
    return ".".join(map(str, known))


HANDLERS: Mapping[Any, Any] = {
    Problem: on_problem,
    PlantError: on_plant_error,
    HTTPException: on_http_error,
    RequestValidationError: on_invalid,
}
