"""What was planned becomes rows: one transaction for each session, and a way back.

A session comes in as rows of a copy do (`Backend.adopt`): on the condition that it is still as it was when the plan was
made, all or nothing, with each chunk as the difference to the one before it. Where there is much, chunks go ahead, a
megabyte at a time, and the rows name them: chunks without a checkpoint mean nothing to anybody, and gc takes them if
the import is killed before. A new session may then be there with nothing in it, until the import is run again.
It is nobody's until its rows come, and again when they were taken back: a store cannot remove a session on the
condition that nobody saves to it meanwhile, so that it stays, and what stays must not be in anybody's way.

A store writes one session at a time. So of several sessions the chunks of all go ahead before any row is written; and
where a later one cannot be written, those before it are taken back, unless somebody has built on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from holdfast.errors import BackendError, ConflictError, ErrorCode, HoldfastError
from holdfast.history.oplog import operation
from holdfast.storage.copy_rows import Adoption
from holdfast.storage.ports import Backend
from holdfast.storage.records import BranchRow, Chunk, SessionRow
from holdfast.store.archives.planning import SessionPlan
from holdfast.store.archives.reading import ReadSession
from holdfast.store.archives.spool import Spool, SpooledChunk

_ATTEMPTS: Final = 1000
"""Each lost round means that somebody wrote to the session; see `changing`."""

_AT_ONCE: Final = 4 << 20
"""Plain bytes of chunks in one transaction; more go ahead in parts."""

_PART: Final = 1 << 20
"""Plain bytes of each part: memory is bounded by it, and each is a transaction of its own."""

_RACES: Final = frozenset((ErrorCode.SESSION_CHANGED, ErrorCode.CHUNKS_GONE))
"""Somebody wrote to the session since it was read, or a collection took what was sent ahead: it is worked out again."""


class Delivery:
    """One session on its way into a store.

    Args:
        backend: The store.
        read: The session, as the archives have it.
        spool: Has its chunks.
        plan: Works out what there is to write, from the store as it is now.
        clock: Microseconds since 1970 UTC.
    """

    def __init__(
        self,
        backend: Backend,
        read: ReadSession,
        spool: Spool,
        plan: Callable[[], SessionPlan],
        clock: Callable[[], int],
    ) -> None:
        self._backend = backend
        self._read = read
        self._spool = spool
        self._plan_anew = plan
        self._clock = clock
        self.plan = plan()
        self._row = self.plan.known
        """The session as it is in the store, as far as is known."""
        self._tried: Adoption | None = None
        """The rows, once an attempt was made to write them."""

    def send_ahead(self) -> None:
        """Write the chunks, where they are too many for the transaction of the rows."""
        self._in_rounds(self._send_ahead)

    def write(self) -> None:
        """Write the rows, with the chunks that are not there yet."""
        self._in_rounds(self._write)

    def take_back(self) -> bool:
        """Undo `write`; whether nothing of it is left. What somebody has built on since stays."""
        if self._tried is None:
            return True
        plan, after = self.plan, self._tried.session
        batch = Adoption(
            session=plan.known or after._replace(agent=None, project=None, last_seq=0, current="main"),
            expected=after,
            removals=tuple(row.id for row in plan.arriving),
            branches=plan.branches,
            cuts_log_from=after.log_count if self._tried.operations else 0,
            whole=None,
        )
        try:
            if self._took_place(self._tried):
                self._backend.adopt(batch)
        except HoldfastError:
            # Somebody wrote to the session, or the store cannot be written to any more. The caller says what stays.
            return False
        return True

    def _in_rounds(self, work: Callable[[], None]) -> None:
        for _ in range(_ATTEMPTS):
            if self.plan.empty:
                return None
            try:
                return work()
            except ConflictError as conflict:
                if conflict.code not in _RACES:
                    raise
                # Nothing of this round was written: what is there by now is somebody else's.
                self._tried = None
                self.plan = self._plan_anew()
                self._row = self.plan.known
        raise ConflictError.session_changed(self._read.id)

    def _send_ahead(self) -> None:
        missing = self._missing()
        if sum(each.size_bytes for each in missing) <= _AT_ONCE:
            return
        now = self._clock()
        row = self._row or SessionRow(self._read.id, None, None, now)
        for some in _in_parts(missing):
            self._backend.adopt(Adoption(session=row, expected=self._row, chunks=_plain(some), whole=None))
            self._row = row

    def _write(self) -> None:
        missing = self._missing()
        if sum(each.size_bytes for each in missing) > _AT_ONCE:
            # A collection took what had been sent ahead.
            self._send_ahead()
            missing = []
        batch = self._adoption(missing)
        # Before it is written: an interruption may come between the transaction and what follows it. Without the
        # chunks: there may be many sessions.
        self._tried = batch._replace(chunks=())
        try:
            self._backend.adopt(batch)
        except BackendError as failure:
            self._settle(batch, failure)

    def _missing(self) -> list[SpooledChunk]:
        with self._backend.reader() as reader:
            present = reader.present(self._read.chunks)
        return list(self._spool.get(name for name in self._read.chunks if name not in present))

    def _adoption(self, missing: Iterable[SpooledChunk]) -> Adoption:
        plan, read, now = self.plan, self._read, self._clock()
        row = self._row or SessionRow(read.id, read.agent, read.project, now)
        arriving = tuple(
            each._replace(seq=seq, position=0, stored_at=now)
            for seq, each in enumerate(plan.arriving, start=row.last_seq + 1)
        )
        chunks = _plain(missing)
        sent = {each.hash for each in chunks}
        heads = {**plan.heads, **{move.branch: move.head for move in plan.moves if move.head is not None}}
        made = tuple(BranchRow(read.id, name, head, now) for name, head in heads.items())
        stay = tuple(each for each in plan.branches if each.name not in heads)
        after = row._replace(
            agent=row.agent or read.agent,
            project=row.project or read.project,
            last_seq=row.last_seq + len(arriving),
            current=plan.current or row.current,
        )
        # A head that moved can be moved back by undo; what is new is no operation, as a save is none.
        entries = (operation(after, "import", now, moves=plan.moves),) if plan.moves else ()
        for each in entries:
            after = after._replace(log_count=each.number, log_tip=each.hash)
        return Adoption(
            session=after,
            expected=self._row,
            chunks=chunks,
            found=tuple(name for name in read.chunks if name not in sent),
            checkpoints=arriving,
            branches=tuple(sorted((*stay, *made), key=lambda each: each.name)),
            operations=entries,
            whole=None,
        )

    def _settle(self, batch: Adoption, failure: BackendError) -> None:
        """Find out whether a transaction whose reply was an error took place after all; raise the error if not."""
        try:
            done = self._took_place(batch)
        except HoldfastError:
            # The store cannot be read either: the first failure is the one to report.
            raise failure from None
        if not done:
            raise failure

    def _took_place(self, batch: Adoption) -> bool:
        with self._backend.reader() as reader:
            if not batch.checkpoints:
                # Heads alone moved: the newest entry of the log is ours, or was not written.
                now = reader.session(batch.session.id)
                return now is not None and now.log_tip == batch.session.log_tip
            last = batch.checkpoints[-1]
            found = reader.checkpoint(last.id)
        # Another process may import the same at the same time; when it did so is its own.
        return found is not None and (found.seq, found.stored_at) == (last.seq, last.stored_at)


def _plain(chunks: Iterable[SpooledChunk]) -> tuple[Chunk, ...]:
    return tuple(Chunk(each.hash, each.data, each.base) for each in chunks)


def _in_parts(chunks: Iterable[SpooledChunk]) -> Iterator[list[SpooledChunk]]:
    some: list[SpooledChunk] = []
    size = 0
    for each in chunks:
        some.append(each)
        size += each.size_bytes
        if size >= _PART:
            yield some
            some, size = [], 0
    if some:
        yield some
