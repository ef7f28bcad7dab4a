"""forget: what must not be anywhere any more, at once and for good.

Removing hides, and gc frees; after both, bytes of what was removed can still be found in free pages of the file. This
goes all the way: the rows go, the operation log goes with them (it tells what they said), chunks that nothing else
needs go, and the file is written anew. What other checkpoints hold too stays with them. Copies elsewhere, backups and
exports among them, are beyond its reach.

Without cleaning it ends with the rows and the log: quick, and no more than a writer may do. The bytes are then gc's.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import BackendError, ErrorCode, NotFoundError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.heads import missing_head
from holdfast.history.refs import resolve
from holdfast.history.removal import remove
from holdfast.record import Record
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import CheckpointId, Claim, Query, SessionRow
from holdfast.store.changing import OperationPlan, carry_out
from holdfast.store.collecting import collect_chunks, count_unneeded
from holdfast.store.place import Place

_CLEANINGS = 20
"""Times that another collection may come in between before it is said so."""

_WHOLE_ID = 64


class ForgetReport(Record):
    """What was forgotten."""

    checkpoints: int
    chunks: int
    """Chunks that nothing else needed, of these checkpoints or of others that were removed before. Without `clean` none
    go: they wait for gc."""


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
    def work(reader: Reader, session: SessionRow) -> tuple[OperationPlan | None, None]:
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
