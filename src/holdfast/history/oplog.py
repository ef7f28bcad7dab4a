"""The operation log: every change to history that is not itself a checkpoint, as one hash chain per session.

An entry says what changed from what to what, for rows and for branches, so that it can be undone by applying it
backwards. Each entry's hash covers the one before, and the session row holds the number and the hash of the newest: a
changed, missing or reordered entry shows. It shows damage; it is no proof against somebody who can rewrite the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ormsgpack

from holdfast.errors import IntegrityError
from holdfast.history import jsontext
from holdfast.objects.hashing import digest
from holdfast.storage.records import CheckpointRow, Edit, Move, Operation, SessionRow

_PREFIX = b"holdfast operation\x00"
_CHANGEABLE = ("prev", "skipped", "hidden", "tags", "pinned", "edited_message", "added_metadata")


def edit(row: CheckpointRow, **changes: Any) -> Edit:
    """The edit that turns `row` into the same row with `changes`."""
    values = {name: getattr(row, name) for name in _CHANGEABLE} | changes
    return Edit(id=row.id, **values)


def operation(
    session: SessionRow,
    kind: str,
    at: int,
    *,
    edits: Sequence[tuple[CheckpointRow, Edit]] = (),
    moves: Sequence[Move] = (),
) -> Operation:
    """The next entry of the session's log, for these edits (with the rows they change) and moves."""
    data: dict[str, Any] = {"edits": [_changed(row, new) for row, new in edits]}
    if moves:
        data["moves"] = [{"branch": m.branch, "from": _text(m.expected), "to": _text(m.head)} for m in moves]
    entry = Operation(
        session=session.id,
        number=session.log_count + 1,
        kind=kind,
        at=at,
        data=jsontext.dump(data),
        previous=session.log_tip,
        hash=b"",
    )
    return entry._replace(hash=_hash(entry))


def check_chain(session: SessionRow, entries: Sequence[Operation]) -> None:
    """Raise IntegrityError unless `entries` are the whole log of `session`, unchanged and in order."""
    previous = b""
    for number, entry in enumerate(entries, start=1):
        if entry.number != number or entry.previous != previous or entry.hash != _hash(entry):
            raise _broken(session, f"entry {number} does not follow from the one before")
        previous = entry.hash
    if len(entries) != session.log_count or previous != session.log_tip:
        raise _broken(session, f"it has {len(entries)} entries and {session.log_count} were written")


def _hash(entry: Operation) -> bytes:
    body = ormsgpack.packb([entry.session, entry.number, entry.kind, entry.at, entry.data])
    return digest(_PREFIX + entry.previous + body)


def _broken(session: SessionRow, why: str) -> IntegrityError:
    return IntegrityError.row_damaged(f"the operation log of session {session.id!r}", why=why)


def _changed(row: CheckpointRow, new: Edit) -> dict[str, Any]:
    before, after = {}, {}
    for name in _CHANGEABLE:
        old_value, new_value = getattr(row, name), getattr(new, name)
        if old_value != new_value:
            before[name], after[name] = _plain(old_value), _plain(new_value)
    return {"checkpoint": row.id.hex(), "before": before, "after": after}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return list(value) if isinstance(value, tuple) else value


def _text(head: bytes | None) -> str | None:
    return head.hex() if head else None
