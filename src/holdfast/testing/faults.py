"""A backend that fails where a plan says so, around any other backend.

    lost_reply = Fault("commit", nth=2, after=failing(io_failed()))
    store = holdfast.Store(FaultyBackend(MemoryBackend(), [lost_reply]))

A fault names a call and hooks into it: `before` runs first and may raise, so that the call never happens; `after` gets
the answer and may raise, so that the call happened but its answer is lost, or return another answer, so that the caller
reads something false. Hooks may also do what another process would do at that very moment.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

from holdfast.errors import BackendError, ErrorCode
from holdfast.storage.copy_rows import Adopted, Adoption
from holdfast.storage.inspection import Rebuilt
from holdfast.storage.leases import Fence, Holder, Lease
from holdfast.storage.ports import Backend, Collection, Inspection, Reader
from holdfast.storage.records import (
    Batch,
    BranchRow,
    CheckpointId,
    CheckpointRow,
    ChunkHash,
    Operation,
    Query,
    Receipt,
    SessionRow,
    StoreStats,
    Swept,
)
from holdfast.storage.tables import Row, RowChange, RowQuery, Table

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong at one call, or at every call, of one name.

    Attributes:
        call: The name of a method of `Backend`, `Reader` or `Collection`: commit, reader, chunks, sweep ...
        nth: Which call of that name, counted from 1; None for every one.
        before: Runs before the call.
        after: Runs after it, and returns the answer that the caller gets.
    """

    call: str
    nth: int | None = 1
    before: Callable[[], None] | None = None
    after: Callable[[Any], Any] | None = None


def failing(error: BaseException) -> Callable[..., NoReturn]:
    """A hook that raises."""

    def raise_it(*_: object) -> NoReturn:
        raise error

    return raise_it


def io_failed() -> BackendError:
    """The error of a write or a read that the device did not carry out."""
    return BackendError(
        "the device failed, as planned", code=ErrorCode.IO_FAILED, hint="look at the plan of faults"
    )


def disk_full() -> BackendError:
    """The error of a write for which there was no room."""
    return BackendError(
        "the disk is full, as planned", code=ErrorCode.DISK_FULL, hint="look at the plan of faults"
    )


