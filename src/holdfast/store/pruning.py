"""prune: a `Keep` carried out on what is there.

What goes is hidden in one commit per session, with its entry in the operation log, on the condition that the session is
still as it was read; otherwise it is planned again, as `changing` does it. Pruned by a person it can be undone, like a
delete. Retired by a save, because the session was opened with `keep=`, it is gone at once: nobody asked, so nobody will
ask for it back, and a store that keeps ten checkpoints should not hold a thousand. Nor should its log: an entry of that
kind takes the place of those right before it.

What a save retires goes in the commit of the save itself (`retirement_with`): nobody ever finds more than is to be
kept, whatever is killed when, and it is one commit instead of two. Where that cannot be, `retire` does it afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from holdfast.errors import ErrorCode, IntegrityError, InvalidInputError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.heads import missing_head
from holdfast.history.keep import Keep, check_keep
from holdfast.history.oplog import retirement
from holdfast.history.removal import remove
from holdfast.history.retention import RetentionPlan, plan
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import (
    Batch,
    BranchRow,
    CheckpointRow,
    Claim,
    Guard,
    Operation,
    Query,
    SessionRow,
)
from holdfast.store.changing import OperationPlan, carry_out
from holdfast.store.place import Place


class PruneDecision(Record):
    """What becomes of one checkpoint, and why."""

    checkpoint: Checkpoint
    kept: bool
    reasons: tuple[str, ...]
    """Every rule that keeps it, or what removes it."""


class PruneReport(Record):
    """What a prune did, or would do."""

    total: int
    kept: int
    deleted: int
    decisions: tuple[PruneDecision, ...]
    """Newest first."""
    dry_run: bool


class Coming(Record):
    """A checkpoint that is about to be saved, and the branch whose tip it becomes."""

    row: CheckpointRow
    branch: str


class Retirement(Record):
    """What goes with the commit of a save, worked out from the session as it was just before."""

    row: CheckpointRow
    """The checkpoint that is saved, led past what goes."""
    plan: OperationPlan | None
    """None where nothing goes."""
    before: SessionRow
    decided: RetentionPlan

    def into(self, batch: Batch) -> Batch:
        """The batch of the save, with what goes."""
        guard, plan, before = batch.guard, self.plan, self.before
        if plan is None or plan.entry is None or (guard and guard.log_count != before.log_count):
            # In the last case something changed since the save was worked out. Its own guard says so.
            return batch
        return batch._replace(
            checkpoints=(self.row,),
            moves=(*batch.moves, *plan.moves),
            edits=tuple(new for _, new in plan.edits),
            operations=(plan.entry,),
            guard=Guard(log_count=before.log_count, last_seq=before.last_seq),
            removals=plan.removals,
            cuts_log_from=plan.cuts_log_from,
        )

    def holds(self, saved: CheckpointRow) -> bool:
        """Whether it was the session as it was read that the checkpoint came to, as this tells from its number."""
        return saved.seq == self.before.last_seq + 1


class _Reading(Record):
    """All of the sessions that a policy is about, at one moment."""

    owners: Mapping[str, SessionRow]
    rows: Mapping[str, Sequence[CheckpointRow]]
    """Of each session that loses something: from the first that goes on, hidden ones included."""
    heads: Mapping[str, Sequence[BranchRow]]
    plan: RetentionPlan
    newest: Mapping[str, Operation | None]
    """The newest entry of the log of each session that automatic retention takes something from."""


def prune(place: Place, keep: Keep, *, dry_run: bool = False) -> PruneReport:
    """Remove what a policy does not keep from a session, or with `per="agent"` from all sessions of its agent."""
    check_keep(keep)
    session, now = place.claim.session, place.clock()
    with place.backend.reader() as reader:
        if reader.session(session) is None:
            missing_head(reader, session, place.branch)
        reading = _read(reader, session, keep, now, kind="prune")
    if not dry_run:
        reading = _carry_out(place, keep, reading, now=now, kind="prune")
    decisions = tuple(
        PruneDecision(Checkpoint(each.row, reading.owners[each.row.session]), each.kept, each.reasons)
        for each in reading.plan.decisions
    )
    deleted = sum(not each.kept for each in decisions)
    return PruneReport(len(decisions), len(decisions) - deleted, deleted, decisions, dry_run)


def retire(place: Place, keep: Keep) -> tuple[dict[str, list[str]], int]:
    """Remove for good what a policy does not keep, after a save; what went of which session, and how many are left."""
    now = place.clock()
    with place.backend.reader() as reader:
        reading = _read(reader, place.claim.session, keep, now, kind="retire")
    return gone_and_kept(_carry_out(place, keep, reading, now=now, kind="retire").plan)


def gone_and_kept(decided: RetentionPlan) -> tuple[dict[str, list[str]], int]:
    """What goes of which session, newest first, and how many are left of all."""
    removed: dict[str, list[str]] = {}
    for each in decided.decisions:
        if not each.kept:
            removed.setdefault(each.row.session, []).append(each.row.id.hex())
    return removed, len(decided.decisions) - len(decided.removed)


def retirement_with(place: Place, keep: Keep, coming: Coming) -> Retirement | None:
    """What a policy of one session does not keep once a checkpoint is saved; None where the session is yet to be."""
    session, now = place.claim.session, place.clock()
    with place.backend.reader() as reader:
        reading = _read(reader, session, keep, now, kind="retire", coming=coming)
    after = reading.owners.get(session)
    if after is None:
        return None
    before = after._replace(last_seq=after.last_seq - 1)
    planned = _plan(reading, session, now, "retire")
    if planned is None:
        return Retirement(coming.row, None, before, reading.plan)
    # What is not there yet is not edited: it is written as it is to be.
    edits, row = [], coming.row
    for pair in planned.edits:
        if pair[0].id == row.id:
            row = row._replace(prev=pair[1].prev, skipped=pair[1].skipped)
        else:
            edits.append(pair)
    return Retirement(row, planned._replace(edits=edits), before, reading.plan)


def removed_by(report: PruneReport) -> dict[str, list[str]]:
    """The ids of the checkpoints that went, by their sessions; none where nothing was done."""
    gone: dict[str, list[str]] = {}
    for each in report.decisions:
        if not each.kept and not report.dry_run:
            gone.setdefault(each.checkpoint.session, []).append(each.checkpoint.id)
    return gone


def _read(
    reader: Reader, session: str, keep: Keep, now: int, *, kind: str, coming: Coming | None = None
) -> _Reading:
    owner = reader.session(session)
    owners = {} if owner is None else {session: owner}
    if keep.per == "agent" and owner is not None:
        if owner.agent is None:
            raise InvalidInputError(
                f"session {session!r} belongs to no agent, so nothing can be kept per agent",
                code=ErrorCode.BAD_ARGUMENT,
                hint='open it with agent=, or use per="session"',
                session=session,
            )
        owners = {each.id: each for each in reader.sessions(agent=owner.agent)}
    there = {name: list(reader.checkpoints(Query(session=name))) for name in owners}
    heads = {name: list(reader.branches(name)) for name in owners}
    if coming is not None and owner is not None:
        new, owners[session] = _numbered(coming.row, owner)
        there[session].insert(0, new)
        others = [head for head in heads[session] if head.name != coming.branch]
        heads[session] = [*others, BranchRow(session, coming.branch, new.id, now)]
    decided = plan(
        [row for each in there.values() for row in each],
        [head for each in heads.values() for head in each],
        keep,
        now,
        agents={name: each.agent for name, each in owners.items()},
        after_save=kind == "retire",
    )
    first: dict[str, int] = {}
    for each in decided.decisions:
        if not each.kept:
            first[each.row.session] = min(each.row.seq, first.get(each.row.session, each.row.seq))
    # Whatever follows one that goes is younger, hidden or not; what was removed long before need not be read.
    rows = {
        name: list(reader.checkpoints(Query(session=name, after_seq=seq - 1, include_hidden=True)))
        for name, seq in first.items()
    }
    if coming is not None and session in rows:
        rows[session].insert(0, there[session][0])
    newest = {name: _newest(reader, owners[name]) for name in first if kind == "retire"}
    return _Reading(owners, rows, heads, decided, newest)


def _numbered(row: CheckpointRow, owner: SessionRow) -> tuple[CheckpointRow, SessionRow]:
    """A checkpoint that is not in the store yet and its session, as they are once it is."""
    seq = owner.last_seq + 1
    # Newer than all that are there.
    return row._replace(seq=seq, position=sys.maxsize), owner._replace(last_seq=seq)


def _newest(reader: Reader, session: SessionRow) -> Operation | None:
    """The newest entry of a log, if it has one."""
    if not session.log_count:
        return None
    try:
        found = reader.operations(session.id, after=session.log_count - 1)
    except IntegrityError:
        # A damaged entry is left for verify to find and for repair to take out; retention goes on after it.
        return None
    return found[-1] if found else None


def _carry_out(place: Place, keep: Keep, reading: _Reading, *, now: int, kind: str) -> _Reading:
    """Commit a plan, session by session, as long as the lease is held; what was carried out in the end."""
    first, session = reading, place.claim.session
    for name in first.rows:

        def work(reader: Reader, owner: SessionRow, name: str = name) -> tuple[OperationPlan | None, None]:
            nonlocal reading
            if owner != reading.owners.get(name):
                # Somebody saved or changed something in between: decide again about what is there now.
                reading = _read(reader, session, keep, now, kind=kind)
            return _plan(reading, name, now, kind), None

        carry_out(place._replace(claim=Claim(name), clock=lambda: now), work)
    return first if reading is first else _together(first, reading)


def _together(first: _Reading, last: _Reading) -> _Reading:
    """What was decided at last, and what the first attempts had removed by then."""
    decided = {each.row.id for each in last.plan.decisions}
    gone = [each for each in first.plan.decisions if not each.kept and each.row.id not in decided]
    return last._replace(plan=RetentionPlan((*last.plan.decisions, *gone)))


def _plan(reading: _Reading, name: str, now: int, kind: str) -> OperationPlan | None:
    if name not in reading.rows:
        return None
    rows, session = reading.rows[name], reading.owners[name]
    removed = reading.plan.removed & {row.id for row in rows}
    change = remove(rows, reading.heads[name], removed, number=session.log_count + 1)
    written = OperationPlan(kind, edits=change.edits, moves=change.moves)
    if kind != "retire":
        return written
    # There is one after each save, and none is ever undone: it tells what went, not how others lead past it.
    told = [pair for pair in change.edits if pair[0].id in removed]
    entry, cut = retirement(session, now, reading.newest[name], edits=told, moves=change.moves)
    return written._replace(removals=tuple(removed), entry=entry, cuts_log_from=cut)
