"""What a save takes out of a session that was opened with `keep=`: in its own commit, or right after it.

In its own commit it is one commit instead of two, and nobody finds more than is to be kept, wherever the process is
killed. But a save is for the state: what there is to look through and to remove before it is durable has to be little.
A session with many checkpoints is looked after when the save is done (`retire`), and so is what a policy takes from
other sessions.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from holdfast.history.keep import Keep
from holdfast.history.retention import RetentionPlan
from holdfast.record import Record
from holdfast.storage.records import Batch, CheckpointId, CheckpointRow, Guard, Query, SessionRow
from holdfast.store.changing import OperationPlan
from holdfast.store.place import Place
from holdfast.store.policies import Coming, carry_out_all, plan_for, read

MOST_ALONG: Final = 512
"""Checkpoints of a session; with more, removing waits until the save is done."""

Gone = dict[str, list[str]]
"""The ids of checkpoints, newest first, by their session."""


class Retirement(Record):
    """What goes with the commit of a save, worked out from the session as it was just before."""

    row: CheckpointRow
    """The checkpoint that is saved, led past what goes."""
    plan: OperationPlan | None
    """None where nothing goes."""
    before: SessionRow
    gone: Gone
    kept: int
    """How many are there afterwards."""

    def into(self, batch: Batch) -> Batch:
        """The batch of the save, with what goes."""
        guard, plan, before = batch.guard, self.plan, self.before
        if plan is None or plan.entry is None:
            return batch
        if guard is not None and guard.log_count != before.log_count:
            # Something changed since the save was worked out, so that the batch is refused: nothing is left out.
            return batch
        return batch._replace(
            checkpoints=(self.row,),
            # None of the plan: the tips of branches stay.
            edits=tuple(new for _, new in plan.edits),
            operations=(plan.entry,),
            guard=Guard(log_count=before.log_count, last_seq=before.last_seq),
            removals=plan.removals,
            cuts_log_from=plan.cuts_log_from,
            seen=tuple(old for old, _ in plan.edits),
        )

    def holds(self, saved: CheckpointRow) -> bool:
        """Whether it was the session as it was read that the checkpoint came to, as this tells from its number."""
        return saved.seq == self.before.last_seq + 1


def retirement_with(place: Place, keep: Keep, coming: Coming) -> Retirement | None:
    """What a policy of one session does not keep once a checkpoint is saved.

    None where the session is yet to be made, or has too many checkpoints to look through before one is saved.
    """
    session, now = place.claim.session, place.clock()
    with place.backend.reader() as reader:
        there = reader.checkpoints(Query(session=session, limit=MOST_ALONG + 1))
        if len(there) > MOST_ALONG:
            return None
        reading = read(reader, session, keep, now, kind="retire", coming=coming._replace(there=there))
    after = reading.owners.get(session)
    if after is None:
        return None
    before = after._replace(last_seq=after.last_seq - 1)
    gone, kept = _gone_and_kept(reading.plan, reading.plan.removed)
    planned = plan_for(reading, session, now, "retire")
    if planned is None:
        return Retirement(coming.row, None, before, gone, kept)
    # What is not there yet is not edited: it is written as it is to be.
    edits, row = [], coming.row
    for pair in planned.edits:
        if pair[0].id == row.id:
            row = row._replace(prev=pair[1].prev, skipped=pair[1].skipped)
        else:
            edits.append(pair)
    return Retirement(row, planned._replace(edits=edits), before, gone, kept)


def retire(place: Place, keep: Keep) -> tuple[Gone, int]:
    """Remove for good what a policy does not keep, after a save; what went of which session, and how many are left."""
    now = place.clock()
    with place.backend.reader() as reader:
        reading = read(reader, place.claim.session, keep, now, kind="retire")
    reading, gone = carry_out_all(place, keep, reading, now=now, kind="retire")
    return _gone_and_kept(reading.plan, gone)


def _gone_and_kept(decided: RetentionPlan, removed: Collection[CheckpointId]) -> tuple[Gone, int]:
    gone: Gone = {}
    for each in decided.decisions:
        if each.row.id in removed:
            gone.setdefault(each.row.session, []).append(each.row.id.hex())
    return gone, sum(each.kept for each in decided.decisions)
