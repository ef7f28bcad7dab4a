"""Finding a step in history, awaitable."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, Final, Literal, TypeVar

import anyio.from_thread

from holdfast.aio.session.identity import AsyncSessionIdentity
from holdfast.aio.thread import in_thread
from holdfast.history.checkpoint import Checkpoint
from holdfast.store.searching.reports import BisectReport, Blame, GrepMatch, PathChange
from holdfast.store.session import Ref

_T = TypeVar("_T")

_END: Final = object()


class AsyncSessionSearching(AsyncSessionIdentity):
    """What can be looked for in the history of the branch in use."""

    async def bisect(
        self,
        predicate: Callable[[Any], Any] | str,
        *,
        good: Ref | None = None,
        bad: Ref | None = None,
        path: str | None = None,
        check: Literal["ends", "sample", "all"] = "ends",
        progress: Callable[[Checkpoint, bool | None, int], None] | None = None,
    ) -> BisectReport:
        """See `Session.bisect`. A plain predicate and `progress` are called in a worker thread.

        A predicate that is `async def` runs in the event loop.
        """
        asked: Any = predicate
        if inspect.iscoroutinefunction(predicate):
            asked = partial(anyio.from_thread.run, predicate)
        return await in_thread(
            partial(
                self._session.bisect, asked, good=good, bad=bad, path=path, check=check, progress=progress
            )
        )

    async def blame(self, path: str, ref: Ref = "@", *, exact: bool = False) -> Blame:
        """See `Session.blame`."""
        return await in_thread(partial(self._session.blame, path, ref, exact=exact))

    def history_of(
        self,
        path: str,
        ref: Ref = "@",
        *,
        oldest_first: bool = False,
        exact: bool = True,
        limit: int | None = None,
    ) -> AsyncIterator[PathChange]:
        """See `Session.history_of`: `async for change in s.history_of("score")`."""
        return _each(
            partial(self._session.history_of, path, ref, oldest_first=oldest_first, exact=exact, limit=limit)
        )

    def grep(
        self,
        pattern: str,
        ref: Ref = "@",
        *,
        path: str | None = None,
        regex: bool = False,
        ignore_case: bool = False,
        new: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[GrepMatch]:
        """See `Session.grep`: `async for match in s.grep("rate limit")`."""
        return _each(
            partial(
                self._session.grep,
                pattern,
                ref,
                path=path,
                regex=regex,
                ignore_case=ignore_case,
                new=new,
                limit=limit,
            )
        )


async def _each(begin: Callable[[], Iterator[_T]]) -> AsyncIterator[_T]:
    found = await in_thread(begin)
    while True:
        item: Any = await in_thread(partial(next, found, _END))
        if item is _END:
            return
        yield item
