"""A store in this process's memory: for tests, for notebooks, and as the shortest complete backend to read.

Rows are frozen, so a moment of the store is a handful of dicts that hold them. A reader keeps the moment it was opened
at. A commit changes the newest moment in place, unless a reader is looking at it: then it changes a copy.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from holdfast.backends import rules
from holdfast.backends.forking import watch
from holdfast.backends.matching import id_range, metadata_matches, normalized
from holdfast.errors import ConflictError, ErrorCode, UnsupportedError
from holdfast.storage.records import (
    Batch,
    BranchRow,
    CheckpointId,
    CheckpointRow,
    ChunkHash,
    Move,
    Operation,
    Query,
    Receipt,
    SessionRow,
    StoreStats,
)

_URL = "memory:"


@dataclass(slots=True)
class _Moment:
    """Everything the store holds at one time."""

    sessions: dict[str, SessionRow] = field(default_factory=dict)
    branches: dict[tuple[str, str], BranchRow] = field(default_factory=dict)
    # In order of arrival, which is the order of `position`.
    checkpoints: dict[CheckpointId, CheckpointRow] = field(default_factory=dict)
    keys: dict[tuple[str, str], CheckpointId] = field(default_factory=dict)
    operations: dict[tuple[str, int], Operation] = field(default_factory=dict)
    chunks: dict[ChunkHash, bytes] = field(default_factory=dict)
    readers: int = 0

    def copy(self) -> _Moment:
        return _Moment(
            sessions=dict(self.sessions),
            branches=dict(self.branches),
            checkpoints=dict(self.checkpoints),
            keys=dict(self.keys),
            operations=dict(self.operations),
            chunks=dict(self.chunks),
        )


class MemoryBackend:
    """A `Backend` that lasts as long as its process."""

    def __init__(self) -> None:
        self._moment: _Moment | None = _Moment()
        # Reentrant: a signal handler that forks may run in the thread that holds it.
        self._lock = threading.RLock()
        watch(self)

    @property
    def url(self) -> str:
        """Always `memory:`."""
        return _URL

    def commit(self, batch: Batch) -> Receipt:
        """See `Backend.commit`."""
        rules.check_batch(batch)
        with self._lock:
            moment = self._open_moment()
            ids = [row.id for row in batch.checkpoints]
            if ids and all(each in moment.checkpoints for each in ids):
                return Receipt(tuple(moment.checkpoints[each] for each in ids))
            session = _check(moment, batch)
            if moment.readers:
                moment = self._moment = moment.copy()
            _apply(moment, batch, session)
            return Receipt(tuple(moment.checkpoints[each] for each in ids))

    @contextmanager
    def reader(self) -> Iterator[MemoryReader]:
        """See `Backend.reader`."""
        with self._lock:
            moment = self._open_moment()
            moment.readers += 1
        try:
            yield MemoryReader(moment)
        finally:
            with self._lock:
                moment.readers -= 1

    def backup(self, target: Path) -> None:
        """Refused: there is no file to copy."""
        with self._lock:
            self._open_moment()
        raise UnsupportedError(
            f"a store in memory cannot be copied to {target}",
            code=ErrorCode.NOT_SUPPORTED,
            hint="open a store in a file to be able to back it up",
        )

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._moment = None

    def before_fork(self) -> None:
        """Wait for a commit in another thread, so that the child does not get half of it."""
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Go on with a copy of the store that is the child's own."""
        self._lock.release()

    def _open_moment(self) -> _Moment:
        if self._moment is None:
            raise rules.store_closed(_URL)
        return self._moment


