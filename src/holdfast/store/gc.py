"""gc and forget: what was removed goes for good, and then the chunks that nothing needs any more.

Rows go first. From then on nothing can bring them back, so that the chunks to keep are exactly those of the rows that
are left, removed ones within their time of grace included. Chunks are then marked and swept in small steps beside
running writers; `storage.ports.Collection` says why that is safe. Nothing is swept while anything is missing: what
looks unneeded then may be what is left of something damaged.

forget goes all the way, at once: the rows go, the operation log goes with them (it tells what they said), chunks that
nothing else needs go, and the file is written anew, so that no byte of them is left in its free pages. What other
checkpoints hold too stays with them. Copies elsewhere are beyond its reach. Without cleaning it ends with the rows and
the log: quick, and no more than a writer may do. The bytes are then gc's.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from holdfast.errors import BackendError, ErrorCode, IntegrityError, InvalidInputError, NotFoundError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.refs import missing_head, resolve
from holdfast.history.removal import remove
from holdfast.objects.tree.read import links, read_chunk
from holdfast.reports.upkeep import ForgetReport, GcReport
from holdfast.storage.ports import Backend, Collection, Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash, Claim, Query, SessionRow, Swept
from holdfast.store.operations import OperationPlan, carry_out
from holdfast.store.place import Place, Progress, silent

GRACE_DAYS: Final = 14
"""For so long a removal can be undone."""

_DAY: Final = 86_400 * 1_000_000
_PAGE: Final = 256
"""Rows read at once."""
_STEP: Final = 64
"""Chunks looked into, or removed, before somebody else may have a turn."""
_REMOVED_AT_ONCE: Final = 500


class _RowGoneError(Exception):
    """A row disappeared while its chunks were being marked."""


def collect_garbage(
    backend: Backend,
    *,
    now: int,
    keep_days: float = GRACE_DAYS,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> GcReport:
    """Remove for good what was removed more than `keep_days` ago; see `Store.gc`."""
    if type(keep_days) not in (int, float) or not keep_days >= 0:
        raise InvalidInputError(
            f"keep_days cannot be {keep_days!r}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="give a number of days, 0 to end every undo now",
        )
    grace = int(min(keep_days, 1e6) * _DAY)
    due, waiting = _due(backend, now - grace)
    report = progress or silent
    if dry_run:
        swept = count_unneeded(backend, frozenset(row.id for rows in due.values() for row in rows), report)
    else:
        removed = 0
        for session, rows in due.items():
            for start in range(0, len(rows), _REMOVED_AT_ONCE):
                part = rows[start : start + _REMOVED_AT_ONCE]
                _remove_rows(backend, session, part, now)
                removed += len(part)
                report("removing checkpoints", removed)
        swept = collect_chunks(backend, report)
    return GcReport(
        checkpoints=sum(map(len, due.values())),
        sessions=tuple(due),
        waiting=len(waiting),
        waiting_until=_moment(min(waiting) + grace) if waiting else None,
        chunks=swept.chunks,
        freed_bytes=swept.stored_bytes,
        dry_run=dry_run,
        overtaken=swept.superseded,
    )


def collect_chunks(backend: Backend, progress: Progress | None = None) -> Swept:
    """Remove every chunk that no row needs, from beginning to end."""
    swept, began = Swept(done=False), time.monotonic()
    for now in collecting(backend, progress or silent):
        if now.chunks > swept.chunks and not now.done:
            # Half of the time belongs to the writers, who would otherwise find the store locked each time they ask.
            time.sleep(time.monotonic() - began)
        swept, began = now, time.monotonic()
    return swept


def collecting(
    backend: Backend, progress: Progress, *, stale_after: float | None = None
) -> Generator[Swept, None, None]:
    """The same in steps, each short; what was removed so far after each.

    Raises:
        ConflictError: With `stale_after`, another one has been at work within so many seconds (`collection-running`).
    """
    while True:
        try:
            yield from _collecting(backend, progress, stale_after)
        except _RowGoneError:
            # What it had marked of that row and not looked into yet may be shared: nothing can be swept on that.
            continue
        return


def _collecting(
    backend: Backend, progress: Progress, stale_after: float | None
) -> Generator[Swept, None, None]:
    removed = Swept(done=False)
    with backend.collection(stale_after=stale_after) as collection:
        for _ in _marking(backend, collection, progress, without=frozenset()):
            yield removed
        while not removed.done:
            swept = collection.sweep(_STEP)
            removed = Swept(
                removed.chunks + swept.chunks,
                removed.stored_bytes + swept.stored_bytes,
                swept.done,
                swept.superseded,
            )
            progress("removing chunks", removed.chunks)
            yield removed


def _moment(micros: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(micros / 1e6, UTC)
    except (OverflowError, ValueError):
        return None  # further away than there are years


def _due(backend: Backend, horizon: int) -> tuple[dict[str, list[CheckpointRow]], list[int]]:
    """The removed checkpoints whose removal lies before the horizon, by session; and when the younger ones were."""
    due: dict[str, list[CheckpointRow]] = {}
    removed_at: dict[str, dict[int, int]] = {}
    waiting: list[int] = []
    for rows in _pages(backend):
        hidden = [row for row in rows if row.hidden]
        with backend.reader() as reader:
            for name in {row.session for row in hidden} - removed_at.keys():
                removed_at[name] = {each.number: each.at for each in reader.operations(name)}
        for row in hidden:
            # An operation that is not in the log was forgotten with it.
            at = removed_at[row.session].get(row.hidden, 0)
            if at <= horizon:
                due.setdefault(row.session, []).append(row)
            else:
                waiting.append(at)
    return due, waiting


def _pages(backend: Backend) -> Iterator[Sequence[CheckpointRow]]:
    """All rows of the store, oldest first, until there are no more. Each page is a moment of its own."""
    position = 0
    while True:
        with backend.reader() as reader:
            rows = reader.checkpoints(
                Query(after_position=position, include_hidden=True, oldest_first=True, limit=_PAGE)
            )
        if not rows:
            return
        yield rows
        position = rows[-1].position


def _remove_rows(backend: Backend, name: str, rows: Sequence[CheckpointRow], now: int) -> None:
    def work(reader: Reader, _session: SessionRow, _now: int) -> tuple[OperationPlan | None, None]:
        # One that was brought back by an undo meanwhile is not removed.
        ids = tuple(row.id for row in rows if _still_hidden(reader, row))
        return (OperationPlan("gc", removals=ids) if ids else None), None

    carry_out(Place(backend, Claim(name), "main", lambda: now, None), work)


def _still_hidden(reader: Reader, row: CheckpointRow) -> bool:
    found = reader.checkpoint(row.id)
    return found is not None and found.hidden == row.hidden


def count_unneeded(
    backend: Backend, without: frozenset[CheckpointId], progress: Progress | None = None
) -> Swept:
    """What would be swept if these rows were not there."""
    while True:
        try:
            with backend.collection(dry_run=True) as collection:
                for _ in _marking(backend, collection, progress or silent, without=without):
                    pass
                return collection.unneeded()
        except _RowGoneError:
            # Counting begins anew, as collecting would.
            continue


def _marking(
    backend: Backend, collection: Collection, progress: Progress, *, without: frozenset[CheckpointId]
) -> Iterator[None]:
    """Mark what every row needs, in steps between which nothing of the store is held open."""
    done = looked = 0
    for rows in _pages(backend):
        for row in rows:
            if row.id in without:
                continue
            try:
                for count in _mark_state(row.root, backend, collection):
                    looked += count
                    # Small states share a step: a store of many would otherwise take as many steps.
                    if looked >= _STEP:
                        yield
                        looked = 0
            except IntegrityError as damage:
                # A row that was removed meanwhile may have lost its chunks to another gc.
                if _is_gone(backend, row.id):
                    raise _RowGoneError from damage
                raise _nothing_removed(row, damage) from damage
        done += len(rows)
        progress("looking through checkpoints", done)


def _mark_state(root: ChunkHash, backend: Backend, collection: Collection) -> Iterator[int]:
    """Mark what a state needs; how many chunks were looked at in each step."""
    to_do = list(collection.mark([root]))
    yield 1
    while to_do:
        step, to_do = to_do[-_STEP:], to_do[:-_STEP]
        with backend.reader() as reader:
            for name in step:
                to_do += collection.mark(links(name, read_chunk(name, reader.chunks)))
        yield len(step)


def _is_gone(backend: Backend, checkpoint: CheckpointId) -> bool:
    with backend.reader() as reader:
        return reader.checkpoint(checkpoint) is None


def _nothing_removed(row: CheckpointRow, damage: IntegrityError) -> IntegrityError:
    return IntegrityError(
        f"no chunk was removed, because checkpoint {row.id.hex()[:12]} (#{row.seq} of session {row.session!r}) "
        f"is damaged: {damage}",
        code=damage.code,
        hint="store.verify() (holdfast verify) names all that is damaged, store.repair() sets it aside",
        checkpoint=row.id.hex(),
    )


_CLEANINGS = 20
"""Times that another collection may come in between before it is said so."""

_WHOLE_ID = 64


def forget(
    backend: Backend,
    session: str,
    refs: Sequence[str | Checkpoint],
    *,
    now: int,
    dry_run: bool = False,
    clean: bool = True,
) -> ForgetReport:
    """Forget a whole session, or some of its checkpoints; see `Store.forget`."""
    if clean:
        # First of all: where the bytes could not be cleared afterwards, nothing may be removed either.
        backend.scrub(dry_run=True)
    try:
        with backend.reader() as reader:
            if reader.session(session) is None:
                missing_head(reader, session, "main")
            wanted = [_named(reader, session, ref, now) for ref in refs]
            known = reader.checkpoints(Query(session=session, include_hidden=True))
    except NotFoundError:
        if clean and not dry_run:
            # It may be gone because this was called before and interrupted: then the files are still to be cleaned.
            _clean(backend)
        raise
    count = len(set(wanted)) if refs else len(known)
    if dry_run:
        gone = frozenset(wanted) if refs else frozenset(row.id for row in known)
        return ForgetReport(count, count_unneeded(backend, gone).chunks if clean else 0)
    if refs:
        _remove(backend, session, frozenset(wanted), now)
    else:
        backend.erase_session(session)
    return ForgetReport(count, _clean(backend) if clean else 0)


def _clean(backend: Backend) -> int:
    """Remove every chunk that nothing needs, and what is left of it in the files; how many chunks went."""
    removed = 0
    for _ in range(_CLEANINGS):
        swept = collect_chunks(backend)
        removed += swept.chunks
        # A newer collection that began meanwhile leaves this one unfinished. And a chunk that a save built on was
        # spared; what stands on it now is written without it the next time.
        if not swept.superseded and not swept.chunks:
            backend.scrub()
            return removed
    raise BackendError(
        "what was forgotten is gone for every reader, but others collect chunks all the time and its bytes may be left",
        code=ErrorCode.STORE_LOCKED,
        hint="stop what else runs gc or retention on this store, and call forget again: that cleans the files",
    )


def _named(reader: Reader, session: str, ref: str | Checkpoint, now: int) -> CheckpointId:
    """The checkpoint that a ref names, one that was removed before included."""
    text = ref.id if isinstance(ref, Checkpoint) else ref
    if type(text) is str and len(text) == _WHOLE_ID:
        try:
            row = reader.checkpoint(CheckpointId(bytes.fromhex(text)))
        except ValueError:
            # Not an id: a branch may well have a name of that length.
            row = None
        if row is not None and row.session == session:
            return row.id
    return resolve(reader, session, "main", ref, now=now).id


def _remove(backend: Backend, name: str, wanted: frozenset[CheckpointId], now: int) -> None:
    def work(reader: Reader, session: SessionRow, _now: int) -> tuple[OperationPlan | None, None]:
        if reader.session(name) is None:
            # Somebody else forgot all of it meanwhile.
            return None, None
        rows = reader.checkpoints(Query(session=name, include_hidden=True))
        number = session.log_count + 1
        change = remove(rows, reader.branches(name), wanted, number=number)
        plan = OperationPlan(
            "forget",
            edits=change.edits,
            moves=change.moves,
            # It names nothing: not even an id of what is forgotten stays behind.
            told=False,
            removals=tuple(wanted),
            cuts_log_from=1,
        )
        return plan, None

    carry_out(Place(backend, Claim(name), "main", lambda: now, None), work)
