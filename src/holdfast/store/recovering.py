"""Recovery: the newest checkpoint that is whole, at or before the one that was asked for.

The usual reader is asked first. Where it finds damage, the rows are taken from an inspection, which gives out all that
are whole; the walk then follows `prev` as far as it leads, and where a row on the way is lost it goes on with the
newest one before it by number. Whoever recovers is told what was passed over, and why.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from holdfast.backends.memory import MemoryReader, Moment
from holdfast.errors import ErrorCode, IntegrityError, NotFoundError, RecoveryWarning
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.refs import Ref, parse, resolve
from holdfast.history.remains import NO_NUMBER, Remains, Way
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.tree.read import Read
from holdfast.objects.tree.state import decode_state
from holdfast.record import Record
from holdfast.reports.upkeep import DamagedCheckpoint, Recovered
from holdfast.storage.inspection import LostRow
from holdfast.storage.ports import Inspection, Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, SessionRow
from holdfast.store.place import Place, session_of
from holdfast.store.save import Writer


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
    """The newest state that is whole; see `Session.recover`."""
    with newest_intact(writer.place, ref, writer.parts.types) as found:
        _go_on(writer, found)
        return Recovered(found.state, Checkpoint(found.row, found.owner), found.damaged)


def load_intact(writer: Writer, ref: str | Checkpoint, path: str | None, types: TypeRegistry) -> Any:
    """The same for `Session.load`, with a warning in place of a record."""
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

    Raises:
        NotFoundError: `ref` names nothing, and nothing is damaged that could be it.
        IntegrityError: There is none (`nothing-intact`).
    """
    with ExitStack() as stack:
        try:
            reader = stack.enter_context(place.backend.reader())
            found = _undamaged(place, ref, types, reader)
        except IntegrityError as refusal:
            seen = stack.enter_context(place.backend.inspect())
            found = _Walk(place, seen, types).find(ref, str(refusal))
        yield found


def _undamaged(place: Place, ref: str | Checkpoint, types: TypeRegistry, reader: Reader) -> Found:
    row = place.find(reader, ref)
    branch = reader.branch(place.claim.session, place.branch)
    tip = row.id if branch is not None and branch.head == row.id else None
    state = decode_state(row.root, reader.chunks, types)
    return Found(state, row, session_of(reader, row), (), "", tip, reader.chunks)


class _Walk:
    """The way back through what is left of a session."""

    def __init__(self, place: Place, seen: Inspection, types: TypeRegistry) -> None:
        self._place = place
        self._seen = seen
        self._types = types
        self._session = place.claim.session
        moment = Moment(
            sessions={row.id: row for row in seen.sessions()},
            branches={(row.session, row.name): row for row in seen.branches()},
            checkpoints={row.id: row for row in seen.checkpoints() if row.session == self._session},
        )
        self._owner = moment.sessions.get(self._session) or SessionRow(self._session, None, None, 0)
        self._rows = moment.checkpoints
        branch = moment.branches.get((self._session, place.branch))
        self._head = None if branch is None else branch.head
        self._reader = MemoryReader(moment)
        self._lost = [row for row in seen.lost() if row.session in (None, self._session)]
        self._remains = Remains(
            self._rows.values(), {row.id: row for row in self._lost if row.id is not None}
        )
        self._damaged: list[DamagedCheckpoint] = []

    def find(self, ref: str | Checkpoint, refusal: str) -> Found:
        """The newest one that is whole."""
        at = self._start(ref)
        asked = self._damaged[0].id if self._damaged else at.id.hex() if at else None
        tip = self._head if self._head is not None and asked == self._head.hex() else None
        while at is not None:
            try:
                state = decode_state(at.root, self._seen.chunks, self._types)
            except IntegrityError as error:
                self._pass_over(at.id.hex(), at.seq, f"its state cannot be read: {error}", lost=True)
                at = self._before(at)
            else:
                damaged = tuple(self._damaged)
                return Found(state, at, self._owner, damaged, refusal, tip, self._seen.chunks)
        raise IntegrityError(
            f"nothing at or before {_text(ref)!r} in session {self._session!r} can be read",
            code=ErrorCode.NOTHING_INTACT,
            hint="look for other branches and sessions with store.verify(), or bring the store back from a backup",
            session=self._session,
            damaged=[each.id for each in self._damaged],
        )

    def _start(self, ref: str | Checkpoint) -> CheckpointRow | None:
        try:
            row = resolve(self._reader, self._session, self._place.branch, ref, now=self._place.clock())
        except (IntegrityError, NotFoundError) as error:
            if isinstance(error, NotFoundError) and not (self._lost or self._seen.flaws()):
                raise
            return self._guess(ref, error)
        return row

    def _guess(self, ref: str | Checkpoint, error: Exception) -> CheckpointRow | None:
        """Where to begin when what was asked for is lost: with the newest one before it."""
        parsed = parse(_text(ref))
        for row in self._lost:
            if self._is_meant(parsed, row):
                return self._follow(self._remains.beyond_lost(row, self._place.branch))
        if parsed.kind in ("seq", "id") or (isinstance(error, NotFoundError) and parsed.kind == "tag"):
            raise error
        known = {each.name for each in self._seen.branches() if each.session == self._session}
        name = parsed.value if parsed.kind == "name" else self._place.branch
        if parsed.kind == "name" and name not in known and not self._born_on(name):
            raise error
        if isinstance(error, NotFoundError) and self._session not in {
            row.session for row in self._rows.values()
        }:
            raise error
        # The head of the branch or a link on the way is lost: the newest one that was saved on that branch.
        return self._remains.newest_before(NO_NUMBER, name)

    def _is_meant(self, ref: Ref, row: LostRow) -> bool:
        if ref.kind == "seq":
            return row.seq == int(ref.value)
        if ref.kind == "head":
            return row.id is not None and row.id == self._head
        if ref.kind in ("id", "name"):
            heads = {each.name: each.head for each in self._seen.branches() if each.session == self._session}
            if ref.value in heads:
                return row.id == heads[ref.value]
            return row.id is not None and row.id.hex().startswith(ref.value)
        return False

    def _before(self, row: CheckpointRow) -> CheckpointRow | None:
        return None if row.prev is None else self._follow(self._remains.beyond(row.prev, row.branch, row.seq))

    def _follow(self, way: Way) -> CheckpointRow | None:
        for lost in way.unreadable:
            self._pass_over(lost.id.hex() if lost.id else None, lost.seq, lost.why, lost=True)
        return way.to

    def _born_on(self, branch: str) -> bool:
        return any(row.branch == branch for row in self._rows.values())

    def _pass_over(self, name: str | None, seq: int | None, why: str, *, lost: bool) -> None:
        self._damaged.append(DamagedCheckpoint(name, self._session, seq, why, lost))


def _text(ref: str | Checkpoint) -> str:
    return ref.id if isinstance(ref, Checkpoint) else ref
