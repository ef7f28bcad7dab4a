"""repair: what is whole goes into a store that is whole, and what was there is kept aside.

Nothing is guessed that can be known. A checkpoint is kept if its row matches its seal and its id, and its whole state
can be read. History is then led past the others as if they had been removed: `prev` goes to the nearest ancestor that
is left, and a branch whose tip is lost goes back along the same way. Where the row of a lost checkpoint is unreadable,
the way beyond it is unknown; then the newest one before it, of the same branch if there is one, takes its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.errors import IntegrityError
from holdfast.history.identity import checkpoint_id
from holdfast.history.oplog import check_chain, operation
from holdfast.storage.inspection import LostRow, Rebuilt
from holdfast.storage.ports import Backend, Inspection
from holdfast.storage.records import BranchRow, CheckpointId, CheckpointRow, Operation, SessionRow
from holdfast.store.progress import Progress
from holdfast.store.states import States
from holdfast.store.verifying import DamagedCheckpoint, Problem, verify

_NO_NUMBER: Final = 1 << 62
"""Beyond the number of any checkpoint."""


class MovedHead(NamedTuple):
    """A branch whose head is another one after the repair."""

    session: str
    branch: str
    before: str | None
    """The id of the lost head; None where the branch itself was not readable."""
    after: str | None
    """None where nothing of the branch is left: it is gone."""


class RepairReport(NamedTuple):
    """What a repair did, or would do."""

    dry_run: bool
    problems: tuple[Problem, ...]
    """What was wrong; empty where nothing was, and nothing was done."""
    kept: int
    """Checkpoints that are whole."""
    lost: tuple[DamagedCheckpoint, ...]
    """Checkpoints that are not in the store any more; what is left of them is in the file that was kept."""
    relinked: int
    """Checkpoints whose way back in history now leads past a lost one."""
    moved: tuple[MovedHead, ...]
    logs_cut: tuple[str, ...]
    """Sessions whose operation log was damaged and begins anew: what was done before cannot be undone."""
    kept_aside: str | None
    """The file that has everything as it was; None where nothing was changed."""

    @property
    def needed(self) -> bool:
        """Whether anything was wrong."""
        return bool(self.problems)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON data."""
        plain = self._asdict()
        for name in ("problems", "lost", "moved"):
            plain[name] = [each._asdict() for each in plain[name]]
        for each in plain["problems"]:
            each["checkpoints"] = list(each["checkpoints"])
        return {"needed": self.needed, **plain, "logs_cut": list(self.logs_cut)}


def repair(
    backend: Backend, *, now: int, dry_run: bool = False, progress: Progress | None = None
) -> RepairReport:
    """Bring a damaged store back; see `Store.repair`."""
    found = verify(backend, progress=progress)
    if found.ok:
        return RepairReport(dry_run, (), found.checkpoints, (), 0, (), (), None)
    made: list[_Plan] = []

    def plan(seen: Inspection) -> Rebuilt:
        made[:] = [_Plan(seen, now, progress)]
        return made[0].rebuilt()

    if dry_run:
        with backend.inspect() as seen:
            plan(seen)
        aside = None
    else:
        aside = backend.rebuild(plan)
    (last,) = made
    return RepairReport(
        dry_run=dry_run,
        problems=found.problems,
        kept=len(last.kept),
        lost=tuple(last.lost),
        relinked=last.relinked,
        moved=tuple(last.moved),
        logs_cut=tuple(last.logs_cut),
        kept_aside=aside,
    )


