"""Rows on their way from one store to another: the records of `Backend.adopt`.

A commit gives out numbers and keeps the rules of history. Here the history was made elsewhere, and is taken over as it
is: ids, seq, times, edits, the log. Only `position`, the order of arrival, is each store's own.
"""

from __future__ import annotations

from typing import Literal

from holdfast.record import Record
from holdfast.storage.records import (
    BranchRow,
    CheckpointId,
    CheckpointRow,
    Chunk,
    ChunkHash,
    Operation,
    SessionRow,
    seal,
)

Adopted = Literal["whole", "partial"]
"""Whether the last `adopt` of a session said that it was complete."""


class Adoption(Record):
    """Rows of one session that a store takes over as they are: all of it becomes visible, or nothing.

    The chunks that its checkpoints need are in it, are named by `found`, or belong to the state of another checkpoint
    of the session that stays. That is safe, because nobody can remove a checkpoint without changing the session row,
    and then the row is not the expected one.
    """

    session: SessionRow
    """The session as it is afterwards: counters, log tip and current branch included."""
    expected: SessionRow | None
    """The session as it was read; None where there must be none."""
    chunks: tuple[Chunk, ...] = ()
    found: tuple[ChunkHash, ...] = ()
    """Chunks that must be there already."""
    checkpoints: tuple[CheckpointRow, ...] = ()
    """They take the place of what is there under their id. One without a position gets the next; one with a position
    keeps it, which has to be the one that it has in this store."""
    removals: tuple[CheckpointId, ...] = ()
    """Checkpoints of the session that go for good, hidden or not; one that is gone is no error."""
    branches: tuple[BranchRow, ...] | None = None
    """All branches that the session has afterwards; None leaves them as they are."""
    operations: tuple[Operation, ...] = ()
    """Entries to add to the log, as they are."""
    cuts_log_from: int = 0
    """Operations from this number on go before those of this batch come; 0 cuts nothing."""
    whole: bool | None = False
    """Whether the session is complete with this batch. Until then there is more to come. None: it is no copy of another
    store's session, and is not known as adopted afterwards."""


def adoption_mark(session: SessionRow, adopted: Adopted) -> int:
    """What a backend remembers of an adoption: a number that only this state of the session row gives.

    Each save and each operation changes the session row, so a row that still fits shows that nobody wrote since.
    """
    return seal(*session, adopted)
