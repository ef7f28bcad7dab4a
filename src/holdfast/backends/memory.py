"""A store in memory: for tests, for notebooks, and the shortest complete backend to read.

All rows are frozen, so a moment of the store is a handful of dicts. A reader keeps the moment it was opened at: a
commit changes the newest moment in place, unless a reader looks at it; then it changes a copy. A batch is first checked
as a whole and then applied by steps that cannot fail: that makes a commit all or nothing.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from holdfast.backends import lease_rules, rules
from holdfast.backends.damage import ReaderInspection
from holdfast.backends.query import id_range, metadata_matches, normalized
from holdfast.backends.row_tables import Tables
from holdfast.errors import ConflictError, ErrorCode, IntegrityError, UnsupportedError
from holdfast.objects.tree.nodes import refers
from holdfast.storage.copy_rows import Adopted, Adoption, adoption_mark
from holdfast.storage.inspection import Rebuilt
from holdfast.storage.leases import Fence, Holder, Lease
from holdfast.storage.ports import Inspection
from holdfast.storage.records import (
    Batch,
    BranchRow,
    CheckpointId,
    CheckpointRow,
    ChunkHash,
    Edit,
    Operation,
    Query,
    Receipt,
    SessionRow,
    StoreStats,
    Swept,
)
from holdfast.storage.tables import Row, RowChange, RowQuery, Table

_URL = "memory:"


@dataclass(slots=True)
class Moment:
    """Everything the store holds at one time."""

    sessions: dict[str, SessionRow] = field(default_factory=dict)
    branches: dict[tuple[str, str], BranchRow] = field(default_factory=dict)
    # In order of position.
    checkpoints: dict[CheckpointId, CheckpointRow] = field(default_factory=dict)
    keys: dict[tuple[str, str], CheckpointId] = field(default_factory=dict)
    operations: dict[tuple[str, int], Operation] = field(default_factory=dict)
    chunks: dict[ChunkHash, bytes] = field(default_factory=dict)
    stamps: dict[ChunkHash, int] = field(default_factory=dict)
    """The epoch in which each chunk was last written or found."""
    adopted: dict[str, int] = field(default_factory=dict)
    """How `adopt` left each session that it wrote."""
    leases: dict[str, Lease] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    epoch: int = 0
    position: int = 0
    lease_epoch: int = 0
    """The highest that was ever given to a claim of a lease."""
    readers: int = 0

    def copy(self) -> Moment:
        """The same moment again, without its readers."""
        fields = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        copies = {name: dict(value) for name, value in fields.items() if isinstance(value, dict)}
        return Moment(**{**fields, **copies, "readers": 0})

    def check_fence(self, fence: Fence | None) -> None:
        """Raise where the lease of a fence is lost."""
        if fence is not None:
            lease_rules.check_fence(self.leases.get(fence.name), fence)

    def check(self, batch: Batch) -> SessionRow:
        """The session as a batch leaves it; raises for everything that can be refused."""
        self.check_fence(batch.fence)
        session = rules.claim_session(self.sessions.get(batch.claim.session), batch)
        rules.check_guard(session, batch.guard)
        for each in rules.relied_on(batch):
            if each not in self.checkpoints:
                raise ConflictError.chunks_gone(each)
        new = {row.id: row for row in batch.checkpoints if row.id not in self.checkpoints}
        session = rules.advance(session, new=len(new), operations=batch.operations)
        heads: dict[str, CheckpointId | None] = {}
        for move in batch.moves:
            branch = self.branches.get((session.id, move.branch))
            actual = heads.get(move.branch, branch.head if branch else None)
            if actual != move.expected:
                raise ConflictError.branch_moved(
                    session.id, move.branch, expected=move.expected, actual=actual
                )
            heads[move.branch] = move.head
        keys: dict[str, CheckpointId] = {}
        for row in new.values():
            if row.key is not None:
                existing = self.keys.get((session.id, row.key)) or keys.get(row.key)
                if existing is not None:
                    raise ConflictError.key_taken(session.id, row.key, existing=existing)
                keys[row.key] = row.id
        self._check_edits(batch, new)
        return rules.switched(session, batch)

    def _check_edits(self, batch: Batch, new: Mapping[CheckpointId, CheckpointRow]) -> None:
        edits: dict[CheckpointId, Edit] = {}
        for edit in batch.edits:
            if edit.id not in self.checkpoints and edit.id not in new:
                raise rules.edit_missing(edit.id)
            edits[edit.id] = edit
        for each in batch.removals:
            row = self.checkpoints.get(each) or new.get(each)
            if row is not None:
                hidden = edits[each].hidden if each in edits else row.hidden
                rules.check_removal(row, batch.claim.session, hidden=hidden)

    def apply(self, batch: Batch, session: SessionRow) -> Receipt:
        """Make the changes of a checked batch. Nothing here can fail."""
        self.sessions[session.id] = session
        # The chunks of a batch are not divided among its checkpoints: they count for the first.
        stored_bytes = self._add_chunks({each.hash: each.data for each in batch.chunks})
        new = [row for row in batch.checkpoints if row.id not in self.checkpoints]
        for seq, row in enumerate(new, start=session.last_seq - len(new) + 1):
            self.position += 1
            self._put(
                row._replace(seq=seq, position=self.position, stored_at=batch.at, stored_bytes=stored_bytes)
            )
            stored_bytes = 0
        for edit in batch.edits:
            self.checkpoints[edit.id] = rules.edited(self.checkpoints[edit.id], edit)
        self._write_log(session.id, batch.operations, batch.cuts_log_from)
        for move in batch.moves:
            if move.head is None:
                self.branches.pop((session.id, move.branch), None)
            else:
                row_of = BranchRow(session.id, move.branch, move.head, batch.at)
                self.branches[session.id, move.branch] = row_of
        receipt = Receipt(tuple(self.checkpoints[each.id] for each in batch.checkpoints))
        for each in batch.removals:
            self._remove(each, session.id)
        return receipt

    def check_adoption(self, batch: Adoption) -> None:
        """Raise where the session is not as expected, or a chunk is not there."""
        if self.sessions.get(batch.session.id) != batch.expected:
            raise ConflictError.session_changed(batch.session.id)
        for name in batch.found:
            if name not in self.chunks:
                raise rules.chunk_gone(name)

    def adopt(self, batch: Adoption) -> None:
        """Put rows of another store in their places."""
        session = batch.session.id
        self.sessions[session] = batch.session
        self._add_chunks({each.hash: each.data for each in batch.chunks})
        self.stamps.update(dict.fromkeys(batch.found, self.epoch))
        # All go before any comes: a key may pass from one to another.
        for gone in (*batch.removals, *(row.id for row in batch.checkpoints)):
            self._remove(gone, session)
        for row in batch.checkpoints:
            if not row.position:
                self.position += 1
            self._put(row if row.position else row._replace(position=self.position))
        self.checkpoints = dict(sorted(self.checkpoints.items(), key=lambda item: item[1].position))
        if batch.branches is not None:
            for old in [each for each in self.branches if each[0] == session]:
                del self.branches[old]
            self.branches.update(((session, each.name), each) for each in batch.branches)
        self._write_log(session, batch.operations, batch.cuts_log_from)
        self.adopted.pop(session, None)
        if batch.whole is not None:
            self.adopted[session] = adoption_mark(batch.session, "whole" if batch.whole else "partial")

    def erase(self, session: str) -> None:
        """Remove a session with all that belongs to it."""
        for lease in [each for each in self.leases if lease_rules.is_named_after(each, session)]:
            del self.leases[lease]
        self.tables = self.tables.without(session)
        self.sessions.pop(session, None)
        self.adopted.pop(session, None)
        for name in [each for each in self.branches if each[0] == session]:
            del self.branches[name]
        self._write_log(session, (), 1)
        for row in [row for row in self.checkpoints.values() if row.session == session]:
            self._remove(row.id, session)

    def _add_chunks(self, chunks: Mapping[ChunkHash, bytes]) -> int:
        """Add those that are not there; their size."""
        new = {name: data for name, data in chunks.items() if name not in self.chunks}
        self.chunks.update(new)
        self.stamps.update(dict.fromkeys(chunks, self.epoch))
        return sum(map(len, new.values()))

    def _put(self, row: CheckpointRow) -> None:
        self.checkpoints[row.id] = row
        if row.key is not None:
            self.keys[row.session, row.key] = row.id

    def _remove(self, checkpoint: CheckpointId, session: str) -> None:
        row = self.checkpoints.get(checkpoint)
        if row is not None and row.session == session:
            del self.checkpoints[checkpoint]
            if row.key is not None:
                del self.keys[session, row.key]

    def _write_log(self, session: str, operations: Iterable[Operation], cuts_from: int) -> None:
        if cuts_from:
            for each in [(name, n) for name, n in self.operations if name == session and n >= cuts_from]:
                del self.operations[each]
        self.operations.update(((session, each.number), each) for each in operations)


class MemoryReader:
    """A `Reader` of one moment: each question is a walk over its rows."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment

    def session(self, session: str) -> SessionRow | None:
        """See `Reader.session`."""
        return self._moment.sessions.get(session)

    def sessions(self, *, agent: str | None = None, project: str | None = None) -> Sequence[SessionRow]:
        """See `Reader.sessions`."""
        rows = self._moment.sessions.values()
        return [row for row in rows if agent in (None, row.agent) and project in (None, row.project)]

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
        rows = self._moment.checkpoints.values()
        in_order = rows if query.oldest_first else reversed(rows)
        found: Iterable[CheckpointRow]
        found = (row for row in in_order if low <= row.id <= high and self._matches(row, query))
        if query.by_key:
            keyed = (row for row in found if row.key is not None)
            # The order of code points is that of bytes in UTF-8. Equal keys stay in the order that they have.
            found = sorted(keyed, key=lambda row: row.key or "", reverse=not query.oldest_first)
        return list(islice(found, None if query.limit is None else max(query.limit, 0)))

    def operations(self, session: str, *, after: int = 0) -> Sequence[Operation]:
        """See `Reader.operations`."""
        rows = self._moment.operations.values()
        return [each for each in rows if each.session == session and each.number > after]

    def chunks(self, hashes: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """See `Reader.chunks`."""
        known = self._moment.chunks
        return {each: known[each] for each in hashes if each in known}

    def present(self, hashes: Iterable[ChunkHash]) -> AbstractSet[ChunkHash]:
        """See `Reader.present`."""
        return {each for each in hashes if each in self._moment.chunks}

    def adopted(self, session: SessionRow) -> Adopted | None:
        """See `Reader.adopted`."""
        mark = self._moment.adopted.get(session.id)
        kinds: tuple[Adopted, ...] = ("whole", "partial")
        return next((each for each in kinds if mark == adoption_mark(session, each)), None)

    def tables(self) -> Sequence[Table]:
        """See `Reader.tables`."""
        return self._moment.tables.declared()

    def find_rows(self, table: Table, query: RowQuery) -> Sequence[Row]:
        """See `Reader.find_rows`."""
        return self._moment.tables.find(table, query)

    def count_rows(self, table: Table, query: RowQuery) -> int:
        """See `Reader.count_rows`."""
        return len(self._moment.tables.find(table, query._replace(limit=None)))

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
        exact = (
            (query.session, row.session),
            (query.branch, row.branch),
            (query.agent, owner.agent),
            (query.project, owner.project),
            (query.status, row.status),
            (query.step, row.step),
            (query.seq, row.seq),
            (query.key, row.key),
            (query.prev, row.prev or b""),
        )
        low = (
            (query.key_from, row.key),
            (query.since, row.created_at),
            (_next(query.after_seq), row.seq),
            (_next(query.after_position), row.position),
        )
        below = (
            (query.key_below, row.key),
            (_next(query.until), row.created_at),
            (query.before_seq, row.seq),
            (query.before_position, row.position),
        )
        triggers = (None, row.trigger, "auto") if row.trigger.startswith("auto:") else (None, row.trigger)
        return (
            (query.include_hidden or not row.hidden)
            and all(wanted is None or wanted == actual for wanted, actual in exact)
            and all(least is None or (actual is not None and actual >= least) for least, actual in low)  # type: ignore[operator]
            and all(end is None or (actual is not None and actual < end) for end, actual in below)  # type: ignore[operator]
            and query.trigger in triggers
            and (query.tag is None or query.tag in row.tags)
            and metadata_matches(row.metadata, row.added_metadata, query.metadata)
        )


def _next(number: int | None) -> int | None:
    return None if number is None else number + 1


class MemoryCollection:
    """A `Collection` of a store in memory; `writable` is false for a dry run."""

    def __init__(self, backend: MemoryBackend, epoch: int, lease: Lease | None) -> None:
        self._backend = backend
        self._epoch = epoch
        self._lease = lease
        self._marked: set[ChunkHash] = set()

    def mark(self, names: Iterable[ChunkHash]) -> Sequence[ChunkHash]:
        """See `Collection.mark`."""
        with self._backend.newest() as moment:
            self._renew(moment)
            new = [name for name in dict.fromkeys(names) if name not in self._marked]
            for name in new:
                if name not in moment.chunks:
                    raise IntegrityError.chunk_missing(name)
            self._marked.update(new)
            return [name for name in new if refers(moment.chunks[name])]

    def unneeded(self) -> Swept:
        """See `Collection.unneeded`."""
        with self._backend.newest() as moment:
            gone = self._gone(moment)
            return Swept(len(gone), sum(len(moment.chunks[name]) for name in gone), done=not gone)

    def sweep(self, limit: int) -> Swept:
        """See `Collection.sweep`."""
        if self._lease is None:
            return Swept()
        with self._backend.newest(writable=True) as moment:
            if moment.epoch != self._epoch:
                return Swept(superseded=True)
            self._renew(moment)
            gone = self._gone(moment)
            size = sum(len(moment.chunks[name]) for name in gone[:limit])
            for name in gone[:limit]:
                del moment.chunks[name], moment.stamps[name]
            return Swept(len(gone[:limit]), size, done=len(gone) <= limit)

    def _renew(self, moment: Moment) -> None:
        current = moment.leases.get(lease_rules.GC)
        if self._lease is not None and current is not None and lease_rules.is_same(current, self._lease):
            moment.leases[lease_rules.GC] = lease_rules.gc_lease(self._lease.holder, self._epoch)

    def _gone(self, moment: Moment) -> list[ChunkHash]:
        stamps = moment.stamps.items()
        return [name for name, stamp in stamps if stamp < self._epoch and name not in self._marked]


class MemoryBackend:
    """A `Backend` that lasts as long as its process. A forked child goes on with a copy of its own."""

    def __init__(self) -> None:
        self._moment: Moment | None = Moment()
        # Reentrant: a signal handler may save in the thread that holds it.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._pid = os.getpid()

    @contextmanager
    def newest(self, *, writable: bool = False) -> Iterator[Moment]:
        """The newest moment, locked; if writable, one that no reader looks at."""
        if self._pid != os.getpid():
            # In a child of a fork, where a lock that another thread held would stay locked for ever.
            self._lock, self._pid = threading.RLock(), os.getpid()
            self._changed = threading.Condition(self._lock)
        with self._lock:
            yield self._writable() if writable else self._open_moment()

    def _open_moment(self) -> Moment:
        if self._moment is None:
            raise rules.store_closed(_URL)
        return self._moment

    def _writable(self) -> Moment:
        moment = self._open_moment()
        if moment.readers:
            moment = self._moment = moment.copy()
        return moment

    @property
    def url(self) -> str:
        """Always `memory:`."""
        return _URL

    def commit(self, batch: Batch) -> Receipt:
        """See `Backend.commit`."""
        rules.check_batch(batch)
        with self.newest() as moment:
            ids = [row.id for row in batch.checkpoints]
            if ids and all(each in moment.checkpoints for each in ids):
                return Receipt(tuple(moment.checkpoints[each] for each in ids))
            session = moment.check(batch)
            changed = moment.tables.changed(batch.rows)
            writable = self._writable()
            receipt = writable.apply(batch, session)
            writable.tables = changed
            self._changed.notify_all()
            return receipt

    def write_rows(self, changes: Sequence[RowChange], fence: Fence | None = None) -> None:
        """See `Backend.write_rows`."""
        with self.newest(writable=True) as moment:
            moment.check_fence(fence)
            moment.tables = moment.tables.changed(changes)

    def adopt(self, batch: Adoption) -> None:
        """See `Backend.adopt`."""
        rules.check_adoption(batch)
        with self.newest(writable=True) as moment:
            moment.check_adoption(batch)
            moment.adopt(batch)
            self._changed.notify_all()

    @contextmanager
    def reader(self) -> Iterator[MemoryReader]:
        """See `Backend.reader`."""
        with self.newest() as moment:
            moment.readers += 1
        try:
            yield MemoryReader(moment)
        finally:
            with self._lock:
                moment.readers -= 1

    def turn(self, session: str) -> AbstractContextManager[object]:  # noqa: ARG002 - the port's
        """See `Backend.turn`. Commits are short here, and none loses more than a few rounds."""
        return nullcontext()

    def claim(self, name: str, holder: Holder, seconds: float, *, at: int, ticks: int) -> Lease:
        """See `Backend.claim`."""
        length, now = lease_rules.microseconds(seconds), lease_rules.ticking(at, ticks)
        with self.newest(writable=True) as moment:
            at, ticks = now()
            lease_rules.check_free(moment.leases.get(name), holder, at=at, ticks=ticks)
            moment.lease_epoch += 1
            made = lease_rules.taken(name, holder, length, epoch=moment.lease_epoch, at=at, ticks=ticks)
            moment.leases[name] = made
            return made

    def renew(self, lease: Lease, seconds: float, *, at: int, ticks: int) -> Lease:
        """See `Backend.renew`."""
        length, now = lease_rules.microseconds(seconds), lease_rules.ticking(at, ticks)
        with self.newest(writable=True) as moment:
            at, ticks = now()
            made = lease_rules.renewed(moment.leases.get(lease.name), lease, length, at=at, ticks=ticks)
            moment.leases[lease.name] = made
            return made

    def release(self, lease: Lease) -> None:
        """See `Backend.release`."""
        with self.newest(writable=True) as moment:
            current = moment.leases.get(lease.name)
            if current is not None and lease_rules.is_same(current, lease):
                del moment.leases[lease.name]

    def lease(self, name: str) -> Lease | None:
        """See `Backend.lease`."""
        with self.newest() as moment:
            return moment.leases.get(name)

    @contextmanager
    def collection(
        self, *, dry_run: bool = False, stale_after: float | None = None
    ) -> Iterator[MemoryCollection]:
        """See `Backend.collection`."""
        with self.newest(writable=not dry_run) as moment:
            # A dry run opens no epoch, and counts as if it had.
            epoch, lease = moment.epoch + 1, None
            if not dry_run:
                lease = lease_rules.gc_lease(lease_rules.this_process(os.urandom(16).hex()), epoch)
                lease_rules.check_no_collection(moment.leases.get(lease.name), lease, stale_after)
                moment.epoch, moment.leases[lease.name] = epoch, lease
        try:
            yield MemoryCollection(self, epoch, lease)
        finally:
            if lease is not None:
                self.release(lease)

    def erase_session(self, session: str) -> None:
        """See `Backend.erase_session`."""
        with self.newest(writable=True) as moment:
            moment.erase(session)

    def scrub(self, *, dry_run: bool = False) -> None:  # noqa: ARG002 - the port's
        """Nothing is in any file."""
        with self.newest():
            pass

    @contextmanager
    def inspect(self) -> Iterator[ReaderInspection]:
        """See `Backend.inspect`. Memory has no damage that could be told from what was meant."""
        with self.newest() as moment:
            names = tuple(moment.chunks)
        with self.reader() as reader:
            yield ReaderInspection(reader, names)

    def rebuild(self, plan: Callable[[Inspection], Rebuilt | None]) -> str | None:  # noqa: ARG002 - the port's
        """Refused: there is nothing to put in the place of memory."""
        self.scrub()
        raise UnsupportedError(
            "a store in memory cannot be repaired",
            code=ErrorCode.NOT_SUPPORTED,
            hint="begin anew: what is in memory ends with the process",
        )

    def wait_for_checkpoint(self, after: int, timeout: float) -> int:
        """See `Backend.wait_for_checkpoint`."""
        deadline = time.monotonic() + timeout
        while True:
            with self.newest() as moment:
                left = deadline - time.monotonic()
                if moment.position > after or left <= 0:
                    return moment.position
                self._changed.wait(left)

    def backup(self, target: Path) -> None:
        """Refused: there is no file to copy."""
        self.scrub()
        raise UnsupportedError(
            f"a store in memory cannot be copied to {target}",
            code=ErrorCode.NOT_SUPPORTED,
            hint="open a store in a file to be able to back it up",
        )

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._moment = None
            self._changed.notify_all()