class _Plan:
    """The faults, and how often each call has been made; shared by a backend and all its readers."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        self.calls: Counter[str] = Counter()
        self._lock = threading.Lock()

    def run(self, name: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            self.calls[name] += 1
            due = [each for each in self.faults if each.call == name and each.nth in (None, self.calls[name])]
        for each in due:
            if each.before is not None:
                each.before()
        answer = call(*args, **kwargs)
        for each in due:
            if each.after is not None:
                answer = each.after(answer)
        return answer


class FaultyBackend:
    """Another backend, with the faults of a plan.

    Attributes:
        calls: How often each method has been called, by name.
    """

    def __init__(self, inner: Backend, faults: Iterable[Fault] = ()) -> None:
        self._inner = inner
        self._plan = _Plan(faults)
        self.calls = self._plan.calls

    @property
    def url(self) -> str:
        """Where the other backend is."""
        return self._inner.url

    def plan(self, *faults: Fault) -> None:
        """Take these faults from now on, and count calls from 1 again."""
        self._plan.faults[:] = faults
        self.calls.clear()

    def commit(self, batch: Batch) -> Receipt:
        """See `Backend.commit`."""
        return self._plan.run("commit", self._inner.commit, batch)

    def write_rows(self, changes: Sequence[RowChange], fence: Fence | None = None) -> None:
        """See `Backend.write_rows`."""
        self._plan.run("write_rows", self._inner.write_rows, changes, fence)

    def adopt(self, batch: Adoption) -> None:
        """See `Backend.adopt`."""
        self._plan.run("adopt", self._inner.adopt, batch)

    def reader(self) -> AbstractContextManager[Reader]:
        """See `Backend.reader`."""
        return self._reader(self._inner.reader)

    def reader_for(
        self, session: str, name: str, known: ChunkHash | None = None
    ) -> AbstractContextManager[Reader]:
        """See `ReadsAhead.reader_for`; counted as `reader`, which it is where the other backend does not have it."""
        opened = getattr(self._inner, "reader_for", None)
        if opened is None:
            return self.reader()
        return self._reader(partial(opened, session, name, known))

    @contextmanager
    def _reader(self, opened: Callable[[], AbstractContextManager[Reader]]) -> Iterator[Reader]:
        with self._plan.run("reader", opened) as reader:
            yield _FaultyReader(reader, self._plan)

    def collection(
        self, *, dry_run: bool = False, stale_after: float | None = None
    ) -> AbstractContextManager[Collection]:
        """See `Backend.collection`."""
        return self._collection(dry_run=dry_run, stale_after=stale_after)

    @contextmanager
    def _collection(self, *, dry_run: bool, stale_after: float | None) -> Iterator[Collection]:
        begun = self._plan.run("collection", self._inner.collection, dry_run=dry_run, stale_after=stale_after)
        with begun as collection:
            yield _FaultyCollection(collection, self._plan)

    def turn(self, session: str) -> AbstractContextManager[object]:
        """See `Backend.turn`."""
        return self._inner.turn(session)

    def claim(self, name: str, holder: Holder, seconds: float, *, at: int, ticks: int) -> Lease:
        """See `Backend.claim`."""
        return self._plan.run("claim", self._inner.claim, name, holder, seconds, at=at, ticks=ticks)

    def renew(self, lease: Lease, seconds: float, *, at: int, ticks: int) -> Lease:
        """See `Backend.renew`."""
        return self._plan.run("renew", self._inner.renew, lease, seconds, at=at, ticks=ticks)

    def release(self, lease: Lease) -> None:
        """See `Backend.release`."""
        self._plan.run("release", self._inner.release, lease)

    def lease(self, name: str) -> Lease | None:
        """See `Backend.lease`."""
        return self._plan.run("lease", self._inner.lease, name)

    def erase_session(self, session: str) -> None:
        """See `Backend.erase_session`."""
        self._plan.run("erase_session", self._inner.erase_session, session)

    def scrub(self, *, dry_run: bool = False) -> None:
        """See `Backend.scrub`."""
        if dry_run:
            self._inner.scrub(dry_run=True)
        else:
            self._plan.run("scrub", self._inner.scrub)

    def inspect(self) -> AbstractContextManager[Inspection]:
        """See `Backend.inspect`."""
        return self._plan.run("inspect", self._inner.inspect)

    def rebuild(self, plan: Callable[[Inspection], Rebuilt | None]) -> str | None:
        """See `Backend.rebuild`."""
        return self._plan.run("rebuild", self._inner.rebuild, plan)

    def wait_for_checkpoint(self, after: int, timeout: float) -> int:
        """See `Backend.wait_for_checkpoint`."""
        return self._plan.run("wait_for_checkpoint", self._inner.wait_for_checkpoint, after, timeout)

    def backup(self, target: Path) -> None:
        """See `Backend.backup`."""
        self._plan.run("backup", self._inner.backup, target)

    def close(self) -> None:
        """See `Backend.close`; this one never fails, so that a test can clean up."""
        self._inner.close()


class _FaultyCollection:
    """A collection of another backend, with the faults of the same plan."""

    def __init__(self, inner: Collection, plan: _Plan) -> None:
        self._inner, self._run = inner, plan.run

    def mark(self, names: Iterable[ChunkHash]) -> Sequence[ChunkHash]:
        return self._run("mark", self._inner.mark, names)

    def unneeded(self) -> Swept:
        return self._run("unneeded", self._inner.unneeded)

    def sweep(self, limit: int) -> Swept:
        return self._run("sweep", self._inner.sweep, limit)


class _FaultyReader:
    """A view of another backend, with the faults of the same plan."""

    def __init__(self, inner: Reader, plan: _Plan) -> None:
        self._inner, self._run = inner, plan.run

    def session(self, session: str) -> SessionRow | None:
        return self._run("session", self._inner.session, session)

    def sessions(self, *, agent: str | None = None, project: str | None = None) -> Sequence[SessionRow]:
        return self._run("sessions", self._inner.sessions, agent=agent, project=project)

    def branch(self, session: str, name: str) -> BranchRow | None:
        return self._run("branch", self._inner.branch, session, name)

    def branches(self, session: str) -> Sequence[BranchRow]:
        return self._run("branches", self._inner.branches, session)

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointRow | None:
        return self._run("checkpoint", self._inner.checkpoint, checkpoint)

    def checkpoints(self, query: Query) -> Sequence[CheckpointRow]:
        return self._run("checkpoints", self._inner.checkpoints, query)

    def operations(self, session: str, *, after: int = 0) -> Sequence[Operation]:
        return self._run("operations", self._inner.operations, session, after=after)

    def chunks(self, hashes: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        return self._run("chunks", self._inner.chunks, hashes)

    def present(self, hashes: Iterable[ChunkHash]) -> AbstractSet[ChunkHash]:
        return self._run("present", self._inner.present, hashes)

    def adopted(self, session: SessionRow) -> Adopted | None:
        return self._run("adopted", self._inner.adopted, session)

    def tables(self) -> Sequence[Table]:
        """See `Reader.tables`."""
        return self._run("tables", self._inner.tables)

    def find_rows(self, table: Table, query: RowQuery) -> Sequence[Row]:
        """See `Reader.find_rows`."""
        return self._run("find_rows", self._inner.find_rows, table, query)

    def count_rows(self, table: Table, query: RowQuery) -> int:
        """See `Reader.count_rows`."""
        return self._run("count_rows", self._inner.count_rows, table, query)

    def stats(self) -> StoreStats:
        return self._run("stats", self._inner.stats)
