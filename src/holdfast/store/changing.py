"""Changes to what is there: tags, edited messages, added metadata, removal.

Each is read, worked out, and committed together with its entry in the operation log, on the condition that the session
has not changed meanwhile; if it has, it is worked out again from what is there now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast.errors import (
    BackendError,
    ConflictError,
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
)
from holdfast.history import jsontext
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.oplog import edit, operation
from holdfast.history.refs import resolve
from holdfast.history.removal import Change, plan_removal
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import Batch, CheckpointRow, Claim, Edit, Guard, Operation, SessionRow
from holdfast.store.draft import check_message

_ATTEMPTS = 1000
"""Each lost round means that another writer got through; see `saving._ATTEMPTS`."""

_Work = Callable[[Reader, SessionRow, CheckpointRow], Change | None]


class Place(NamedTuple):
    """Where a change happens: the store, the session, the branch in use, and the clock."""

    backend: Backend
    claim: Claim
    branch: str
    clock: Callable[[], int]


def session_of(reader: Reader, row: CheckpointRow) -> SessionRow:
    """The session a checkpoint belongs to."""
    session = reader.session(row.session)
    if session is None:
        raise IntegrityError.row_damaged(
            f"checkpoint {row.id.hex()}", why=f"its session {row.session!r} is not in the store"
        )
    return session


def delete(place: Place, ref: str | Checkpoint, *, force: bool) -> tuple[CheckpointRow, SessionRow]:
    """Hide a checkpoint; see `history.removal`."""

    def work(reader: Reader, session: SessionRow, row: CheckpointRow) -> Change:
        return plan_removal(reader, session, row, force=force)

    return _apply(place, ref, "delete", work)


def annotate(
    place: Place, ref: str | Checkpoint, *, message: str | None, metadata: Mapping[str, Any] | None
) -> tuple[CheckpointRow, SessionRow]:
    """Edit the message, or lay metadata over what is there."""
    if message is None and not metadata:
        raise InvalidInputError(
            "annotate was given nothing to write",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass message= or metadata=, or use tag() for labels",
        )
    if message is not None:
        check_message(message)
    extra = jsontext.parse(jsontext.metadata_text(metadata))

    def work(reader: Reader, session: SessionRow, row: CheckpointRow) -> Change | None:
        del reader, session
        added = row.added_metadata
        if extra:
            added = jsontext.metadata_text((jsontext.parse(added) if added else {}) | extra)
        edited = row.edited_message if message is None else message
        return _edits(row, edit(row, edited_message=edited, added_metadata=added))

    return _apply(place, ref, "annotate", work)


def retag(
    place: Place, ref: str | Checkpoint, *, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()
) -> tuple[CheckpointRow, SessionRow]:
    """Add and remove labels; what is already so is left alone."""
    if not add and not remove:
        raise InvalidInputError(
            "no tag was given", code=ErrorCode.BAD_ARGUMENT, hint='name at least one: s.tag("@", "golden")'
        )

    def work(reader: Reader, session: SessionRow, row: CheckpointRow) -> Change | None:
        del reader, session
        tags = tuple(sorted((set(row.tags) | set(add)) - set(remove)))
        return _edits(row, edit(row, tags=tags))

    return _apply(place, ref, "tag", work)


def _edits(row: CheckpointRow, new: Edit) -> Change | None:
    return None if new == edit(row) else Change([(row, new)], [], structural=False)


def _apply(place: Place, ref: str | Checkpoint, kind: str, work: _Work) -> tuple[CheckpointRow, SessionRow]:
    for _ in range(_ATTEMPTS):
        with place.backend.reader() as reader:
            row = resolve(reader, place.claim.session, place.branch, ref)
            session = session_of(reader, row)
            change = work(reader, session, row)
        # "@" may name another checkpoint in the next round; the one that was meant is this.
        ref = Checkpoint(row, session)
        if change is None:
            return row, session
        now = place.clock()
        entry = operation(session, kind, now, edits=change.edits, moves=change.moves)
        batch = Batch(
            claim=place.claim,
            at=now,
            moves=tuple(change.moves),
            edits=tuple(new for _, new in change.edits),
            operations=(entry,),
            guard=Guard(
                log_count=session.log_count, last_seq=session.last_seq if change.structural else None
            ),
        )
        try:
            place.backend.commit(batch)
        except ConflictError:
            # Somebody saved or changed something in between: work it out again from what is there now.
            continue
        except BackendError as failure:
            _settle(place.backend, entry, failure)
        new = next(each for each in batch.edits if each.id == row.id)
        return row._replace(**new._asdict()), session
    raise ConflictError.session_changed(place.claim.session)


def _settle(backend: Backend, entry: Operation, failure: BackendError) -> None:
    """Find out whether a commit whose reply was an error took place after all; raise the error if not."""
    try:
        with backend.reader() as reader:
            found = reader.operations(entry.session, after=entry.number - 1)
    except HoldfastError:
        # The store cannot be read either: the first failure is the one to report.
        raise failure from None
    if not any(each.hash == entry.hash for each in found):
        raise failure