class _Plan:
    """What is left of a store, put in order."""

    def __init__(self, seen: Inspection, now: int, progress: Progress | None) -> None:
        self._seen = seen
        self._now = now
        self._states = States(seen, None, progress)
        self.kept: dict[CheckpointId, CheckpointRow] = {}
        self._dropped: dict[CheckpointId, CheckpointRow] = {}
        self.lost: list[DamagedCheckpoint] = [
            DamagedCheckpoint(row.id.hex() if row.id else None, row.session, row.seq, row.why, lost=True)
            for row in seen.lost()
        ]
        self._unreadable = {row.id: row for row in seen.lost() if row.id is not None}
        self.relinked = 0
        self.moved: list[MovedHead] = []
        self.logs_cut: list[str] = []
        for row in seen.checkpoints():
            self._sort(row)

    def rebuilt(self) -> Rebuilt:
        """Everything that the store is to hold."""
        sessions: list[SessionRow] = []
        branches: list[BranchRow] = []
        operations: list[Operation] = []
        heads: dict[str, dict[str, BranchRow]] = {}
        for branch in self._seen.branches():
            heads.setdefault(branch.session, {})[branch.name] = branch
        for session in self._seen.sessions():
            line = _Line(session.id, self.kept.values(), self._dropped.values(), self._unreadable)
            changed = line.relink()
            self.kept.update((row.id, row) for row in changed)
            self.relinked += len(changed)
            found, moved = self._heads(line, heads.get(session.id, {}))
            branches += found
            self.moved += moved
            made, log = self._log(session, changed=bool(changed or moved or line.has_losses))
            if made.current not in {each.name for each in found} and found:
                made = made._replace(current=min(each.name for each in found))
            sessions.append(made._replace(last_seq=max(made.last_seq, line.newest)))
            operations += log
        known = {session.id for session in sessions}
        rows = [row for row in self.kept.values() if row.session in known]
        chunks = set(self._states.readable)
        return Rebuilt(sessions, branches, sorted(rows, key=lambda row: row.position), operations, chunks)

    def _sort(self, row: CheckpointRow) -> None:
        trouble = self._states.trouble_with(row.root)
        if checkpoint_id(row) != row.id:
            why = "its id is not the hash of what it says"
        elif trouble is not None:
            why = f"its state cannot be read: {trouble.why}"
        else:
            self.kept[row.id] = row
            return
        self._dropped[row.id] = row
        self.lost.append(DamagedCheckpoint(row.id.hex(), row.session, row.seq, why, lost=True))

    def _heads(self, line: _Line, known: Mapping[str, BranchRow]) -> tuple[list[BranchRow], list[MovedHead]]:
        found: list[BranchRow] = []
        moved: list[MovedHead] = []
        for name, branch in known.items():
            row = self.kept.get(branch.head)
            if row is not None and row.session == line.session and not row.hidden:
                found.append(branch)
                continue
            head = line.instead_of(branch.head, name)
            moved.append(MovedHead(line.session, name, branch.head.hex(), head.hex() if head else None))
            if head is not None:
                found.append(BranchRow(line.session, name, head, self._now))
        if self._branches_are_damaged(line.session):
            for name, head in line.tips_of_no(found):
                if name not in known:
                    found.append(BranchRow(line.session, name, head, self._now))
                    moved.append(MovedHead(line.session, name, None, head.hex()))
        return found, moved

    def _branches_are_damaged(self, session: str) -> bool:
        """Whether a branch may have been lost without a trace: on a page that is damaged, any row can be."""
        return any(
            flaw.kind == "page" or (flaw.kind == "branch" and flaw.session in (None, session))
            for flaw in self._seen.flaws()
        )

    def _log(self, session: SessionRow, *, changed: bool) -> tuple[SessionRow, Sequence[Operation]]:
        """The session with its operation log as it goes on: what was repaired is an entry of it."""
        log = self._seen.operations(session.id)
        try:
            check_chain(session, log)
        except IntegrityError:
            self.logs_cut.append(session.id)
            count = max([session.log_count, *(each.number for each in log)])
            entry = operation(session._replace(log_count=count), "repair", self._now)
            return session._replace(log_count=entry.number, log_tip=entry.hash), [entry]
        if not changed:
            return session, log
        entry = operation(session, "repair", self._now)
        return session._replace(log_count=entry.number, log_tip=entry.hash), [*log, entry]


