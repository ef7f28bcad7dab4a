"""SqliteBackend: a store in one SQLite file, for one machine and any number of threads and processes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import apsw

from holdfast.backends import fork, lease_rules, rules
from holdfast.backends.chunk_codec import PackedChunk, RecentChunks, prepare, remember
from holdfast.backends.sqlite import commit, files
from holdfast.backends.sqlite import lease as leases
from holdfast.backends.sqlite.connection import (
    Connections,
    Durability,
    check_library,
    connect,
    connect_unverified,
    load_checksums,
    roll_back,
    set_durability,
    transact,
    waiting,
)
from holdfast.backends.sqlite.create import initialize, is_store, unreadable, use_wal
from holdfast.backends.sqlite.errors import (
    DRIVER_ERRORS,
    extended_code,
    inside_a_save,
    permission_denied,
    store_missing,
    translate,
    translated,
)
from holdfast.backends.sqlite.extension import write_rows
from holdfast.backends.sqlite.reader import SqliteReader, View
from holdfast.errors import (
    ConflictError,
    HoldfastError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
    bad_argument,
)
from holdfast.storage.records import Batch, CheckpointId, CheckpointRow, Receipt

if TYPE_CHECKING:
    from holdfast.backends.damage import RowInspection
    from holdfast.backends.sqlite.gc import SqliteCollection
    from holdfast.storage.copy_rows import Adoption
    from holdfast.storage.inspection import Rebuilt
    from holdfast.storage.leases import Fence, Holder, Lease
    from holdfast.storage.ports import Inspection
    from holdfast.storage.tables import RowChange

_T = TypeVar("_T")

_LONGEST_TIMEOUT = threading.TIMEOUT_MAX / 2
"""Infinity is a fair thing to ask for, and more than a lock can wait."""

_WATCH_PAUSE = 0.05
"""Seconds between two looks for new checkpoints: at once to a person, and next to nothing to the processor."""

_REFUSALS = (ConflictError, InvalidInputError, NotFoundError, UnsupportedError)
"""Errors after which a connection is as good as before."""

_TAKEN = {
    apsw.SQLITE_CONSTRAINT_UNIQUE,
    apsw.SQLITE_CONSTRAINT_PRIMARYKEY,
    apsw.SQLITE_CONSTRAINT_ROWID,
}


class SqliteBackend:
    """A `Backend` in a SQLite file; made with `SqliteBackend.open`."""

    def __init__(self, path: Path, *, durability: Durability, create: bool, timeout: float) -> None:
        self._path = str(path)
        self._durability = durability
        self._create = create
        self._timeout = timeout
        self._writable = files.is_writable(path)
        # A store that cannot be written is read without locks, so each view gets a connection that has cached nothing.
        most_idle = {} if self._writable else {"most_idle": 0}
        self._connections = Connections(self._connect, self._path, self.url, timeout, **most_idle)
        # For looking at damage, beside connections that refuse to: each is used once.
        self._unverified = Connections(
            lambda: connect_unverified(self._path, writable=self._writable),
            self._path,
            self.url,
            timeout,
            most_idle=0,
        )
        self._writers: set[int] = set()
        self._recent = RecentChunks()
        self._compress = True
        # Before the first connection is opened.
        fork.watch(self)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        durability: Durability,
        create: bool,
        timeout: float,
        damaged: bool = False,
        compress: bool = True,
    ) -> Self:
        """Open a store, and make it where there is none.

        Args:
            path: The file.
            durability: What a commit that returned survives: "power" cuts, or the death of the "process".
            create: Make the store if there is none.
            timeout: How many seconds to wait for another writer.
            damaged: Open a store that cannot be read, to inspect and rebuild it; any other use raises.
            compress: False: what is written from here is stored as it is.

        Raises:
            NotFoundError: There is none, and `create` is false.
            InvalidInputError: The file is something else.
            UnsupportedError: The format, the SQLite library or the file system does not allow it.
            BackendError: The file cannot be read or made.
        """
        check_library(apsw.sqlite_lib_version())
        load_checksums()
        if not timeout >= 0:
            raise bad_argument(f"timeout cannot be {timeout}", "give a number of seconds")
        path = files.usable(path)
        files.refuse_network(path)
        files.make_file(path, create=create)
        backend = cls(path, durability=durability, create=create, timeout=min(timeout, _LONGEST_TIMEOUT))
        if not damaged:
            with backend.reader() as reader:
                reader.check_header()
        # From now on the file must be there: one that disappears is not made again in silence.
        backend._create = False
        backend._compress = compress
        return backend

    @property
    def url(self) -> str:
        """`sqlite:///` and the path of the file."""
        escaped = self._path.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
        return f"sqlite:///{escaped}"

    def commit(self, batch: Batch) -> Receipt:
        """See `Backend.commit`."""
        self._check_writable()
        rules.check_batch(batch)
        chunks = prepare(batch, self._recent, self.reader, compress=self._compress)
        receipt = self._use(lambda connection: self._commit(connection, batch, chunks))
        remember(chunks, self._recent)
        return receipt

    def write_rows(self, changes: Sequence[RowChange], fence: Fence | None = None) -> None:
        """See `Backend.write_rows`."""

        def work(connection: apsw.Connection) -> None:
            if fence is not None:
                leases.check_fence(connection, fence)
            write_rows(connection, changes)

        self._write(work)

    def adopt(self, batch: Adoption) -> None:
        """See `Backend.adopt`."""
        self._check_writable()
        rules.check_adoption(batch)
        chunks = prepare(batch, self._recent, self.reader, compress=self._compress)
        self._write(lambda connection: commit.adopt(connection, batch, chunks))
        remember(chunks, self._recent)

    def reader(self) -> AbstractContextManager[SqliteReader]:
        """See `Backend.reader`."""
        return View(self._connections, self._path, self._timeout)

    def ask_sql(
        self,
        query: str,
        parameters: Sequence[object] | Mapping[str, object],
        *,
        seconds: float,
        limit: int,
    ) -> tuple[tuple[str, ...], list[tuple[object, ...]], bool]:
        """Answer a SELECT over the published views; columns, rows, and whether there are more."""
        from holdfast.backends.sqlite.sql import ask

        with self.reader():
            pass  # a store that is closed, gone or damaged says so as ever
        return ask(self._path, query, parameters, seconds=seconds, limit=limit)

    def turn(self, session: str) -> AbstractContextManager[object]:  # noqa: ARG002 - the port's
        """See `Backend.turn`. Commits are short here, and none loses more than a few rounds."""
        return nullcontext()

    def claim(self, name: str, holder: Holder, seconds: float, *, at: int, ticks: int) -> Lease:
        """See `Backend.claim`."""
        length, now = lease_rules.microseconds(seconds), lease_rules.ticking(at, ticks)
        self._check_writable()
        # Before the write lock is asked for: whoever is refused holds nobody up.
        lease_rules.check_free(self.lease(name), holder, at=at, ticks=ticks)
        return self._write(lambda connection: leases.claim(connection, name, holder, length, now))

    def renew(self, lease: Lease, seconds: float, *, at: int, ticks: int) -> Lease:
        """See `Backend.renew`."""
        length, now = lease_rules.microseconds(seconds), lease_rules.ticking(at, ticks)
        return self._write(lambda connection: leases.renew(connection, lease, length, now))

    def release(self, lease: Lease) -> None:
        """See `Backend.release`."""
        self._write(lambda connection: leases.release(connection, lease))

    def lease(self, name: str) -> Lease | None:
        """See `Backend.lease`."""
        with self.reader() as reader:
            return reader.lease(name)

    @contextmanager
    def collection(
        self, *, dry_run: bool = False, stale_after: float | None = None
    ) -> Iterator[SqliteCollection]:
        """See `Backend.collection`."""
        from holdfast.backends.sqlite.gc import SqliteCollection, current_epoch, open_epoch

        if not dry_run:
            self._check_writable()
        connection = self._connections.take()

        def transaction(work: Callable[[], _T]) -> _T:
            with translated(self._path):
                return transact(connection, self._path, self._timeout, work)

        held: Lease | None = None
        try:
            if dry_run:
                # It opens no epoch, and counts as if it had.
                with translated(self._path):
                    epoch = current_epoch(connection) + 1
            else:
                holder = lease_rules.this_process(os.urandom(16).hex())
                epoch, held = transaction(lambda: open_epoch(connection, holder, stale_after))
            yield SqliteCollection(connection, self._path, epoch, held, transaction)
        finally:
            if held is not None:
                # If this fails, the lease runs out and others take over.
                with suppress(HoldfastError):
                    transaction(lambda: leases.release(connection, held))
            # It has temporary tables: closed.
            self._connections.give(connection, broken=True)

    def erase_session(self, session: str) -> None:
        """See `Backend.erase_session`."""
        self._write(lambda connection: commit.erase_session(connection, session))

    def scrub(self, *, dry_run: bool = False) -> None:
        """See `Backend.scrub`."""
        self._check_writable()
        if dry_run:
            return
        from holdfast.backends.sqlite.gc import rewrite_file

        # What is remembered of removed chunks goes too; the next save reads what it builds on.
        self._recent = RecentChunks()
        self._use(lambda connection: rewrite_file(connection, self._path, self._timeout))

    @contextmanager
    def inspect(self) -> Iterator[RowInspection]:
        """See `Backend.inspect`."""
        from holdfast.backends.sqlite.repair import inspected

        with (
            self._looking() as connection,
            translated(self._path),
            inspected(connection, self._path, self._timeout) as found,
        ):
            yield found

    def rebuild(self, plan: Callable[[Inspection], Rebuilt | None]) -> str | None:
        """See `Backend.rebuild`."""
        from holdfast.backends.sqlite.repair import rebuild_store

        self._check_writable()
        with self._looking() as target, self._looking() as source, translated(self._path):
            return rebuild_store(target, source, self._path, plan, self._timeout)

    def wait_for_checkpoint(self, after: int, timeout: float) -> int:
        """See `Backend.wait_for_checkpoint`. SQLite has no messages between processes, so this looks now and then."""
        deadline = time.monotonic() + timeout
        while True:
            with self.reader() as reader:
                newest = reader.newest_position()
            left = deadline - time.monotonic()
            if newest > after or left <= 0:
                return newest
            time.sleep(min(_WATCH_PAUSE, left))

    def backup(self, target: Path) -> None:
        """See `Backend.backup`."""
        from holdfast.backends.sqlite.backup import copy_store

        connection = self._connections.take()
        try:
            copy_store(connection, self._path, target)
        finally:
            self._connections.give(connection, broken=not roll_back(connection))

    def close(self) -> None:
        """See `Backend.close`. The last connection of the last process moves the WAL into the file and removes it."""
        self._connections.close()
        self._unverified.close()

    def has_open(self, file: tuple[int, int]) -> bool:
        """Whether this is the file of the store, or one of the two beside it, and a connection may be open."""
        if not (self._connections.is_in_use or self._unverified.is_in_use):
            return False
        return file in [files.identity(self._path + end) for end in ("", "-wal", "-shm")]

    def before_fork(self) -> None:
        """Close every connection: SQLite's locks do not survive a fork."""
        self._connections.close_all()
        self._unverified.close_all()

    def after_fork_in_child(self) -> None:
        """Go on; a lock that another thread of the parent held is nobody's here, nor is what it was changing."""
        self._writers, self._recent = set(), RecentChunks()

    def _check_writable(self) -> None:
        self._connections.check_open()
        if not self._writable:
            raise permission_denied(self._path, "the file or its folder is read-only")

    def _write(self, work: Callable[[apsw.Connection], _T]) -> _T:
        """Do something in a transaction of its own that has the write lock."""
        self._check_writable()
        return self._use(
            lambda connection: transact(connection, self._path, self._timeout, lambda: work(connection))
        )

    def _use(self, work: Callable[[apsw.Connection], _T]) -> _T:
        """Write something through a connection, which is given back or closed afterwards."""
        me = threading.get_ident()
        if me in self._writers:
            # A signal handler or a finalizer in the middle of a save: what it would wait for goes on only when it ends.
            raise inside_a_save(self._path)
        connection, broken = None, True
        try:
            self._writers.add(me)
            connection = self._connections.take()
            done = work(connection)
            broken = False
        except _REFUSALS:
            broken = False
            raise
        except DRIVER_ERRORS as error:
            raise translate(error, self._path) from error
        finally:
            self._writers.discard(me)
            # After a failed write or sync nobody knows what the descriptor holds: it is never used again.
            if connection is not None:
                self._connections.give(connection, broken=not roll_back(connection) or broken)
        return done

    @contextmanager
    def _looking(self) -> Iterator[apsw.Connection]:
        """A connection that reads pages whatever their checksums say; closed afterwards."""
        connection = self._unverified.take()
        try:
            yield connection
        finally:
            self._unverified.give(connection, broken=True)

    def _commit(self, connection: apsw.Connection, batch: Batch, chunks: Sequence[PackedChunk]) -> Receipt:
        known: dict[CheckpointId, CheckpointRow] = {}
        explained = True
        while True:
            # IMMEDIATE: a transaction that takes the write lock only later fails when somebody wrote in between.
            waiting(lambda: connection.execute("BEGIN IMMEDIATE"), self._path, self._timeout)
            try:
                written = commit.write_batch(connection, batch, chunks, known)
            except (*_REFUSALS, apsw.ConstraintError) as refusal:
                # What the attempt wrote itself must not be found below.
                connection.execute("ROLLBACK")
                found = commit.stored(connection, batch)
                if batch.checkpoints and all(row.id in found for row in batch.checkpoints):
                    return _receipt(batch, found)
                if not isinstance(refusal, apsw.ConstraintError) or extended_code(refusal) not in _TAKEN:
                    raise
                commit.diagnose(connection, batch, found)
                # Some of the checkpoints are there already: start over without them. Once also for no reason, because
                # what was in the way may have been removed since.
                if not explained and found.keys() == known.keys():
                    raise
                explained = found.keys() != known.keys()
                known = found
            else:
                connection.execute("COMMIT")
                return _receipt(batch, known | written)

    def _connect(self) -> apsw.Connection:
        try:
            connection = connect(self._path, durability=self._durability, writable=self._writable)
            try:
                self._recognize(connection)
            except BaseException:
                connection.close(force=True)
                raise
        except apsw.NotADBError as error:
            raise unreadable(self._path) from error
        return connection

    def _recognize(self, connection: apsw.Connection) -> None:
        # For each connection, because another file may have come under this name since the last one.
        if not is_store(connection, self._path):
            if not self._create:
                raise store_missing(self._path)
            if not self._writable:
                raise permission_denied(self._path, "the file or its folder is read-only")
            # Whatever was asked for saves: a store that is half there after a power cut would be no store.
            set_durability(connection, "power")
            initialize(connection, self._path, timeout=self._timeout)
            set_durability(connection, self._durability)
        if self._writable:
            use_wal(connection, self._path, timeout=self._timeout)


def _receipt(batch: Batch, found: Mapping[CheckpointId, CheckpointRow]) -> Receipt:
    return Receipt(tuple(found[row.id] for row in batch.checkpoints))
