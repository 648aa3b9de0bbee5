"""The gate before all routes: hosts, origins, sizes, numbers, time, and who asks. What is not let in reaches no route.

Of a request nothing is logged but its method, route, status and time: paths of notes hold random ids, bodies hold text.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response

from plant.serve.access import COOKIE, OPEN
from plant.serve.desk import Desk
from plant.serve.problems import Problem, problem_answer
from plant.serve.trail import Who

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOG = logging.getLogger("plant.serve")
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS = frozenset({*SAFE, "POST", "PUT", "PATCH", "DELETE"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


@dataclass(frozen=True)
class Gate:
    """Lets requests through to `app`, or answers them itself."""

    app: App
    desk: Desk
    running: set[int]  # requests in flight

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, told = time.perf_counter(), _Told(send, private=scope["path"].startswith("/v1"))
        self.running.add(id(told))
        self.desk.metrics.in_flight.set(len(self.running))
        try:
            await self._answer(scope, receive, told)
        finally:
            self.running.discard(id(told))
            self.desk.metrics.in_flight.set(len(self.running))
            self._count(scope, told.status, time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, told: "_Told") -> None:
        try:
            self._check(scope)
            if _is_guarded(scope):
                scope.setdefault("state", {})["who"] = await self._who(scope)
            body = await _body(receive, limit=self.desk.limits.body, seconds=self.desk.limits.seconds)
            async with asyncio.timeout(self.desk.limits.seconds):
                await self.app(scope, _replayed(body, receive), told)
        except Problem as problem:
            await told.instead(problem_answer(problem.status, problem.detail, problem.more), scope, receive)
        except TimeoutError:
            detail = f"not answered within {self.desk.limits.seconds:g} seconds: try again, or send less"
            await told.instead(problem_answer(503, detail), scope, receive)
        except Exception as error:  # a fault of ours: its kind is logged, its words may hold text
            LOG.error("fault: %s", type(error).__name__)
            await told.instead(problem_answer(500, "the service failed; nothing was changed"), scope, receive)

    def _check(self, scope: Scope) -> None:
        headers, limits = Headers(scope=scope), self.desk.limits
        if self.desk.hosts and _host(headers.get("host", "")) not in self.desk.hosts:
            raise Problem(421, "this service does not answer under that name of a host")
        if scope["method"] not in SAFE:
            _check_origin(headers)
            _check_body(headers, limits.body)
        if _is_guarded(scope) and len(self.running) > limits.in_flight:
            raise Problem(429, f"{limits.in_flight} requests are being answered: try again in a moment")

    async def _who(self, scope: Scope) -> Who:
        headers, access = Headers(scope=scope), self.desk.access
        if access.anyone is not None:
            return access.anyone
        peer = (scope.get("client") or ("", 0))[0]
        session = cookie_of(headers.get("cookie", ""))
        who = await asyncio.to_thread(access.who, self.desk.store.keys, headers, session=session, peer=peer)
        if who is None:
            raise Problem(401, "this needs a key: send it as 'Authorization: Bearer ...'")
        return who

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "none")
        method = scope["method"] if scope["method"] in METHODS else "OTHER"  # a client may send any word as one
        self.desk.metrics.requests.labels(method, route, status).inc()
        self.desk.metrics.seconds.labels(route).observe(seconds)
        LOG.info("%s %s %d %.1f ms", method, route, status, 1000 * seconds)


class _Told:
    """The way back to who asked: knows whether an answer has begun, adds the headers that all answers have."""

    def __init__(self, send: Send, *, private: bool) -> None:
        self._send, self._private, self.status = send, private, 0

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            named = {name.lower() for name, _ in message.get("headers", ())}
            more = [*HEADERS, *([(b"cache-control", b"no-store")] if self._private else [])]
            message["headers"] = [*message.get("headers", ()), *(pair for pair in more if pair[0] not in named)]
        await self._send(message)

    async def instead(self, answer: Response, scope: Scope, receive: Receive) -> None:
        """An answer of the gate, unless the route has begun one."""
        if not self.status:
            await answer(scope, receive, self)


def _is_guarded(scope: Scope) -> bool:
    """Whether one has to be known to ask: for all of the API but what machines without a key look at."""
    return scope["path"].startswith("/v1") and scope["path"] not in OPEN


def cookie_of(header: str) -> str:
    """The session that a browser sends along."""
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _host(header: str) -> str:
    """The name of a host without its port."""
    name = header.rpartition(":")[0] if header.rpartition(":")[2].isdigit() else header
    return name.strip("[]").lower()


def _check_origin(headers: Headers) -> None:
    """Pages of other origins may not change anything, whatever cookies their visitors have."""
    elsewhere = headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
    origin = headers.get("origin")  # of browsers that do not say where a page is from
    if elsewhere or (origin is not None and _host(origin.partition("://")[2]) != _host(headers.get("host", ""))):
        raise Problem(403, "a page of another origin may not ask for this")


def _check_body(headers: Headers, limit: int) -> None:
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise Problem(413, f"the body has more than {limit:,} bytes")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and length != "0":
        raise Problem(415, "send JSON, with 'Content-Type: application/json'")


async def _body(receive: Receive, *, limit: int, seconds: float) -> bytes:
    """The whole body, of which there is never more in memory than the limit."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limit:
                    raise Problem(413, f"the body has more than {limit:,} bytes")
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError as error:
        raise Problem(408, f"the body did not come within {seconds:g} seconds") from error


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body once, then whatever else there is to hear of who asked."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def next_message() -> MutableMapping[str, Any]:
        found = next(messages, None)
        return found if found is not None else await receive()

    return next_message
