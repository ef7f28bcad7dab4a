"""AsyncStore: each operation of Store as one hop to a worker thread."""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import anyio.to_thread

from holdfast.aio.lease import AsyncHeldLease, Claiming
from holdfast.aio.rows import AsyncRows
from holdfast.aio.session import AsyncSession
from holdfast.aio.thread import in_thread
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.keep import Keep
from holdfast.objects.codec.registry import C, Upgrade
from holdfast.objects.diffing.diff import Diff
from holdfast.reports.listings import SessionInfo
from holdfast.reports.transfer import CopyReport, ImportReport
from holdfast.reports.upkeep import ForgetReport, GcReport, RepairReport, VerifyReport
from holdfast.storage.ports import Backend
from holdfast.storage.records import StoreStats
from holdfast.storage.tables import RowChange, Table
from holdfast.store.archives.limits import ArchiveLimits
from holdfast.store.composition import system_clock
from holdfast.store.figures import MetricsSnapshot
from holdfast.store.lease import OnLost
from holdfast.store.load_many import AsyncEachState
from holdfast.store.place import Ref
from holdfast.store.sql import SqlResult
from holdfast.store.store import Store
from holdfast.store.watch import LONGEST_WAIT, check_timeout


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

    @staticmethod
    def of(session: AsyncSession) -> AsyncStore:
        """See `Store.of`. Not awaited: nothing is read or written."""
        return AsyncStore._around(Store.of(session._session))

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
        branch: str | None = None,
        keep: Keep | None = None,
        lease: AsyncHeldLease | None = None,
        export_dir: str | Path | bool | None = None,
        export_format: str = "json.gz",
    ) -> AsyncSession:
        """See `Store.session`. Not awaited: nothing is read or written until the session is used."""
        held = lease._lease if isinstance(lease, AsyncHeldLease) else lease
        return AsyncSession(
            self._store.session(
                id,
                agent=agent,
                project=project,
                branch=branch,
                keep=keep,
                lease=held,
                export_dir=export_dir,
                export_format=export_format,
            )
        )

    def lease(self, name: str, *, seconds: float = 30.0, on_lost: OnLost | None = None) -> Claiming:
        """See `Store.lease`: `async with store.lease("heartbeat:x") as held`, or await it and `release` it yourself.

        `on_lost` is called in a thread of its own, with the HeldLease; tasks can await `wait_lost` instead.
        """
        return Claiming(partial(self._store.lease, name, seconds=seconds, on_lost=on_lost))

    async def write(self, rows: Iterable[RowChange], *, lease: AsyncHeldLease | None = None) -> None:
        """See `Store.write`."""
        held = lease._lease if isinstance(lease, AsyncHeldLease) else lease
        await in_thread(partial(self._store.write, rows, lease=held))

    def rows(self, table: Table) -> AsyncRows:
        """See `Store.rows`. Not awaited: nothing is read until one of its methods is."""
        return AsyncRows(self._store.rows(table))

    async def sessions(self, *, agent: str | None = None, project: str | None = None) -> list[SessionInfo]:
        """See `Store.sessions`."""
        return await in_thread(partial(self._store.sessions, agent=agent, project=project))

    async def current_branch(self, session: str = "default") -> str:
        """See `Store.current_branch`."""
        return await in_thread(partial(self._store.current_branch, session))

    def rehearsal(self) -> AsyncStore:
        """See `Store.rehearsal`. Not awaited: nothing is read until it is used."""
        return self._around(self._store.rehearsal())

    async def projects(self) -> list[str]:
        """See `Store.projects`."""
        return await in_thread(self._store.projects)

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
        return await in_thread(
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
        return AsyncEachState(self._store._state_pages(checkpoints), in_thread, anyio.Lock())

    async def diff(
        self, a: Checkpoint, b: Checkpoint, *, path: str | None = None, whole: bool = False
    ) -> Diff:
        """See `Store.diff`."""
        return await in_thread(partial(self._store.diff, a, b, path=path, whole=whole))

    def pack(self, value: Any) -> bytes:
        """See `Store.pack`. Not awaited: nothing is read or written."""
        return self._store.pack(value)

    def unpack(self, data: bytes) -> Any:
        """See `Store.unpack`. Not awaited: nothing is read or written."""
        return self._store.unpack(data)

    def json_form(self, state: Any) -> Any:
        """See `Store.json_form`. Not awaited: nothing is read or written."""
        return self._store.json_form(state)

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
        return await in_thread(
            partial(self._store.gc, keep_days=keep_days, dry_run=dry_run, progress=progress)
        )

    async def copy_session(self, source: str, target: str) -> int:
        """See `Store.copy_session`."""
        return await in_thread(partial(self._store.copy_session, source, target))

    async def forget(
        self, session: str, *refs: Ref, dry_run: bool = False, clean: bool = True
    ) -> ForgetReport:
        """See `Store.forget`."""
        return await in_thread(partial(self._store.forget, session, *refs, dry_run=dry_run, clean=clean))

    async def verify(
        self,
        *,
        quick: bool = False,
        session: str | None = None,
        progress: Callable[[str, int], None] | None = None,
    ) -> VerifyReport:
        """See `Store.verify`. `progress` is called in a worker thread."""
        return await in_thread(partial(self._store.verify, quick=quick, session=session, progress=progress))

    async def repair(
        self, *, dry_run: bool = False, progress: Callable[[str, int], None] | None = None
    ) -> RepairReport:
        """See `Store.repair`. `progress` is called in a worker thread."""
        return await in_thread(partial(self._store.repair, dry_run=dry_run, progress=progress))

    async def sql(
        self,
        query: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        seconds: float = 5.0,
        limit: int = 10_000,
    ) -> SqlResult:
        """See `Store.sql`."""
        return await in_thread(partial(self._store.sql, query, parameters, seconds=seconds, limit=limit))

    async def stats(self) -> StoreStats:
        """See `Store.stats`."""
        return await in_thread(self._store.stats)

    def metrics(self) -> MetricsSnapshot:
        """See `Store.metrics`. Not awaited: nothing is read or written."""
        return self._store.metrics()

    def collector(self) -> Any:
        """See `Store.collector`. Not awaited: nothing is read or written."""
        return self._store.collector()

    async def backup(self, path: str | Path) -> Path:
        """See `Store.backup`."""
        return await in_thread(partial(self._store.backup, path))

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
        return await in_thread(
            partial(self._store.copy_to, other, sessions=sessions, dry_run=dry_run, progress=progress)
        )

    async def import_(
        self,
        path: str | Path | BinaryIO,
        *,
        session: str | None = None,
        limits: ArchiveLimits | None = None,
        advance: bool = False,
        dry_run: bool = False,
        progress: Callable[[str, int], None] | None = None,
    ) -> ImportReport:
        """See `Store.import_`. `progress` is called in a worker thread."""
        return await in_thread(
            partial(
                self._store.import_,
                path,
                session=session,
                limits=limits,
                advance=advance,
                dry_run=dry_run,
                progress=progress,
            )
        )

    async def close(self) -> None:
        """See `Store.close`."""
        await in_thread(self._store.close)

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
    pages = await in_thread(partial(store._pages, after, session))
    last = anyio.current_time()
    while True:
        left = last + patience - anyio.current_time()
        # Short waits: a task that is cancelled ends with the one that is under way.
        page = await in_thread(partial(pages.next_page, max(0.0, min(left, LONGEST_WAIT))))
        for checkpoint in page:
            yield checkpoint
        if page:
            last = anyio.current_time()
        elif left <= 0:
            return
