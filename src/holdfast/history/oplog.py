"""The operation log: every change to history that is not itself a checkpoint, as one hash chain per session.

An entry says what changed from what to what, for rows and for branches, so that it can be undone by applying it
backwards. Each entry's hash covers the one before, and the session row holds the number and the hash of the newest: a
changed, missing or reordered entry shows. It shows damage; it is no proof against somebody who can rewrite the store.

Automatic retention removes something with nearly every save. So that the log does not grow with the saves, a run of
such removals has one entry, `retire`, which names nothing: none of them can be undone.

The data of an entry is a JSON object:

    edits   [{checkpoint, before, after}]   rows that changed, and what of them
    moves   [{branch, from, to}]            heads; null where there was none, or is none
    made    [checkpoint]                    checkpoints that the operation wrote itself
    of      number                          the entry that an undo or redo reverses
    switch  {from, to}                      the current branch of the session
    seq     number                          the newest checkpoint when it was planned

What an entry has none of is left out, but for `edits` and `seq`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ormsgpack

from holdfast.errors import IntegrityError
from holdfast.history import jsontext
from holdfast.objects.hashing import digest
from holdfast.record import Record
from holdfast.storage.records import CheckpointId, CheckpointRow, Edit, Move, Operation, SessionRow

_PREFIX = b"holdfast operation\x00"
FROM_SESSION = "from_session"
"""In the metadata of a merge: the session that it merged from, where that was another one."""
_CHANGEABLE = ("prev", "skipped", "hidden", "tags", "pinned", "edited_message", "added_metadata")


class Edited(Record):
    """How an entry says that a row was changed: the fields that became others, and nothing else."""

    checkpoint: CheckpointId
    before: Mapping[str, Any]
    after: Mapping[str, Any]


class Recorded(Record):
    """The data of an entry."""

    edits: Sequence[Edited]
    moves: Sequence[Move]
    made: Sequence[CheckpointId]
    of: int | None
    switch: tuple[str, str] | None
    """The current branch before and after."""
    seq: int

    @property
    def removed(self) -> int:
        """How many checkpoints it took out of history."""
        return sum(bool(each.after.get("hidden")) for each in self.edits)


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
    made: Sequence[CheckpointRow] = (),
    of: int | None = None,
    switch: tuple[str, str] | None = None,
) -> Operation:
    """The next entry of the session's log, for these edits (with the rows they change), moves and the rest."""
    data: dict[str, Any] = {"edits": [_changed(row, new) for row, new in edits]}
    if moves:
        data["moves"] = [
            {"branch": each.branch, "from": _text(each.expected), "to": _text(each.head)} for each in moves
        ]
    if made:
        data["made"] = [each.id.hex() for each in made]
    if of is not None:
        data["of"] = of
    if switch is not None:
        data["switch"] = {"from": switch[0], "to": switch[1]}
    data["seq"] = session.last_seq
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


def recorded(entry: Operation) -> Recorded:
    """Read the data of an entry.

    Raises:
        IntegrityError: It is not what was written.
    """
    if entry.hash != _hash(entry):
        raise _broken(entry.session, f"entry {entry.number} does not fit its own hash")
    data = jsontext.parse(entry.data)
    switch = data.get("switch")
    return Recorded(
        edits=[
            Edited(_id(each["checkpoint"]), _fields(each["before"]), _fields(each["after"]))
            for each in data["edits"]
        ],
        moves=[
            Move(each["branch"], _head(each["from"]), _head(each["to"])) for each in data.get("moves", ())
        ],
        made=[_id(each) for each in data.get("made", ())],
        of=data.get("of"),
        switch=None if switch is None else (switch["from"], switch["to"]),
        seq=data.get("seq", 0),
    )


def check_chain(session: SessionRow, entries: Sequence[Operation]) -> None:
    """Raise IntegrityError unless `entries` are the whole log of `session`, unchanged and in order."""
    # What was before a `forget` went with it, on purpose; what was before a `repair` was no longer readable.
    cut = bool(entries) and entries[0].kind in ("forget", "repair")
    number, previous = (entries[0].number, entries[0].previous) if cut else (1, b"")
    for entry in entries:
        if entry.hash != _hash(entry) or (entry.number, entry.previous) != (number, previous):
            raise _broken(session.id, f"entry {number} does not follow from the one before")
        number, previous = entry.number + 1, entry.hash
    if number - 1 != session.log_count or previous != session.log_tip:
        raise _broken(session.id, f"it ends with entry {number - 1} and {session.log_count} were written")


def without_strays(session: SessionRow, entries: Sequence[Operation]) -> list[Operation]:
    """Those of `entries` that lead to the newest one of the log: others had gone, and damage brought them back."""
    by_hash = {entry.hash: entry for entry in entries}
    found: list[Operation] = []
    entry = by_hash.pop(session.log_tip, None)
    while entry is not None:
        found.append(entry)
        # What was before it is not to come back, even where it is all there.
        entry = None if entry.kind == "forget" else by_hash.pop(entry.previous, None)
    return found[::-1]


def _hash(entry: Operation) -> bytes:
    body = ormsgpack.packb([entry.session, entry.number, entry.kind, entry.at, entry.data])
    return digest(_PREFIX + entry.previous + body)


def _broken(session: str, why: str) -> IntegrityError:
    return IntegrityError.row_damaged(f"the operation log of session {session!r}", why=why)


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


def _id(text: str) -> CheckpointId:
    return CheckpointId(bytes.fromhex(text))


def _head(text: str | None) -> CheckpointId | None:
    return None if text is None else _id(text)


def _fields(plain: dict[str, Any]) -> dict[str, Any]:
    """The fields of a row as they are in a row; the other way round than `_plain`."""
    fields = dict(plain)
    if "prev" in fields:
        fields["prev"] = _head(fields["prev"])
    if "tags" in fields:
        fields["tags"] = tuple(fields["tags"])
    return fields
