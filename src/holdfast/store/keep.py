"""A `Keep` carried out: `prune` because somebody asked, retention with each save of a session opened with `keep=`.

What a prune removes is hidden, with one entry in the operation log for each session, and can be undone until gc. What
retention removes is gone at once: nobody asked, so nobody will ask for it back, and a store that keeps ten checkpoints
should not hold a thousand. It goes in the commit of the save, so that nobody finds more than is to be kept, wherever
the process is killed. A save comes first: where old checkpoints cannot be removed, the save goes alone, with a warning,
and the next one tries again. Chunks that nothing needs are collected a small step at a time, with each save.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
import weakref
from collections.abc import Generator, Mapping, Sequence
from typing import Final

# For its hooks, which have to be registered before those below: the last ones are called first before a fork.
import holdfast.backends.fork  # noqa: F401
from holdfast.errors import (
    ConflictError,
    ErrorCode,
    HoldfastError,
    HoldfastWarning,
    IntegrityError,
    InvalidInputError,
)
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.keep import Keep, check_keep
from holdfast.history.oplog import operation
from holdfast.history.refs import missing_head
from holdfast.history.removal import remove
from holdfast.history.retention import Decision, RetentionPlan, plan
from holdfast.record import Record
from holdfast.reports.upkeep import PruneDecision, PruneReport
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import (
    Batch,
    BranchRow,
    CheckpointId,
    CheckpointRow,
    Claim,
    Edit,
    Guard,
    Move,
    Operation,
    Query,
    SessionRow,
    Swept,
)
from holdfast.store.gc import collecting
from holdfast.store.metrics import Metrics
from holdfast.store.operations import OperationPlan, carry_out
from holdfast.store.place import Place, callers_level, silent

DEFAULT: Final = Keep(within="1h", manual=True, significant=True, hourly="all")
"""What `prune` keeps unless told otherwise."""

_WORTH_COLLECTING: Final = 64
"""Removed checkpoints; looking through the store for fewer frees little."""
_STALE_AFTER: Final = 600.0
"""Seconds without a sign of another collection until this one may take over. A step comes with a save: sooner, those
that save seldom would take over from each other, and none would get to the end."""
_LINGERING: Final = 64
"""Saves; each time a collection has taken so many more, it takes one step more with each, so that it ends."""
_LOOKED_AT_EACH_SAVE: Final = 256
"""Checkpoints; a session that keeps more is looked through less often, so that a save does not cost its history."""
_PATIENCE: Final = 2.0
"""Seconds to wait for a step of another thread. A step takes far less."""
_ATTEMPTS: Final = 8
"""Attempts to remove something from another session of the agent. The next save looks again."""


class _Decided(Record):
    """The sessions that a policy is about, at one moment, and what it comes to."""

    owners: Mapping[str, SessionRow]
    heads: Mapping[str, Sequence[BranchRow]]
    plan: RetentionPlan

    def removed(self, session: str) -> Sequence[CheckpointRow]:
        return [each.row for each in self.plan.decisions if not each.kept and each.row.session == session]


def prune(place: Place, keep: Keep | None, *, only: bool = False, dry_run: bool = False) -> PruneReport:
    """Hide what a policy does not keep in a session, or with `per="agent"` in all sessions of its agent."""
    policy = DEFAULT if keep is None else check_keep(keep)
    session, now = place.claim.session, place.clock()
    with place.backend.reader() as reader:
        if reader.session(session) is None:
            missing_head(reader, session, place.branch)
        decided = _decide(reader, session, policy, now, spare=not only)
    rows = {
        name: [each for each in decided.plan.decisions if each.row.session == name] for name in decided.owners
    }
    for name in decided.owners:
        if dry_run or not decided.removed(name):
            continue

        def work(
            reader: Reader, owner: SessionRow, _now: int, name: str = name
        ) -> tuple[OperationPlan | None, list[Decision]]:
            found = _decide(reader, session, policy, now, spare=not only)
            change = _removal(reader, found, owner)
            said = [each for each in found.plan.decisions if each.row.session == name]
            return (None if change is None else OperationPlan("prune", *change)), said

        rows[name] = carry_out(place._replace(claim=Claim(name), clock=lambda: now), work).found
    decisions = tuple(
        PruneDecision(Checkpoint(each.row, decided.owners[each.row.session]), each.kept, each.reasons)
        for each in sorted(
            (each for some in rows.values() for each in some),
            key=lambda each: (each.row.position, each.row.seq),
            reverse=True,
        )
    )
    deleted = sum(not each.kept for each in decisions)
    return PruneReport(len(decisions), len(decisions) - deleted, deleted, decisions, dry_run, session, policy)


def removed_ids(report: PruneReport) -> dict[str, list[str]]:
    """The ids of the checkpoints that went, by their sessions; none where nothing was done."""
    gone: dict[str, list[str]] = {}
    for each in report.decisions:
        if not each.kept and not report.dry_run:
            gone.setdefault(each.checkpoint.session, []).append(each.checkpoint.id)
    return gone


def _decide(
    reader: Reader,
    session: str,
    keep: Keep,
    now: int,
    *,
    coming: tuple[CheckpointRow, str] | None = None,
    spare: bool = False,
) -> _Decided:
    """Read what a policy is about, and decide; with a checkpoint that is coming to a branch, as if it were there."""
    owner = reader.session(session)
    owners = {} if owner is None else {session: owner}
    if owner is not None and keep.per == "agent":
        if owner.agent is None:
            raise InvalidInputError(
                f"session {session!r} belongs to no agent, so nothing can be kept per agent",
                code=ErrorCode.BAD_ARGUMENT,
                hint='open it with agent=, or use per="session"',
                session=session,
            )
        owners = {each.id: each for each in reader.sessions(agent=owner.agent)}
    rows = [row for name in owners for row in reader.checkpoints(Query(session=name))]
    heads = {name: list(reader.branches(name)) for name in owners}
    if coming is not None and owner is not None:
        row, branch = coming
        # Newer than all that are there.
        rows.append(row._replace(seq=owner.last_seq + 1, position=sys.maxsize))
        heads[session] = [head for head in heads[session] if head.name != branch]
        heads[session].append(BranchRow(session, branch, row.id, now))
    decided = plan(
        rows,
        [head for each in heads.values() for head in each],
        keep,
        now,
        agents={name: each.agent for name, each in owners.items()},
        after_save=coming is not None,
        spare=spare,
    )
    return _Decided(owners, heads, decided)


def _removal(
    reader: Reader, decided: _Decided, owner: SessionRow, coming: CheckpointRow | None = None
) -> tuple[list[tuple[CheckpointRow, Edit]], list[Move]] | None:
    """The edits and moves that take out of one session what a policy does not keep; None where that is nothing."""
    gone = decided.removed(owner.id)
    if not gone:
        return None
    # Whatever follows one that goes is younger, hidden or not; what was removed long before need not be read.
    first = min(row.seq for row in gone)
    rows = list(reader.checkpoints(Query(session=owner.id, after_seq=first - 1, include_hidden=True)))
    if coming is not None:
        rows.insert(0, coming._replace(seq=owner.last_seq + 1))
    removed = {row.id for row in gone}
    change = remove(rows, decided.heads[owner.id], removed, number=owner.log_count + 1)
    return list(change.edits), list(change.moves)


class Retirement(Record):
    """What goes with the commit of a save, planned from the session as it was just before."""

    row: CheckpointRow
    """The checkpoint that is saved, linked past what goes."""
    before: SessionRow
    gone: Sequence[CheckpointId]
    edits: Sequence[tuple[CheckpointRow, Edit]]
    operations: tuple[Operation, ...]
    kept: int
    """How many are there afterwards."""

    def into(self, batch: Batch) -> Batch:
        """The batch of the save, with what goes."""
        before = self.before
        if not self.gone or (batch.guard is not None and batch.guard.log_count != before.log_count):
            # Where something changed since the save was planned, the batch is refused either way.
            return batch
        return batch._replace(
            checkpoints=(self.row,),
            edits=tuple(new for _, new in self.edits),
            operations=self.operations,
            guard=Guard(log_count=before.log_count, last_seq=before.last_seq),
            removals=tuple(self.gone),
            seen=tuple(old for old, _ in self.edits),
        )


def _newest(reader: Reader, session: SessionRow) -> Operation | None:
    """The newest entry of a log, if it has one."""
    try:
        found = reader.operations(session.id, after=session.log_count - 1) if session.log_count else ()
    except IntegrityError:
        # A damaged entry is left for verify to find and for repair to take out; retention goes on after it.
        return None
    return found[-1] if found else None


class Retention:
    """The retention of one store in one process."""

    def __init__(self, backend: Backend, metrics: Metrics) -> None:
        self._backend = backend
        self._metrics = metrics
        # Held for one step of collecting: other threads go without, and take the next one.
        self._turn = threading.Lock()
        # Touched by several threads at once, and no more than hints about when to look.
        self.saves_left: dict[str, int] = {}
        self._removed = 0
        self._saves = 0
        self._collecting: Generator[Swept, None, None] | None = None
        self._process = os.getpid()
        _ALL.add(self)

    def plan(self, place: Place, keep: Keep, row: CheckpointRow, branch: str) -> Retirement | None:
        """What goes in the commit of a save, once this row is the head of a branch; None if this save need not look."""
        session = place.claim.session
        if self.saves_left.get(session):
            return None
        now = place.clock()
        with place.backend.reader() as reader:
            decided = _decide(reader, session, keep, now, coming=(row, branch))
            before = decided.owners.get(session)
            if before is None:
                return None
            change = _removal(reader, decided, before, row)
            newest = _newest(reader, before) if change is not None else None
        kept = sum(each.kept for each in decided.plan.decisions)
        if change is None:
            return Retirement(row, before, (), (), (), kept)
        # A run of retirements has one entry. It names nothing: none of them can be undone.
        is_first = newest is None or newest.kind != "retire"
        entries = (operation(before, "retire", now),) if is_first else ()
        # What is not there yet is not edited: it is written as it is to be.
        links = {new.id: new for _, new in change[0]}
        if row.id in links:
            row = row._replace(prev=links[row.id].prev, skipped=links[row.id].skipped)
        edits = [pair for pair in change[0] if pair[0].id != row.id]
        gone = [each.id for each in decided.removed(session)]
        return Retirement(row, before, gone, edits, entries, kept)

    def done(
        self, place: Place, keep: Keep, retirement: Retirement | None, trouble: HoldfastError | None
    ) -> None:
        """A save is done, with what was planned or without: count it, and go on where one commit cannot reach."""
        session = place.claim.session
        if retirement is not None:
            self._count(session, [each.hex() for each in retirement.gone])
            self.saves_left[session] = retirement.kept // _LOOKED_AT_EACH_SAVE
        elif left := self.saves_left.get(session, 0):
            self.saves_left[session] = left - 1
        try:
            if trouble is not None:
                raise trouble
            if keep.per == "agent" and retirement is not None:
                self._retire_others(place, keep)
            self._step()
        except HoldfastError as error:
            # The checkpoint is saved; that old ones could not be removed must not look as if it were not.
            warnings.warn(
                f"old checkpoints of session {session!r} stay for now: {error}",
                HoldfastWarning,
                stacklevel=callers_level(),
            )

    def _retire_others(self, place: Place, keep: Keep) -> None:
        """Remove what the policy of an agent does not keep of its other sessions."""
        session, now = place.claim.session, place.clock()
        with place.backend.reader() as reader:
            decided = _decide(reader, session, keep, now)
        for name in decided.owners:
            if name == session or not decided.removed(name):
                continue

            def work(
                reader: Reader, owner: SessionRow, _now: int, name: str = name
            ) -> tuple[OperationPlan | None, list[str]]:
                found = _decide(reader, session, keep, now)
                change = _removal(reader, found, owner)
                if change is None:
                    return None, []
                gone = tuple(row.id for row in found.removed(name))
                plan = OperationPlan("retire", *change, told=False, removals=gone)
                return plan, [each.hex() for each in gone]

            try:
                done = carry_out(place._replace(claim=Claim(name)), work, attempts=_ATTEMPTS)
            except ConflictError as conflict:
                if conflict.code is not ErrorCode.SESSION_CHANGED:
                    raise
            else:
                self._count(name, done.found)

    def _count(self, session: str, ids: Sequence[str]) -> None:
        self._metrics.removed(session, "retention", ids)
        self._removed += len(ids)

    def _step(self) -> None:
        """Take a step of collecting chunks, if there is enough to collect and nobody else is at it."""
        if self._process != os.getpid() or not self._turn.acquire(blocking=False):
            return
        try:
            if self._collecting is None:
                if self._removed < _WORTH_COLLECTING:
                    return
                self._collecting = collecting(self._backend, silent, stale_after=_STALE_AFTER)
                self._removed = self._saves = 0
            self._saves += 1
            for _ in range(1 + self._saves // _LINGERING):
                if next(self._collecting).done:
                    self._stop()
                    break
        except ConflictError as conflict:
            self._stop()
            if conflict.code is not ErrorCode.COLLECTION_RUNNING:
                raise
            # Another process is at it. This one tries again when as much has gone again.
        except BaseException:
            # Whatever was removed until then was not needed; the next collection begins anew.
            self._stop()
            raise
        finally:
            self._turn.release()

    def close(self) -> None:
        """Stop collecting, and give back its connection: also before a fork, which would wait for it."""
        if self._collecting is not None and self._turn.acquire(timeout=_PATIENCE):
            try:
                self._stop()
                # After a fork, the next save begins another one.
                self._removed = _WORTH_COLLECTING
            finally:
                self._turn.release()

    def after_fork(self) -> None:
        """Begin anew in a child: the lock may be that of a thread that it does not have."""
        self._turn = threading.Lock()
        self._collecting, self._process = None, os.getpid()

    def _stop(self) -> None:
        if self._collecting is not None:
            self._collecting.close()
            self._collecting = None


_ALL: weakref.WeakSet[Retention] = weakref.WeakSet()


def _before_fork() -> None:
    for each in list(_ALL):
        each.close()


def _after_fork() -> None:
    for each in list(_ALL):
        each.after_fork()


# Windows has no fork, and no hooks for it. Those of the backends were registered earlier, so that they run after these.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_child=_after_fork,
    )
