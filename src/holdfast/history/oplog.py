"""The operation log: every change to history that is not itself a checkpoint, as one hash chain per session.

An entry says what changed from what to what, for rows and for branches, so that it can be undone by applying it
backwards. Each entry's hash covers the one before, and the session row holds the number and the hash of the newest: a
changed, missing or reordered entry shows. It shows damage; it is no proof against somebody who can rewrite the store.

Automatic retention has something to say with each save. So that the log does not grow with the saves, a `retire` takes
the place of those right before it: it says from which number on (`replaces`) and what the entry before those was
(`since`), and the chain goes on from there. Its `previous` is the entry that it followed when it was written, which is
among those that went.

The data of an entry is a JSON object:

    edits   [{checkpoint, before, after}]   rows that changed, and what of them
    moves   [{branch, from, to}]            heads; null where there was none, or is none
    made    [checkpoint]                    checkpoints that the operation wrote itself
    merged  {checkpoint, session}           what a merge brought in, and whose it was
    of      number                          the entry that an undo or redo reverses
    switch  {from, to}                      the branch that people are on
    retired number                          checkpoints that went, by it and by those whose place it took
    replaces number                         the first entry whose place it took
    since   hash                            of the entry before that one; "" if there was none
    seq     number                          the newest checkpoint when it was worked out

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
    """The branch people were on, and the one they are on since."""
    seq: int
    replaces: int | None = None
    """The first entry whose place it took."""
    since: bytes = b""
    """The hash of the entry before that one."""
    retired: int = 0
    """Checkpoints that went, where it does not name them."""
    merged: tuple[CheckpointId, str] | None = None
    """What a merge brought in, and the session that it is of."""

    @property
    def removed(self) -> int:
        """How many checkpoints it took out of history."""
        return self.retired + sum(bool(each.after.get("hidden")) for each in self.edits)


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
        data["moves"] = _moved(moves)
    if made:
        data["made"] = [each.id.hex() for each in made]
    for each in made:
        if len(each.parents) > 1:
            data["merged"] = _merged(each)
    if of is not None:
        data["of"] = of
    if switch is not None:
        data["switch"] = {"from": switch[0], "to": switch[1]}
    return _entry(session, kind, at, data)


def retirement(
    session: SessionRow,
    at: int,
    newest: Operation | None,
    *,
    edits: Sequence[tuple[CheckpointRow, Edit]],
    moves: Sequence[Move],
) -> tuple[Operation, int]:
    """The next entry, for checkpoints that automatic retention removed, and from which number on to cut the log for it.

    Args:
        session: Whose log it is.
        at: When.
        newest: The newest entry that is in the log.
        edits: The checkpoints that go, each with the edit that hides it.
        moves: The heads that move.
    """
    # An entry that is not the tip, or not what was written, is a trace of damage: it stays for `check_chain` to see.
    whole = newest is not None and newest.hash == session.log_tip == _hash(newest)
    if newest is None or not whole or newest.kind != "retire":
        return operation(session, "retire", at, edits=edits, moves=moves), 0
    run = recorded(newest)
    first, since = (newest.number, newest.previous) if run.replaces is None else (run.replaces, run.since)
    # A count instead of names: with names the entry would grow with each save, as the log would without it.
    data: dict[str, Any] = {"edits": []}
    if moves:
        data["moves"] = _moved(moves)
    data |= {"retired": run.removed + len(edits), "replaces": first, "since": since.hex()}
    return _entry(session, "retire", at, data), first


def _entry(session: SessionRow, kind: str, at: int, data: dict[str, Any]) -> Operation:
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
    switch, merged = data.get("switch"), data.get("merged")
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
        replaces=data.get("replaces"),
        since=bytes.fromhex(data.get("since", "")),
        retired=data.get("retired", 0),
        merged=None if merged is None else (_id(merged["checkpoint"]), merged["session"]),
    )


def check_chain(session: SessionRow, entries: Sequence[Operation]) -> None:
    """Raise IntegrityError unless `entries` are the whole log of `session`, unchanged and in order."""
    # What was before a `forget` went with it, on purpose; what was before a `repair` was no longer readable.
    cut = bool(entries) and entries[0].kind in ("forget", "repair")
    number, previous = (entries[0].number, entries[0].previous) if cut else (1, b"")
    for entry in entries:
        if entry.hash != _hash(entry) or not _follows(entry, number, previous):
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
        data = jsontext.parse(entry.data) if entry.kind == "retire" and entry.hash == _hash(entry) else {}
        before = bytes.fromhex(data["since"]) if "replaces" in data else entry.previous
        # What was before it is not to come back, even where it is all there.
        entry = None if entry.kind == "forget" else by_hash.pop(before, None)
    return found[::-1]


def _follows(entry: Operation, number: int, previous: bytes) -> bool:
    """Whether an entry that fits its own hash is the one to expect: of that number, after the one of that hash."""
    data = jsontext.parse(entry.data) if entry.kind == "retire" else {}
    if "replaces" in data:
        # What it took the place of has to be gone, all of it and nothing else.
        return bool(data["replaces"] == number < entry.number and data.get("since") == previous.hex())
    return entry.number == number and entry.previous == previous


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


def _merged(made: CheckpointRow) -> dict[str, str]:
    session = jsontext.parse(made.metadata).get(FROM_SESSION, made.session)
    return {"checkpoint": made.parents[1].hex(), "session": session}


def _moved(moves: Sequence[Move]) -> list[dict[str, Any]]:
    return [{"branch": m.branch, "from": _text(m.expected), "to": _text(m.head)} for m in moves]


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
