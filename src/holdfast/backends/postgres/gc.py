"""Removing chunks that no checkpoint needs, beside running writers.

What is needed is noted in a temporary table of a connection of its own. Chunks go from the youngest to the oldest,
because a chunk only ever stands on older ones. Most go in transactions that hold up nobody: they lock the rows they
remove, from the youngest down as `stamp` does, and look at each again once they have it; a writer that found one of
them first has stamped it, and one that comes second writes it anew. Where a needed chunk stands on one that goes, it is
written anew without it, in a short transaction in which no commit is under way: a commit may be building on it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import psycopg

from holdfast.backends.postgres.chunks import read_chunks
from holdfast.backends.postgres.commit import enter
from holdfast.backends.postgres.connection import Connection
from holdfast.backends.postgres.errors import is_retryable, translated
from holdfast.backends.postgres.locks import alone
from holdfast.backends.rebase import Dependent, Parent, rebase
from holdfast.errors import BackendError, ConflictError, IntegrityError
from holdfast.objects.compression import STREAM
from holdfast.objects.tree.read import read_chunk
from holdfast.storage.records import ChunkHash, Swept

_MARKED_AT_ONCE: Final = 1000
_MOST_REWRITTEN: Final = 1 << 20
"""Plain bytes that one transaction writes out whole: writers wait for it no longer than for a large save."""

_REWRITTEN_AT_ONCE: Final = 16
"""Chunks that stand on one that goes; each may be followed by the rest of a stream."""

_SIGN_EVERY: Final = 5.0
"""Seconds between two signs while it marks; far less than anybody waits for one before taking over."""

_TABLE = (
    "CREATE TEMPORARY TABLE needed (number bigint PRIMARY KEY, base bigint); "
    "CREATE INDEX ON needed (base) WHERE base IS NOT NULL"
)
_NOTE = (
    "WITH wanted AS (SELECT number, base, hash, refers FROM chunks WHERE hash = ANY (%b)), "
    "noted AS (INSERT INTO needed SELECT number, base FROM wanted ON CONFLICT DO NOTHING RETURNING number) "
    "SELECT hash, refers <> 0 AND number IN (SELECT number FROM noted) FROM wanted"
)
_GONE = (
    "FROM chunks AS c WHERE c.number < %s AND c.epoch < %s "
    "AND NOT EXISTS (SELECT 1 FROM needed AS n WHERE n.number = c.number)"
)
_STANDS_ON = (
    "EXISTS (SELECT 1 FROM needed AS n JOIN chunks AS u ON u.number = n.number "
    "WHERE n.base = c.number AND u.base = c.number)"
)
_REMOVE = (
    "WITH locked AS (SELECT number FROM chunks WHERE number = ANY (%s) AND epoch < %s "
    "ORDER BY number DESC FOR UPDATE) "
    "DELETE FROM chunks AS c USING locked WHERE c.number = locked.number RETURNING octet_length(c.data)"
)
# What is needed and stands on a chunk; and of the versions of a stream, all that follow.
_STANDING = (
    "WITH RECURSIVE first AS (SELECT c.number, c.base FROM needed AS n JOIN chunks AS c ON c.number = n.number "
    "WHERE n.base = %(gone)s AND c.base = %(gone)s LIMIT %(limit)s), standing (number, base) AS ("
    "SELECT number, base FROM first UNION "
    "SELECT c.number, c.base FROM standing AS s JOIN needed AS n ON n.base = s.number "
    "JOIN chunks AS c ON c.number = n.number AND c.base = s.number AND c.codec = %(stream)s) "
    "SELECT c.number, c.hash, c.base FROM standing JOIN chunks AS c ON c.number = standing.number ORDER BY c.number"
)
_BELOW = (
    "SELECT b.number, b.hash, b.depth FROM chunks AS c JOIN chunks AS b ON b.number = c.base "
    "JOIN needed AS n ON n.number = b.number WHERE c.number = %s"
)
_REWRITE = "UPDATE chunks SET codec = %s, data = %b, base = %s, depth = %s WHERE number = %s"
_NOTE_BASE = "UPDATE needed SET base = %s WHERE number = %s"
_EPOCH = "SELECT value FROM counters WHERE name = 'epoch'"
# By the server's clock: those of the machines that share it may differ.
_NOW = "extract(epoch FROM clock_timestamp())::bigint"
_SIGN = (
    f"INSERT INTO counters (name, value) SELECT 'collecting', {_NOW} FROM counters "  # noqa: S608 - constants
    "WHERE name = 'epoch' AND value = %s ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_END_SIGNS = "DELETE FROM counters WHERE name = 'collecting' AND (" + _EPOCH + ") = %s"  # noqa: S608 - constants
_LAST_SIGN = f"SELECT abs({_NOW} - value) FROM counters WHERE name = 'collecting'"  # noqa: S608 - constants


def open_epoch(connection: Connection, schema: str, stale_after: float | None) -> int:
    """Begin a new epoch, while no commit is under way.

    Raises:
        ConflictError: Another collection has shown itself within `stale_after` seconds.
    """
    # Before the lock is asked for: whoever is refused holds nobody up.
    _check_nobody_collects(connection, stale_after)
    with alone(connection, schema):
        # A writer of another version does not know what that one needs.
        enter(connection)
        _check_nobody_collects(connection, stale_after)
        connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'epoch'")
        epoch = current_epoch(connection)
        connection.execute(_SIGN, [epoch])
    return epoch


def current_epoch(connection: Connection) -> int:
    """The epoch that commits stamp chunks with."""
    ((epoch,),) = connection.execute(_EPOCH).fetchall()
    return int(epoch)


def _check_nobody_collects(connection: Connection, stale_after: float | None) -> None:
    if stale_after is None:
        return
    for (seconds,) in connection.execute(_LAST_SIGN).fetchall():
        if seconds < stale_after:
            raise ConflictError.collection_running()


class PostgresCollection:
    """A `Collection` over a connection that nobody else uses; without an open epoch it sweeps nothing."""

    def __init__(self, connection: Connection, schema: str, url: str, epoch: int, *, dry_run: bool) -> None:
        self._connection = connection
        self._schema = schema
        self._url = url
        self._epoch = epoch
        self._dry_run = dry_run
        self._shown = time.monotonic()
        # Chunks that come meanwhile have higher numbers or newer stamps; going down never meets one twice.
        self._below = (1 << 63) - 1
        with translated(url):
            connection.execute(_TABLE)

    def mark(self, names: Iterable[ChunkHash]) -> Sequence[ChunkHash]:
        """See `Collection.mark`."""
        self._show()
        wanted = list(dict.fromkeys(names))
        new: set[bytes] = set()
        with translated(self._url):
            for start in range(0, len(wanted), _MARKED_AT_ONCE):
                some = wanted[start : start + _MARKED_AT_ONCE]
                found: dict[ChunkHash, bool] = dict(
                    self._connection.execute(_NOTE, [some], binary=True).fetchall()
                )
                for name in some:
                    if name not in found:
                        raise IntegrityError.chunk_missing(name)
                new.update(name for name, is_new in found.items() if is_new)
        return [name for name in wanted if name in new]

    def unneeded(self) -> Swept:
        """See `Collection.unneeded`."""
        with translated(self._url):
            ((chunks, size),) = self._connection.execute(
                f"SELECT count(*), coalesce(sum(octet_length(c.data)), 0) {_GONE}", [self._below, self._epoch]
            ).fetchall()
        return Swept(chunks, int(size), done=not chunks)

    def sweep(self, limit: int) -> Swept:
        """See `Collection.sweep`."""
        if self._dry_run:
            return Swept()
        below = self._below
        with translated(self._url):
            while True:
                try:
                    return self._sweep(limit)
                except BaseException as error:
                    # Nothing of it took place: what it would have removed comes first again, before what it stands on.
                    self._below = below
                    # It and a commit waited for each other. The commit has what it wanted now, so this one can go on.
                    if not is_retryable(error):
                        raise

    def end(self) -> None:
        """Take back the signs that it is at work, if it is the newest."""
        # Where this fails, the last sign grows old and others take over.
        with suppress(psycopg.Error):
            self._connection.execute(_END_SIGNS, [self._epoch])

    def _sweep(self, limit: int) -> Swept:
        with self._connection.transaction():
            if enter(self._connection) != self._epoch:
                return Swept(superseded=True)
            self._connection.execute(_SIGN, [self._epoch])
            found = self._connection.execute(
                f"SELECT c.number, {_STANDS_ON} {_GONE} ORDER BY c.number DESC LIMIT %s",
                [self._below, self._epoch, limit + 1],
            ).fetchall()
            alone_first = [number for number, carries in found[:limit] if not carries]
            carrying = [number for number, carries in found[:limit] if carries]
            # What carries something needed waits for a transaction of its own; so does what is older than it.
            going = [number for number in alone_first if not carrying or number > carrying[0]]
            if going or not carrying:
                sizes = self._connection.execute(_REMOVE, [going, self._epoch]).fetchall() if going else []
                self._below = going[-1] if going else self._below
                return Swept(
                    len(sizes), sum(size for (size,) in sizes), done=not carrying and len(found) <= limit
                )
        return self._write_out(carrying[0])

    def _write_out(self, number: int) -> Swept:
        """Remove a chunk that needed ones stand on, and write those anew without it; so many at a time."""
        with alone(self._connection, self._schema):
            if enter(self._connection) != self._epoch:
                # A newer collection notes what stands on what, and must find it so.
                return Swept(superseded=True)
            rewritten = 0
            while rewritten <= _MOST_REWRITTEN:
                standing = self._standing(number)
                if not standing:
                    sizes = self._connection.execute(_REMOVE, [[number], self._epoch]).fetchall()
                    self._below = number
                    return Swept(len(sizes), sum(size for (size,) in sizes), done=False)
                below = self._connection.execute(_BELOW, [number], binary=True).fetchall()
                new, read = rebase(number, standing, Parent(*below[0]) if below else None, self._read)
                for each in new:
                    self._connection.execute(
                        _REWRITE, [each.codec, each.data, each.base, each.depth, each.number]
                    )
                    self._connection.execute(_NOTE_BASE, [each.base, each.number])
                rewritten += read
        return Swept(done=False)

    def _standing(self, number: int) -> list[Dependent]:
        values = {"gone": number, "limit": _REWRITTEN_AT_ONCE, "stream": STREAM}
        return [
            Dependent(*row) for row in self._connection.execute(_STANDING, values, binary=True).fetchall()
        ]

    def _read(self, name: ChunkHash) -> bytes:
        return read_chunk(name, lambda names: read_chunks(self._connection, names))

    def _show(self) -> None:
        """Show that it is at work, where the last sign is some time ago: marking alone writes nothing."""
        if self._dry_run or time.monotonic() - self._shown < _SIGN_EVERY:
            return
        self._shown = time.monotonic()
        # Without this one sign others may take over, and nothing is lost.
        with suppress(BackendError), translated(self._url):
            self._connection.execute(_SIGN, [self._epoch])
