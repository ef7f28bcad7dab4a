"""repair: what is whole goes into a store that is whole, and what was there is kept aside.

Nothing is guessed that can be known. A checkpoint is kept if its row matches its seal and its id, and its whole state
can be read. History is then led past the others as if they had been removed: `prev` goes to the nearest ancestor that
is left, and a branch whose tip is lost goes back along the same way. Where the row of a lost checkpoint is unreadable,
the way beyond it is unknown; then the newest one before it, of the same branch if there is one, takes its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from holdfast.errors import IntegrityError
from holdfast.history.checkpoint import checkpoint_id
from holdfast.history.oplog import check_chain, operation, without_strays
from holdfast.history.remains import Remains
from holdfast.reports.upkeep import DamagedCheckpoint, MovedHead, RepairReport
from holdfast.storage.inspection import LostRow, Rebuilt
from holdfast.storage.ports import Backend, Inspection
from holdfast.storage.records import BranchRow, CheckpointId, CheckpointRow, Operation, SessionRow
from holdfast.store.place import Progress
from holdfast.store.states import States
from holdfast.store.verifying import verify


def repair(
    backend: Backend, *, now: int, dry_run: bool = False, progress: Progress | None = None
) -> RepairReport:
    """Bring a damaged store back; see `Store.repair`."""
    found = verify(backend, progress=progress)
    if found.ok:
        return RepairReport(dry_run, (), found.checkpoints, (), 0, (), (), None)
    made: list[_RepairPlan] = []

    def plan(seen: Inspection) -> Rebuilt:
        made[:] = [_RepairPlan(seen, now, progress)]
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


class _RepairPlan:
    """What is left of a store, put in order."""

    def __init__(self, seen: Inspection, now: int, progress: Progress | None) -> None:
        self._seen = seen
        self._now = now
        self._states = States(seen, None, progress)
        self.kept: dict[CheckpointId, CheckpointRow] = {}
        # By session, each looked at once: a store of many sessions costs no more than its rows.
        self._whole: defaultdict[str, list[CheckpointRow]] = defaultdict(list)
        self._dropped: defaultdict[str, list[CheckpointRow]] = defaultdict(list)
        self.lost: list[DamagedCheckpoint] = [
            DamagedCheckpoint(row.id.hex() if row.id else None, row.session, row.seq, row.why, lost=True)
            for row in seen.lost()
        ]
        self._unreadable = {row.id: row for row in seen.lost() if row.id is not None}
        self._flawed = _flawed_sessions(seen)
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
            line = _Line(
                session.id,
                self._whole.get(session.id, ()),
                self._dropped.get(session.id, ()),
                self._unreadable,
            )
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
            self._whole[row.session].append(row)
            return
        self._dropped[row.session].append(row)
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
        return None in self._flawed or session in self._flawed

    def _log(self, session: SessionRow, *, changed: bool) -> tuple[SessionRow, Sequence[Operation]]:
        """The session with its operation log as it goes on: what was repaired is an entry of it."""
        seen = self._seen.operations(session.id)
        log = without_strays(session, seen)
        try:
            check_chain(session, log)
        except IntegrityError:
            self.logs_cut.append(session.id)
            count = max([session.log_count, *(each.number for each in seen)])
            entry = operation(session._replace(log_count=count), "repair", self._now)
            return session._replace(log_count=entry.number, log_tip=entry.hash), [entry]
        if not changed:
            return session, log
        entry = operation(session, "repair", self._now)
        return session._replace(log_count=entry.number, log_tip=entry.hash), [*log, entry]


def _flawed_sessions(seen: Inspection) -> set[str | None]:
    """The sessions of which a branch may be lost; None among them where it may be any."""
    flaws = seen.flaws()
    found = {flaw.session for flaw in flaws if flaw.kind == "branch"}
    return found | {None} if any(flaw.kind == "page" for flaw in flaws) else found


class _Line:
    """The history of one session around what is lost of it.

    Args:
        session: Its id.
        kept: Its checkpoints that stay.
        dropped: Those whose rows are readable and whose states are not.
        unreadable: What is known of those whose rows are not readable, of any session.
    """

    def __init__(
        self,
        session: str,
        kept: Sequence[CheckpointRow],
        dropped: Sequence[CheckpointRow],
        unreadable: Mapping[CheckpointId, LostRow],
    ) -> None:
        self.session = session
        self._kept = {row.id: row for row in kept}
        self._remains = Remains([*kept, *dropped], unreadable, without={row.id for row in dropped})
        self.has_losses = bool(dropped)
        """Whether rows of it are left out that are known."""
        self.newest = max((row.seq for row in (*kept, *dropped)), default=0)
        """The highest number that it has."""

    def relink(self) -> list[CheckpointRow]:
        """The rows that change, because what they followed is not there any more."""
        changed = []
        for row in self._kept.values():
            if row.prev is None or self._remains.leads_to(row.prev, row.seq):
                continue
            way = self._remains.beyond(row.prev, row.branch, row.seq)
            prev = None if way.to is None else way.to.id
            changed.append(row._replace(prev=prev, skipped=row.skipped + way.skipped))
        return changed

    def instead_of(self, head: CheckpointId, branch: str) -> CheckpointId | None:
        """The newest checkpoint of a branch that is left, where its head is not."""
        found = self._remains.beyond(head, branch).to
        return None if found is None else found.id

    def tips_of_no(self, branches: Collection[BranchRow]) -> list[tuple[str, CheckpointId]]:
        """The ends of lines that no branch leads to, each under the name of the branch that it was saved on."""
        reached: set[CheckpointId] = set()
        for branch in branches:
            at: CheckpointId | None = branch.head
            while at is not None and at not in reached:
                reached.add(at)
                row = self._kept.get(at)
                at = None if row is None else row.prev
        followed = {row.prev for row in self._remains.there}
        tips: dict[str, CheckpointId] = {}
        for row in reversed(self._remains.there):
            if row.id not in reached and row.id not in followed:
                tips.setdefault(row.branch, row.id)
        return list(tips.items())
