"""AsyncStore and AsyncSession: the same names, awaitable, one worker-thread hop per operation.

The core is synchronous; an "async" SQLite would hop to a thread for every statement anyway, at many times the cost.
What matters for an event loop is done here: a state becomes bytes on the caller's thread before the first await, so
that one checkpoint is one moment whatever other tasks do to the state afterwards, and only bytes cross to the worker.

An operation that was started is finished even if the task that awaits it is cancelled: a save is never half known.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

import anyio.to_thread

from holdfast.history.checkpoint import Checkpoint
from holdfast.history.keep import Keep
from holdfast.history.lineage import Tree
from holdfast.objects.registry import C, Upgrade
from holdfast.objects.state import EncodedState
from holdfast.objects.tracked_dict import TrackedDict
from holdfast.objects.tracked_list import TrackedList
from holdfast.storage.ports import Backend
from holdfast.storage.records import StoreStats
from holdfast.store.branching import BranchInfo
from holdfast.store.collecting import GcReport
from holdfast.store.composition import system_clock
from holdfast.store.copying import CopyReport
from holdfast.store.document import DocumentKinds, TrackedDocument
from holdfast.store.draft import check_draft
from holdfast.store.forgetting import ForgetReport
from holdfast.store.loading import AsyncEachState
from holdfast.store.locate import open_store
from holdfast.store.looking import Around
from holdfast.store.pruning import PruneReport
from holdfast.store.recovering import Recovered
from holdfast.store.repairing import RepairReport
from holdfast.store.saving import UNSET, OnConflict, Unset
from holdfast.store.session import Ref, Session
from holdfast.store.store import SessionInfo, Store
from holdfast.store.undoing import OperationInfo, Undone
from holdfast.store.verifying import VerifyReport
from holdfast.store.watching import LONGEST_WAIT, check_timeout

_T = TypeVar("_T")


async def _run(operation: Callable[[], _T]) -> _T:
    return await anyio.to_thread.run_sync(operation)


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
        )
        encoding = self._encoded(check=check)
        return self._written(partial(self._write, encoding, draft, expect, parent, on_conflict))

    async def _written(self, write: Callable[[], Checkpoint]) -> Checkpoint:
        # Two saves at once are written in the order in which they were encoded: one builds on the other.
        async with self._turn:
            return await _run(write)


class _AsyncDictDocument(AsyncDocument, TrackedDict):
    __slots__ = ("_commit", "_tree", "_turn")


class _AsyncListDocument(AsyncDocument, TrackedList):
    __slots__ = ("_commit", "_tree", "_turn")


_ASYNC_DOCUMENTS: Final[DocumentKinds] = {dict: _AsyncDictDocument, list: _AsyncListDocument}


class AsyncSession:
    """`Session`, awaitable: the same methods, arguments and errors."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # Saves that are under way at once are written in the order in which they were called.
        self._turn = anyio.Lock()

    @property
    def id(self) -> str:
        """See `Session.id`."""
        return self._session.id

    @property
    def agent(self) -> str | None:
        """See `Session.agent`."""
        return self._session.agent

    @property
    def project(self) -> str | None:
        """See `Session.project`."""
        return self._session.project

    @property
    def branch(self) -> str:
        """See `Session.branch`."""
        return self._session.branch

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
        expect: Ref | Unset | None = UNSET,
        parent: Ref | None = None,
        on_conflict: OnConflict = "raise",
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
        )
        encoded = state if isinstance(state, EncodedState) else self._session._writer.encode(state)
        return self._written(partial(self._session._writer.save, encoded, draft, expect, parent, on_conflict))

    async def _written(self, write: Callable[[], _T]) -> _T:
        async with self._turn:
            return await _run(write)

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
        return await _run(load)

    async def recover(self, ref: Ref = "@") -> Recovered:
        """See `Session.recover`."""
        return await _run(partial(self._session.recover, ref))

    async def document(self, ref: Ref = "@", *, default: Any = UNSET) -> AsyncDocument:
        """See `Session.document`."""
        document: Any = await _run(partial(self._session._writer.document, ref, default, _ASYNC_DOCUMENTS))
        document._turn = anyio.Lock()
        made: AsyncDocument = document
        return made

    async def checkpoint(self, ref: Ref = "@") -> Checkpoint:
        """See `Session.checkpoint`."""
        return await _run(partial(self._session.checkpoint, ref))

    async def log(self, ref: Ref = "@", *, limit: int | None = None) -> list[Checkpoint]:
        """See `Session.log`."""
        return await _run(partial(self._session.log, ref, limit=limit))

    async def keyed(
        self, start: str = "", stop: str | None = None, *, reverse: bool = False, limit: int | None = None
    ) -> list[Checkpoint]:
        """See `Session.keyed`."""
        return await _run(partial(self._session.keyed, start, stop, reverse=reverse, limit=limit))

    async def tree(self, *, limit: int | None = None) -> Tree:
        """See `Session.tree`."""
        return await _run(partial(self._session.tree, limit=limit))

    async def at(
        self, when: datetime | str, *, tag: str | None = None, all_branches: bool = False
    ) -> Checkpoint:
        """See `Session.at`."""
        return await _run(partial(self._session.at, when, tag=tag, all_branches=all_branches))

    async def around(
        self, when: datetime | str, *, tag: str | None = None, all_branches: bool = False
    ) -> Around:
        """See `Session.around`."""
        return await _run(partial(self._session.around, when, tag=tag, all_branches=all_branches))

    async def exists(self, ref: Ref) -> bool:
        """See `Session.exists`."""
        return await _run(partial(self._session.exists, ref))

    async def annotate(
        self, ref: Ref, *, message: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Checkpoint:
        """See `Session.annotate`."""
        return await _run(partial(self._session.annotate, ref, message=message, metadata=metadata))

    async def tag(self, ref: Ref, *tags: str) -> Checkpoint:
        """See `Session.tag`."""
        return await _run(partial(self._session.tag, ref, *tags))

    async def untag(self, ref: Ref, *tags: str) -> Checkpoint:
        """See `Session.untag`."""
        return await _run(partial(self._session.untag, ref, *tags))

    async def pin(self, ref: Ref) -> Checkpoint:
        """See `Session.pin`."""
        return await _run(partial(self._session.pin, ref))

    async def unpin(self, ref: Ref) -> Checkpoint:
        """See `Session.unpin`."""
        return await _run(partial(self._session.unpin, ref))

    async def delete(self, ref: Ref, *, force: bool = False) -> Checkpoint:
        """See `Session.delete`."""
        return await self._written(partial(self._session.delete, ref, force=force))

    async def prune(self, keep: Keep, *, dry_run: bool = False) -> PruneReport:
        """See `Session.prune`."""
        return await _run(partial(self._session.prune, keep, dry_run=dry_run))

    async def clear(self, *, force: bool = False) -> int:
        """See `Session.clear`."""
        return await self._written(partial(self._session.clear, force=force))

    async def fork(
        self, ref: Ref = "@", name: str | None = None, *, session: str | None = None
    ) -> AsyncSession:
        """See `Session.fork`."""
        return AsyncSession(await _run(partial(self._session.fork, ref, name, session=session)))

    async def restore(self, ref: Ref) -> Checkpoint:
        """See `Session.restore`."""
        return await self._written(partial(self._session.restore, ref))

    async def branches(self) -> list[BranchInfo]:
        """See `Session.branches`."""
        return await _run(self._session.branches)

    async def switch(self, name: str, *, remember: bool = False) -> Checkpoint:
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
        return await _run(partial(self._session.operations, limit=limit))

    def __repr__(self) -> str:
        return f"<Async{repr(self._session)[1:]}"


class AsyncStore:
    """`Store`, awaitable: the same methods, arguments and errors."""

    def __init__(
        self,
        backend: Backend,
        *,
        types: Iterable[type] = (),
        app_version: str | None = None,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        self._store = Store(backend, types=types, app_version=app_version, clock=clock)

    @classmethod
    def _around(cls, store: Store) -> Self:
        self = cls.__new__(cls)
        self._store = store
        return self

    @property
    def url(self) -> str:
        """See `Store.url`."""
        return self._store.url

    def register(
        self,
        cls: C,
        *,
        name: str | None = None,
        version: int = 1,
        upgrade: Upgrade | None = None,
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
    ) -> C:
        """See `Store.register`. Not awaited: nothing is read or written."""
        return self._store.register(
            cls, name=name, version=version, upgrade=upgrade, encode=encode, decode=decode
        )

    def on_unknown(self, take: Callable[[type], bool] | None) -> None:
        """See `Store.on_unknown`. It is called where a state is encoded: by `save`, before the first await."""
        self._store.on_unknown(take)

    def session(
        self,
        id: str = "default",  # noqa: A002 - the glossary's word
        *,
        agent: str | None = None,
        project: str | None = None,
        branch: str = "main",
        keep: Keep | None = None,
    ) -> AsyncSession:
        """See `Store.session`. Not awaited: nothing is read or written until the session is used."""
        return AsyncSession(self._store.session(id, agent=agent, project=project, branch=branch, keep=keep))

    async def sessions(self, *, agent: str | None = None, project: str | None = None) -> list[SessionInfo]:
        """See `Store.sessions`."""
        return await _run(partial(self._store.sessions, agent=agent, project=project))

    async def current_branch(self, session: str = "default") -> str:
        """See `Store.current_branch`."""
        return await _run(partial(self._store.current_branch, session))

    def rehearsal(self) -> AsyncStore:
        """See `Store.rehearsal`. Not awaited: nothing is read until it is used."""
        return self._around(self._store.rehearsal())

    async def projects(self) -> list[str]:
        """See `Store.projects`."""
        return await _run(self._store.projects)

    async def find(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        *,
        session: str | None = None,
        branch: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        tag: str | None = None,
        status: str | None = None,
        trigger: str | None = None,
        step: int | None = None,
        key: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        metadata: Mapping[str, Any] | None = None,
        before: Checkpoint | None = None,
        limit: int | None = None,
    ) -> list[Checkpoint]:
        """See `Store.find`."""
        return await _run(
            partial(
                self._store.find,
                session=session,
                branch=branch,
                agent=agent,
                project=project,
                tag=tag,
                status=status,
                trigger=trigger,
                step=step,
                key=key,
                since=since,
                until=until,
                metadata=metadata,
                before=before,
                limit=limit,
            )
        )

    def load_each(self, checkpoints: Iterable[Checkpoint]) -> AsyncIterator[Any]:
        """See `Store.load_each`: `async for state in store.load_each(found)`."""
        return AsyncEachState(self._store._state_pages(checkpoints), _run)

    def watch(
        self, *, after: Checkpoint | None = None, session: str | None = None, timeout: float | None = None
    ) -> AsyncIterator[Checkpoint]:
        """See `Store.watch`: `async for checkpoint in store.watch()`."""
        return _watch(self._store, after, session, check_timeout(timeout))

    async def gc(
        self,
        *,
        keep_days: float = 14,
        dry_run: bool = False,
        progress: Callable[[str, int], None] | None = None,
    ) -> GcReport:
        """See `Store.gc`. `progress` is called in a worker thread."""
        return await _run(partial(self._store.gc, keep_days=keep_days, dry_run=dry_run, progress=progress))

    async def copy_session(self, source: str, target: str) -> int:
        """See `Store.copy_session`."""
        return await _run(partial(self._store.copy_session, source, target))

    async def forget(
        self, session: str, *refs: Ref, dry_run: bool = False, clean: bool = True
    ) -> ForgetReport:
        """See `Store.forget`."""
        return await _run(partial(self._store.forget, session, *refs, dry_run=dry_run, clean=clean))

    async def verify(
        self,
        *,
        quick: bool = False,
        session: str | None = None,
        progress: Callable[[str, int], None] | None = None,
    ) -> VerifyReport:
        """See `Store.verify`. `progress` is called in a worker thread."""
        return await _run(partial(self._store.verify, quick=quick, session=session, progress=progress))

    async def repair(
        self, *, dry_run: bool = False, progress: Callable[[str, int], None] | None = None
    ) -> RepairReport:
        """See `Store.repair`. `progress` is called in a worker thread."""
        return await _run(partial(self._store.repair, dry_run=dry_run, progress=progress))

    async def stats(self) -> StoreStats:
        """See `Store.stats`."""
        return await _run(self._store.stats)

    async def backup(self, path: str | Path) -> Path:
        """See `Store.backup`."""
        return await _run(partial(self._store.backup, path))

    async def copy_to(
        self,
        target: str | Path | Store | AsyncStore,
        *,
        sessions: Sequence[str] | None = None,
        dry_run: bool = False,
        progress: Callable[[str, int], None] | None = None,
    ) -> CopyReport:
        """See `Store.copy_to`. `progress` is called in a worker thread."""
        other = target._store if isinstance(target, AsyncStore) else target
        return await _run(
            partial(self._store.copy_to, other, sessions=sessions, dry_run=dry_run, progress=progress)
        )

    async def close(self) -> None:
        """See `Store.close`."""
        await _run(self._store.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A cancelled task still gives its connections back.
        with anyio.CancelScope(shield=True):
            await self.close()

    def __repr__(self) -> str:
        return f"<Async{repr(self._store)[1:]}"


async def _watch(
    store: Store, after: Checkpoint | None, session: str | None, patience: float
) -> AsyncIterator[Checkpoint]:
    pages = await _run(partial(store._pages, after, session))
    last = anyio.current_time()
    while True:
        left = last + patience - anyio.current_time()
        # Short waits: a task that is cancelled ends with the one that is under way.
        page = await _run(partial(pages.next_page, max(0.0, min(left, LONGEST_WAIT))))
        for checkpoint in page:
            yield checkpoint
        if page:
            last = anyio.current_time()
        elif left <= 0:
            return


class Opening(Awaitable[AsyncStore]):
    """What `aopen` returns: await it for the store, or use it in `async with`, which also closes it."""

    def __init__(self, opening: Callable[[], Store]) -> None:
        self._opening = opening
        self._store: AsyncStore | None = None

    async def _open(self) -> AsyncStore:
        self._store = AsyncStore._around(await _run(self._opening))
        return self._store

    def __await__(self) -> Generator[Any, Any, AsyncStore]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncStore:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.__aexit__(kind, error, trace)


def aopen(
    target: str | Path | None = None,
    *,
    types: Iterable[type] = (),
    durability: Literal["power", "process"] = "power",
    create: bool = True,
    timeout: float = 10.0,
    app_version: str | None = None,
    damaged: bool = False,
) -> Opening:
    """Open a store for asynchronous use: `async with holdfast.aopen() as store`. See `holdfast.open`."""
    return Opening(
        partial(
            open_store,
            target,
            types=types,
            durability=durability,
            create=create,
            timeout=timeout,
            app_version=app_version,
            damaged=damaged,
        )
    )