class _Line:
    """The history of one session around what is lost of it.

    Args:
        session: Its id.
        kept: The checkpoints that stay, of any session.
        dropped: Those whose rows are readable and whose states are not.
        unreadable: What is known of those whose rows are not readable.
    """

    def __init__(
        self,
        session: str,
        kept: Iterable[CheckpointRow],
        dropped: Iterable[CheckpointRow],
        unreadable: Mapping[CheckpointId, LostRow],
    ) -> None:
        self.session = session
        self._kept = {row.id: row for row in kept if row.session == session}
        self._dropped = {row.id: row for row in dropped if row.session == session}
        self._unreadable = unreadable
        self._there = sorted(
            (row for row in self._kept.values() if not row.hidden), key=lambda row: row.seq, reverse=True
        )

    @property
    def has_losses(self) -> bool:
        """Whether rows of it are left out that are known."""
        return bool(self._dropped)

    @property
    def newest(self) -> int:
        """The highest number that it has."""
        return max((row.seq for row in (*self._kept.values(), *self._dropped.values())), default=0)

    def relink(self) -> list[CheckpointRow]:
        """The rows that change, because what they followed is not there any more."""
        changed = []
        for row in self._kept.values():
            if row.prev is None or self._is_there(row.prev, before=row.seq):
                continue
            prev, skipped = self._beyond(row.prev, row.branch, row.seq)
            changed.append(row._replace(prev=prev, skipped=row.skipped + skipped))
        return changed

    def instead_of(self, head: CheckpointId, branch: str) -> CheckpointId | None:
        """The newest checkpoint of a branch that is left, where its head is not."""
        return self._beyond(head, branch, _NO_NUMBER)[0]

    def tips_of_no(self, branches: Collection[BranchRow]) -> list[tuple[str, CheckpointId]]:
        """The ends of lines that no branch leads to, each under the name of the branch that it was saved on."""
        reached: set[CheckpointId] = set()
        for branch in branches:
            at: CheckpointId | None = branch.head
            while at is not None and at not in reached:
                reached.add(at)
                row = self._kept.get(at)
                at = None if row is None else row.prev
        followed = {row.prev for row in self._there}
        tips: dict[str, CheckpointId] = {}
        for row in self._there:
            if row.id not in reached and row.id not in followed:
                tips.setdefault(row.branch, row.id)
        return list(tips.items())

    def _is_there(self, name: CheckpointId, *, before: int) -> bool:
        row = self._kept.get(name)
        return row is not None and not row.hidden and row.seq < before

    def _beyond(self, lost: CheckpointId, branch: str, before: int) -> tuple[CheckpointId | None, int]:
        """Where history goes on beyond a lost checkpoint, and how many are passed over."""
        passed = 0
        at: CheckpointId | None = lost
        while at is not None and not self._is_there(at, before=before):
            passed += 1
            row, unreadable = self._dropped.get(at) or self._kept.get(at), self._unreadable.get(at)
            if row is not None:
                # A kept one that is hidden, or does not come before, is passed over like a lost one.
                before, at = min(before, row.seq), row.prev
                passed += row.skipped
                continue
            if unreadable is not None and unreadable.seq is not None:
                before = min(before, unreadable.seq)
            followed = () if unreadable is None else unreadable.followed
            at = next((each for each in followed if self._seq_of(each) < before), None)
            if at is None:
                return self._newest_before(before, branch), passed
        return at, passed

    def _seq_of(self, name: CheckpointId) -> int:
        """The number of a checkpoint; one that was never there has none that could come before anything."""
        row, unreadable = self._dropped.get(name) or self._kept.get(name), self._unreadable.get(name)
        if row is not None:
            return row.seq
        return _NO_NUMBER if unreadable is None or unreadable.seq is None else unreadable.seq

    def _newest_before(self, seq: int, branch: str) -> CheckpointId | None:
        older = [row for row in self._there if row.seq < seq]
        same = [row for row in older if row.branch == branch]
        # A branch that has nothing of its own left began somewhere before; the nearest there is takes its place.
        return (same or older)[0].id if older else None
