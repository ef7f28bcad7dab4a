"""verify: is everything that was saved still there, and still what was saved?

Three looks at the same store. The inspection of the backend goes through all rows, each for itself, and ends for no
damage. The usual reader is then asked for each checkpoint and each chunk: what it refuses cannot be loaded, even where
the bytes are whole and only something around them is wrong. And history is checked against itself: ids against what
they are hashes of, links, heads, the operation log.

Nothing of this stops writers, and two views are two moments. So the usual reader is opened twice, just before the
inspection and just after it: what was saved in between is in the second, and what was removed is in the first. What is
in neither may have come and gone in between. What is gone does not come back, but by an import, so a last inspection
tells: what is there still was there all the time, and should have been found.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from holdfast.errors import IntegrityError
from holdfast.history.checkpoint import checkpoint_id
from holdfast.history.oplog import check_chain
from holdfast.record import Record
from holdfast.reports.upkeep import DamagedCheckpoint, Problem, VerifyReport
from holdfast.storage.inspection import Flaw, LostRow
from holdfast.storage.ports import Backend, Inspection, Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash, SessionRow
from holdfast.store.place import Progress, silent
from holdfast.store.states import States

_STEP: Final = 1000

_AT_ONCE: Final = threading.BoundedSemaphore(4)
"""Each look has two views open. Were all threads of a process to hold one and wait for another, none would go on."""


def verify(
    backend: Backend, *, quick: bool = False, session: str | None = None, progress: Progress | None = None
) -> VerifyReport:
    """Check a store, or one session of it; see `Store.verify`."""
    with _AT_ONCE, _usual(backend) as before, backend.inspect() as seen, _usual(backend) as after:
        check = _Check(seen, before, after, session, progress or silent)
        report = check.run(quick=quick)
    if not check.doubts:
        return report
    with backend.inspect() as still:
        return check.doubts.settled(report, still)


class _Doubts:
    """What was not found, and may have gone: the checkpoints, and those chunks that belong to none."""

    def __init__(self) -> None:
        self.checkpoints: set[CheckpointId] = set()
        self.chunks: set[ChunkHash] = set()
        self._problems: list[tuple[Problem, set[CheckpointId | ChunkHash]]] = []

    def __bool__(self) -> bool:
        return bool(self._problems)

    def add(
        self, problem: Problem, checkpoints: Collection[CheckpointId], chunk: ChunkHash | None = None
    ) -> None:
        """Note a problem that is none where all of these are gone; it is the chunk that counts where there are none."""
        needing: set[CheckpointId | ChunkHash] = set(checkpoints)
        self.checkpoints.update(checkpoints)
        if not needing and chunk is not None:
            self.chunks.add(chunk)
            needing.add(chunk)
        self._problems.append((problem, needing))

    def settled(self, report: VerifyReport, still: Inspection) -> VerifyReport:
        """The report without what has gone by now."""
        there: set[CheckpointId | ChunkHash] = set()
        if self.checkpoints:
            there |= self.checkpoints.intersection(row.id for row in still.checkpoints())
            there |= self.checkpoints.intersection(row.id for row in still.lost() if row.id is not None)
        if self.chunks:
            there |= self.chunks.intersection(still.chunk_names())
        gone = {each.hex() for each in self.checkpoints - there}
        # Equal problems are one: what was found twice is there twice or not at all.
        settled = {problem for problem, needing in self._problems if not needing & there}
        return report.replace(
            problems=tuple(each for each in report.problems if each not in settled),
            damaged=tuple(each for each in report.damaged if each.id not in gone),
        )


class _Place(Record):
    """What is remembered of a row while the others are looked at."""

    session: str
    seq: int
    prev: CheckpointId | None
    hidden: int
    root: ChunkHash


class _Check:
    """One look at a store."""

    def __init__(
        self,
        seen: Inspection,
        before: Reader | str,
        after: Reader | str,
        session: str | None,
        progress: Progress,
    ) -> None:
        self._seen = seen
        self._refusal = before if isinstance(before, str) else ""
        self._reader = None if isinstance(before, str) else before
        self._later = None if isinstance(after, str) else after
        self._only = session
        self._progress = progress
        self._places: dict[CheckpointId, _Place] = {}
        self._newest: dict[str, int] = {}
        self._problems: list[Problem] = []
        self._damaged: dict[object, DamagedCheckpoint] = {}
        self.doubts = _Doubts()
        """What a writer who came in between would explain."""

    def run(self, *, quick: bool) -> VerifyReport:
        """Look at everything."""
        flaws = [each for each in self._seen.flaws() if self._wanted(each)]
        self._problems += [Problem(each.kind, each.what, each.why, each.session) for each in flaws]
        for lost in self._seen.lost():
            if self._only is None or lost.session in (None, self._only):
                self._lose(lost)
        keys: set[tuple[str, str]] = set()
        for row in self._seen.checkpoints():
            if self._only in (None, row.session):
                self._check_row(row, keys)
        self._check_links()
        branches = [each for each in self._seen.branches() if self._only in (None, each.session)]
        for branch in branches:
            self._check_head(branch.session, branch.name, branch.head)
        sessions = [each for each in self._seen.sessions() if self._only in (None, each.id)]
        operations = sum(self._check_session(each) for each in sessions)
        return VerifyReport(
            quick=quick,
            sessions=len(sessions),
            branches=len(branches),
            checkpoints=len(self._places),
            operations=operations,
            chunks=0 if quick else self._check_states(),
            problems=tuple(self._problems),
            damaged=tuple(sorted(self._damaged.values(), key=_order)),
        )

    def _wanted(self, flaw: Flaw) -> bool:
        return self._only is None or flaw.session in (None, self._only)

    def _lose(self, row: LostRow) -> None:
        name = None if row.id is None else row.id.hex()
        key = row.id if row.id is not None else (row.session, row.seq)
        self._damaged[key] = DamagedCheckpoint(name, row.session, row.seq, row.why, lost=True)
        what = f"checkpoint {name or 'without a readable id'}"
        self._problems.append(Problem("checkpoint", what, row.why, row.session, (name,) if name else ()))

    def _check_row(self, row: CheckpointRow, keys: set[tuple[str, str]]) -> None:
        self._places[row.id] = _Place(row.session, row.seq, row.prev, row.hidden, row.root)
        self._newest[row.session] = max(self._newest.get(row.session, 0), row.seq)
        if checkpoint_id(row) != row.id:
            self._blame(row.id, "checkpoint", "its id is not the hash of what it says", lost=True)
        if row.key is not None:
            if (row.session, row.key) in keys:
                self._blame(row.id, "checkpoint", f"its key {row.key!r} names another one too", damages=False)
            keys.add((row.session, row.key))
        if self._reader is None:
            self._blame(row.id, "checkpoint", self._refusal, lost=False)
            return
        try:
            found = self._reader.checkpoint(row.id)
            if found is None and self._later is not None:
                found = self._later.checkpoint(row.id)
        except IntegrityError as error:
            self._blame(row.id, "checkpoint", f"it cannot be read: {error}", lost=False)
            return
        if found is None:
            blamed = self._blame(row.id, "checkpoint", "it cannot be found by its id", lost=False)
            self.doubts.add(blamed, [row.id])
        elif len(self._places) % _STEP == 0:
            self._progress("looking at checkpoints", len(self._places))

    def _check_links(self) -> None:
        for name, place in self._places.items():
            if place.prev is None:
                continue
            before = self._places.get(place.prev)
            if before is None:
                why = f"its ancestor {place.prev.hex()[:12]} is not readable"
            elif before.session != place.session or before.seq >= place.seq or before.hidden:
                why = f"its ancestor {place.prev.hex()[:12]} does not come before it"
            else:
                continue
            self._blame(name, "checkpoint", why, damages=False)

    def _check_head(self, session: str, name: str, head: CheckpointId) -> None:
        place = self._places.get(head)
        if place is None:
            why = f"its head {head.hex()[:12]} is not readable"
        elif place.session != session or place.hidden:
            why = f"its head {head.hex()[:12]} is not part of its history"
        else:
            return
        what = f"branch {name!r} of session {session!r}"
        self._problems.append(Problem("branch", what, why, session, (head.hex(),)))

    def _check_session(self, session: SessionRow) -> int:
        """Check the counters and the log of a session; how many entries that has."""
        what = f"session {session.id!r}"
        newest = self._newest.get(session.id, 0)
        if newest > session.last_seq:
            why = f"it counts {session.last_seq} checkpoints, and there is a #{newest}"
            self._problems.append(Problem("session", what, why, session.id))
        entries = self._seen.operations(session.id)
        try:
            check_chain(session, entries)
        except IntegrityError as error:
            self._problems.append(Problem("log", f"the operation log of {what}", str(error), session.id))
        if self._reader is not None:
            try:
                self._reader.session(session.id)
                self._reader.branches(session.id)
                self._reader.operations(session.id)
            except IntegrityError as error:
                why = f"its branches or its log cannot be read: {error}"
                self._problems.append(Problem("session", what, why, session.id))
        return len(entries)

    def _check_states(self) -> int:
        """Read each chunk once; how many there are."""
        states = States(self._seen, None if self._reader is None else self._chunks, self._progress)
        blamed: dict[ChunkHash, list[CheckpointId]] = {}
        for name, place in self._places.items():
            trouble = states.trouble_with(place.root)
            if trouble is not None:
                blamed.setdefault(trouble.chunk, []).append(name)
                self._damage(name, f"its state cannot be read: {trouble.why}", lost=trouble.lost)
        needed = set(states.troubles)
        if self._only is None:
            states.check_others()
        # Of a state with several unreadable chunks one is told: the others are those of any of these.
        suffering = {name for names in blamed.values() for name in names}
        for each in states.troubles.values():
            affected = blamed.get(each.chunk, ())
            names = tuple(name.hex() for name in affected)
            problem = Problem("chunk", f"chunk {each.chunk.hex()}", each.why, None, names)
            self._problems.append(problem)
            if each.missing:
                self.doubts.add(problem, affected or (suffering if each.chunk in needed else ()), each.chunk)
        return states.count

    def _chunks(self, names: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """Chunks as the usual reader gives them."""
        assert self._reader is not None
        wanted = list(names)
        found = self._reader.chunks(wanted)
        if self._later is None or len(found) == len(wanted):
            return found
        return {**found, **self._later.chunks([name for name in wanted if name not in found])}

    def _blame(
        self, name: CheckpointId, kind: str, why: str, *, lost: bool = False, damages: bool = True
    ) -> Problem:
        place = self._places[name]
        what = f"checkpoint {name.hex()} (#{place.seq} of session {place.session!r})"
        problem = Problem(kind, what, why, place.session, (name.hex(),))
        self._problems.append(problem)
        if damages:
            self._damage(name, why, lost=lost)
        return problem

    def _damage(self, name: CheckpointId, why: str, *, lost: bool) -> None:
        place, known = self._places[name], self._damaged.get(name)
        # What is worse, and was found first, is what is said.
        if known is None or (lost and not known.lost):
            self._damaged[name] = DamagedCheckpoint(name.hex(), place.session, place.seq, why, lost)


@contextmanager
def _usual(backend: Backend) -> Iterator[Reader | str]:
    """The reader that everybody uses, or the reason why the store cannot be read that way."""
    with ExitStack() as views:
        try:
            found: Reader | str = views.enter_context(backend.reader())
        except IntegrityError as error:
            found = f"the store cannot be opened: {error}"
        yield found


def _order(each: DamagedCheckpoint) -> tuple[str, int, str]:
    return each.session or "", each.seq or 0, each.id or ""
