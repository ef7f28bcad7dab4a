"""prune: a `Keep` carried out on what is there.

What goes is hidden in one commit per session, with its entry in the operation log, on the condition that the session is
still as it was read; otherwise it is planned again, as `changing` does it. Pruned by a person it can be undone, like a
delete. Pruned after a save, because the session was opened with `keep=`, it is gone at once: nobody asked, so nobody
will ask for it back, and a store that keeps ten checkpoints should not hold a thousand. Nor should its log: an entry of
that kind takes the place of those right before it.
"""

from __future__ import annotations

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
from holdfast.storage.records import BranchRow, CheckpointRow, Claim, Operation, Query, SessionRow
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
    done = _carry_out(place, keep, reading, now=now, kind="retire").plan
    removed: dict[str, list[str]] = {}
    for each in done.decisions:
        if not each.kept:
            removed.setdefault(each.row.session, []).append(each.row.id.hex())
    return removed, len(done.decisions) - len(done.removed)


def removed_by(report: PruneReport) -> dict[str, list[str]]:
    """The ids of the checkpoints that went, by their sessions; none where nothing was done."""
    gone: dict[str, list[str]] = {}
    for each in report.decisions:
        if not each.kept and not report.dry_run:
            gone.setdefault(each.checkpoint.session, []).append(each.checkpoint.id)
    return gone


def _read(reader: Reader, session: str, keep: Keep, now: int, *, kind: str) -> _Reading:
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
    there = {name: reader.checkpoints(Query(session=name)) for name in owners}
    heads = {name: reader.branches(name) for name in owners}
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
        name: reader.checkpoints(Query(session=name, after_seq=seq - 1, include_hidden=True))
        for name, seq in first.items()
    }
    newest = {name: _newest(reader, owners[name]) for name in first if kind == "retire"}
    return _Reading(owners, rows, heads, decided, newest)


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
