"""Everything a store in memory holds at one time, and what a batch makes of it.

Rows are frozen, so a moment is a handful of dicts that hold them. A batch is first checked as a whole and then applied
by steps that cannot fail: that makes a commit all or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.backends import rules
from holdfast.backends.row_tables import Tables
from holdfast.errors import ConflictError
from holdfast.storage.records import (
    Batch,
    BranchRow,
    CheckpointId,
    CheckpointRow,
    ChunkHash,
    Move,
    Operation,
    Receipt,
    SessionRow,
)

if TYPE_CHECKING:
    from holdfast.storage.leases import Fence, Lease


@dataclass(slots=True)
class Moment:
    """Everything the store holds at one time."""

    sessions: dict[str, SessionRow] = field(default_factory=dict)
    branches: dict[tuple[str, str], BranchRow] = field(default_factory=dict)
    # In order of arrival, which is the order of `position`.
    checkpoints: dict[CheckpointId, CheckpointRow] = field(default_factory=dict)
    keys: dict[tuple[str, str], CheckpointId] = field(default_factory=dict)
    operations: dict[tuple[str, int], Operation] = field(default_factory=dict)
    chunks: dict[ChunkHash, bytes] = field(default_factory=dict)
    stamps: dict[ChunkHash, int] = field(default_factory=dict)
    """The epoch in which each chunk was last written or found."""
    adopted: dict[str, int] = field(default_factory=dict)
    """How `adopt` left each session that it wrote."""
    leases: dict[str, Lease] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    epoch: int = 0
    position: int = 0
    lease_epoch: int = 0
    """The highest that was ever given to a claim of a lease."""
    readers: int = 0

    def copy(self) -> Moment:
        """The same moment again, without its readers."""
        return Moment(
            sessions=dict(self.sessions),
            branches=dict(self.branches),
            checkpoints=dict(self.checkpoints),
            keys=dict(self.keys),
            operations=dict(self.operations),
            chunks=dict(self.chunks),
            stamps=dict(self.stamps),
            adopted=dict(self.adopted),
            leases=dict(self.leases),
            tables=self.tables,
            epoch=self.epoch,
            position=self.position,
            lease_epoch=self.lease_epoch,
        )


def check(moment: Moment, batch: Batch) -> SessionRow:
    """The session as it will be, once everything that can be refused has been looked at."""
    check_fence(moment, batch.fence)
    session = rules.claim_session(moment.sessions.get(batch.claim.session), batch)
    rules.check_guard(session, batch.guard)
    for relied_on in rules.relied_on(batch):
        if relied_on not in moment.checkpoints:
            raise ConflictError.chunks_gone(relied_on)
    new = {row.id: row for row in batch.checkpoints if row.id not in moment.checkpoints}
    session = rules.advance(session, new=len(new), operations=batch.operations)
    heads: dict[str, CheckpointId | None] = {}
    for move in batch.moves:
        branch = moment.branches.get((session.id, move.branch))
        actual = heads.get(move.branch, branch.head if branch else None)
        if actual != move.expected:
            raise ConflictError.branch_moved(session.id, move.branch, expected=move.expected, actual=actual)
        heads[move.branch] = move.head
    keys: dict[str, CheckpointId] = {}
    for row in new.values():
        if row.key is None:
            continue
        existing = moment.keys.get((session.id, row.key)) or keys.get(row.key)
        if existing is not None:
            raise ConflictError.key_taken(session.id, row.key, existing=existing)
        keys[row.key] = row.id
    for edit in batch.edits:
        if edit.id not in moment.checkpoints and edit.id not in new:
            raise rules.edit_missing(edit.id)
    _check_removals(moment, new, batch)
    return rules.switched(session, batch)


def check_fence(moment: Moment, fence: Fence | None) -> None:
    """Raise where a lease is not held by that claim."""
    if fence is not None:
        # Only who holds a lease needs to know what one is.
        from holdfast.backends import leasing

        leasing.check_fence(moment.leases.get(fence.name), fence)


def _check_removals(moment: Moment, new: Mapping[CheckpointId, CheckpointRow], batch: Batch) -> None:
    hidden = {edit.id: edit.hidden for edit in batch.edits}
    for each in batch.removals:
        row = moment.checkpoints.get(each) or new.get(each)
        if row is not None:
            rules.check_removal(row, batch.claim.session, hidden=hidden.get(each, row.hidden))


def apply(moment: Moment, batch: Batch, session: SessionRow) -> Receipt:
    """Make the changes. Nothing here can fail, so that a commit is all or nothing."""
    moment.sessions[session.id] = session
    new_chunks = {each.hash: each.data for each in batch.chunks if each.hash not in moment.chunks}
    moment.chunks.update(new_chunks)
    moment.stamps.update((each.hash, moment.epoch) for each in batch.chunks)
    # The chunks of a batch are not divided among its checkpoints: they count for the first.
    stored_bytes = sum(map(len, new_chunks.values()))
    new = {row.id: row for row in batch.checkpoints if row.id not in moment.checkpoints}
    for number, row in enumerate(new.values(), start=1 - len(new)):
        moment.position += 1
        moment.checkpoints[row.id] = row._replace(
            seq=session.last_seq + number,
            position=moment.position,
            stored_at=batch.at,
            stored_bytes=stored_bytes,
        )
        stored_bytes = 0
        if row.key is not None:
            moment.keys[session.id, row.key] = row.id
    for edit in batch.edits:
        moment.checkpoints[edit.id] = rules.edited(moment.checkpoints[edit.id], edit)
    if batch.cuts_log_from:
        numbers = [number for name, number in moment.operations if name == session.id]
        for number in [each for each in numbers if each >= batch.cuts_log_from]:
            del moment.operations[session.id, number]
    for operation in batch.operations:
        moment.operations[session.id, operation.number] = operation
    for move in batch.moves:
        _move(moment, session.id, move, batch.at)
    receipt = Receipt(tuple(moment.checkpoints[each.id] for each in batch.checkpoints))
    for each in batch.removals:
        _remove(moment, each)
    return receipt


def _remove(moment: Moment, checkpoint: CheckpointId) -> None:
    row = moment.checkpoints.pop(checkpoint, None)
    if row is not None and row.key is not None:
        del moment.keys[row.session, row.key]


def erase(moment: Moment, session: str) -> None:
    """Remove a session with all that belongs to it."""
    for lease in [each for each in moment.leases if each.partition(":")[2] == session]:
        del moment.leases[lease]
    moment.tables = moment.tables.without(session)
    moment.sessions.pop(session, None)
    moment.adopted.pop(session, None)
    for name in [each for each in moment.branches if each[0] == session]:
        del moment.branches[name]
    for number in [each for each in moment.operations if each[0] == session]:
        del moment.operations[number]
    for row in [row for row in moment.checkpoints.values() if row.session == session]:
        _remove(moment, row.id)


def _move(moment: Moment, session: str, move: Move, at: int) -> None:
    if move.head is None:
        moment.branches.pop((session, move.branch), None)
    else:
        moment.branches[session, move.branch] = BranchRow(
            session=session, name=move.branch, head=move.head, moved_at=at
        )
