"""copy: sessions of one store into another, whatever keeps the two; and a session once more under another name.

After `copy_sessions` a session at the target is what it was at the source at one moment: ids, roots, seq, keys, tags,
removed checkpoints that undo can bring back, the log with its hashes. What is there already is not sent again, and what
is gone at the source goes at the target. Where only checkpoints were added, they come in batches, each after the one
that it follows; other differences come in one transaction, after the chunks that they need. So a copy may be
interrupted anywhere: the target is in order, and the next copy finds what is left by comparing again. Every batch says
how it expects the session to be: whoever writes to it meanwhile ends the copy, and nothing of theirs is lost.

Two stores have the same session if one was copied from the other. Then a seq names the same checkpoint in both, and the
log of one is the beginning of the other's. Where both were written to since, that is refused: nothing can merge two
histories. Checkpoints go at the source, not always by name. So a checkpoint that only the target has may have gone at
the source, or have been saved at the target. The target knows whether anybody wrote to the session since it was copied
(`Reader.adopted`). If so, and if what was saved last at the target is not known at the source, only what the source's
log names is believed to have been there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Final, Literal

from holdfast.backends.registry import connect, url_of
from holdfast.errors import (
    BackendError,
    ConflictError,
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
)
from holdfast.history.checkpoint import checkpoint_id
from holdfast.history.names import check_session
from holdfast.history.oplog import recorded
from holdfast.history.refs import missing_head
from holdfast.objects.tree.read import links, read_chunks
from holdfast.record import Record
from holdfast.reports.transfer import CopyReport, SessionCopy
from holdfast.storage.copy_rows import Adoption
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import (
    Batch,
    CheckpointId,
    CheckpointRow,
    Chunk,
    ChunkHash,
    Claim,
    Guard,
    Move,
    Operation,
    Query,
    SessionRow,
)
from holdfast.store.place import ATTEMPTS, Progress, read_again, silent
from holdfast.store.rows import copy_rows

_PATIENCE: Final = 10.0
"""Seconds to wait for another writer of the target."""
_PAGE: Final = 256
_ROWS: Final = 64
"""Of a batch: the states of so many are looked for together."""
_BYTES: Final = 4 << 20
"""Of chunks, from which on they go ahead of their rows."""
_READ_AT_ONCE: Final = 64
"""Chunks: even full ones are about a batch."""
_REMEMBERED: Final = 100_000
"""Chunks that are known to be at the target."""
_RETRIES: Final = 20
"""Times that chunks may go while they are on their way; each means that a whole collection came between."""

_Status = Literal["new", "updated", "unchanged", "ahead"]


def copy_sessions(
    source: Backend,
    target: Backend,
    *,
    sessions: Sequence[str] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> CopyReport:
    """Copy some sessions, or all; see `Store.copy_to`."""
    if source is target or (source.url == target.url != "memory:"):
        raise InvalidInputError(
            f"{source.url} cannot be copied to itself",
            code=ErrorCode.BAD_ARGUMENT,
            hint="name another store as the target",
        )
    told = progress or silent
    planned: list[SessionCopy] = []
    tally = _Tally()
    # All are compared before any is written: a session that cannot be copied leaves the target as it was.
    for name in _names(source, sessions):
        planned.append(_plan_only(source, target, name, tally))
        told("comparing sessions", len(planned))
    if not dry_run:
        tally = _Tally()
        planned = [
            _copied(source, target, each, tally, told) if each.status != "ahead" else each for each in planned
        ]
    return CopyReport(source.url, target.url, tuple(planned), tally.chunks, tally.bytes, dry_run)


@contextmanager
def open_target(target: str | Path | Backend, *, dry_run: bool) -> Iterator[Backend]:
    """Give the store that something is to be copied to: an open one, or one that is opened for it and closed again.

    A dry run makes none. Where there is none to look at, an empty one stands in for it.
    """
    if not isinstance(target, str | Path):
        if not hasattr(target, "adopt"):
            # None would mean the nearest store elsewhere, which may well be the one that is copied.
            raise InvalidInputError(
                f"a store cannot be copied to {target!r:.60}",
                code=ErrorCode.BAD_URL,
                hint="pass a Store, a path or a URL",
            )
        yield target
        return
    try:
        opened = connect(target, durability="power", create=not dry_run, timeout=_PATIENCE)
    except NotFoundError as error:
        if not dry_run or error.code is not ErrorCode.STORE_MISSING:
            raise
        opened = _stand_in(str(error.details.get("path", "")))
    try:
        yield opened
    finally:
        opened.close()


def _stand_in(place: str) -> Backend:
    from holdfast.backends.memory import MemoryBackend

    class NotMadeYet(MemoryBackend):
        @property
        def url(self) -> str:
            return url_of(place)

    return NotMadeYet()


def _names(source: Backend, wanted: Sequence[str] | None) -> list[str]:
    with source.reader() as reader:
        known = [row.id for row in reader.sessions()]
    if wanted is None:
        return known
    if isinstance(wanted, str) or not all(type(each) is str for each in wanted):
        raise InvalidInputError(
            "sessions= takes a list of session ids",
            code=ErrorCode.BAD_ARGUMENT,
            hint='pass them as text: sessions=["research-42"]',
        )
    if missing := next((each for each in wanted if each not in known), None):
        raise NotFoundError(
            f"there is no session {missing!r} in {source.url}",
            code=ErrorCode.SESSION_MISSING,
            hint="store.sessions() lists the sessions there are",
            session=missing,
        )
    return list(dict.fromkeys(wanted))


class _Change(Record):
    """A row to write at the target."""

    row: CheckpointRow
    kind: Literal["new", "changed", "moved"]
    """Moved: the same as before, in another place in the order of arrival."""


class _Plan(Record):
    """What there is to do for a session."""

    status: _Status
    theirs: SessionRow | None = None
    """The session at the target, as it was read."""
    changes: Iterable[_Change] = ()
    removals: tuple[CheckpointId, ...] = ()
    operations: Sequence[Operation] = ()
    """What is to be added to the log."""
    cuts_log_from: int = 0
    only_adds: bool = False
    """Whether checkpoints are only added at the end."""


def _plan_only(source: Backend, target: Backend, name: str, tally: _Tally) -> SessionCopy:
    with source.reader() as reader:
        mine = reader.session(name)
        plan = _Plan("unchanged") if mine is None else _planned(reader, target, mine)
        counts = {"new": 0, "changed": 0, "moved": 0}
        for each in plan.changes:
            counts[each.kind] += 1
            tally.bytes += each.row.stored_bytes if each.kind == "new" else 0
    return SessionCopy(name, plan.status, counts["new"], counts["changed"], len(plan.removals))


def _copied(
    source: Backend, target: Backend, planned: SessionCopy, tally: _Tally, progress: Progress
) -> SessionCopy:
    with source.reader() as reader:
        mine = reader.session(planned.id)
        if mine is None:
            # It was forgotten since: what is at the target is not for a copy to remove.
            return planned.replace(status="unchanged", checkpoints=0, changed=0, removed=0)
        plan = _planned(reader, target, mine)
        if plan.status == "ahead":
            return planned
        carrier = _Carrier(reader, target, mine, plan, tally, progress)
        if plan.status != "unchanged":
            try:
                carrier.run()
            except ConflictError as conflict:
                if conflict.code is not ErrorCode.SESSION_CHANGED:
                    raise
                raise ConflictError(
                    f"somebody wrote to session {mine.id!r} of the target while it was being copied",
                    code=ErrorCode.SESSION_CHANGED,
                    hint="let nobody write to the copy of a session, and copy again",
                    session=mine.id,
                ) from conflict
        copy_rows(reader, target, mine.id)
    if plan.status == "unchanged":
        return planned
    return planned.replace(checkpoints=carrier.new, changed=carrier.changed, removed=len(plan.removals))


def _planned(source: Reader, target: Backend, mine: SessionRow) -> _Plan:
    """Compare the session of the target with the source's.

    Raises:
        ConflictError: They are two sessions, or both were written to (`history-differs`).
    """
    log = source.operations(mine.id)
    with target.reader() as reader:
        theirs = reader.session(mine.id)
        if theirs is None:
            return _Plan("new", None, _added(source, mine.id, 0), operations=log, only_adds=True)
        adopted = reader.adopted(theirs)
        heads_match = reader.branches(mine.id) == source.branches(mine.id)
        newest = reader.checkpoints(Query(session=mine.id, include_hidden=True, limit=1))
    if theirs.created_at != mine.created_at:
        raise _differs(mine.id, "they began at different times")
    if theirs == mine and adopted != "partial" and heads_match:
        return _Plan("unchanged", theirs)
    # Every change but a save is in the log. A source that was brought back from a backup and went on has another
    # checkpoint under the newest seq.
    same_log = (mine.log_count, mine.log_tip) == (theirs.log_count, theirs.log_tip)
    known = all(_same(source.checkpoint(row.id), row) for row in newest)
    if adopted == "whole" and same_log and known and mine.last_seq >= theirs.last_seq:
        return _Plan("updated", theirs, _added(source, mine.id, theirs.last_seq), only_adds=True)
    return _differences(source, target, mine, theirs, newest)


def _added(source: Reader, session: str, after: int) -> Iterator[_Change]:
    return (_Change(row._replace(position=0), "new") for row in _rows(source, session, after))


def _same(mine: CheckpointRow | None, theirs: CheckpointRow) -> bool:
    return mine is not None and mine._replace(position=theirs.position) == theirs


def _differences(
    source: Reader,
    target: Backend,
    mine: SessionRow,
    theirs: SessionRow,
    newest: Sequence[CheckpointRow],
) -> _Plan:
    own = source.operations(mine.id)
    with target.reader() as reader:
        log = list(reader.operations(mine.id))
        # What gc wrote there at the end: it takes nothing that a copy does not bring again.
        before_gc = theirs
        known = {each.hash for each in own}
        while log and log[-1].kind == "gc" and log[-1].hash not in known:
            last = log.pop()
            before_gc = before_gc._replace(log_count=last.number - 1, log_tip=last.previous)
        untouched = reader.adopted(before_gc) is not None
        changes, extra = _compared(source, reader, mine.id, newest)
    by_number = {each.number: each.hash for each in own}
    for entry in log:
        if by_number.get(entry.number, entry.hash) != entry.hash:
            raise _differs(mine.id, f"operation {entry.number} is another one there")
    if theirs.last_seq > mine.last_seq or (log and log[-1].number > mine.log_count):
        if mine.last_seq > theirs.last_seq or mine.log_count > before_gc.log_count:
            raise _differs(mine.id, "both have been written to since they were the same")
        return _Plan("ahead", theirs)
    # Who has what was saved last had all that was saved before.
    if not untouched and not (
        newest and source.checkpoint(newest[0].id) and newest[0].seq == theirs.last_seq
    ):
        said = [recorded(each) for each in own]
        named = {edit.checkpoint for each in said for edit in each.edits} | {
            name for each in said for name in each.made
        }
        for row in extra:
            if row.id not in named:
                raise _differs(mine.id, f"checkpoint {row.id.hex()[:12]} (#{row.seq}) is only there")
    pairs = zip(own, log, strict=False)
    shared = next((at for at, (a, b) in enumerate(pairs) if a.hash != b.hash), min(len(own), len(log)))
    cuts_from = log[shared].number if len(log) > shared else 0
    if not cuts_from and before_gc != theirs:
        cuts_from = before_gc.log_count + 1
    last_seq = newest[0].seq if newest else 0
    only_adds = not (extra or cuts_from) and all(
        each.kind == "new" and each.row.seq > last_seq for each in changes
    )
    removals = tuple(row.id for row in extra)
    return _Plan("updated", theirs, changes, removals, own[shared:], cuts_from, only_adds)


def _compared(
    source: Reader, target: Reader, session: str, newest: Sequence[CheckpointRow]
) -> tuple[list[_Change], list[CheckpointRow]]:
    """Return the rows to write, and those that only the target has."""
    changes: list[_Change] = []
    extra: list[CheckpointRow] = []
    last_seq = newest[0].seq if newest else 0
    there = _rows(target, session, 0)
    theirs = next(there, None)
    moving = False
    for mine in _rows(source, session, 0):
        while theirs is not None and theirs.seq < mine.seq:
            extra.append(theirs)
            theirs = next(there, None)
        if theirs is None or theirs.seq > mine.seq:
            # Gone at the target alone, in the middle: what came after it comes after it again.
            moving = moving or mine.seq < last_seq
            changes.append(_Change(mine._replace(position=0), "new"))
            continue
        if mine.id != theirs.id:
            raise _differs(session, f"#{mine.seq} is another checkpoint there")
        same = _same(mine, theirs)
        if moving or not same:
            position = 0 if moving else theirs.position
            changes.append(_Change(mine._replace(position=position), "moved" if same else "changed"))
        theirs = next(there, None)
    if theirs is not None:
        extra += [theirs, *there]
    return changes, extra


def _rows(reader: Reader, session: str, after: int) -> Iterator[CheckpointRow]:
    """Yield the checkpoints of a session after that number, removed ones too, oldest first."""
    query = Query(session=session, include_hidden=True, oldest_first=True, limit=_PAGE, after_seq=after)
    while page := reader.checkpoints(query):
        yield from page
        query = query._replace(after_seq=page[-1].seq)


def _differs(session: str, why: str) -> ConflictError:
    return ConflictError(
        f"session {session!r} of the target is not a copy of the source's: {why}",
        code=ErrorCode.HISTORY_DIFFERS,
        hint="copy to another store, leave the session out, or forget it at the target first",
        session=session,
    )


class _Tally:
    """What was written to the target so far."""

    def __init__(self) -> None:
        self.checkpoints = self.chunks = self.bytes = 0


class _Carrier:
    """Brings the rows of one session into a store, with the chunks that it does not have.

    Those are found by walking down a state beside that of the checkpoint before it, level by level: what both refer to
    is at the target, and is protected by that row. Of the rest the target is asked; what it has is named in the batch,
    so that a collection of chunks that runs there cannot take it before the rows come.
    """

    def __init__(
        self,
        source: Reader,
        target: Backend,
        mine: SessionRow,
        plan: _Plan,
        tally: _Tally,
        progress: Progress,
    ) -> None:
        self._source = source
        self._target = target
        self._mine = mine
        self._plan = plan
        self._tally = tally
        self._progress = progress
        self._theirs = plan.theirs
        """The session at the target, as it was read or written last."""
        self._roots: dict[CheckpointId, ChunkHash] = {}
        self._links: dict[ChunkHash, Sequence[ChunkHash]] = {}
        self._safe: set[ChunkHash] = set()
        """Chunks that need not be looked at again: they are at the target, found or on their way."""
        self._chunks: dict[ChunkHash, Chunk] = {}
        self._size = 0
        self._found: dict[ChunkHash, None] = {}
        self.new = self.changed = 0

    def run(self) -> None:
        """Write what is different."""
        plan, theirs = self._plan, self._theirs or self._mine._replace(last_seq=0, log_count=0, log_tip=b"")
        changes = iter(plan.changes)
        operations, cuts_from = plan.operations, plan.cuts_log_from
        some: list[_Change] = []
        if plan.only_adds:
            if operations:
                theirs = theirs._replace(log_count=operations[-1].number, log_tip=operations[-1].hash)
            some = list(islice(changes, _ROWS))
            while following := list(islice(changes, _ROWS)):
                theirs = theirs._replace(last_seq=some[-1].row.seq)
                self._adopt(some, Adoption(theirs, None, operations=tuple(operations)))
                some, operations = following, ()
        self._adopt(
            [*some, *changes],
            Adoption(
                self._mine,
                None,
                removals=plan.removals,
                branches=tuple(self._source.branches(self._mine.id)),
                operations=tuple(operations),
                cuts_log_from=cuts_from,
                whole=True,
            ),
        )

    def _adopt(self, changes: Sequence[_Change], batch: Adoption) -> None:
        """Write rows with what they need; the batch says what else."""
        rows = tuple(each.row for each in changes)
        for attempt in range(1, _RETRIES + 1):
            try:
                for start in range(0, len(changes), _ROWS):
                    self._gather([each for each in changes[start : start + _ROWS] if each.kind == "new"])
                self._deliver(batch._replace(checkpoints=rows, found=tuple(self._found)))
                break
            except ConflictError as conflict:
                if conflict.code is not ErrorCode.CHUNKS_GONE or attempt == _RETRIES:
                    raise
                # What was counted on went: this batch begins anew.
                self._chunks, self._size = {}, 0
                self._found, self._links, self._safe = {}, {}, set()
        self._found = {}
        if len(self._safe) > _REMEMBERED:
            self._safe, self._links = set(), {}
        new = sum(each.kind == "new" for each in changes)
        self.new += new
        self.changed += sum(each.kind == "changed" for each in changes)
        self._tally.checkpoints += new
        self._progress("copying checkpoints", self._tally.checkpoints)

    def _deliver(self, batch: Adoption) -> None:
        self._target.adopt(batch._replace(expected=self._theirs, chunks=tuple(self._chunks.values())))
        self._theirs = batch.session
        self._tally.chunks += len(self._chunks)
        self._tally.bytes += self._size
        self._chunks, self._size = {}, 0

    def _gather(self, changes: Sequence[_Change]) -> None:
        """Find what the target does not have of some states, level by level."""
        level: dict[ChunkHash, ChunkHash | None] = {}
        for each in changes:
            # The first one that has it: a later one may follow a row of the same root.
            level.setdefault(each.row.root, self._base(each.row))
        while True:
            level = {name: like for name, like in level.items() if name not in self._safe and name != like}
            if not level:
                return
            with self._target.reader() as reader:
                present = reader.present(level)
                likes = [like for like in level.values() if like is not None and like not in self._links]
                for name, data in self._read_pages(reader, [*present, *reader.present(likes)]):
                    self._links[name] = links(name, data)
            self._found.update(dict.fromkeys(present))
            missing = [name for name in level if name not in present]
            for name, data in self._read_pages(self._source, missing):
                self._links[name] = links(name, data)
                self._chunks[name] = Chunk(name, data, level[name])
                self._size += len(data)
                if self._size >= 2 * _BYTES:
                    self._send_ahead()
            self._safe.update(level)
            level = self._below(level)

    def _below(self, level: Mapping[ChunkHash, ChunkHash | None]) -> dict[ChunkHash, ChunkHash | None]:
        """Return what chunks refer to that those like them do not, each with one that it probably came from."""
        below: dict[ChunkHash, ChunkHash | None] = {}
        for name, like in level.items():
            new, old = self._links[name], () if like is None else self._links.get(like, ())
            were = set(old)
            fresh = [each for each in new if each not in were]
            gone = [each for each in old if each not in set(new)]
            for each, was in zip_longest(fresh, gone[: len(fresh)]):
                below.setdefault(each, was)
        return below

    def _read_pages(self, reader: Reader, names: Sequence[ChunkHash]) -> Iterator[tuple[ChunkHash, bytes]]:
        unknown = [name for name in dict.fromkeys(names) if name not in self._links or reader is self._source]
        for start in range(0, len(unknown), _READ_AT_ONCE):
            yield from read_chunks(unknown[start : start + _READ_AT_ONCE], reader.chunks).items()

    def _base(self, row: CheckpointRow) -> ChunkHash | None:
        """Return the root of the checkpoint that a row follows: it is at the target, or comes before."""
        self._roots[row.id] = row.root
        if row.prev is None:
            return None
        if row.prev not in self._roots:
            before = self._source.checkpoint(row.prev)
            if before is None:
                return None
            self._roots[row.prev] = before.root
        return self._roots[row.prev]

    def _send_ahead(self) -> None:
        """Write chunks without a row: nothing protects them but their age, so that the row's batch names them too."""
        sent = dict.fromkeys(self._chunks)
        theirs = self._theirs or self._mine._replace(last_seq=0, log_count=0, log_tip=b"")
        self._deliver(Adoption(theirs, None))
        self._found.update(sent)


