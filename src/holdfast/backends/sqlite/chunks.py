"""The chunk table of a SQLite store. What its rows hold is the business of `backends/chunk_rows.py`."""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from holdfast.backends.chunk_codec import MAX_DEPTH, PackedChunk, ReadChunks
from holdfast.backends.rows import Row
from holdfast.backends.sqlite.connection import fetch
from holdfast.objects.compression import DELTA
from holdfast.storage.records import ChunkHash

_SELECT = "SELECT hash, number, codec, size_bytes, base, depth, data FROM chunks WHERE hash = ?"
# One by one. A recursive statement for all that a chunk stands on takes as long to prepare as this takes for twenty.
_SELECT_BASE = "SELECT number, codec, size_bytes, base, depth, data FROM chunks WHERE number = ?"
_SELECT_PLACE = "SELECT number, depth, base, epoch FROM chunks WHERE hash = ?"
_SELECT_BELOW = "SELECT number, depth, base, epoch FROM chunks WHERE number = ?"
_SELECT_VERSION = "SELECT number, depth, base, epoch, data FROM chunks WHERE hash = ?"
_INSERT = (
    "INSERT INTO chunks (hash, codec, size_bytes, base, depth, epoch, refers, data) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_STAMP = "UPDATE chunks SET epoch = ? WHERE number = ?"


def write_chunks(connection: apsw.Connection, packed: Iterable[PackedChunk], epoch: int) -> int:
    """Store the chunks that are not there yet; how many bytes they take. All of them get the stamp of this epoch."""
    stored_bytes = 0
    for each in packed:
        each.number = each.depth = 0
        if each.data is None:
            places = fetch(connection, _SELECT_PLACE, (each.chunk.hash,))
            if places:
                _stamp(connection, places[0], epoch)
                continue
            # It was there when the batch was packed, and has been removed since.
            each.make_whole()
        base = None
        if each.codec == DELTA or each.last is not None:
            base = _place(connection, each)
            if base is None:
                # The base is not there, or stands on enough others already. The transaction waits for it, seldom.
                each.make_whole()
        number, each.depth = (None, 0) if base is None else (base[0], base[1] + 1)
        if base is not None:
            _stamp(connection, base, epoch)
        name, data = each.chunk.hash, each.data
        row = (name, each.codec, each.size_bytes, number, each.depth, epoch, each.refers, data)
        connection.execute(_INSERT, row)
        if connection.changes():
            each.number = connection.last_insert_rowid()
            stored_bytes += len(data or b"")
        else:
            _stamp(connection, fetch(connection, _SELECT_PLACE, (each.chunk.hash,))[0], epoch)
    return stored_bytes


def stamp_found(connection: apsw.Connection, names: Iterable[ChunkHash], epoch: int) -> ChunkHash | None:
    """Give chunks that are there the stamp of this epoch; the first that is not there, if there is one."""
    for name in names:
        places = fetch(connection, _SELECT_PLACE, (name,))
        if not places:
            return name
        _stamp(connection, places[0], epoch)
    return None


def _stamp(connection: apsw.Connection, place: Row, epoch: int) -> None:
    """Tell a collection that is under way that a chunk is needed, and with it all that it stands on.

    What a chunk stands on never has an older stamp than the chunk itself, so the first one with this stamp ends it.
    """
    number, _, base, stamp = place
    while stamp < epoch:
        connection.execute(_STAMP, (epoch, number))
        below = fetch(connection, _SELECT_BELOW, (base,))
        if not below:
            return
        number, _, base, stamp = below[0]


def _place(connection: apsw.Connection, each: PackedChunk) -> Row | None:
    """Number, depth, base and stamp of what a chunk was packed to stand on, if it is there and can carry one more."""
    if each.last is None:
        rows = fetch(connection, _SELECT_PLACE, (each.chunk.base,))
        return rows[0] if rows and rows[0][1] < MAX_DEPTH else None
    # Blocks fit only what the stream itself wrote. A row of the same plain bytes that came from elsewhere (a store
    # brought back from a copy, another writer) is not it.
    written = (each.last.number, each.last.depth, each.last.blocks)
    rows = fetch(connection, _SELECT_VERSION, (each.chunk.base,))
    return rows[0][:4] if rows and (*rows[0][:2], rows[0][4]) == written else None


def present_among(connection: apsw.Connection, names: Iterable[ChunkHash]) -> set[ChunkHash]:
    """Those of the chunks that are there."""
    return {name for name in names if fetch(connection, _SELECT_PLACE, (name,))}


def read_chunks(connection: apsw.Connection, names: Iterable[ChunkHash]) -> ReadChunks:
    """Those chunks that are there, to be expanded one by one. Their hashes are for the caller to check."""
    wanted = [(name,) for name in names]
    if len(wanted) == 1:
        # A root is read alone.
        return ReadChunks(
            {row[0]: _chain(connection, row[1:]) for row in fetch(connection, _SELECT, wanted[0])}
        )
    # One statement that is run for each name. Left in the middle, it would hold the view open beyond its transaction.
    rows = connection.executemany(_SELECT, wanted)
    try:
        return ReadChunks({row[0]: _chain(connection, row[1:]) for row in rows})
    finally:
        # By force: a damaged row ends it early, and a complaint about the names that are left would hide the damage.
        rows.close(force=True)


def _chain(connection: apsw.Connection, row: Row) -> list[Row]:
    """A row and those that it stands on, as far as they are there."""
    chain = [row]
    base = row[3]
    # One row more than there may be shows that there are too many.
    while base is not None and len(chain) <= MAX_DEPTH + 1:
        below = fetch(connection, _SELECT_BASE, (base,))
        if not below:
            break
        chain += below
        base = below[0][3]
    return chain
