"""PostgresBackend: commits, readers and collections of a store in a schema of a PostgreSQL database."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

import psycopg

from holdfast.backends import rules
from holdfast.backends.chunk_codec import PackedChunk, RecentChunks, prepare, remember
from holdfast.backends.lease_rules import microseconds
from holdfast.backends.postgres import commit, lease
from holdfast.backends.postgres.adopt import adopt, forget_adoption
from holdfast.backends.postgres.chunks import make_fit, note_depths
from holdfast.backends.postgres.commit import KnownSession, Written
from holdfast.backends.postgres.connection import Connection, Durability, Pool
from holdfast.backends.postgres.create import check_there, check_version, recognize
from holdfast.backends.postgres.errors import (
    is_lost,
    is_retryable,
    outcome_unknown,
    too_large,
    translate,
    translated,
)
from holdfast.backends.postgres.extension import erase_rows, write_rows
from holdfast.backends.postgres.gc import PostgresCollection, current_epoch, open_epoch
from holdfast.backends.postgres.reader import FirstQuestions, PostgresReader, can_be_kept, view
from holdfast.backends.postgres.scrub import check_owner, scrub
from holdfast.backends.postgres.url import Address, parse
from holdfast.backends.postgres.watch import Watcher
from holdfast.errors import (
    ConflictError,
    ErrorCode,
    HoldfastError,
    UnsupportedError,
    bad_argument,
)
from holdfast.storage.copy_rows import Adoption
from holdfast.storage.inspection import Rebuilt
from holdfast.storage.ports import Inspection
from holdfast.storage.records import Batch, ChunkHash, Receipt

if TYPE_CHECKING:
    from holdfast.backends.damage import RowInspection
    from holdfast.storage.leases import Fence, Holder, Lease
    from holdfast.storage.tables import RowChange, Table

_T = TypeVar("_T")

_UNIQUE_VIOLATION: Final = "23505"
_NOT_THERE: Final = ("42P01", "42703")
"""A table or a column."""

_ATTEMPTS: Final = 100
"""A commit that begins anew lost to another one or to a server that went away; so many in a row mean something else."""
_JITTER: Final = 0.02
"""Seconds, at most, that a writer waits who lost a round to others."""

_MOST_BYTES: Final = 900_000_000
"""Of the parameters of one statement. A server takes less than 1 GiB; the rest is for what is not counted."""
_CHUNK_BYTES: Final = 140
"""Of a chunk, beside its data: three hashes, and lengths."""
_ROW_BYTES: Final = 1500
"""Of a row, beside its metadata."""

_MOST_SESSIONS: Final = 4096
"""Sessions that are remembered; a few hundred bytes each."""


class PostgresBackend:
    """A `Backend` in a schema of a PostgreSQL database; made with `PostgresBackend.open`."""

    def __init__(self, address: Address, *, durability: Durability, timeout: float, compress: bool) -> None:
        self._address = address
        self._durability: Durability = durability
        self._timeout = timeout
        self._compress = compress
        self._pool = Pool(address, durability=durability, timeout=timeout)
        self._begin()

    def _begin(self) -> None:
        """What is remembered of the store: nothing yet, or nothing that still holds."""
        self._pid = os.getpid()
        self._recent = RecentChunks()
        # Sessions as this process left them: whoever writes next to one need not read it, and has it to itself.
        self._known: dict[str, KnownSession] = {}
        self._watcher = Watcher(self._pool)
        # Extension tables that are there as declared.
        self._ready: set[Table] = set()

    def _check_open(self) -> None:
        self._pool.check_open()
        if self._pid != os.getpid():
            # In a child of a fork: what other threads of the parent were changing just then is not to be trusted.
            self._begin()

    @classmethod
    def open(
        cls,
        url: str,
        *,
        durability: Durability,
        create: bool,
        timeout: float,
        damaged: bool = False,
        compress: bool = True,
    ) -> Self:
        """Open a store, and make it where there is none.

        Args:
            url: `postgresql://user:password@host/database?schema=name`.
            durability: What a commit that returned survives: "power" cuts and crashes of the server, or the death of
                the "process" that made it.
            create: Make the store if there is none.
            timeout: How many seconds to wait for the server, and for other writers.
            damaged: Open a store whose header cannot be trusted, to inspect and rebuild it.
            compress: False: what is written from here is stored as it is.

        Raises:
            NotFoundError: There is none, and `create` is false.
            InvalidInputError: The URL cannot be read, or the schema holds something else.
            UnsupportedError: The server or the version of the tables does not allow it.
            BackendError: The server cannot be reached, or refuses.
        """
        if not timeout >= 0:
            raise bad_argument(f"timeout cannot be {timeout}", "give a number of seconds")
        address = parse(url)
        backend = cls(address, durability=durability, timeout=timeout, compress=compress)

        def look(connection: Connection) -> None:
            if damaged:
                check_there(connection, address.schema, address.shown)
            else:
                recognize(connection, address.schema, address.shown, create=create)

        try:
            # A store that was made, and whose maker never heard of it, is found by the next look.
            backend._again(look, _passes)
        except BaseException:
            backend.close()
            raise
        return backend

    @property
    def url(self) -> str:
        """The URL without anything secret."""
        return self._address.shown

    def commit(self, batch: Batch) -> Receipt:
        """See `Backend.commit`."""
        self._check_open()
        rules.check_batch(batch)
        chunks = prepare(batch, self._recent, self.reader, compress=self._compress)
        written = self._commit(batch, chunks)
        note_depths(chunks, self._recent)
        remember(chunks, self._recent)
        if len(self._known) >= _MOST_SESSIONS:
            self._known.clear()
        self._known[written.session.row.id] = written.session
        self._ready.update(change.table for change in batch.rows)
        return Receipt(tuple(written.checkpoints[row.id] for row in batch.checkpoints))

    def write_rows(self, changes: Sequence[RowChange], fence: Fence | None = None) -> None:
        """See `Backend.write_rows`."""
        self._check_open()

        def work(connection: Connection) -> None:
            with connection.transaction():
                commit.enter(connection)
                if fence is not None:
                    lease.check_fence(connection, fence)
                write_rows(connection, changes, self._ready)

        self._again(work, lambda error: is_retryable(error) or self._is_unready(error))
        self._ready.update(change.table for change in changes)

    def adopt(self, batch: Adoption) -> None:
        """See `Backend.adopt`."""
        self._check_open()
        rules.check_adoption(batch)
        chunks = prepare(batch, self._recent, self.reader, compress=self._compress)
        self._known.pop(batch.session.id, None)

        def begins_anew(error: psycopg.Error) -> bool:
            if error.sqlstate == commit.UNFOUNDED:
                make_fit(chunks, error.diag.message_detail)
                return True
            return is_retryable(error)

        self._again(lambda connection: adopt(connection, batch, chunks), begins_anew)

    def reader(self) -> AbstractContextManager[PostgresReader]:
        """See `Backend.reader`."""
        return view(self._pool, self.url, self._timeout)

    def reader_for(
        self, session: str, name: str, known: ChunkHash | None = None
    ) -> AbstractContextManager[PostgresReader]:
        """See `ReadsAhead.reader_for`."""
        # Of what cannot be there nothing need be asked.
        first = FirstQuestions(session, name, known) if can_be_kept(session) and can_be_kept(name) else None
        return view(self._pool, self.url, self._timeout, first)

    def ask_sql(
        self, query: str, parameters: Sequence[object], *, seconds: float, limit: int
    ) -> tuple[tuple[str, ...], list[tuple[object, ...]], bool]:
        """Answer a SELECT over the published views as the role of HOLDFAST_SQL_URL."""
        from holdfast.backends.postgres import sql

        reader = os.environ.get(sql.VARIABLE)
        with self._pool.dedicated() as owner:
            return sql.ask(
                owner, self._address.schema, reader, query, parameters, seconds=seconds, limit=limit
            )

    @contextmanager
    def turn(self, session: str) -> Iterator[None]:  # noqa: ARG002 - a pause serves all sessions alike
        """See `Backend.turn`. Writers who lost a round go on at different moments."""
        time.sleep(random.uniform(0, _JITTER))  # noqa: S311 - no secret
        yield

    def claim(self, name: str, holder: Holder, seconds: float, *, at: int, ticks: int) -> Lease:
        """See `Backend.claim`. The server has a clock of its own."""
        del at
        length = microseconds(seconds)
        # One whose reply was lost is found to be the holder's own when it is made again.
        return self._again(lambda connection: lease.claim(connection, name, holder, length, ticks), _passes)

    def renew(self, held: Lease, seconds: float, *, at: int, ticks: int) -> Lease:
        """See `Backend.renew`."""
        del at
        length = microseconds(seconds)
        return self._again(lambda connection: lease.renew(connection, held, length, ticks), _passes)

    def release(self, held: Lease) -> None:
        """See `Backend.release`."""
        self._again(lambda connection: lease.release(connection, held), _passes)

    def lease(self, name: str) -> Lease | None:
        """See `Backend.lease`."""
        return self._again(lambda connection: lease.read_lease(connection, name), _passes)

    @contextmanager
    def collection(
        self, *, dry_run: bool = False, stale_after: float | None = None
    ) -> Iterator[PostgresCollection]:
        """See `Backend.collection`."""
        schema = self._address.schema
        with self._pool.dedicated() as connection:
            with translated(self.url):
                # A dry run opens no epoch, and counts as if it had.
                epoch = (
                    current_epoch(connection) + 1 if dry_run else open_epoch(connection, schema, stale_after)
                )
            collection = PostgresCollection(connection, schema, self.url, epoch, dry_run=dry_run)
            try:
                yield collection
            finally:
                collection.end()

    def erase_session(self, session: str) -> None:
        """See `Backend.erase_session`."""
        self._check_open()
        self._known.pop(session, None)

        def erase(connection: Connection) -> None:
            with connection.transaction():
                commit.enter(connection)
                erase_rows(connection, session)
                commit.erase_session(connection, session)
                forget_adoption(connection, session)
                lease.remove_named_after(connection, session)

        self._again(erase, is_retryable)

    def scrub(self, *, dry_run: bool = False) -> None:
        """See `Backend.scrub`. Tables are written anew; the server's own log and its backups are not ours to clear."""
        self._recent = RecentChunks()
        with self._pool.dedicated() as connection, translated(self.url):
            check_version(connection, self.url)
            check_owner(connection, self.url)
            if not dry_run:
                scrub(connection, self.url, timeout=self._timeout)

    @contextmanager
    def inspect(self) -> Iterator[RowInspection]:
        """See `Backend.inspect`."""
        from holdfast.backends.postgres.repair import inspected

        with (
            self._pool.dedicated() as connection,
            translated(self.url),
            inspected(connection, self.url) as found,
        ):
            yield found

    def rebuild(self, plan: Callable[[Inspection], Rebuilt | None]) -> str | None:
        """See `Backend.rebuild`. The new tables belong to this role; rights that others had are given anew."""
        from holdfast.backends.postgres.repair import rebuild_store

        def make(schema: str) -> PostgresBackend:
            address = Address(self._address.parameters, schema)
            made = PostgresBackend(
                address, durability="power", timeout=self._timeout, compress=self._compress
            )
            made._again(lambda c: recognize(c, schema, address.shown, create=True), _passes)
            return made

        with self._pool.dedicated() as connection, translated(self.url):
            aside = rebuild_store(connection, self._address.schema, self.url, plan, make)
        # What was known of sessions and chunks was true of what was there before.
        self._begin()
        return aside

    def wait_for_checkpoint(self, after: int, timeout: float) -> int:
        """See `Backend.wait_for_checkpoint`."""
        self._check_open()
        return self._watcher.wait(after, timeout)

    def backup(self, target: Path) -> None:
        """Refused: the files are the server's."""
        self._check_open()
        raise UnsupportedError(
            f"a store in PostgreSQL cannot be copied as a file to {target}",
            code=ErrorCode.NOT_SUPPORTED,
            hint="copy it into a SQLite store with `holdfast copy`, or use the server's own backups",
        )

    def close(self) -> None:
        """See `Backend.close`."""
        self._pool.close()

    def _commit(self, batch: Batch, chunks: Sequence[PackedChunk]) -> Written:
        deadline = time.monotonic() + self._timeout
        attempts, lost = 0, False
        while True:
            attempts += 1
            # In each round: a chunk that has to stand alone after all is larger than it was.
            self._check_size(batch, chunks)
            try:
                try:
                    return self._try(batch, chunks)
                except psycopg.Error as error:
                    failure = error
            except HoldfastError as error:
                # A conflict was found under the lock of the session, so that what was lost did not take place. Any
                # other error, as of a server that stays away, leaves that open.
                if not lost or isinstance(error, ConflictError):
                    raise
                raise outcome_unknown(error, self.url) from error
            lost = lost or is_lost(failure)
            if _is_over(attempts, deadline) or not self._begins_anew(failure, batch, chunks):
                refusal = translate(failure, self.url) or failure
                if lost and isinstance(refusal, HoldfastError) and not is_lost(refusal):
                    refusal = outcome_unknown(refusal, self.url)
                raise refusal from failure

    def _check_size(self, batch: Batch, chunks: Sequence[PackedChunk]) -> None:
        """Refuse what the server would not take: it ends the connection then, and says nothing."""
        size = sum(_CHUNK_BYTES + len(each.data or b"") for each in chunks)
        # A character of a text is three bytes at most, but for those that are rare.
        size += sum(_ROW_BYTES + 3 * len(row.metadata) for row in batch.checkpoints)
        size += _ROW_BYTES * len(batch.edits) + sum(3 * len(each.data) for each in batch.operations)
        if size > _MOST_BYTES:
            raise too_large(self.url, f"{size:,} bytes in one commit are more than {_MOST_BYTES:,}")

    def _again(self, work: Callable[[Connection], _T], begins_anew: Callable[[psycopg.Error], bool]) -> _T:
        """Do work that the server takes back as a whole where it fails, again as long as the error is a passing one."""
        deadline = time.monotonic() + self._timeout
        attempts = 0
        while True:
            attempts += 1
            with self._pool.connection() as connection, translated(self.url):
                try:
                    return work(connection)
                except psycopg.Error as error:
                    if _is_over(attempts, deadline) or not begins_anew(error):
                        raise

    def _try(self, batch: Batch, chunks: Sequence[PackedChunk]) -> Written:
        known = self._known.pop(batch.claim.session, None)
        with self._pool.connection() as connection:
            if known is not None and commit.can_attempt(batch):
                try:
                    return commit.attempt(connection, batch, chunks, known, self._ready)
                except HoldfastError:
                    # By what is known of the session it has to be refused. Whether that still holds is read.
                    pass
                except psycopg.Error as error:
                    if error.sqlstate not in (commit.STALE, _UNIQUE_VIOLATION):
                        raise
            return commit.locked(connection, batch, chunks, self._ready)

    def _begins_anew(self, error: psycopg.Error, batch: Batch, chunks: Sequence[PackedChunk]) -> bool:
        """Whether a commit that failed this way can be tried again without writing anything twice."""
        if error.sqlstate == commit.UNFOUNDED:
            make_fit(chunks, error.diag.message_detail)
            return True
        if error.sqlstate in (commit.STALE, _UNIQUE_VIOLATION) or is_retryable(error):
            return True
        if batch.rows and self._is_unready(error):
            return True
        # Nobody knows whether it took place. Checkpoints have ids, so that committing them again finds them; what has
        # none is for the caller to look up.
        return is_lost(error) and bool(batch.checkpoints)

    def _is_unready(self, error: psycopg.Error) -> bool:
        """Whether an extension table turned out not to be as it was: the next attempt looks."""
        unready = bool(self._ready) and error.sqlstate in _NOT_THERE
        self._ready.clear()
        return unready


def _passes(error: psycopg.Error) -> bool:
    """Whether work that may be done twice can be done again after this error."""
    return is_retryable(error) or is_lost(error)


def _is_over(attempts: int, deadline: float) -> bool:
    """Whether work that begins anew has done so often or long enough; everything may do so once."""
    return attempts > 1 and (attempts >= _ATTEMPTS or time.monotonic() > deadline)
