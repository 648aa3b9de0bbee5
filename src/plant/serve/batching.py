"""Requests that come at the same time are answered together.

There is no waiting for company: whatever is in line when the coder gets free is its next batch, so that a lone request
is answered at once and many share the work. What was accepted is answered, also while the service shuts down.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

Work = Callable[[Any, Sequence[Any]], Sequence[Any]]
"""Called as `work(kind, items)` in a thread of its own: one result for each item, all of one kind."""


@dataclass(frozen=True)
class Asked:
    """An item in line, and where its answer is waited for."""

    kind: Hashable
    item: Any
    answer: "asyncio.Future[Any]"


class Batcher:
    """One line before one worker."""

    def __init__(self, work: Work, *, most: int, seen: Callable[[int], None] = lambda size: None) -> None:
        self._work, self._most, self._seen = work, most, seen
        self._line: asyncio.Queue[Asked | None] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="coder")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to answer, in the running event loop."""
        self._task = asyncio.create_task(self._serve())

    async def ask(self, kind: Hashable, item: Any) -> Any:
        """The result for an item; given up where the caller is."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._line.put_nowait(Asked(kind, item, answer))
        return await answer

    async def close(self) -> None:
        """Answer all that is in line, then stop."""
        self._line.put_nowait(None)
        if self._task is not None:
            await self._task
        self._thread.shutdown()

    async def _serve(self) -> None:
        while (first := await self._line.get()) is not None:
            block, last = self._company(first)
            for kind, asked in _by_kind(block):
                await self._answer(kind, asked)
            if last:
                return

    def _company(self, first: Asked) -> tuple[list[Asked], bool]:
        """What is in line behind the first, and whether the line ends there."""
        block = [first]
        while len(block) < self._most and not self._line.empty():
            following = self._line.get_nowait()
            if following is None:
                return block, True
            block.append(following)
        return block, False

    async def _answer(self, kind: Hashable, asked: Sequence[Asked]) -> None:
        waiting = [one for one in asked if not one.answer.done()]
        if not waiting:
            return
        self._seen(len(waiting))
        try:
            results = await self._in_thread(kind, [one.item for one in waiting])
        except Exception as error:
            await self._refuse(kind, waiting, error)
            return
        for one, result in zip(waiting, results, strict=True):
            if not one.answer.done():
                one.answer.set_result(result)

    async def _refuse(self, kind: Hashable, asked: Sequence[Asked], error: Exception) -> None:
        """An item that cannot be answered must not take its company with it: each is tried alone."""
        if len(asked) == 1:
            if not asked[0].answer.done():
                asked[0].answer.set_exception(error)
            return
        for one in asked:
            await self._answer(kind, [one])

    async def _in_thread(self, kind: Hashable, items: Sequence[Any]) -> Sequence[Any]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, kind, items)


def _by_kind(block: Sequence[Asked]) -> Iterator[tuple[Hashable, list[Asked]]]:
    """Items of one kind together; the order within a kind stays."""
    ordered = sorted(block, key=lambda asked: repr(asked.kind))
    return ((kind, list(asked)) for kind, asked in groupby(ordered, key=lambda asked: asked.kind))
