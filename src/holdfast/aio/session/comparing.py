"""Comparing checkpoints, awaitable."""

from __future__ import annotations

from functools import partial

from holdfast.aio.session.identity import AsyncSessionIdentity
from holdfast.aio.thread import in_thread
from holdfast.objects.diffing.diff import Diff
from holdfast.store.place import Ref


class AsyncSessionComparing(AsyncSessionIdentity):
    """What changed between checkpoints."""

    async def diff(
        self, a: Ref = "@~1", b: Ref = "@", *, path: str | None = None, whole: bool = False
    ) -> Diff:
        """See `Session.diff`. With `whole`, nothing of the Diff reads later; without, `json_patch` may."""
        return await in_thread(partial(self._session.diff, a, b, path=path, whole=whole))

    async def label(self, ref: Ref = "@") -> str:
        """See `Session.label`."""
        return await in_thread(partial(self._session.label, ref))
