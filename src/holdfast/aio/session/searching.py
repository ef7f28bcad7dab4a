"""Finding a step in history, awaitable."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final, Generic, Literal, TypeVar

import anyio.from_thread

from holdfast.aio.session.identity import AsyncSessionIdentity
from holdfast.aio.thread import in_thread
from holdfast.history.checkpoint import Checkpoint
from holdfast.reports.search import BisectReport, Blame, GrepMatch, PathChange
from holdfast.store.place import Ref
from holdfast.store.search.line import Findings

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
        check: Literal["ends", "all"] = "ends",
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

    async def blame(self, path: str, ref: Ref = "@") -> Blame:
        """See `Session.blame`."""
        return await in_thread(partial(self._session.blame, path, ref))

    def history_of(
        self,
        path: str,
        ref: Ref = "@",
        *,
        oldest_first: bool = False,
        limit: int | None = None,
    ) -> AsyncFindings[PathChange]:
        """See `Session.history_of`: `async for change in s.history_of("score")`."""
        return AsyncFindings(
            partial(self._session.history_of, path, ref, oldest_first=oldest_first, limit=limit)
        )

    def grep(
        self,
        pattern: str,
        ref: Ref | None = None,
        *,
        path: str | None = None,
        regex: bool = False,
        ignore_case: bool = False,
        limit: int | None = None,
    ) -> AsyncFindings[GrepMatch]:
        """See `Session.grep`: `async for match in s.grep("rate limit")`."""
        return AsyncFindings(
            partial(
                self._session.grep,
                pattern,
                ref,
                path=path,
                regex=regex,
                ignore_case=ignore_case,
                limit=limit,
            )
        )


class AsyncFindings(AsyncIterator[_T], Generic[_T]):
    """What a search finds, as it is found. When it is done, `notes` says which states could not be read."""

    def __init__(self, begin: Callable[[], Findings[_T]]) -> None:
        self._begin = begin
        self._found: Findings[_T] | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known about what was found so far; see `Findings.notes`."""
        return () if self._found is None else self._found.notes

    async def __anext__(self) -> _T:
        """The next one."""
        if self._found is None:
            self._found = await in_thread(self._begin)
        item: Any = await in_thread(partial(next, self._found, _END))
        if item is _END:
            raise StopAsyncIteration
        found: _T = item
        return found

    async def aclose(self) -> None:
        """End the search. Nothing is held open between two findings, so that this is never needed."""
