"""verify: is everything that was saved still there, and still what was saved?

The inspection of the backend goes through all rows, each for itself, and ends for no damage. The usual reader is asked
for each checkpoint and each chunk: what it refuses cannot be loaded, even where the bytes are whole and only something
around them is wrong. And history is checked against itself: ids against what they are hashes of, links, heads, the log.

Nothing of this stops writers, and two views are two moments. The reader is opened after the inspection, so that it
knows all that was saved before; what it does not find may have been removed in between. Then everything is looked at
once more: what is missing both times is damage.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from holdfast.errors import ErrorCode, IntegrityError
from holdfast.history.checkpoint import checkpoint_id
from holdfast.history.oplog import check_chain
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree.read import Read, links, read_chunk
from holdfast.record import Record
from holdfast.reports.upkeep import DamagedCheckpoint, Problem, VerifyReport
from holdfast.storage.ports import Backend, Inspection, Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash, SessionRow
from holdfast.store.place import Progress, silent

_STEP: Final = 1000
_AT_ONCE: Final = threading.BoundedSemaphore(4)
"""Each look has two views open. Were all threads of a process to hold one and wait for another, none would go on."""


def verify(
    backend: Backend, *, quick: bool = False, session: str | None = None, progress: Progress | None = None
) -> VerifyReport:
    """Check a store, or one session of it; see `Store.verify`."""
    told = progress or silent
    look = _look(backend, session, told, quick=quick)
    if look.missing:
        before, look = look.missing.keys(), _look(backend, session, told, quick=quick)
        look.forgive(look.missing.keys() - before)
    return look.report


def _look(backend: Backend, session: str | None, progress: Progress, *, quick: bool) -> _Look:
    with _AT_ONCE, backend.inspect() as seen, _usual(backend) as reader:
        return _Look(seen, reader, session, progress, quick=quick)


@contextmanager
def _usual(backend: Backend) -> Iterator[Reader | str]:
    """Give the reader that everybody uses, or the reason why the store cannot be read that way."""
    with ExitStack() as views:
        try:
            found: Reader | str = views.enter_context(backend.reader())
        except IntegrityError as error:
            found = f"the store cannot be opened: {error}"
        yield found


class _Look:
    """One look at a store."""

    def __init__(
        self, seen: Inspection, reader: Reader | str, session: str | None, progress: Progress, *, quick: bool
    ) -> None:
        self._seen = seen
        self._refusal = reader if isinstance(reader, str) else ""
        self._reader = None if isinstance(reader, str) else reader
        self._progress = progress
        self._rows: dict[CheckpointId, CheckpointRow] = {}
        self._newest: dict[str, int] = {}
        self._problems: list[Problem] = []
        self._damaged: dict[object, DamagedCheckpoint] = {}
        self.missing: dict[str, Problem] = {}
        """What the reader does not find, by name: a writer who came in between would explain it."""
        for flaw in seen.flaws():
            if session is None or flaw.session in (None, session):
                self._problems.append(Problem(flaw.kind, flaw.what, flaw.why, flaw.session))
        for lost in seen.lost():
            if session is None or lost.session in (None, session):
                name = None if lost.id is None else lost.id.hex()
                what = f"checkpoint {name or 'without a readable id'}"
                named = (name,) if name else ()
                self._problems.append(Problem("checkpoint", what, lost.why, lost.session, named))
                self._damaged[lost.id or (lost.session, lost.seq)] = DamagedCheckpoint(
                    name, lost.session, lost.seq, lost.why, lost=True
                )
        keys: set[tuple[str, str]] = set()
        for row in seen.checkpoints():
            if session in (None, row.session):
                self._check_row(row, keys)
        for row in self._rows.values():
            self._check_link(row)
        branches = [each for each in seen.branches() if session in (None, each.session)]
        for branch in branches:
            head = self._rows.get(branch.head)
            if head is None or head.session != branch.session or head.hidden:
                why = "is not readable" if head is None else "is not part of its history"
                what = f"branch {branch.name!r} of session {branch.session!r}"
                why = f"its head {branch.head.hex()[:12]} {why}"
                self._problems.append(Problem("branch", what, why, branch.session, (branch.head.hex(),)))
        sessions = [each for each in seen.sessions() if session in (None, each.id)]
        operations = sum(self._check_session(each) for each in sessions)
        chunks = 0 if quick else self._check_states(everything=session is None)
        self.report = VerifyReport(
            quick=quick,
            sessions=len(sessions),
            branches=len(branches),
            checkpoints=len(self._rows),
            operations=operations,
            chunks=chunks,
            problems=tuple(self._problems),
            damaged=tuple(
                sorted(
                    self._damaged.values(),
                    key=lambda each: (each.session or "", each.seq or 0, each.id or ""),
                )
            ),
        )

    def forgive(self, names: set[str]) -> None:
        """Take out of the report what was removed while the store was looked at."""
        gone = {self.missing[name] for name in names}
        problems = tuple(each for each in self.report.problems if each not in gone)
        still = {checkpoint for each in problems for checkpoint in each.checkpoints}
        whole = {checkpoint for each in gone for checkpoint in each.checkpoints} - still
        damaged = tuple(each for each in self.report.damaged if each.id not in whole)
        self.report = self.report.replace(problems=problems, damaged=damaged)

    def _check_row(self, row: CheckpointRow, keys: set[tuple[str, str]]) -> None:
        # All of them are kept, but not all of each.
        self._rows[row.id] = row._replace(message="", metadata="", tags=())
        self._newest[row.session] = max(self._newest.get(row.session, 0), row.seq)
        if len(self._rows) % _STEP == 0:
            self._progress("looking at checkpoints", len(self._rows))
        if checkpoint_id(row) != row.id:
            self._blame(row, "its id is not the hash of what it says", lost=True)
        if row.key is not None:
            if (row.session, row.key) in keys:
                self._blame(row, f"its key {row.key!r} names another one too", damages=False)
            keys.add((row.session, row.key))
        if self._reader is None:
            self._blame(row, self._refusal)
            return
        try:
            if self._reader.checkpoint(row.id) is None:
                self.missing[row.id.hex()] = self._blame(row, "it cannot be found by its id")
        except IntegrityError as error:
            self._blame(row, f"it cannot be read: {error}")

    def _check_link(self, row: CheckpointRow) -> None:
        if row.prev is None:
            return
        before = self._rows.get(row.prev)
        if before is None:
            self._blame(row, f"its ancestor {row.prev.hex()[:12]} is not readable", damages=False)
        elif before.session != row.session or before.seq >= row.seq or before.hidden:
            self._blame(row, f"its ancestor {row.prev.hex()[:12]} does not come before it", damages=False)

    def _check_session(self, session: SessionRow) -> int:
        """Check the counters and the log of a session; return how many entries that has."""
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

    def _check_states(self, *, everything: bool) -> int:
        """Read each chunk once; return how many there are."""
        states = States(self._seen, None if self._reader is None else self._reader.chunks, self._progress)
        blamed: dict[ChunkHash, list[CheckpointId]] = {}
        for name, row in self._rows.items():
            trouble = states.trouble_with(row.root)
            if trouble is not None:
                blamed.setdefault(trouble.chunk, []).append(name)
                self._damage(row, f"its state cannot be read: {trouble.why}", lost=trouble.lost)
        if everything:
            states.check_others()
        # Of a state with several unreadable chunks one is told: the others are those of any of these.
        for each in states.troubles.values():
            names = tuple(name.hex() for name in blamed.get(each.chunk, ()))
            problem = Problem("chunk", f"chunk {each.chunk.hex()}", each.why, None, names)
            self._problems.append(problem)
            if each.missing:
                self.missing[each.chunk.hex()] = problem
        return states.count

    def _blame(self, row: CheckpointRow, why: str, *, lost: bool = False, damages: bool = True) -> Problem:
        what = f"checkpoint {row.id.hex()} (#{row.seq} of session {row.session!r})"
        problem = Problem("checkpoint", what, why, row.session, (row.id.hex(),))
        self._problems.append(problem)
        if damages:
            self._damage(row, why, lost=lost)
        return problem

    def _damage(self, row: CheckpointRow, why: str, *, lost: bool) -> None:
        known = self._damaged.get(row.id)
        # What is worse, and was found first, is what is said.
        if known is None or (lost and not known.lost):
            self._damaged[row.id] = DamagedCheckpoint(row.id.hex(), row.session, row.seq, why, lost)


class Trouble(Record):
    """A chunk that cannot be read."""

    chunk: ChunkHash
    why: str
    lost: bool
    missing: bool
    """Whether it is not there at all, as after a gc that came in between."""


class States:
    """Which states are whole: those of which the root is, and with it all that the root refers to.

    States share most of their chunks, so each chunk is read once; what is known of it is remembered, its bytes are not.

    Args:
        seen: Where chunks are read from whatever is wrong around them.
        usual: Reads chunks as everybody does; None to do without.
        progress: Told how many chunks were read.
    """

    def __init__(self, seen: Inspection, usual: Read | None, progress: Progress | None = None) -> None:
        self._seen = seen
        self._usual = usual
        self._progress = progress or silent
        self._spoiled: dict[ChunkHash, Trouble] = {}
        self.readable: set[ChunkHash] = set()
        """The chunks that are whole, with all that they refer to."""
        self.troubles: dict[ChunkHash, Trouble] = {}
        """The chunks that are themselves unreadable."""
        self.count = 0

    def trouble_with(self, root: ChunkHash) -> Trouble | None:
        """Return the reason why the state with this root cannot be read; None where it can."""
        children: dict[ChunkHash, list[ChunkHash]] = {}
        # A chunk is done when all that it refers to is: it stays on the stack until then.
        stack = [root]
        while stack:
            name = stack[-1]
            if name in self.readable or name in self._spoiled:
                stack.pop()
            elif name not in children:
                children[name] = self._links(name)
                # Hashes cannot go round in a circle; chunks that were made to look so must not hang us.
                stack += [each for each in children[name] if each not in children]
            else:
                stack.pop()
                found = [self.troubles[name]] if name in self.troubles else []
                found += [self._spoiled[each] for each in children[name] if each in self._spoiled]
                if found:
                    self._spoiled[name] = next((each for each in found if each.lost), found[0])
                else:
                    self.readable.add(name)
        return self._spoiled.get(root)

    def check_others(self) -> None:
        """Look at the chunks that no checkpoint needs, too."""
        for name in self._seen.chunk_names():
            if name not in self.readable and name not in self._spoiled:
                self._read(name)

    def _links(self, name: ChunkHash) -> list[ChunkHash]:
        data = self._read(name)
        try:
            return [] if data is None else links(name, data)
        except IntegrityError as error:
            self.troubles[name] = Trouble(name, str(error), lost=True, missing=False)
            return []

    def _read(self, name: ChunkHash) -> bytes | None:
        """Return the bytes of a chunk if they are its own; what is wrong with it is noted."""
        self.count += 1
        if self.count % _STEP == 0:
            self._progress("reading chunks", self.count)
        why, missing = "", False
        if self._usual is not None:
            try:
                return read_chunk(name, self._usual)
            except IntegrityError as error:
                why, missing = str(error), error.code is ErrorCode.CHUNK_MISSING
        data = self._seen.chunks([name]).get(name)
        if data is None or hash_chunk(data) != name:
            said = (
                "it is missing, or cannot be put together" if data is None else "its bytes have another hash"
            )
            self.troubles[name] = Trouble(name, why or said, lost=True, missing=missing or data is None)
            return None
        if why:
            self.troubles[name] = Trouble(name, why, lost=False, missing=missing)
        return data
