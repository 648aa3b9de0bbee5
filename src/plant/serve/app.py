"""The service put together: routes behind a gate, the coder behind a line."""

from collections.abc import AsyncIterator, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from threading import Thread

from fastapi import Depends, FastAPI

import plant
from plant.codes.codebook import CodeBook
from plant.serve.access import Access
from plant.serve.batching import Batcher
from plant.serve.catalogue import Catalogue, catalogue_for
from plant.serve.desk import Desk, check_allowed
from plant.serve.files import page_router
from plant.serve.gate import Gate
from plant.serve.limits import Limits
from plant.serve.problems import HANDLERS
from plant.serve.reader import Reader
from plant.serve.routes import coding, notes, service
from plant.serve.store import Store


def new_desk(
    reader: Reader,
    store: Store,
    *,
    access: Access | None = None,
    limits: Limits | None = None,
    hosts: frozenset[str] = frozenset(),
) -> Desk:
    """All that a service needs; the code book is laid out beside, for as long as nobody searches it."""
    fitted = reader.coder.fitted
    return Desk(
        reader=reader,
        store=store,
        catalogue=_beside(fitted.codebook, fitted.codes),
        access=access or Access(),
        limits=limits or Limits(),
        hosts=hosts,
    )


def new_app(desk: Desk) -> FastAPI:
    """The service over a desk; the OpenAPI description is at `/v1/openapi.json`."""
    app = FastAPI(
        title="plant desk",
        version=plant.__version__,
        description="Codes clinical notes, shows the words that speak for each code, and keeps what people decide.",
        docs_url=None,  # the usual pages of documentation load scripts from other hosts
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        lifespan=_lifespan,
        exception_handlers=dict(HANDLERS),
        dependencies=[Depends(check_allowed)],
    )
    app.state.desk = desk
    for router in (service.router, coding.router, notes.router, page_router()):
        app.include_router(router)
    app.add_middleware(Gate, desk=desk, running=set())
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the coder's line; at the end answer all that is in it, then close the store."""
    desk: Desk = app.state.desk
    desk.batcher = Batcher(desk.work, most=desk.limits.batch, seen=desk.count_batch)
    desk.batcher.start()
    yield
    desk.closing = True
    await desk.batcher.close()
    desk.store.close()


def _beside(book: CodeBook, known: Iterable[str]) -> "Future[Catalogue]":
    """The code book, laid out in a thread."""
    future: Future[Catalogue] = Future()

    def lay_out() -> None:
        try:
            future.set_result(catalogue_for(book, tuple(known)))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=lay_out, name="code book", daemon=True).start()
    return future
