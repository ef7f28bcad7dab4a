"""Bringing another line of work into the branch in use, awaitable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from inspect import isawaitable
from typing import Any, Literal

import anyio.from_thread

from holdfast.aio.session.identity import AsyncSessionIdentity
from holdfast.objects.merging.conflict import MergeConflict
from holdfast.reports.changes import MergeReport
from holdfast.store.place import Ref

AsyncChoice = Literal["ours", "theirs"] | Callable[[MergeConflict], Any] | None
"""As for `Session.merge`; a function may be `async def`, or return something to await."""
AsyncResolve = AsyncChoice | Mapping[str, AsyncChoice]


class AsyncSessionMerging(AsyncSessionIdentity):
    """Merges."""

    async def merge(
        self,
        ref: Ref,
        *,
        resolve: AsyncResolve = None,
        message: str = "",
        dry_run: bool = False,
        tags: Iterable[str] = (),
    ) -> MergeReport:
        """See `Session.merge`. A plain function that decides on conflicts is called in a worker thread.

        One that is `async def`, or returns something to await, is awaited in the event loop, one conflict after the
        other. It may use the store, but this session writes nothing else until it has merged: do not await that.
        """
        decide: Any = resolve
        if isinstance(resolve, Mapping):
            decide = {path: _awaiting(choice) for path, choice in resolve.items()}
        elif callable(resolve):
            decide = _awaiting(resolve)
        merge = partial(self._session.merge, ref, resolve=decide, message=message, dry_run=dry_run, tags=tags)
        return await self._written(merge)


def _awaiting(choice: AsyncChoice) -> AsyncChoice:
    if not callable(choice):
        return choice

    def ask(conflict: MergeConflict) -> Any:
        given = choice(conflict)
        return anyio.from_thread.run(_result, given) if isawaitable(given) else given

    return ask


async def _result(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
