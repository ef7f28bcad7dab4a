"""Removing chunks that no checkpoint needs, in short transactions between those of the writers.

What is needed is noted in a temporary table of a connection of its own: SQLite keeps it in a file when it grows, so
that a large store takes no more memory than a small one. Chunks go from the youngest to the oldest, because a chunk
only ever stands on older ones: when one goes, whatever not needed stood on it is gone already, and a needed one is
written anew without it in the same transaction. So no content survives because something else was
stored as a difference to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import apsw

from holdfast.backends.chunk_rows import MAX_DEPTH
from holdfast.backends.sqlite.chunks import read_chunks
from holdfast.backends.sqlite.connection import fetch, waiting
from holdfast.backends.sqlite.errors import translated
from holdfast.errors import IntegrityError
from holdfast.objects.compression import compress
from holdfast.objects.deltas import DELTA, shrink
from holdfast.objects.streams import STREAM
from holdfast.objects.verified import read_chunk
from holdfast.storage.records import ChunkHash, Swept

_MOST_REWRITTEN: Final = 1 << 20
"""Plain bytes that one transaction writes out whole: writers wait for it no longer than for a large save."""

_REWRITTEN_AT_ONCE: Final = 16
"""Chunks that stand on one that goes; each may be followed by the rest of a stream."""

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
    "SELECT c.number, c.hash, c.base, c.depth FROM standing CROSS JOIN main.chunks AS c ON c.number = standing.number "
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

Transaction = Callable[[Callable[[], Swept]], Swept]
"""Runs a function inside a transaction that has the write lock."""


def open_epoch(connection: apsw.Connection) -> int:
    """Begin a new epoch, inside a transaction that has the write lock: no commit is under way."""
    connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'epoch'")
    return current_epoch(connection)


def current_epoch(connection: apsw.Connection) -> int:
    """The epoch that commits stamp chunks with."""
    ((epoch,),) = fetch(connection, "SELECT value FROM counters WHERE name = 'epoch'")
    assert isinstance(epoch, int), "the schema says so"
    return epoch


def rewrite_file(connection: apsw.Connection, path: str, *, timeout: float) -> None:
    """Write the file anew without anything that was removed, and empty the write-ahead log.

    Removed rows stay in free pages and in the log until something else is written over them. Clearing single pages
    would not be enough: SQLite moves rows between pages, and leaves what it moved where it was.
    """
    deadline = time.monotonic() + timeout
    waiting(lambda: fetch(connection, "VACUUM"), path, deadline=deadline, timeout=timeout)

    def empty_log() -> None:
        ((busy, _, _),) = fetch(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            # A reader that began before still needs the old pages.
            raise apsw.BusyError("the write-ahead log is in use")

    waiting(empty_log, path, deadline=deadline, timeout=timeout)


class SqliteCollection:
    """A `Collection` over a connection that nobody else uses; without a way into a transaction it sweeps nothing."""

    def __init__(
        self, connection: apsw.Connection, path: str, epoch: int, transaction: Transaction | None
    ) -> None:
        self._connection = connection
        self._path = path
        self._epoch = epoch
        self._transaction = transaction
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
        if self._transaction is None:
            return Swept()
        below = self._below
        try:
            return self._transaction(lambda: self._sweep(limit))
        except BaseException:
            # Nothing of it took place: what it would have removed comes first again, before what that stands on.
            self._below = below
            raise

    def _sweep(self, limit: int) -> Swept:
        if current_epoch(self._connection) != self._epoch:
            # A newer collection notes what stands on what, and must find it so: nobody else may write chunks anew then.
            return Swept(superseded=True)
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

    def _stands_on(self, number: int) -> bool:
        return bool(fetch(self._connection, _STANDS_ON, (number, number)))

    def _write_out(self, number: int) -> int:
        """Write anew what is needed and cannot be read without the chunk of that number; how many bytes that is.

        So many at a time: a root may be what hundreds of forks are kept as differences to.
        """
        standing = fetch(self._connection, _STANDING, (number, STREAM, _REWRITTEN_AT_ONCE))
        if not standing:
            return 0
        below = fetch(self._connection, _BELOW, (number,))
        # All of it is read before any of it is written, and verified: damage must not be sealed in.
        plain = {each: self._read(name) for each, name, *_ in standing + below}
        # Where the chunk stood on a needed one, what stood on it stands on that one now.
        onto = {number: below[0][0]} if below else {}
        depths = {each: depth for each, _, depth in below}
        for each, _, last, _ in standing:
            base = onto.get(last, last)
            delta = None
            if base in depths and depths[base] < MAX_DEPTH:
                delta = shrink(plain[each], plain[base])
            if delta is None:
                depths[each] = 0
                row = (*compress(plain[each]), None)
            else:
                depths[each] = depths[base] + 1
                row = (DELTA, delta, base)
            self._connection.execute(_REWRITE, (*row, depths[each], each))
            self._connection.execute(_NOTE_BASE, (row[-1], each))
        return sum(map(len, plain.values()))

    def _read(self, name: bytes) -> bytes:
        return read_chunk(ChunkHash(name), lambda names: read_chunks(self._connection, names))
