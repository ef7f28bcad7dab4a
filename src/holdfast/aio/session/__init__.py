"""AsyncSession: a state becomes bytes on the caller's thread, and is written by another."""

from __future__ import annotations

from collections.abc import (
    Coroutine,
    Iterable,
    Mapping,
)
from datetime import datetime
from functools import partial
from typing import Any

from holdfast.aio.document import ASYNC_DOCUMENTS, AsyncDocument
from holdfast.aio.session.archiving import AsyncSessionArchiving
from holdfast.aio.session.comparing import AsyncSessionComparing
from holdfast.aio.session.merging import AsyncSessionMerging
from holdfast.aio.session.searching import AsyncSessionSearching
from holdfast.aio.thread import in_thread
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.keep import Keep
from holdfast.history.tree import Tree
from holdfast.objects.tree.state import EncodedState
from holdfast.reports.changes import Undone
from holdfast.reports.listings import BranchInfo, OperationInfo
from holdfast.reports.search import Around
from holdfast.reports.upkeep import PruneReport, Recovered
from holdfast.storage.tables import RowChange
from holdfast.store.draft import check_draft
from holdfast.store.place import UNSET, OnConflict, Ref, Unset


class AsyncSession(AsyncSessionComparing, AsyncSessionMerging, AsyncSessionArchiving, AsyncSessionSearching):
    """`Session`, awaitable: the same methods, arguments and errors."""

    def save(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        state: Any,
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
        created_at: datetime | None = None,
        expect: Ref | Unset | None = UNSET,
        parent: Ref | None = None,
        on_conflict: OnConflict = "raise",
        rows: Iterable[RowChange] = (),
    ) -> Coroutine[Any, Any, Checkpoint]:
        """See `Session.save`. The state is encoded by the call itself; what is awaited is the writing."""
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
            created_at=created_at,
            rows=rows,
        )
        encoded = state if isinstance(state, EncodedState) else self._session._writer.encode(state)
        return self._written(partial(self._session._writer.save, encoded, draft, expect, parent, on_conflict))

    async def write(self, rows: Iterable[RowChange]) -> None:
        """See `Session.write`."""
        await self._written(partial(self._session.write, rows))

    def encode(self, state: Any) -> EncodedState:
        """See `Session.encode`; it touches no disk."""
        return self._session.encode(state)

    @property
    def seen(self) -> str | None:
        """See `Session.seen`."""
        return self._session.seen

    async def load(
        self,
        ref: Ref = "@",
        *,
        path: str | None = None,
        as_: type[Any] | None = None,
        default: Any = UNSET,
        recover: bool = False,
    ) -> Any:
        """See `Session.load`."""
        load = partial(self._session.load, ref, path=path, as_=as_, default=default, recover=recover)
        return await in_thread(load)

    async def recover(self, ref: Ref = "@") -> Recovered:
        """See `Session.recover`."""
        return await in_thread(partial(self._session.recover, ref))

    async def document(self, ref: Ref = "@", *, default: Any = UNSET) -> AsyncDocument:
        """See `Session.document`."""
        document: Any = await in_thread(
            partial(self._session._writer.document, ref, default, ASYNC_DOCUMENTS)
        )
        # One lock: they share one writer.
        document._turn = self._turn
        made: AsyncDocument = document
        return made

    async def checkpoint(self, ref: Ref = "@") -> Checkpoint:
        """See `Session.checkpoint`."""
        return await in_thread(partial(self._session.checkpoint, ref))

    async def log(self, ref: Ref = "@", *, limit: int | None = None) -> list[Checkpoint]:
        """See `Session.log`."""
        return await in_thread(partial(self._session.log, ref, limit=limit))

    async def keyed(
        self, start: str = "", stop: str | None = None, *, reverse: bool = False, limit: int | None = None
    ) -> list[Checkpoint]:
        """See `Session.keyed`."""
        return await in_thread(partial(self._session.keyed, start, stop, reverse=reverse, limit=limit))

    async def tree(self, *, limit: int | None = None) -> Tree:
        """See `Session.tree`."""
        return await in_thread(partial(self._session.tree, limit=limit))

    async def at(
        self, when: datetime | str, *, tag: str | None = None, all_branches: bool = False
    ) -> Checkpoint:
        """See `Session.at`."""
        return await in_thread(partial(self._session.at, when, tag=tag, all_branches=all_branches))

    async def around(
        self, when: datetime | str, *, tag: str | None = None, all_branches: bool = False
    ) -> Around:
        """See `Session.around`."""
        return await in_thread(partial(self._session.around, when, tag=tag, all_branches=all_branches))

    async def exists(self, ref: Ref) -> bool:
        """See `Session.exists`."""
        return await in_thread(partial(self._session.exists, ref))

    async def annotate(
        self, ref: Ref, *, message: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Checkpoint:
        """See `Session.annotate`."""
        return await in_thread(partial(self._session.annotate, ref, message=message, metadata=metadata))

    async def tag(self, ref: Ref, *tags: str) -> Checkpoint:
        """See `Session.tag`."""
        return await in_thread(partial(self._session.tag, ref, *tags))

    async def untag(self, ref: Ref, *tags: str) -> Checkpoint:
        """See `Session.untag`."""
        return await in_thread(partial(self._session.untag, ref, *tags))

    async def pin(self, ref: Ref) -> Checkpoint:
        """See `Session.pin`."""
        return await in_thread(partial(self._session.pin, ref))

    async def unpin(self, ref: Ref) -> Checkpoint:
        """See `Session.unpin`."""
        return await in_thread(partial(self._session.unpin, ref))

    async def delete(self, ref: Ref, *, force: bool = False) -> Checkpoint:
        """See `Session.delete`."""
        return await self._written(partial(self._session.delete, ref, force=force))

    async def prune(
        self, keep: Keep | None = None, *, only: bool = False, dry_run: bool = False
    ) -> PruneReport:
        """See `Session.prune`."""
        return await in_thread(partial(self._session.prune, keep, only=only, dry_run=dry_run))

    async def clear(self, *, force: bool = False) -> int:
        """See `Session.clear`."""
        return await self._written(partial(self._session.clear, force=force))

    async def fork(
        self, ref: Ref = "@", name: str | None = None, *, session: str | None = None
    ) -> AsyncSession:
        """See `Session.fork`."""
        return AsyncSession(await in_thread(partial(self._session.fork, ref, name, session=session)))

    async def restore(self, ref: Ref) -> Checkpoint:
        """See `Session.restore`."""
        return await self._written(partial(self._session.restore, ref))

    async def branches(self) -> list[BranchInfo]:
        """See `Session.branches`."""
        return await in_thread(self._session.branches)

    async def switch(self, name: str, *, remember: bool = True) -> Checkpoint:
        """See `Session.switch`."""
        return await self._written(partial(self._session.switch, name, remember=remember))

    async def rename_branch(self, old: str, new: str) -> BranchInfo:
        """See `Session.rename_branch`."""
        return await self._written(partial(self._session.rename_branch, old, new))

    async def delete_branch(self, name: str, *, force: bool = False) -> Checkpoint:
        """See `Session.delete_branch`."""
        return await self._written(partial(self._session.delete_branch, name, force=force))

    async def undo(self) -> Undone:
        """See `Session.undo`."""
        return await self._written(self._session.undo)

    async def redo(self) -> Undone:
        """See `Session.redo`."""
        return await self._written(self._session.redo)

    async def operations(self, *, limit: int | None = 20) -> list[OperationInfo]:
        """See `Session.operations`."""
        return await in_thread(partial(self._session.operations, limit=limit))
