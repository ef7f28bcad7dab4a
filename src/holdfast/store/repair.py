"""repair and recover: what is whole of a damaged store, put in its place; and the newest checkpoint that can be loaded.

Nothing is guessed that can be known. A checkpoint is whole if its row matches its seal and its id, and its whole state
can be read. History is led past the others as if they had been removed: the way back follows `prev` as far as that
leads; where a row on it is not readable, it goes on with what that row followed, if that can still be read, and
otherwise with the newest one before it by number, of the same branch if there is one. Numbers only ever fall on the
way, so that it ends whatever damaged rows say.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from holdfast.backends.memory import MemoryReader, Moment
from holdfast.errors import ErrorCode, IntegrityError, NotFoundError, RecoveryWarning
from holdfast.history.checkpoint import Checkpoint, checkpoint_id
from holdfast.history.oplog import check_chain, operation, without_strays
from holdfast.history.refs import Ref, parse, resolve
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.tree.read import Read
from holdfast.objects.tree.state import decode_state
from holdfast.record import Record
from holdfast.reports.upkeep import DamagedCheckpoint, MovedHead, Recovered, RepairReport
from holdfast.storage.inspection import LostRow, Rebuilt
from holdfast.storage.ports import Backend, Inspection
from holdfast.storage.records import BranchRow, CheckpointId, CheckpointRow, Operation, SessionRow
from holdfast.store.place import Place, Progress, session_of
from holdfast.store.save import Writer
from holdfast.store.verify import States, verify

_NO_NUMBER: Final = 1 << 62
"""Beyond the number of any checkpoint."""


class _Way(Record):
    """Where a way back leads."""

    to: CheckpointRow | None
    """The first checkpoint on it that is there; None where there is none."""
    skipped: int
    """How many checkpoints are known to lie before it on the way."""
    unreadable: tuple[LostRow, ...]
    """Those of them whose rows cannot be read."""


class _Remains:
    """What is left of the history of one session.

    Args:
        rows: The readable ones, removed ones too.
        lost: Those whose rows are not readable. Ones of other sessions do no harm.
        without: Readable ones that do not count as being there.
    """

    def __init__(
        self,
        rows: Iterable[CheckpointRow],
        lost: Mapping[CheckpointId, LostRow],
        *,
        without: Container[CheckpointId] = (),
    ) -> None:
        self._rows = {row.id: row for row in rows}
        self._lost = lost
        there = (row for row in self._rows.values() if not row.hidden and row.id not in without)
        self.there = {row.id: row for row in sorted(there, key=lambda row: row.seq)}
        """What is there, oldest first."""

    def beyond(self, at: CheckpointId | LostRow | None, branch: str, before: int = _NO_NUMBER) -> _Way:
        """Return where a way leads on from a checkpoint, it included, for one of that branch and number."""
        skipped = 0
        passed: list[LostRow] = []
        while at is not None:
            row, lost = (None, at) if isinstance(at, LostRow) else (self._rows.get(at), self._lost.get(at))
            if row is not None and row.seq < before:
                if row.id in self.there:
                    return _Way(row, skipped, tuple(passed))
                skipped += 1 + row.skipped
                before, at = row.seq, row.prev
                continue
            skipped += 1
            at = None
            if lost is not None:
                passed.append(lost)
                before = before if lost.seq is None else min(before, lost.seq)
                at = next((each for each in lost.followed if self._number(each) < before), None)
            if at is None:
                return _Way(self.newest_before(before, branch), skipped, tuple(passed))
        return _Way(None, skipped, tuple(passed))

    def newest_before(self, number: int, branch: str) -> CheckpointRow | None:
        """Return the newest checkpoint with a lower number, of that branch if it has one.

        A branch that has nothing of its own left began somewhere before; the nearest there is takes its place.
        """
        older = [row for row in self.there.values() if row.seq < number]
        own = [row for row in older if row.branch == branch]
        return own[-1] if own else older[-1] if older else None

    def _number(self, name: CheckpointId) -> int:
        """Return the number of a checkpoint; one that was never there has none that could come before anything."""
        row, lost = self._rows.get(name), self._lost.get(name)
        if row is not None:
            return row.seq
        return _NO_NUMBER if lost is None or lost.seq is None else lost.seq


def repair(
    backend: Backend, *, now: int, dry_run: bool = False, progress: Progress | None = None
) -> RepairReport:
    """Put what is whole into a new store, and keep what was there aside; see `Store.repair`."""
    found = verify(backend, progress=progress)
    if found.ok:
        return RepairReport(dry_run, (), found.checkpoints, (), 0, (), (), None)
    made: list[_Repair] = []

    def plan(seen: Inspection) -> Rebuilt:
        made[:] = [_Repair(seen, now, progress)]
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


class _Repair:
    """What is left of a store, put in order."""

    def __init__(self, seen: Inspection, now: int, progress: Progress | None) -> None:
        self._seen = seen
        self._now = now
        self._states = States(seen, None, progress)
        self.kept: dict[CheckpointId, CheckpointRow] = {}
        # By session, each looked at once: a store of many sessions costs no more than its rows.
        self._rows: defaultdict[str, list[CheckpointRow]] = defaultdict(list)
        self._dropped: defaultdict[str, set[CheckpointId]] = defaultdict(set)
        self.lost: list[DamagedCheckpoint] = []
        self._unreadable = {row.id: row for row in seen.lost() if row.id is not None}
        self.relinked = 0
        self.moved: list[MovedHead] = []
        self.logs_cut: list[str] = []
        for lost in seen.lost():
            name = lost.id.hex() if lost.id else None
            self.lost.append(DamagedCheckpoint(name, lost.session, lost.seq, lost.why, lost=True))
        for row in seen.checkpoints():
            self._sort(row)

    def _sort(self, row: CheckpointRow) -> None:
        self._rows[row.session].append(row)
        trouble = self._states.trouble_with(row.root)
        if checkpoint_id(row) == row.id and trouble is None:
            self.kept[row.id] = row
            return
        why = "its id is not the hash of what it says"
        if trouble is not None:
            why = f"its state cannot be read: {trouble.why}"
        self._dropped[row.session].add(row.id)
        self.lost.append(DamagedCheckpoint(row.id.hex(), row.session, row.seq, why, lost=True))

    def rebuilt(self) -> Rebuilt:
        """Return everything that the store is to hold."""
        sessions: list[SessionRow] = []
        branches: list[BranchRow] = []
        operations: list[Operation] = []
        heads: dict[str, dict[str, BranchRow]] = {}
        for branch in self._seen.branches():
            heads.setdefault(branch.session, {})[branch.name] = branch
        for session in self._seen.sessions():
            rows, dropped = self._rows[session.id], self._dropped[session.id]
            remains = _Remains(rows, self._unreadable, without=dropped)
            changed = self._relink(rows, remains)
            found, moved = self._heads(session.id, remains, heads.get(session.id, {}))
            branches += found
            self.moved += moved
            made, log = self._log(session, changed=bool(changed or moved or dropped))
            if found and made.current not in {each.name for each in found}:
                made = made._replace(current=min(each.name for each in found))
            newest = max((row.seq for row in rows), default=0)
            sessions.append(made._replace(last_seq=max(made.last_seq, newest)))
            operations += log
        known = {session.id for session in sessions}
        kept = sorted(
            (row for row in self.kept.values() if row.session in known), key=lambda row: row.position
        )
        return Rebuilt(sessions, branches, kept, operations, set(self._states.readable))

    def _relink(self, rows: Iterable[CheckpointRow], remains: _Remains) -> int:
        """Change the rows that followed what is not there any more; return how many those are."""
        changed = 0
        for row in rows:
            before = remains.there.get(row.prev) if row.prev is not None else None
            if row.id not in self.kept or row.prev is None or (before is not None and before.seq < row.seq):
                continue
            way = remains.beyond(row.prev, row.branch, row.seq)
            prev = None if way.to is None else way.to.id
            self.kept[row.id] = row._replace(prev=prev, skipped=row.skipped + way.skipped)
            changed += 1
        self.relinked += changed
        return changed

    def _heads(
        self, session: str, remains: _Remains, known: Mapping[str, BranchRow]
    ) -> tuple[list[BranchRow], list[MovedHead]]:
        found: list[BranchRow] = []
        moved: list[MovedHead] = []
        for name, branch in known.items():
            if branch.head in remains.there:
                found.append(branch)
                continue
            head = remains.beyond(branch.head, name).to
            moved.append(MovedHead(session, name, branch.head.hex(), head.id.hex() if head else None))
            if head is not None:
                found.append(BranchRow(session, name, head.id, self._now))
        # On a page that is damaged any branch may have been lost without a trace.
        flaws = self._seen.flaws()
        if any(each.kind == "page" or (each.kind == "branch" and each.session == session) for each in flaws):
            for name, tip in self._loose_tips(remains, found).items():
                if name not in known:
                    found.append(BranchRow(session, name, tip, self._now))
                    moved.append(MovedHead(session, name, None, tip.hex()))
        return found, moved

    def _loose_tips(self, remains: _Remains, branches: Collection[BranchRow]) -> dict[str, CheckpointId]:
        """Return the ends of lines that no branch leads to, each under the branch that it was saved on."""
        reached: set[CheckpointId] = set()
        for branch in branches:
            at: CheckpointId | None = branch.head
            while at is not None and at not in reached:
                reached.add(at)
                at = self.kept[at].prev if at in self.kept else None
        followed = {self.kept[name].prev for name in remains.there}
        tips: dict[str, CheckpointId] = {}
        for name, row in reversed(remains.there.items()):
            if name not in reached and name not in followed:
                tips.setdefault(row.branch, name)
        return tips

    def _log(self, session: SessionRow, *, changed: bool) -> tuple[SessionRow, Sequence[Operation]]:
        """Return the session with its operation log as it goes on: what was repaired is an entry of it."""
        seen = self._seen.operations(session.id)
        log = without_strays(session, seen)
        try:
            check_chain(session, log)
        except IntegrityError:
            self.logs_cut.append(session.id)
            session = session._replace(log_count=max([session.log_count, *(each.number for each in seen)]))
            log, changed = [], True
        if not changed:
            return session, log
        entry = operation(session, "repair", self._now)
        return session._replace(log_count=entry.number, log_tip=entry.hash), [*log, entry]


class Found(Record):
    """The newest checkpoint that is whole, and where to read more of it."""

    state: Any
    row: CheckpointRow
    owner: SessionRow
    damaged: tuple[DamagedCheckpoint, ...]
    refusal: str
    """Why it could not simply be loaded; empty where it could."""
    tip: CheckpointId | None
    """The head of the branch in use, if that is what was asked for: the next save goes on from there."""
    read: Read


def recover(writer: Writer, ref: str | Checkpoint) -> Recovered:
    """Return the newest state that is whole; see `Session.recover`."""
    with newest_intact(writer.place, ref, writer.parts.types) as found:
        _go_on(writer, found)
        return Recovered(found.state, Checkpoint(found.row, found.owner), found.damaged)


def load_intact(writer: Writer, ref: str | Checkpoint, path: str | None, types: TypeRegistry) -> Any:
    """Return the same for `Session.load`, with a warning in place of a record."""
    with newest_intact(writer.place, ref, types) as found:
        _go_on(writer, found)
        served = f"#{found.row.seq} ({found.row.id.hex()[:12]}) of session {found.row.session!r}"
        passed = ", ".join(f"#{each.seq or '?'} ({(each.id or 'unknown')[:12]})" for each in found.damaged)
        instead = f" in place of {passed}" if passed else ", which only recovery could read"
        # Of the caller of Session.load.
        warnings.warn(
            f"the store is damaged, and {served} was served{instead}: {found.refusal}",
            RecoveryWarning,
            stacklevel=3,
        )
        if path is None:
            return found.state
        from holdfast.objects.diff.location import select_part

        return select_part(found.row.root, path, found.read, types)


def _go_on(writer: Writer, found: Found) -> None:
    # What was served may be older than the head; what comes next still follows the head, and says so in its parent.
    if found.tip is not None:
        writer.expected = found.tip


@contextmanager
def newest_intact(place: Place, ref: str | Checkpoint, types: TypeRegistry) -> Iterator[Found]:
    """Find the newest checkpoint at or before `ref` that can be read whole.

    The usual reader is asked first. Where it finds damage, the rows are taken from an inspection.

    Raises:
        NotFoundError: `ref` names nothing, and nothing is damaged that could be it.
        IntegrityError: There is none (`nothing-intact`).
    """
    with ExitStack() as stack:
        try:
            reader = stack.enter_context(place.backend.reader())
            row = place.find(reader, ref)
            branch = reader.branch(place.claim.session, place.branch)
            tip = row.id if branch is not None and branch.head == row.id else None
            state = decode_state(row.root, reader.chunks, types)
            found = Found(state, row, session_of(reader, row), (), "", tip, reader.chunks)
        except IntegrityError as refusal:
            seen = stack.enter_context(place.backend.inspect())
            found = _Recovery(place, seen, types).find(ref, str(refusal))
        yield found


class _Recovery:
    """The way back through what is left of a session."""

    def __init__(self, place: Place, seen: Inspection, types: TypeRegistry) -> None:
        self._place = place
        self._seen = seen
        self._types = types
        self._session = session = place.claim.session
        self._moment = Moment(
            sessions={row.id: row for row in seen.sessions()},
            branches={(row.session, row.name): row for row in seen.branches()},
            checkpoints={row.id: row for row in seen.checkpoints() if row.session == session},
        )
        self._heads = {row.name: row.head for row in seen.branches() if row.session == session}
        self._lost = [row for row in seen.lost() if row.session in (None, session)]
        lost = {row.id: row for row in self._lost if row.id is not None}
        self._remains = _Remains(self._moment.checkpoints.values(), lost)
        self._damaged: list[DamagedCheckpoint] = []

    def find(self, ref: str | Checkpoint, refusal: str) -> Found:
        """Return the newest one that is whole."""
        text = ref.id if isinstance(ref, Checkpoint) else ref
        at = self._start(ref, text)
        asked = self._damaged[0].id if self._damaged else at.id.hex() if at else None
        head = self._heads.get(self._place.branch)
        tip = head if head is not None and asked == head.hex() else None
        owner = self._moment.sessions.get(self._session) or SessionRow(self._session, None, None, 0)
        while at is not None:
            try:
                state = decode_state(at.root, self._seen.chunks, self._types)
            except IntegrityError as error:
                why = f"its state cannot be read: {error}"
                self._damaged.append(DamagedCheckpoint(at.id.hex(), self._session, at.seq, why, lost=True))
                at = self._follow(self._remains.beyond(at.prev, at.branch, at.seq))
            else:
                return Found(state, at, owner, tuple(self._damaged), refusal, tip, self._seen.chunks)
        raise IntegrityError(
            f"nothing at or before {text!r} in session {self._session!r} can be read",
            code=ErrorCode.NOTHING_INTACT,
            hint="look for other branches and sessions with store.verify(), or bring the store back from a backup",
            session=self._session,
            damaged=[each.id for each in self._damaged],
        )

    def _start(self, ref: str | Checkpoint, text: str) -> CheckpointRow | None:
        reader = MemoryReader(self._moment)
        try:
            return resolve(reader, self._session, self._place.branch, ref, now=self._place.clock())
        except (IntegrityError, NotFoundError) as error:
            missing = isinstance(error, NotFoundError)
            if missing and not (self._lost or self._seen.flaws()):
                raise
            parsed = parse(text)
            for row in self._lost:
                if self._is_meant(parsed, row):
                    return self._follow(self._remains.beyond(row, self._place.branch))
            name = parsed.value if parsed.kind == "name" else self._place.branch
            rows = self._moment.checkpoints.values()
            unknown = name not in self._heads and all(row.branch != name for row in rows)
            if (
                parsed.kind in ("seq", "id")
                or (parsed.kind == "name" and unknown)
                or (missing and (parsed.kind == "tag" or not rows))
            ):
                raise
            # The head of the branch or a link on the way is lost: the newest one that was saved on that branch.
            return self._remains.newest_before(_NO_NUMBER, name)

    def _is_meant(self, ref: Ref, row: LostRow) -> bool:
        if ref.kind == "seq":
            return row.seq == int(ref.value)
        if ref.kind == "head":
            return row.id is not None and row.id == self._heads.get(self._place.branch)
        if ref.kind not in ("id", "name") or row.id is None:
            return False
        if ref.value in self._heads:
            return row.id == self._heads[ref.value]
        return row.id.hex().startswith(ref.value)

    def _follow(self, way: _Way) -> CheckpointRow | None:
        for lost in way.unreadable:
            name = lost.id.hex() if lost.id else None
            self._damaged.append(DamagedCheckpoint(name, self._session, lost.seq, lost.why, lost=True))
        return way.to
