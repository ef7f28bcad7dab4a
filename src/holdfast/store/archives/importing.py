"""import: verified checkpoints become rows of a store, each session in one commit.

Everything was read and verified before (`reading.py`). What the store has already is left as it is, so that an import
can be run again; what is new comes with its own ids, keys, tags and lineage. No head of the store moves: a branch that
is there stays where it is, and what is new on a branch of that name gets a branch of its own.

The commit is all or nothing. Where there is much to write, chunks go ahead, some megabytes at a time, and the commit
names them again: chunks without a checkpoint mean nothing to anybody, and gc takes them if the import is killed before.
A new session may then be there with nothing in it, until the import is run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Final

from holdfast.errors import BackendError, ConflictError, ErrorCode, HoldfastError, InvalidInputError
from holdfast.history.names import check_session
from holdfast.record import Record
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import (
    Batch,
    CheckpointId,
    CheckpointRow,
    Claim,
    Guard,
    Move,
    Query,
    SessionRow,
)
from holdfast.store.archives.limits import ArchiveLimits
from holdfast.store.archives.reading import ArchiveReader, ReadSession
from holdfast.store.archives.report import ImportReport, SessionImport
from holdfast.store.archives.sources import Source
from holdfast.store.archives.spool import Spool, SpooledChunk
from holdfast.store.composition import Composition
from holdfast.store.progress import Progress, silent
from holdfast.store.rereading import read_again

_ATTEMPTS: Final = 1000
"""Each lost round means that somebody wrote to the session; see `changing`."""

_AT_ONCE: Final = 4 << 20
"""Plain bytes of chunks in one commit; more go ahead in parts."""

_PART: Final = 256 << 10
"""Plain bytes of each part. States follow from each other, and a part is compressed against those before it: larger
ones take more room in the store, smaller ones more commits."""

_ASKED_ALONE: Final = 64
"""Rows; more are looked for by reading all ids of the session."""


class _Plan(Record):
    """What there is to write of a session, from one reading of the store."""

    known: SessionRow | None
    rows: tuple[CheckpointRow, ...]
    moves: tuple[Move, ...]
    switch_to: str | None
    told: SessionImport


def import_archives(
    parts: Composition,
    source: Source,
    *,
    session: str | None,
    limits: ArchiveLimits | None,
    dry_run: bool,
    progress: Progress | None,
) -> ImportReport:
    """Import all that a source holds; see `Store.import_`."""
    told = progress or silent
    if limits is not None and not isinstance(limits, ArchiveLimits):
        raise InvalidInputError(
            f"limits cannot be a {type(limits).__name__}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass holdfast.ArchiveLimits(...)",
        )
    wanted = None if session is None else check_session(session)
    with Spool() as spool:
        reader = ArchiveReader(spool, limits or ArchiveLimits(), wanted, parts.cuts, told)
        found = reader.read(source)
        # All are looked at before any is written: a key that is taken leaves the store as it was.
        plans = [read_again(lambda each=each: _planned(parts.backend, each)) for each in found]  # type: ignore[misc]
        if not dry_run:
            plans = [_write(parts, each, plan, spool) for each, plan in zip(found, plans, strict=True)]
    name = str(source) if isinstance(source, str | Path) else str(getattr(source, "name", "stream"))
    return ImportReport(name, parts.backend.url, tuple(plan.told for plan in plans), dry_run)


def _planned(backend: Backend, read: ReadSession) -> _Plan:
    with backend.reader() as reader:
        known = reader.session(read.id)
        _check_owner(known, read)
        there = {} if known is None else _there(reader, read)
        rows = _linked(reader, read, there)
        moves = _moves(reader, read, rows)
    hidden = sum(row.hidden > 0 for row in there.values())
    status = "unchanged" if not rows else "new" if known is None or not known.last_seq else "updated"
    fresh = known is None or not known.last_seq
    told = SessionImport(
        read.id,
        status,  # type: ignore[arg-type]  # one of the three
        len(rows),
        len(there),
        hidden,
        tuple(move.branch for move in moves),
    )
    current = read.header.current if read.header is not None and read.header.branches and fresh else None
    return _Plan(known, rows, moves, current, told)


def _check_owner(known: SessionRow | None, read: ReadSession) -> None:
    """The same refusal that a commit would give, before anything is written."""
    if known is None:
        return
    for name, here, there in (("agent", known.agent, read.agent), ("project", known.project, read.project)):
        if here is not None and there is not None and here != there:
            raise InvalidInputError(
                f"session {read.id!r} belongs to {name} {here!r} here, and to {there!r} in the archive",
                code=ErrorCode.SESSION_MISMATCH,
                hint="import it into another store, or rename the session that is here with store.copy_session()",
                session=read.id,
            )


def _there(reader: Reader, read: ReadSession) -> dict[CheckpointId, CheckpointRow]:
    """Checkpoints of the archive that the store has, by the ids that they have in the archive."""
    wanted = {row.id for row in read.rows}
    if len(wanted) <= _ASKED_ALONE:
        found = {row.id: row for each in wanted if (row := reader.checkpoint(each)) is not None}
    else:
        found = {row.id: row for row in _every(reader, read.id) if row.id in wanted}
    for row in read.rows:
        if row.key is None or row.id in found:
            continue
        for holder in reader.checkpoints(Query(session=read.id, key=row.key, include_hidden=True, limit=1)):
            if row.id not in read.foreign or holder.root != row.root:
                raise ConflictError.key_taken(
                    read.id, row.key, existing=holder.id, why="which is another one than the archive has"
                )
            found[row.id] = holder
    return found


def _every(reader: Reader, session: str) -> Iterator[CheckpointRow]:
    last = 0
    while page := reader.checkpoints(
        Query(session=session, include_hidden=True, oldest_first=True, after_seq=last, limit=1000)
    ):
        yield from page
        last = page[-1].seq


def _linked(
    reader: Reader, read: ReadSession, there: Mapping[CheckpointId, CheckpointRow]
) -> tuple[CheckpointRow, ...]:
    """The rows that are new, each with what it follows in this store."""
    made: dict[CheckpointId, CheckpointRow] = {}

    def found(checkpoint: CheckpointId) -> CheckpointRow | None:
        row = made.get(checkpoint) or there.get(checkpoint) or reader.checkpoint(checkpoint)
        return row if row is not None and row.session == read.id else None

    for row in read.rows:
        if row.id in there:
            continue
        parent = found(row.parents[0]) if row.parents else None
        before = None if row.prev is None else found(row.prev)
        if parent is not None:
            # One that was removed here leads on to what was before it.
            link = (parent.prev, parent.skipped + 1) if parent.hidden else (parent.id, 0)
        elif before is not None and not before.hidden:
            link = before.id, row.skipped
        else:
            link = None, 0
        made[row.id] = row._replace(prev=link[0], skipped=link[1])
    return tuple(made.values())


def _moves(reader: Reader, read: ReadSession, rows: Sequence[CheckpointRow]) -> tuple[Move, ...]:
    """New branches for what is new; none that is there is touched."""
    taken = {branch.name for branch in reader.branches(read.id)}
    new = {row.id: row for row in rows}
    if read.header is not None:
        wanted = [(name, head) for name, head in read.header.branches.items() if head in new]
    else:
        followed = {each for row in rows for each in (row.prev, *row.parents)}
        wanted = [(row.branch, row.id) for row in rows if row.id not in followed]
    moves = []
    for name, head in wanted:
        free = name if name not in taken else next(n for i in count(1) if (n := f"{name}-{i}") not in taken)
        taken.add(free)
        moves.append(Move(free, expected=None, head=head))
    return tuple(moves)


def _write(parts: Composition, read: ReadSession, plan: _Plan, spool: Spool) -> _Plan:
    backend = parts.backend
    claim = Claim(read.id, agent=read.agent, project=read.project)
    ahead = False
    for _ in range(_ATTEMPTS):
        if not plan.rows:
            return plan
        if not ahead:
            _send_ahead(parts, claim, read, spool)
            ahead = True
        known = plan.known
        batch = Batch(
            claim=claim,
            at=parts.clock(),
            chunks=tuple(spool.get(read.chunks)),
            checkpoints=plan.rows,
            moves=plan.moves,
            guard=Guard(known.log_count if known else 0, known.last_seq if known else 0),
            switch_to=plan.switch_to,
        )
        try:
            backend.commit(batch)
        except ConflictError:
            # Somebody wrote to the session since it was read: look again at what is there now.
            plan = read_again(lambda: _planned(backend, read))
            continue
        except BackendError as failure:
            _settle(backend, plan.rows[-1].id, failure)
        return plan
    raise ConflictError.session_changed(read.id)


def _send_ahead(parts: Composition, claim: Claim, read: ReadSession, spool: Spool) -> None:
    """Write chunks before the commit that needs them, where they are too many for one."""
    if sum(each.size_bytes for each in spool.get(read.chunks)) <= _AT_ONCE:
        return
    with parts.backend.reader() as reader:
        present = reader.present(read.chunks)
    sent = set(present)
    for some in _in_parts(spool.get(name for name in read.chunks if name not in present)):
        for each in some:
            # What it follows may be in the same part, where a backend does not look for it; an older one is there.
            while each.base is not None and each.base not in sent:
                each.base = spool.base_of(each.base)
        parts.backend.commit(Batch(claim=claim, at=parts.clock(), chunks=some))
        sent.update(each.hash for each in some)
    for each in spool.get(read.chunks):
        # They are there: nobody needs to read what they might be compared with.
        each.base = None


def _in_parts(chunks: Iterator[SpooledChunk]) -> Iterator[tuple[SpooledChunk, ...]]:
    some: list[SpooledChunk] = []
    size = 0
    for each in chunks:
        some.append(each)
        size += each.size_bytes
        if size >= _PART:
            yield tuple(some)
            some, size = [], 0
    if some:
        yield tuple(some)


def _settle(backend: Backend, last: CheckpointId, failure: BackendError) -> None:
    """Find out whether a commit whose reply was an error took place after all; raise the error if not."""
    try:
        with backend.reader() as reader:
            found = reader.checkpoint(last)
    except HoldfastError:
        # The store cannot be read either: the first failure is the one to report.
        raise failure from None
    if found is None:
        raise failure
