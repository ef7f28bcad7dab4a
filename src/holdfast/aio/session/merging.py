"""Bringing another line of work into the branch in use, awaitable."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from holdfast.aio.session.identity import AsyncSessionIdentity
from holdfast.objects.merging.resolving import Resolve
from holdfast.store.merging import MergeReport
from holdfast.store.session import Ref


class AsyncSessionMerging(AsyncSessionIdentity):
    """Merges."""

    async def merge(
        self,
        ref: Ref,
        *,
        resolve: Resolve = None,
        message: str = "",
        dry_run: bool = False,
        tags: Iterable[str] = (),
    ) -> MergeReport:
        """See `Session.merge`. A function that decides on conflicts is called in the thread that does the work."""
        merge = partial(
            self._session.merge, ref, resolve=resolve, message=message, dry_run=dry_run, tags=tags
        )
        return await self._written(merge)