class MemoryReader:
    """A `Reader` of one moment."""

    def __init__(self, moment: _Moment) -> None:
        self._moment = moment

    def session(self, session: str) -> SessionRow | None:
        """See `Reader.session`."""
        return self._moment.sessions.get(session)

    def sessions(self, *, agent: str | None = None, project: str | None = None) -> Sequence[SessionRow]:
        """See `Reader.sessions`."""
        return [
            row
            for row in self._moment.sessions.values()
            if agent in (None, row.agent) and project in (None, row.project)
        ]

    def branch(self, session: str, name: str) -> BranchRow | None:
        """See `Reader.branch`."""
        return self._moment.branches.get((session, name))

    def branches(self, session: str) -> Sequence[BranchRow]:
        """See `Reader.branches`."""
        rows = [row for row in self._moment.branches.values() if row.session == session]
        return sorted(rows, key=lambda row: row.name)

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointRow | None:
        """See `Reader.checkpoint`."""
        return self._moment.checkpoints.get(checkpoint)

    def checkpoints(self, query: Query) -> Sequence[CheckpointRow]:
        """See `Reader.checkpoints`."""
        low, high = id_range(query.id_prefix or "")
        query = query._replace(metadata=normalized(query.metadata))
        newest_first = reversed(self._moment.checkpoints.values())
        found = (row for row in newest_first if low <= row.id <= high and self._matches(row, query))
        return list(islice(found, None if query.limit is None else max(query.limit, 0)))

    def operations(self, session: str, *, after: int = 0) -> Sequence[Operation]:
        """See `Reader.operations`."""
        return [
            each
            for each in self._moment.operations.values()
            if each.session == session and each.number > after
        ]

    def chunks(self, hashes: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """See `Reader.chunks`."""
        known = self._moment.chunks
        return {each: known[each] for each in hashes if each in known}

    def stats(self) -> StoreStats:
        """See `Reader.stats`; chunks are kept as they came."""
        moment = self._moment
        hidden = sum(1 for row in moment.checkpoints.values() if row.hidden)
        size = sum(map(len, moment.chunks.values()))
        return StoreStats(
            sessions=len(moment.sessions),
            branches=len(moment.branches),
            checkpoints=len(moment.checkpoints) - hidden,
            hidden=hidden,
            chunks=len(moment.chunks),
            chunk_bytes=size,
            stored_bytes=size,
        )

    def _matches(self, row: CheckpointRow, query: Query) -> bool:
        owner = self._moment.sessions[row.session]
        if row.hidden and not query.include_hidden:
            return False
        exact = (
            (query.session, row.session),
            (query.branch, row.branch),
            (query.agent, owner.agent),
            (query.project, owner.project),
            (query.status, row.status),
            (query.step, row.step),
            (query.seq, row.seq),
            (query.key, row.key),
        )
        if any(wanted is not None and wanted != actual for wanted, actual in exact):
            return False
        return (
            (query.tag is None or query.tag in row.tags)
            and _trigger_matches(query.trigger, row.trigger)
            and _in_range(row, query)
            and metadata_matches(row.metadata, row.added_metadata, query.metadata)
        )


def _trigger_matches(wanted: str | None, trigger: str) -> bool:
    return wanted in (None, trigger) or (wanted == "auto" and trigger.startswith("auto:"))


def _in_range(row: CheckpointRow, query: Query) -> bool:
    return (
        (query.since is None or row.created_at >= query.since)
        and (query.until is None or row.created_at <= query.until)
        and (query.before_seq is None or row.seq < query.before_seq)
        and (query.before_position is None or row.position < query.before_position)
    )


def _check(moment: _Moment, batch: Batch) -> SessionRow:
    """The session as it will be, once everything that can be refused has been looked at."""
    session = rules.claim_session(moment.sessions.get(batch.claim.session), batch)
    rules.check_guard(session, batch.guard)
    if batch.relies_on is not None and batch.relies_on not in moment.chunks:
        raise ConflictError.chunks_gone(batch.relies_on)
    new = {row.id: row for row in batch.checkpoints if row.id not in moment.checkpoints}
    session = rules.advance(session, new=len(new), operations=batch.operations)
    heads: dict[str, CheckpointId | None] = {}
    for move in batch.moves:
        branch = moment.branches.get((session.id, move.branch))
        actual = heads.get(move.branch, branch.head if branch else None)
        if actual != move.expected:
            raise ConflictError.branch_moved(session.id, move.branch, expected=move.expected, actual=actual)
        heads[move.branch] = move.head
    keys: dict[str, CheckpointId] = {}
    for row in new.values():
        if row.key is None:
            continue
        existing = moment.keys.get((session.id, row.key)) or keys.get(row.key)
        if existing is not None:
            raise ConflictError.key_taken(session.id, row.key, existing=existing)
        keys[row.key] = row.id
    for edit in batch.edits:
        if edit.id not in moment.checkpoints and edit.id not in new:
            raise rules.edit_missing(edit.id)
    return session


def _apply(moment: _Moment, batch: Batch, session: SessionRow) -> None:
    """Make the changes. Nothing here can fail, so that a commit is all or nothing."""
    moment.sessions[session.id] = session
    new_chunks = {each.hash: each.data for each in batch.chunks if each.hash not in moment.chunks}
    moment.chunks.update(new_chunks)
    # The chunks of a batch are not divided among its checkpoints: they count for the first.
    stored_bytes = sum(map(len, new_chunks.values()))
    new = {row.id: row for row in batch.checkpoints if row.id not in moment.checkpoints}
    for number, row in enumerate(new.values(), start=1 - len(new)):
        moment.checkpoints[row.id] = row._replace(
            seq=session.last_seq + number,
            position=len(moment.checkpoints) + 1,
            stored_at=batch.at,
            stored_bytes=stored_bytes,
        )
        stored_bytes = 0
        if row.key is not None:
            moment.keys[session.id, row.key] = row.id
    for edit in batch.edits:
        moment.checkpoints[edit.id] = rules.edited(moment.checkpoints[edit.id], edit)
    for operation in batch.operations:
        moment.operations[session.id, operation.number] = operation
    for move in batch.moves:
        _move(moment, session.id, move, batch.at)


def _move(moment: _Moment, session: str, move: Move, at: int) -> None:
    if move.head is None:
        moment.branches.pop((session, move.branch), None)
    else:
        moment.branches[session, move.branch] = BranchRow(
            session=session, name=move.branch, head=move.head, moved_at=at
        )