def copy_session(backend: Backend, source: str, target: str, *, now: int) -> int:
    """Write all that is visible of a session into a new one, in one commit; see `Store.copy_session`.

    The copies have the roots of the originals, so that no state is read and no chunk is written. They are written on
    the condition that the originals are still there: as long as a row is there, its chunks are.
    """
    check_session(source)
    if check_session(target) == source:
        raise InvalidInputError(
            f"session {source!r} cannot be copied to itself",
            code=ErrorCode.BAD_ARGUMENT,
            hint="give the copy an id of its own",
            session=source,
        )
    for _ in range(ATTEMPTS):
        batch = read_again(partial(_renamed, backend, source, target, now))
        if not batch.checkpoints:
            return 0
        try:
            backend.commit(batch)
        except ConflictError:
            # Something was removed that was to be copied, or the target is there now: look again.
            continue
        except BackendError as failure:
            _settle(backend, batch, failure)
        return len(batch.checkpoints)
    raise ConflictError.session_changed(source)


def _renamed(backend: Backend, source: str, target: str, now: int) -> Batch:
    with backend.reader() as reader:
        owner = reader.session(source)
        if owner is None:
            missing_head(reader, source, "main")
        there = reader.session(target)
        if there is not None and reader.checkpoints(Query(session=target, include_hidden=True, limit=1)):
            raise ConflictError(
                f"session {target!r} has checkpoints already, or removed ones that undo can bring back",
                code=ErrorCode.SESSION_EXISTS,
                hint="give the copy an id that no session has; store.forget() frees one for good",
                session=target,
            )
        rows = reader.checkpoints(Query(session=source, oldest_first=True))
        branches = reader.branches(source)
    copies: dict[CheckpointId, CheckpointRow] = {}
    for row in rows:
        made = row._replace(
            session=target,
            # One that was removed, or is of a third session, is known by its id alone.
            parents=tuple(copies[each].id if each in copies else each for each in row.parents),
            prev=None if row.prev is None else _counterpart(copies, row.prev, f"checkpoint {row.id.hex()}"),
        )
        copies[row.id] = made._replace(id=checkpoint_id(made))
    moves = [
        Move(each.name, expected=None, head=_counterpart(copies, each.head, f"branch {each.name!r}"))
        for each in branches
    ]
    return Batch(
        # A new session belongs to whom this one belongs to.
        claim=Claim(target) if there else Claim(target, agent=owner.agent, project=owner.project),
        at=now,
        checkpoints=tuple(copies.values()),
        moves=tuple(moves),
        guard=Guard(log_count=there.log_count if there else 0, last_seq=there.last_seq if there else 0),
        switch_to=owner.current,
        # Rows of one root have the same chunks.
        also_relies_on=tuple({row.root: row.id for row in rows}.values()),
    )


def _counterpart(
    copies: Mapping[CheckpointId, CheckpointRow], original: CheckpointId, what: str
) -> CheckpointId:
    if original not in copies:
        raise IntegrityError.row_damaged(what, why=f"checkpoint {original.hex()} is not in its history")
    return copies[original].id


def _settle(backend: Backend, batch: Batch, failure: BackendError) -> None:
    """Find out whether a commit whose reply was an error took place after all; raise the error if not."""
    try:
        with backend.reader() as reader:
            found = reader.checkpoint(batch.checkpoints[-1].id)
    except HoldfastError:
        # The store cannot be read either: the first failure is the one to report.
        raise failure from None
    if found is None:
        raise failure
