"""SqliteBackend: commits, readers and copies of a store in one SQLite file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import apsw

from holdfast.backends import rules
from holdfast.backends.chunk_codec import PackedChunk, RecentChunks, prepare, prepare_in_turn, remember
from holdfast.backends.forking import watch
from holdfast.backends.sqlite import place, write
from holdfast.backends.sqlite.connection import (
    Durability,
    check_library,
    connect,
    load_checksums,
    set_durability,
    waiting,
)
from holdfast.backends.sqlite.creation import initialize, is_store, unreadable, use_wal
from holdfast.backends.sqlite.errors import (
    extended_code,
    permission_denied,
    store_missing,
    translated,
)
from holdfast.backends.sqlite.pool import Pool
from holdfast.backends.sqlite.read import SqliteReader
from holdfast.backends.sqlite.turns import Turns
from holdfast.backends.sqlite.view import View, roll_back
from holdfast.errors import (
    ConflictError,
    ErrorCode,
    HoldfastError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from holdfast.storage.records import Batch, CheckpointId, CheckpointRow, Receipt

if TYPE_CHECKING:
    from holdfast.backends.sqlite.collecting import SqliteCollection
    from holdfast.backends.sqlite.inspection import SqliteInspection
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
        self._writable = place.is_writable(path)
        self._turns = Turns(self._path, timeout)
        # A store that cannot be written is read without locks, so each view gets a connection that has cached nothing.
        most_idle = {} if self._writable else {"most_idle": 0}
        self._pool = Pool(self._connect, partial(place.identity, self._path), url=self.url, **most_idle)
        # For looking at damage, beside connections that refuse to: each is used once.
        self._unverified = Pool(
            self._connect_unverified, partial(place.identity, self._path), url=self.url, most_idle=0
        )
        self._recent = RecentChunks()
        self._compress = True
        # Before the first connection is opened.
        watch(self)

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
            raise InvalidInputError(
                f"timeout cannot be {timeout}", code=ErrorCode.BAD_ARGUMENT, hint="give a number of seconds"
            )
        path = place.usable(path)
        place.refuse_network(path)
        place.make_file(path, create=create)
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
        deadline = time.monotonic() + self._timeout
        receipt = self._turns.take(lambda: self._commit(batch, chunks, deadline))
        remember(chunks, self._recent)
        return receipt

    def write_rows(self, changes: Sequence[RowChange], fence: Fence | None = None) -> None:
        """See `Backend.write_rows`."""
        from holdfast.backends.sqlite.extension import write_rows
        from holdfast.backends.sqlite.leasing import check_fence

        def work(connection: apsw.Connection) -> None:
            if fence is not None:
                check_fence(connection, fence)
            write_rows(connection, changes)

        self._check_writable()
        self._in_turn(work)

    def adopt(self, batch: Adoption) -> None:
        """See `Backend.adopt`."""
        # Only who copies into this store needs it.
        from holdfast.backends.sqlite.adopting import adopt

        self._check_writable()
        rules.check_adoption(batch)
        chunks = prepare_in_turn(batch, self._recent, self.reader, compress=self._compress)
        connection = self._pool.take()
        broken = True
        try:
            self._exclusively(connection, partial(adopt, connection, batch, chunks))
            broken = False
        except ConflictError:
            broken = False
            raise
        finally:
            self._pool.give(connection, broken=not roll_back(connection) or broken)
        remember(chunks, self._recent)

    def reader(self) -> AbstractContextManager[SqliteReader]:
        """See `Backend.reader`."""
        return View(self._pool, self._path, self._timeout)

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
        # Only who wants a lease needs them; the same below.
        from holdfast.backends.lease_rules import check_free, microseconds, ticking
        from holdfast.backends.sqlite.leasing import claim

        length, now = microseconds(seconds), ticking(at, ticks)
        self._check_writable()
        # Before the write lock is asked for: whoever is refused holds nobody up.
        at, ticks = now()
        check_free(self.lease(name), holder, at=at, ticks=ticks)
        return self._in_turn(lambda connection: claim(connection, name, holder, length, now))

    def renew(self, lease: Lease, seconds: float, *, at: int, ticks: int) -> Lease:
        """See `Backend.renew`."""
        from holdfast.backends.lease_rules import microseconds, ticking
        from holdfast.backends.sqlite.leasing import renew

        length, now = microseconds(seconds), ticking(at, ticks)
        self._check_writable()
        return self._in_turn(lambda connection: renew(connection, lease, length, now))

    def release(self, lease: Lease) -> None:
        """See `Backend.release`."""
        from holdfast.backends.sqlite.leasing import release

        self._check_writable()
        self._in_turn(lambda connection: release(connection, lease))

    def lease(self, name: str) -> Lease | None:
        """See `Backend.lease`."""
        with self.reader() as reader:
            return reader.lease(name)

    @contextmanager
    def collection(
        self, *, dry_run: bool = False, stale_after: float | None = None
    ) -> Iterator[SqliteCollection]:
        """See `Backend.collection`."""
        # Only who collects needs it.
        from holdfast.backends.sqlite.collecting import (
            SqliteCollection,
            check_nobody_collects,
            current_epoch,
            end_signs,
            open_epoch,
        )

        with self._borrowed(writing=not dry_run) as connection:
            if dry_run:
                # It opens no epoch, and counts as if it had.
                with translated(self._path):
                    epoch = current_epoch(connection) + 1
                yield SqliteCollection(connection, self._path, epoch, None)
                return
            with translated(self._path):
                # Before the write lock is asked for: whoever is refused holds nobody up.
                check_nobody_collects(connection, stale_after)
            transaction = partial(self._exclusively, connection)
            epoch = transaction(partial(open_epoch, connection, stale_after))
            try:
                yield SqliteCollection(connection, self._path, epoch, transaction)
            finally:
                # Where this fails, the last sign grows old and others take over.
                with suppress(HoldfastError):
                    transaction(partial(end_signs, connection, epoch))

    def erase_session(self, session: str) -> None:
        """See `Backend.erase_session`."""
        with self._borrowed() as connection:
            self._exclusively(connection, partial(_erase, connection, session))

    def scrub(self, *, dry_run: bool = False) -> None:
        """See `Backend.scrub`."""
        if dry_run:
            self._check_writable()
            return
        from holdfast.backends.sqlite.collecting import rewrite_file

        # What is remembered of removed chunks goes too; the next save reads what it builds on.
        self._recent = RecentChunks()
        with self._borrowed() as connection, translated(self._path):
            self._turns.take(lambda: rewrite_file(connection, self._path, timeout=self._timeout))

    @contextmanager
    def inspect(self) -> Iterator[SqliteInspection]:
        """See `Backend.inspect`."""
        # Only who looks for damage needs it.
        from holdfast.backends.sqlite.inspection import inspected

        with (
            self._looking() as connection,
            translated(self._path),
            inspected(connection, self._path, timeout=self._timeout) as found,
        ):
            yield found

    def rebuild(self, plan: Callable[[Inspection], Rebuilt | None]) -> str | None:
        """See `Backend.rebuild`."""
        from holdfast.backends.sqlite.salvage import rebuild_store

        if not self._writable:
            raise permission_denied(self._path, "the file or its folder is read-only")
        with self._looking() as target, self._looking() as source, translated(self._path):
            return self._turns.take(
                lambda: rebuild_store(target, source, self._path, plan, timeout=self._timeout)
            )

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
        from holdfast.backends.sqlite.copying import copy_store

        connection = self._pool.take()
        try:
            copy_store(connection, self._path, target)
        finally:
            self._pool.give(connection)

    def close(self) -> None:
        """See `Backend.close`. The last connection of the last process moves the WAL into the file and removes it."""
        self._pool.close()
        self._unverified.close()

    def has_open(self, file: tuple[int, int]) -> bool:
        """Whether this is the file of the store, or one of the two beside it, and a connection may be open."""
        if not (self._pool.is_in_use or self._unverified.is_in_use):
            return False
        return file in [place.identity(self._path + end) for end in ("", "-wal", "-shm")]

    def before_fork(self) -> None:
        """Close every connection: SQLite's locks do not survive a fork."""
        self._pool.before_fork()
        self._unverified.before_fork()

    def after_fork_in_parent(self) -> None:
        """Go on; connections are opened again when they are needed."""
        self._unverified.after_fork_in_parent()
        self._pool.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """Go on; a lock that another thread of the parent held is nobody's here, nor is what it was changing."""
        self._turns = Turns(self._path, self._timeout)
        self._recent = RecentChunks()
        self._unverified.after_fork_in_child()
        self._pool.after_fork_in_child()

    def _check_writable(self) -> None:
        self._pool.check_open()
        if not self._writable:
            raise permission_denied(self._path, "the file or its folder is read-only")

    def _in_turn(self, work: Callable[[apsw.Connection], _T]) -> _T:
        """Do something in a transaction of its own, that may be refused with a conflict."""
        connection = self._pool.take()
        broken = True
        try:
            done = self._exclusively(connection, partial(work, connection))
            broken = False
        except (ConflictError, UnsupportedError):
            broken = False
            raise
        else:
            return done
        finally:
            self._pool.give(connection, broken=not roll_back(connection) or broken)

    def _exclusively(self, connection: apsw.Connection, work: Callable[[], _T]) -> _T:
        """Do something in a transaction of its own that has the write lock."""

        def transact() -> _T:
            deadline = time.monotonic() + self._timeout
            begin = partial(connection.execute, "BEGIN IMMEDIATE")
            waiting(begin, self._path, deadline=deadline, timeout=self._timeout)
            try:
                done = work()
                connection.execute("COMMIT")
            except BaseException:
                roll_back(connection)
                raise
            return done

        with translated(self._path):
            return self._turns.take(transact)

    @contextmanager
    def _borrowed(self, *, writing: bool = True) -> Iterator[apsw.Connection]:
        """A connection for work that leaves something behind in it, or in the file: closed afterwards."""
        if writing and not self._writable:
            raise permission_denied(self._path, "the file or its folder is read-only")
        connection = self._pool.take()
        try:
            yield connection
        finally:
            self._pool.give(connection, broken=True)

    @contextmanager
    def _looking(self) -> Iterator[apsw.Connection]:
        """A connection that reads pages whatever their checksums say; closed afterwards."""
        connection = self._unverified.take()
        try:
            yield connection
        finally:
            self._unverified.give(connection, broken=True)

    def _connect_unverified(self) -> apsw.Connection:
        from holdfast.backends.sqlite.inspection import connect_unverified

        with translated(self._path):
            return connect_unverified(self._path, writable=self._writable)

    def _commit(self, batch: Batch, chunks: Sequence[PackedChunk], deadline: float) -> Receipt:
        connection = self._pool.take()
        broken = True
        try:
            with translated(self._path):
                receipt = self._transact(connection, batch, chunks, deadline)
            broken = False
        except (ConflictError, InvalidInputError, NotFoundError, UnsupportedError):
            broken = False
            raise
        else:
            return receipt
        finally:
            # After a failed write or sync nobody knows what the descriptor holds: it is never used again.
            self._pool.give(connection, broken=not roll_back(connection) or broken)

    def _transact(
        self,
        connection: apsw.Connection,
        batch: Batch,
        chunks: Sequence[PackedChunk],
        deadline: float,
    ) -> Receipt:
        known: dict[CheckpointId, CheckpointRow] = {}
        explained = True
        while True:
            # IMMEDIATE: a transaction that takes the write lock only later fails when somebody wrote in between.
            begin = partial(connection.execute, "BEGIN IMMEDIATE")
            waiting(begin, self._path, deadline=deadline, timeout=self._timeout)
            try:
                written = write.write(connection, batch, chunks, known)
            except (
                ConflictError,
                InvalidInputError,
                NotFoundError,
                UnsupportedError,
                apsw.ConstraintError,
            ) as refusal:
                # What the attempt wrote itself must not be found below.
                connection.execute("ROLLBACK")
                found = write.stored(connection, batch)
                if batch.checkpoints and all(row.id in found for row in batch.checkpoints):
                    return _receipt(batch, found)
                if not isinstance(refusal, apsw.ConstraintError) or extended_code(refusal) not in _TAKEN:
                    raise
                write.diagnose(connection, batch, found)
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
        with translated(self._path):
            deadline = time.monotonic() + self._timeout
            # While another process makes the store or recovers it, even the settings of a connection have to wait.
            return waiting(self._try_to_connect, self._path, deadline=deadline, timeout=self._timeout)

    def _try_to_connect(self) -> apsw.Connection:
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


def _erase(connection: apsw.Connection, session: str) -> None:
    from holdfast.backends.sqlite.adopting import forget_adoption
    from holdfast.backends.sqlite.extension import erase_rows
    from holdfast.backends.sqlite.leasing import remove_named_after

    erase_rows(connection, session)
    write.erase_session(connection, session)
    forget_adoption(connection, session)
    remove_named_after(connection, session)


def _receipt(batch: Batch, found: Mapping[CheckpointId, CheckpointRow]) -> Receipt:
    return Receipt(tuple(found[row.id] for row in batch.checkpoints))
