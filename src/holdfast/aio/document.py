"""AsyncDocument: what changed is taken by the call; only the writing is awaited."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Coroutine,
    Iterable,
    Mapping,
)
from functools import partial
from typing import Any, Final

import anyio.to_thread

from holdfast.aio.thread import in_thread
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.document.containers import TrackedDict, TrackedList
from holdfast.storage.tables import RowChange
from holdfast.store.document import DocumentKinds, TrackedDocument
from holdfast.store.draft import check_draft
from holdfast.store.place import UNSET, OnConflict, Ref, Unset


class AsyncDocument(TrackedDocument):
    """`Document`, with a `save` to await: the same dict or list, the same arguments and errors."""

    __slots__ = ()

    _turn: anyio.Lock

    def save(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        message: str = "",
        *,
        tags: Iterable[str] = (),
        step: int | None = None,
        status: str = "running",
        trigger: str = "manual",
        metadata: Mapping[str, Any] | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
        duration_ms: float | None = None,
        key: str | None = None,
        expect: Ref | Unset | None = UNSET,
        parent: Ref | None = None,
        on_conflict: OnConflict = "raise",
        rows: Iterable[RowChange] = (),
        check: bool = False,
    ) -> Coroutine[Any, Any, Checkpoint]:
        """See `Document.save`. The call itself takes what changed; what changes later belongs to the next save."""
        draft = check_draft(
            message,
            tags=tags,
            step=step,
            status=status,
            trigger=trigger,
            metadata=metadata,
            tokens=tokens,
            cost_usd=cost_usd,
            duration_ms=duration_ms,
            key=key,
            rows=rows,
        )
        encoding = self._encoded(check=check)
        return self._written(partial(self._write, encoding, draft, expect, parent, on_conflict))

    async def _written(self, write: Callable[[], Checkpoint]) -> Checkpoint:
        # Two saves at once are written in the order in which they were encoded: one builds on the other.
        async with self._turn:
            return await in_thread(write)


class _AsyncDictDocument(AsyncDocument, TrackedDict):
    __slots__ = ("_commit", "_tree", "_turn")


class _AsyncListDocument(AsyncDocument, TrackedList):
    __slots__ = ("_commit", "_tree", "_turn")


ASYNC_DOCUMENTS: Final[DocumentKinds] = {dict: _AsyncDictDocument, list: _AsyncListDocument}
