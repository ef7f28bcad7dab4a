"""The chunk table of a PostgreSQL store. What its rows hold is the business of `backends/chunk_rows.py`.

Chunks are written by the function `put_chunks` of the schema, which a commit calls; `ChunkColumns` is what it takes.
They are read many at a time; what some of them stand on is asked for in a second statement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.backends.chunk_codec import MAX_DEPTH, PackedChunk, ReadChunks, RecentChunks, depth_of
from holdfast.backends.postgres.connection import Connection
from holdfast.backends.rows import Row
from holdfast.objects.compression import DELTA
from holdfast.record import Record
from holdfast.storage.records import ChunkHash

_AT_ONCE: Final = 256
"""Chunks in one statement: what is held in memory on both sides stays small."""

_FIELDS = "c.number, c.hash, c.codec, c.size_bytes, c.base, c.depth, c.data"
# Nearly all chunks stand alone, and asking for them so takes the server half as long.
_SELECT_ALONE: Final = f"SELECT {_FIELDS} FROM chunks AS c WHERE c.hash = ANY (%b::bytea[])"  # noqa: S608 - constants
# All that the chunks stand on, each row once. One level more than there may be shows that there are too many.
_SELECT_WITH_BASES: Final = (
    "WITH RECURSIVE chain (number, base, level) AS ("  # noqa: S608 - constants
    "SELECT number, base, 0 FROM chunks WHERE hash = ANY (%b::bytea[]) UNION "
    "SELECT c.number, c.base, w.level + 1 FROM chain AS w JOIN chunks AS c ON c.number = w.base "
    f"WHERE w.level <= {MAX_DEPTH}) "
    f"SELECT {_FIELDS} FROM chunks AS c WHERE c.number = ANY (ARRAY(SELECT number FROM chain))"
)
CHAIN: Final = (
    f"WITH RECURSIVE chain AS (SELECT {_FIELDS}, 0 AS level FROM chunks AS c WHERE c.hash = {{name}} UNION ALL "  # noqa: S608 - constants
    f"SELECT {_FIELDS}, w.level + 1 FROM chain AS w JOIN chunks AS c ON c.number = w.base "
    f"WHERE w.level <= {MAX_DEPTH}) SELECT number, hash, codec, size_bytes, base, depth, data FROM chain"
)
"""The same for the one chunk whose name an expression gives. Carrying the fields along takes one look into the table
less to plan, and copies no large values: those stay where they are until they are sent."""
_SELECT_ONE: Final = CHAIN.format(name="%b")
_PUT = (
    "SELECT put_chunks(%b::bytea[], %b::smallint[], %b::bigint[], %b::bytea[], %b::bytea[], %b::smallint[], "
    "%b::bytea[], %s)"
)
_SELECT_PRESENT = "SELECT hash FROM chunks WHERE hash = ANY (%b::bytea[])"


class ChunkColumns(Record):
    """Packed chunks as the parameters of `put_chunks`: one list for each column."""

    names: list[bytes]
    codecs: list[int]
    sizes: list[int]
    bases: list[bytes | None]
    marks: list[bytes | None]
    referring: list[int]
    bodies: list[bytes | None]

    @classmethod
    def of(cls, packed: Sequence[PackedChunk]) -> ChunkColumns:
        """The columns of these chunks."""
        columns = cls([], [], [], [], [], [], [])
        # Each once: a statement that writes a row twice is refused.
        for each in {each.chunk.hash: each for each in packed}.values():
            last = each.last
            stands = each.codec == DELTA or last is not None
            columns.names.append(each.chunk.hash)
            columns.codecs.append(each.codec)
            columns.sizes.append(each.size_bytes)
            columns.bases.append(each.chunk.base if stands and each.data is not None else None)
            # Blocks fit only what the stream itself wrote, not another row of the same plain bytes.
            columns.marks.append(None if last is None else hashlib.sha256(last.blocks).digest())
            columns.referring.append(int(each.refers))
            columns.bodies.append(each.data)
        return columns


def put_in_turn(connection: Connection, packed: Sequence[PackedChunk], epoch: int) -> None:
    """Write chunks that may stand on each other, each after what it stands on; the transaction has entered."""
    turns: dict[ChunkHash, int] = {}
    for each in packed:
        # One that stands alone need not wait for what it might have stood on.
        base = each.chunk.base if each.codec == DELTA or each.last is not None else None
        turns[each.chunk.hash] = turns[base] + 1 if base in turns else 0
    for turn in range(max(turns.values(), default=-1) + 1):
        some = [each for each in packed if turns[each.chunk.hash] == turn]
        connection.execute(_PUT, [*ChunkColumns.of(some), epoch])


def make_fit(packed: Iterable[PackedChunk], detail: str | None) -> None:
    """Have chunks stand alone that were refused, as `put_chunks` names them, because others are not there any more."""
    unfit = {bytes.fromhex(name) for name in (detail or "").split()}
    for each in packed:
        if each.chunk.hash in unfit:
            each.make_whole()


def note_depths(packed: Iterable[PackedChunk], recent: RecentChunks) -> None:
    """Note how deep the chunks of a commit stand, as far as it is known here, so that the next save can build on them.

    PostgreSQL tells a stream's row by its content, so that its number does not matter: 1 says that it was written.
    """
    for each in packed:
        depth = None if each.data is None else depth_of(each, recent)
        each.number, each.depth = (0, 0) if depth is None else (1, depth)


def present_among(connection: Connection, names: Iterable[ChunkHash]) -> set[ChunkHash]:
    """Those of the chunks that are there."""
    return {ChunkHash(name) for (name,) in connection.execute(_SELECT_PRESENT, [list(names)], binary=True)}


def read_chunks(connection: Connection, names: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
    """The plain bytes of those chunks that are there. Their hashes are for the caller to check."""
    return dict(ReadChunks(find_chains(connection, list(names))))


def find_chains(connection: Connection, wanted: Sequence[ChunkHash]) -> dict[ChunkHash, Sequence[Row]]:
    """The rows of those chunks that are there, each with the rows that it stands on."""
    if len(wanted) == 1:
        # Most often a root, which most often stands on others.
        found = chains_in(connection.execute(_SELECT_ONE, [wanted[0]], binary=True))
        return {name: found[name] for name in wanted if name in found}
    chains: dict[ChunkHash, Sequence[Row]] = {}
    for start in range(0, len(wanted), _AT_ONCE):
        chains.update(
            chains_in(connection.execute(_SELECT_ALONE, [wanted[start : start + _AT_ONCE]], binary=True))
        )
    left = [name for name, chain in chains.items() if chain[-1][3] is not None]
    for start in range(0, len(left), _AT_ONCE):
        some = left[start : start + _AT_ONCE]
        found = chains_in(connection.execute(_SELECT_WITH_BASES, [some], binary=True))
        chains.update((name, found[name]) for name in some)
    return chains


def chains_in(rows: Iterable[Row]) -> dict[ChunkHash, Sequence[Row]]:
    """The chunks in an answer, each with those that it stands on, as far as they are in it too."""
    by_number: dict[int, Row] = {}
    by_name: dict[ChunkHash, int] = {}
    for number, name, *row in rows:
        by_number[number] = (number, *row)
        by_name[name] = number
    return {name: _chain(by_number, number) for name, number in by_name.items()}


def _chain(by_number: dict[int, Row], number: int) -> list[Row]:
    """A row and those that it stands on, as far as they are there."""
    chain = [by_number[number]]
    # Damage may lead round in a circle; `plain_of` refuses a chain that is longer than it can be.
    while chain[-1][3] in by_number and len(chain) <= MAX_DEPTH + 1:
        chain.append(by_number[chain[-1][3]])
    return chain
