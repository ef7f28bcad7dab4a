"""The rows of a store that is made anew from what was found in a damaged one; how they get in is the backend's affair.

Rows keep what the store once gave them, chunks keep their numbers. A hash vouches for the bytes of a chunk and for
nothing else in its row, so the rest is worked out again or checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from holdfast.backends import rows
from holdfast.backends.inspection import RowInspection
from holdfast.backends.rows import Row
from holdfast.errors import IntegrityError
from holdfast.objects.compression import STREAM, compress
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree.nodes import refers
from holdfast.storage.inspection import Rebuilt
from holdfast.storage.records import CheckpointRow, ChunkHash, seal

EPOCH_COLUMN: Final = 6
"""Where the epoch stands in a row of the chunks."""

_MOST_COUNTED: Final = 1 << 48
"""No store gets near it, and a number that a flipped bit made large would use up all there are."""
_SPARE_POSITIONS: Final = 1000
"""How many are passed over where nobody knows any more which was the last: none may be given twice."""


def new_rows(
    seen: RowInspection, wanted: Rebuilt, row_of: Callable[[CheckpointRow], Row] = rows.checkpoint_row
) -> Iterator[tuple[str, Row]]:
    """Each row of the new store with its table, but for chunks and counters; one table after the other.

    Args:
        seen: What was found.
        wanted: What is to be there.
        row_of: A checkpoint as a row with its seal, as `rows.checkpoint_row`.
    """
    for key, value in seen.header().items():
        yield "header", (key, value, seal(key, value))
    numbers = {session.id: number for number, session in enumerate(wanted.sessions, start=1)}
    for session in wanted.sessions:
        yield "sessions", rows.session_row(numbers[session.id], session)
    for branch in wanted.branches:
        checksum = rows.branch_seal(branch.session, branch.name, branch.head, branch.moved_at)
        yield "branches", (numbers[branch.session], branch.name, branch.head, branch.moved_at, checksum)
    for row in wanted.checkpoints:
        _, position, *rest = row_of(row)
        yield "checkpoints", (position, numbers[row.session], *rest)
    for row in wanted.checkpoints:
        for tag in row.tags:
            yield "tags", (tag, row.position)
    for operation in wanted.operations:
        yield "operations", rows.operation_row(numbers[operation.session], operation)


def new_chunk_rows(seen: RowInspection, wanted: Rebuilt) -> Iterator[Row]:
    """Chunks as they are, under their numbers; what stood on one that is left behind stands alone."""
    found: list[tuple[int, ChunkHash]] = []
    for name in wanted.chunks:
        row = seen.tables.chunk_row(name)
        if row is not None:
            found.append((row[0], name))
    taken: set[int] = set()
    rewritten: set[int] = set()
    # What a chunk stands on has a lower number than itself.
    for number, name in sorted(found):
        row = seen.tables.chunk_row(name)
        assert row is not None, "it was there a moment ago"
        _, _, codec, size_bytes, base, depth, epoch, _, data = row
        plain = seen.chunks([name])[name]
        if hash_chunk(plain) != name:
            raise IntegrityError.chunk_damaged(name, why="its bytes do not have this hash")
        # A difference needs the plain bytes of its base; a version of a stream needs the very row.
        if base is not None and (base not in taken or (codec == STREAM and base in rewritten)):
            codec, data = compress(plain)
            size_bytes, base, depth = len(plain), None, 0
            rewritten.add(number)
        # A lost mark would let gc take its children.
        epoch = epoch if _is_count(epoch) else 0
        yield number, name, codec, size_bytes, base, depth, epoch, refers(plain), data
        taken.add(number)


def new_counters(seen: RowInspection, newest_epoch: int) -> dict[str, int]:
    """From where on the store counts: position, epoch, and the epochs of leases, which themselves stay behind.

    Args:
        seen: What was found.
        newest_epoch: The highest among the chunks.
    """
    counted: dict[str, int] = {}
    for name, value in seen.tables.rows("counters"):
        if _is_count(value):
            # They only ever grow: of two versions of a row, the higher one is the later.
            counted[name] = max(value, counted.get(name, 0))
    return {
        "position": seen.newest_position() + (0 if "position" in counted else _SPARE_POSITIONS),
        "epoch": max(newest_epoch, counted.get("epoch", 0)),
        # Where nobody knows any more: nobody has claimed one more often than once a second ever since 1970.
        "lease": counted.get("lease", int(time.time())),
    }


def _is_count(value: object) -> bool:
    """Whether a damaged page can be believed in this: a number that a store could have come to."""
    return type(value) is int and 0 <= value < _MOST_COUNTED
