"""What can be said of a store that may be damaged: the records of `ports.Inspection`."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from holdfast.record import Record
from holdfast.storage.records import (
    BranchRow,
    CheckpointId,
    CheckpointRow,
    ChunkHash,
    Operation,
    SessionRow,
)


class Flaw(Record):
    """Something in a store that is not as it was written."""

    kind: str
    """page, header, counter, session, branch, checkpoint, operation or tag."""
    what: str
    """Which one, for people."""
    why: str
    session: str | None = None
    name: str | None = None
    """Of a branch, where it can be said."""


class LostRow(Record):
    """A checkpoint that must have been there, and whose row is not readable: what is known of it."""

    id: CheckpointId | None
    session: str | None
    seq: int | None
    why: str
    followed: tuple[CheckpointId, ...] = ()
    """What it followed, as far as its row can still be read: the first that is a checkpoint counts."""


class Rebuilt(Record):
    """All that a store is to hold after a repair. Rows keep what the store once gave them: seq, position, times."""

    sessions: Sequence[SessionRow]
    branches: Sequence[BranchRow]
    checkpoints: Sequence[CheckpointRow]
    operations: Sequence[Operation]
    chunks: AbstractSet[ChunkHash]
    """The chunks to take over; the others are left behind."""
