"""All that a request may need, put together once."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request

from plant.serve.access import Access, is_allowed
from plant.serve.batching import Batcher
from plant.serve.catalogue import Catalogue
from plant.serve.limits import Limits
from plant.serve.metrics import Metrics, new_metrics
from plant.serve.problems import Problem
from plant.serve.reader import KNOWN_EXPLAINERS, PROBE, Explain, Reader, Wish
from plant.serve.schemas import CodeOut
from plant.serve.store import Store, Who


@dataclass
class Desk:
    """The coder, the store, the code book and who may ask; `closing` once the service has been told to stop."""

    reader: Reader
    store: Store
    catalogue: "Future[Catalogue]"
    access: Access = field(default_factory=Access)
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=new_metrics)
    hosts: frozenset[str] = frozenset()
    closing: bool = False
    batcher: Batcher | None = None

    async def codes(self) -> Catalogue:
        """The code book, once it is laid out."""
        return await asyncio.wrap_future(self.catalogue)

    async def read(self, wish: Wish | Explain, text: str) -> list[CodeOut]:
        """What the coder says of a text, in a batch with others that are asked for at the same time."""
        assert self.batcher is not None  # the service has started
        self._check_length(text)
        self._check_explainer(wish.explainer)
        return await self.batcher.ask(wish, text)

    def work(self, wish: Wish | Explain, texts: Sequence[str]) -> list[list[CodeOut]]:
        """What the coder says of texts that are read together, ready for the wire: all in the one thread of the coder.

        Threads beside it would only wait for each other: most of this is Python.
        """
        catalogue = self.catalogue.result()
        ranked = self.reader.work(wish, texts)
        return [self.reader.shown(text, found, catalogue) for text, found in zip(texts, ranked, strict=True)]

    def warm_up(self) -> None:
        """Code a short text: what the coder loads when it is first asked is there before anyone waits for it."""
        self.work(Wish(), [PROBE])

    def known(self, code: str) -> None:
        """Refuse a code that the coder does not know."""
        if code not in self.reader.labels:
            raise Problem(404, f"the coder does not know this code; it knows {len(self.reader.labels):,} others")

    def count_batch(self, size: int) -> None:
        """Tell how many notes are read together."""
        self.metrics.batch.observe(size)

    def _check_length(self, text: str) -> None:
        if len(text) > self.limits.text:
            raise Problem(413, f"a note has {len(text):,} characters; at most {self.limits.text:,} are read")
        if text.isspace():
            raise Problem(422, "a note is empty")

    def _check_explainer(self, name: str) -> None:
        """Refuse a name without repeating it: errors of other rooms would."""
        if name and name not in KNOWN_EXPLAINERS:
            raise Problem(422, f"unknown explainer; known: {', '.join(KNOWN_EXPLAINERS)}")


async def desk_of(request: Request) -> Desk:
    """The desk of the service that answers.

    `async`, as are all that every request needs: FastAPI calls plain functions in a thread.
    """
    return request.app.state.desk


async def who_of(request: Request) -> Who:
    """Who asks: the gate has looked at it."""
    return request.scope["state"]["who"]


async def check_allowed(request: Request) -> None:
    """Refuse who may not ask for the route that was found; a route without a line in the table is for nobody."""
    who, route = request.scope.get("state", {}).get("who"), getattr(request.scope.get("route"), "path", "")
    if not is_allowed(who, request.method, route):
        raise Problem(403, "your role does not allow this")


TheDesk = Annotated[Desk, Depends(desk_of)]
Asking = Annotated[Who, Depends(who_of)]
Json = dict[str, Any]
