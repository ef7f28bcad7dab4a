"""Garbage collection: chunks that no checkpoint needs are removed in short transactions between those of the writers.

What is needed is noted in a temporary table of a connection of its own: SQLite keeps it in a file when it grows, so
that a large store takes no more memory than a small one. Chunks go from the youngest to the oldest, because a chunk
only ever stands on older ones: when one goes, whatever not needed stood on it is gone already, and a needed one is
written anew without it in the same transaction. So no content survives because something else was
stored as a difference to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import apsw

from holdfast.backends.lease_rules import GC, check_no_collection, gc_lease, is_same
from holdfast.backends.rebase import Dependent, Parent, rebase
from holdfast.backends.sqlite.chunks import read_chunks
from holdfast.backends.sqlite.connection import fetch, waiting
from holdfast.backends.sqlite.errors import translated
from holdfast.backends.sqlite.lease import put_lease, read_lease
from holdfast.errors import BackendError, IntegrityError
from holdfast.objects.compression import STREAM
from holdfast.objects.tree.read import read_chunk
from holdfast.storage.leases import Holder, Lease
from holdfast.storage.records import ChunkHash, Swept

_MOST_REWRITTEN: Final = 1 << 20
"""Plain bytes that one transaction writes out whole: writers wait for it no longer than for a large save."""

_REWRITTEN_AT_ONCE: Final = 16
"""Chunks that stand on one that goes; each may be followed by the rest of a stream."""

_RENEW_EVERY: Final = 5.0
"""Seconds between two renewals of the lease while it marks; far less than anybody waits before taking over."""

_NOTE = "INSERT INTO temp.needed (number, base) VALUES (?, ?) ON CONFLICT DO NOTHING"
_GONE = (
    "FROM main.chunks AS c WHERE c.number < ? AND c.epoch < ? "
    "AND NOT EXISTS (SELECT 1 FROM temp.needed AS n WHERE n.number = c.number)"
)
# What is needed and stands on a chunk; and of the versions of a stream, all that follow, because they cannot be read
# without what came before them.
_STANDING = (
    "WITH RECURSIVE standing (number, base, codec) AS ("
    "SELECT * FROM (SELECT c.number, c.base, c.codec FROM temp.needed AS n "
    "CROSS JOIN main.chunks AS c ON c.number = n.number "
    "WHERE n.base = ?1 AND c.base = ?1 LIMIT ?3) UNION "
    "SELECT c.number, c.base, c.codec FROM standing AS s CROSS JOIN temp.needed AS n ON n.base = s.number "
    "CROSS JOIN main.chunks AS c ON c.number = n.number AND c.base = s.number AND c.codec = ?2) "
    "SELECT c.number, c.hash, c.base FROM standing CROSS JOIN main.chunks AS c ON c.number = standing.number "
    "ORDER BY c.number"
)
_STANDS_ON = (
    "SELECT 1 FROM temp.needed AS n CROSS JOIN main.chunks AS c ON c.number = n.number "
    "WHERE n.base = ? AND c.base = ? LIMIT 1"
)
_BELOW = (
    "SELECT b.number, b.hash, b.depth FROM main.chunks AS c CROSS JOIN main.chunks AS b ON b.number = c.base "
    "CROSS JOIN temp.needed AS n ON n.number = b.number WHERE c.number = ?"
)
_REWRITE = "UPDATE chunks SET codec = ?, data = ?, base = ?, depth = ? WHERE number = ?"
_NOTE_BASE = "UPDATE temp.needed SET base = ? WHERE number = ?"

Transaction = Callable[[Callable[[], Any]], Any]
"""Runs a function inside a transaction that has the write lock."""


def open_epoch(connection: apsw.Connection, holder: Holder, stale_after: float | None) -> tuple[int, Lease]:
    """Begin a new epoch and claim the lease of a collection, inside a transaction: no commit is under way.

    Raises:
        ConflictError: Another collection has renewed its lease within `stale_after` seconds (`collection-running`).
    """
    epoch = current_epoch(connection) + 1
    lease = gc_lease(holder, epoch)
    check_no_collection(read_lease(connection, GC), lease, stale_after)
    connection.execute("UPDATE counters SET value = ? WHERE name = 'epoch'", (epoch,))
    put_lease(connection, lease)
    return epoch, lease


def current_epoch(connection: apsw.Connection) -> int:
    """The epoch that commits stamp chunks with."""
    ((epoch,),) = fetch(connection, "SELECT value FROM counters WHERE name = 'epoch'")
    assert isinstance(epoch, int), "the schema says so"
    return epoch


def rewrite_file(connection: apsw.Connection, path: str, timeout: float) -> None:
    """Write the file anew without anything that was removed, and empty the write-ahead log.

    Removed rows stay in free pages and in the log until something else is written over them. Clearing single pages
    would not be enough: SQLite moves rows between pages, and leaves what it moved where it was.
    """
    waiting(lambda: fetch(connection, "VACUUM"), path, timeout)

    def empty_log() -> None:
        ((busy, _, _),) = fetch(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            # A reader that began before still needs the old pages.
            raise apsw.BusyError("the write-ahead log is in use")

    waiting(empty_log, path, timeout)


class SqliteCollection:
    """A `Collection` over a connection that nobody else uses; without a lease it is a dry run."""

    def __init__(
        self,
        connection: apsw.Connection,
        path: str,
        epoch: int,
        lease: Lease | None,
        transaction: Transaction,
    ) -> None:
        self._connection = connection
        self._path = path
        self._epoch = epoch
        self._lease = lease
        self._transaction = transaction
        self._renewed = time.monotonic()
        # Chunks that come meanwhile have higher numbers or newer stamps; going down never meets one twice.
        self._below = (1 << 63) - 1
        with translated(path):
            fetch(
                connection,
                "CREATE TEMP TABLE needed (number INTEGER PRIMARY KEY, base INTEGER) STRICT; "
                "CREATE INDEX temp.needed_base ON needed (base) WHERE base IS NOT NULL",
            )

    def mark(self, names: Iterable[ChunkHash]) -> Sequence[ChunkHash]:
        """See `Collection.mark`."""
        new: list[ChunkHash] = []
        self._renew_in_time()
        with translated(self._path):
            for name in names:
                found = fetch(
                    self._connection, "SELECT number, base, refers FROM chunks WHERE hash = ?", (name,)
                )
                if not found:
                    raise IntegrityError.chunk_missing(name)
                number, base, refers = found[0]
                self._connection.execute(_NOTE, (number, base))
                if self._connection.changes() and refers:
                    new.append(name)
        return new

    def unneeded(self) -> Swept:
        """See `Collection.unneeded`."""
        with translated(self._path):
            ((chunks, size),) = fetch(
                self._connection,
                f"SELECT count(*), total(length(c.data)) {_GONE}",
                (self._below, self._epoch),
            )
        return Swept(chunks, int(size), done=not chunks)

    def sweep(self, limit: int) -> Swept:
        """See `Collection.sweep`."""
        if self._lease is None:
            return Swept()
        below = self._below
        try:
            swept: Swept = self._transaction(lambda: self._sweep(limit))
        except BaseException:
            # Nothing of it took place: what it would have removed comes first again, before what that stands on.
            self._below = below
            raise
        return swept

    def _sweep(self, limit: int) -> Swept:
        if current_epoch(self._connection) != self._epoch:
            # A newer collection notes what stands on what, and must find it so: nobody else may write chunks anew then.
            return Swept(superseded=True)
        self._renew()
        # Looked up under the write lock: a writer may have stamped one since the last transaction.
        gone = fetch(
            self._connection,
            f"SELECT c.number, length(c.data) {_GONE} ORDER BY c.number DESC LIMIT ?",
            (self._below, self._epoch, limit + 1),
        )
        removed, freed, rewritten = 0, 0, 0
        for number, size in gone[:limit]:
            if rewritten > _MOST_REWRITTEN:
                return Swept(removed, freed, done=False)
            rewritten += self._write_out(number)
            if self._stands_on(number):
                # More stood on it than one transaction writes anew: the next one goes on here.
                return Swept(removed, freed, done=False)
            self._connection.execute("DELETE FROM chunks WHERE number = ?", (number,))
            self._below = number
            removed += 1
            freed += size
        return Swept(removed, freed, done=len(gone) <= limit)

    def _renew(self) -> None:
        """Renew the lease, inside a transaction."""
        current = read_lease(self._connection, GC)
        if self._lease is not None and current is not None and is_same(current, self._lease):
            put_lease(self._connection, gc_lease(self._lease.holder, self._epoch))

    def _renew_in_time(self) -> None:
        """Renew the lease if that was some time ago: marking alone writes nothing."""
        if self._lease is None or time.monotonic() - self._renewed < _RENEW_EVERY:
            return
        self._renewed = time.monotonic()
        # If it cannot be renewed this once, others may take over, and nothing is lost.
        with suppress(BackendError), translated(self._path):
            self._transaction(self._renew)

    def _stands_on(self, number: int) -> bool:
        return bool(fetch(self._connection, _STANDS_ON, (number, number)))

    def _write_out(self, number: int) -> int:
        """Write anew what is needed and cannot be read without the chunk of that number; how many bytes that is.

        So many at a time: a root may be what hundreds of forks are kept as differences to.
        """
        found = fetch(self._connection, _STANDING, (number, STREAM, _REWRITTEN_AT_ONCE))
        if not found:
            return 0
        standing = [Dependent(each, ChunkHash(name), base) for each, name, base in found]
        below = [Parent(*row) for row in fetch(self._connection, _BELOW, (number,))]
        rewritten, read = rebase(number, standing, below[0] if below else None, self._read)
        for each in rewritten:
            row = (each.codec, each.data, each.base, each.depth, each.number)
            self._connection.execute(_REWRITE, row)
            self._connection.execute(_NOTE_BASE, (each.base, each.number))
        return read

    def _read(self, name: ChunkHash) -> bytes:
        return read_chunk(name, lambda names: read_chunks(self._connection, names))
