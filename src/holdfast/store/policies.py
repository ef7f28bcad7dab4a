"""A `Keep` applied to what is there: reading the sessions it is about, deciding, and writing what goes.

What goes is hidden in one commit per session, with its entry in the operation log, on the condition that the session is
still as it was read; otherwise it is decided again, as `changing` does it. Who prunes is a person (`pruning`) or a save
(`retiring`). What a save retires is gone at once: nobody asked, so nobody will ask for it back, and a store that keeps
ten checkpoints should not hold a thousand. Nor should its log: an entry of that kind takes the place of those right
before it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from holdfast.errors import ConflictError, ErrorCode, IntegrityError, InvalidInputError
from holdfast.history.keep import Keep
from holdfast.history.oplog import retirement
from holdfast.history.removal import remove
from holdfast.history.retention import RetentionPlan, plan
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import (
    BranchRow,
    CheckpointId,
    CheckpointRow,
    Claim,
    Operation,
    Query,
    SessionRow,
)
from holdfast.store.changing import OperationPlan, carry_out
from holdfast.store.place import Place

Kind = Literal["prune", "retire"]

_PATIENCE: Final = 8
"""Attempts of a save to remove what is too old. Where others save all the time, the next save looks again."""


class Coming(Record):
    """A checkpoint that is about to be saved, and the branch whose tip it becomes."""

    row: CheckpointRow
    branch: str
    there: Sequence[CheckpointRow] = ()
    """All that its session has, where they have been read."""


class Reading(Record):
    """All of the sessions that a policy is about, at one moment, and what it comes to."""

    owners: Mapping[str, SessionRow]
    rows: Mapping[str, Sequence[CheckpointRow]]
    """Of each session that loses something: from the first that goes on, hidden ones included."""
    heads: Mapping[str, Sequence[BranchRow]]
    plan: RetentionPlan
    newest: Mapping[str, Operation | None]
    """The newest entry of the log of each session that automatic retention takes something from."""


def read(
    reader: Reader, session: str, keep: Keep, now: int, *, kind: Kind, coming: Coming | None = None
) -> Reading:
    """Read what a policy is about, and decide; with a checkpoint that is coming, as if it were there."""
    owners = _owners(reader, session, keep)
    known = {} if coming is None else {session: coming.there}
    there = {name: list(known.get(name) or reader.checkpoints(Query(session=name))) for name in owners}
    heads = {name: list(reader.branches(name)) for name in owners}
    if coming is not None and session in owners:
        new, owners[session] = _numbered(coming.row, owners[session])
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
    return Reading(owners, rows, heads, decided, newest)


def carry_out_all(
    place: Place, keep: Keep, reading: Reading, *, now: int, kind: Kind
) -> tuple[Reading, frozenset[CheckpointId]]:
    """Commit a decision, session by session, as long as the lease is held.

    Returns what was decided in the end, and what went by these commits: others may have removed the rest.
    """
    first, session = reading, place.claim.session
    gone: set[CheckpointId] = set()
    for name in first.rows:

        def work(
            reader: Reader, owner: SessionRow, name: str = name
        ) -> tuple[OperationPlan | None, frozenset[CheckpointId]]:
            nonlocal reading
            if owner != reading.owners.get(name):
                # Somebody saved or changed something in between: decide again about what is there now.
                reading = read(reader, session, keep, now, kind=kind)
            return plan_for(reading, name, now, kind), _removed(reading, name)

        at = place._replace(claim=Claim(name), clock=lambda: now)
        try:
            done = carry_out(at, work) if kind == "prune" else carry_out(at, work, attempts=_PATIENCE)
        except ConflictError as conflict:
            if kind == "prune" or conflict.code is not ErrorCode.SESSION_CHANGED:
                raise
            # Whoever came in between has saved, and the next save looks again.
            continue
        gone |= done.found
    return (reading if reading is first else _together(first, reading, gone)), frozenset(gone)


def plan_for(reading: Reading, name: str, now: int, kind: Kind) -> OperationPlan | None:
    """What is written to one of the sessions; None where nothing of it goes."""
    if name not in reading.rows:
        return None
    rows, session = reading.rows[name], reading.owners[name]
    removed = _removed(reading, name)
    change = remove(rows, reading.heads[name], removed, number=session.log_count + 1)
    written = OperationPlan(kind, edits=change.edits, moves=change.moves)
    if kind != "retire":
        return written
    # There is one with each save, and none is ever undone: it tells what went, not how others lead past it.
    told = [pair for pair in change.edits if pair[0].id in removed]
    entry, cut = retirement(session, now, reading.newest[name], edits=told, moves=change.moves)
    return written._replace(removals=tuple(removed), entry=entry, cuts_log_from=cut)


def _removed(reading: Reading, name: str) -> frozenset[CheckpointId]:
    return reading.plan.removed & {row.id for row in reading.rows.get(name, ())}


def _owners(reader: Reader, session: str, keep: Keep) -> dict[str, SessionRow]:
    """The sessions that a policy is about."""
    owner = reader.session(session)
    if owner is None:
        return {}
    if keep.per != "agent":
        return {session: owner}
    if owner.agent is None:
        raise InvalidInputError(
            f"session {session!r} belongs to no agent, so nothing can be kept per agent",
            code=ErrorCode.BAD_ARGUMENT,
            hint='open it with agent=, or use per="session"',
            session=session,
        )
    return {each.id: each for each in reader.sessions(agent=owner.agent)}


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


def _together(first: Reading, last: Reading, gone: set[CheckpointId]) -> Reading:
    """What was decided at last, and what had gone by then of what was decided first."""
    decided = {each.row.id for each in last.plan.decisions}
    before = [each for each in first.plan.decisions if each.row.id in gone - decided]
    return last._replace(plan=RetentionPlan((*last.plan.decisions, *before)))
