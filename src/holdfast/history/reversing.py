"""What reversing an operation changes: its edits and moves backwards, and what it made hidden.

Nothing that came since is lost by it. A row that is not as the operation left it, a branch that moved on, a checkpoint
that somebody saved on: each stops the reversal with an error that names what moved. Only a removal is more patient: its
checkpoints come back even if the branch went on without them, and the branch stays where it is.

Links are not taken from the log but worked out: checkpoints may have come in between that follow what was removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from holdfast.errors import ConflictError, ErrorCode, NotFoundError
from holdfast.history import jsontext
from holdfast.history.oplog import Recorded, edit, recorded
from holdfast.history.relinking import Link, rejoin, relink
from holdfast.history.undoing import REMOVALS
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import (
    CheckpointId,
    CheckpointRow,
    Edit,
    Move,
    Operation,
    Query,
    SessionRow,
)

_LINKS = frozenset({"prev", "skipped"})


class Reversal(Record):
    """What one undo or redo writes."""

    edits: Sequence[tuple[CheckpointRow, Edit]]
    moves: Sequence[Move]
    switch_to: str | None


class Subject(Record):
    """What is to be reversed, and how to speak of it."""

    entry: Operation
    kind: str
    """What people did in the first place."""
    summary: str
    verb: str
    """`undo` or `redo`."""


def plan_reversal(reader: Reader, session: SessionRow, subject: Subject) -> Reversal:
    """Work out the reversal of an entry as the next entry of the log.

    Raises:
        ConflictError: Something is not as the entry left it (`undo-blocked`).
        NotFoundError: Something that it would bring back is gone for good (`undo-gone`).
    """
    return _Planning(reader, session, subject).plan()


class _Planning:
    """One reversal, worked out from one reading."""

    def __init__(self, reader: Reader, session: SessionRow, subject: Subject) -> None:
        self._reader = reader
        self._session = session
        self._subject = subject
        self._data: Recorded = recorded(subject.entry)
        hides = {each.checkpoint for each in self._data.edits if each.after.get("hidden")}
        shows = {each.checkpoint for each in self._data.edits if each.before.get("hidden")}
        self._shown = frozenset(hides)
        """What comes back."""
        self._hidden = frozenset(shows) | frozenset(self._data.made)
        """What goes."""
        self._rows: dict[CheckpointId, CheckpointRow] = {}

    def plan(self) -> Reversal:
        changes = self._changes()
        moves = self._moves()
        if self._shown or self._hidden:
            for each, (prev, skipped) in self._links().items():
                changes.setdefault(each, {}).update(prev=prev, skipped=skipped)
        edits = [(self._rows[each], edit(self._rows[each], **fields)) for each, fields in changes.items()]
        edits = [(row, new) for row, new in edits if new != edit(row)]
        edits.sort(key=lambda pair: pair[0].seq)
        return Reversal(edits, moves, self._switch())

    def _changes(self) -> dict[CheckpointId, dict[str, Any]]:
        """The fields of each row, links aside, as they were before the entry."""
        number = self._session.log_count + 1
        changes: dict[CheckpointId, dict[str, Any]] = {}
        for each in self._data.edits:
            fields = {name: value for name, value in each.before.items() if name not in _LINKS}
            if not fields:
                continue
            row = self._row(each.checkpoint)
            if any(getattr(row, name) != each.after[name] for name in fields):
                self._block(
                    f"{_name(row)} was changed since",
                    "s.operations() lists what was done",
                    checkpoint=row.id.hex(),
                )
            if fields.get("hidden"):
                # The time in which a removal can be undone counts from this one on.
                fields["hidden"] = number
            changes[row.id] = fields
        for made in self._data.made:
            if not self._row(made).hidden:
                changes[made] = {"hidden": number}
        return changes

    def _moves(self) -> list[Move]:
        moves = []
        for move in self._data.moves:
            branch = self._reader.branch(self._session.id, move.branch)
            head = branch.head if branch else None
            if head == move.head:
                self._check_head(move.expected)
                moves.append(Move(move.branch, expected=head, head=move.expected))
            elif not (self._subject.kind in REMOVALS and move.expected in self._shown):
                self._block_moved(move, head)
        going = {move.branch: move.head for move in moves}
        for branch in self._reader.branches(self._session.id):
            if going.get(branch.name, branch.head) in self._hidden:
                self._block(f"branch {branch.name!r} is at what would go", "s.branches() lists the branches")
        return moves

    def _check_head(self, head: CheckpointId | None) -> None:
        """A branch can only go back to what is there."""
        if head is not None and head not in self._shown and self._row(head).hidden:
            self._block(f"{_name(self._row(head))} was removed since", "s.operations() lists what was done")

    def _switch(self) -> str | None:
        if self._data.switch is None:
            return None
        before, after = self._data.switch
        if self._session.current != after:
            current = self._session.current
            self._block(f"branch {current!r} is the current one now", "s.switch(name, remember=True) sets it")
        return before

    def _links(self) -> dict[CheckpointId, Link]:
        """Where the rows lead that are affected, hidden ones too."""
        rows = self._affected()
        known = {each.checkpoint for each in self._data.edits} | self._hidden
        for row in rows:
            if row.prev in self._hidden and not row.hidden and row.id not in known:
                self._block(
                    f"{_name(row)} was saved on it since",
                    f"s.restore('#{row.seq}') and s.fork('#{row.seq}') go on from there",
                    checkpoint=row.id.hex(),
                )
        links = relink(rows, shown=self._shown, hidden=self._hidden, told=self._rejoined(rows) | self._told())
        return {row.id: links[row.id] for row in rows if links[row.id] != (row.prev, row.skipped)}

    def _affected(self) -> Sequence[CheckpointRow]:
        """What changes, all that may lead elsewhere by it, and what those were saved on.

        A row, hidden or not, leads past what is hidden to the nearest one that is there. So whatever will lead to one
        that comes back now leads to where that one leads; and what led to one that goes says so itself.
        """
        leads = {self._row(each).prev or CheckpointId(b"") for each in self._shown} | self._hidden
        rows = {each: self._row(each) for each in (*self._shown, *self._hidden)}
        for prev in leads:
            query = Query(session=self._session.id, prev=prev, include_hidden=True)
            rows.update((row.id, row) for row in self._reader.checkpoints(query))
            self._add_if_there(rows, prev)
        for each in self._data.edits:
            if _LINKS & each.before.keys():
                self._add_if_there(rows, each.checkpoint)
        for row in list(rows.values()):
            if row.parents:
                self._add_if_there(rows, row.parents[0])
        self._rows.update(rows)
        return list(rows.values())

    def _add_if_there(self, rows: dict[CheckpointId, CheckpointRow], checkpoint: CheckpointId) -> None:
        row = rows.get(checkpoint) or self._rows.get(checkpoint) or self._reader.checkpoint(checkpoint)
        # A fork into a session of its own was saved on something that is no part of its history.
        if row is not None and row.session == self._session.id:
            rows[checkpoint] = row

    def _rejoined(self, rows: Sequence[CheckpointRow]) -> dict[CheckpointId, Link]:
        """Where rows lead to what comes back, of those whose own parents are gone for good."""
        followed = {
            each.before["prev"]
            for each in self._data.edits
            if each.before.get("prev") in self._shown and self._reader.checkpoint(each.checkpoint) is None
        }
        found = rejoin(rows, [self._row(each) for each in followed])
        for row, possible in found.unsure:
            numbers = " or ".join(_name(each) for each in sorted(possible, key=lambda row: row.seq))
            raise self._gone(
                f"what followed {_name(row)} is gone for good, and whether {numbers} came after it is not known",
                row.id,
            )
        return dict(found.links)

    def _told(self) -> dict[CheckpointId, Link]:
        """Where rows led before the entry, of those that it led elsewhere."""
        told = {}
        for each in self._data.edits:
            if _LINKS & each.before.keys() and each.checkpoint in self._rows:
                row = self._rows[each.checkpoint]
                prev = each.before.get("prev", row.prev)
                if prev is None or self._will_be_there(prev):
                    told[row.id] = (prev, each.before.get("skipped", row.skipped))
        return told

    def _will_be_there(self, checkpoint: CheckpointId) -> bool:
        """Whether a checkpoint is part of history after the reversal: the log may name one that was removed since."""
        if checkpoint in self._shown:
            return True
        row = self._reader.checkpoint(checkpoint)
        return row is not None and not row.hidden and checkpoint not in self._hidden

    def _row(self, checkpoint: CheckpointId) -> CheckpointRow:
        if checkpoint not in self._rows:
            row = self._reader.checkpoint(checkpoint)
            if row is None:
                raise self._gone(f"checkpoint {checkpoint.hex()[:12]} is no longer in the store", checkpoint)
            self._rows[checkpoint] = row
        return self._rows[checkpoint]

    def _gone(self, why: str, checkpoint: CheckpointId) -> NotFoundError:
        return NotFoundError(
            f"{self._subject.summary} cannot be {_done(self._subject.verb)}: {why}",
            code=ErrorCode.UNDO_GONE,
            hint="retention or gc removed it for good; a backup from before may have it",
            session=self._session.id,
            checkpoint=checkpoint.hex(),
        )

    def _block_moved(self, move: Move, head: CheckpointId | None) -> NoReturn:
        at = f"is at {_name(self._row(head))} now" if head else "is gone"
        left = f"at {self._number(move.head)}" if move.head else "removed"
        before = None if move.expected is None else self._reader.checkpoint(move.expected)
        hint = (
            self._undo_instead(move, before) if self._subject.verb == "undo" else self._redo_instead(before)
        )
        self._block(f"branch {move.branch!r} {at}, and was left {left}", hint, branch=move.branch)

    def _undo_instead(self, move: Move, before: CheckpointRow | None) -> str:
        """What to do where a branch moved on, and cannot be put back."""
        kind = self._subject.kind
        if kind == "rename":
            old = next(each.branch for each in self._data.moves if each.head is None)
            new = next(each.branch for each in self._data.moves if each.expected is None)
            return f"s.rename_branch({new!r}, {old!r}) gives the branch its name back"
        if kind == "drop" and before is not None:
            return f"s.fork('#{before.seq}') begins a branch there again"
        if before is not None and not before.hidden:
            number = f"#{before.seq}"
            return f"to go back to where it was before: s.restore('{number}') (holdfast restore '{number}')"
        return (
            f"s.delete_branch({move.branch!r}, force=True) takes the branch away, and leaves its checkpoints"
        )

    def _redo_instead(self, before: CheckpointRow | None) -> str:
        if self._subject.kind == "restore" and before is not None:
            source = CheckpointId(bytes.fromhex(jsontext.parse(before.metadata)["restored_from"]))
            number = self._number(source)
            return f"run it again instead: s.restore('{number}') (holdfast restore '{number}')"
        return "run it again instead: what came since stays"

    def _number(self, checkpoint: CheckpointId) -> str:
        row = self._reader.checkpoint(checkpoint)
        return checkpoint.hex()[:12] if row is None else f"#{row.seq}"

    def _block(self, why: str, hint: str, **details: Any) -> NoReturn:
        raise ConflictError(
            f"{self._subject.summary} cannot be {_done(self._subject.verb)}: {why}",
            code=ErrorCode.UNDO_BLOCKED,
            hint=hint,
            **{"session": self._session.id, "operation": self._subject.entry.number, **details},
        )


def _name(row: CheckpointRow) -> str:
    return f"#{row.seq}"


def _done(verb: str) -> str:
    return "undone" if verb == "undo" else "redone"
