"""What reversing an operation changes: its edits and moves backwards, and what it made hidden.

Nothing that came since is lost by it. A row that is not as the operation left it, a branch that moved on, a checkpoint
that somebody saved on: each stops the reversal with an error that names what moved. Only a removal is more patient: its
checkpoints come back even if the branch went on without them, and the branch stays where it is.

Links are not taken from the log but worked out: checkpoints may have come in between that follow what was removed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from holdfast.errors import ConflictError, ErrorCode, NotFoundError
from holdfast.history import jsontext
from holdfast.history.oplog import Recorded, edit, recorded
from holdfast.history.undoing import REMOVALS
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


class Reversal(NamedTuple):
    """What one undo or redo writes."""

    edits: Sequence[tuple[CheckpointRow, Edit]]
    moves: Sequence[Move]
    switch_to: str | None


class Subject(NamedTuple):
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

    def _links(self) -> dict[CheckpointId, tuple[CheckpointId | None, int]]:
        """Where the rows lead that are affected, hidden ones too."""
        first = min(self._row(each).seq for each in (*self._shown, *self._hidden))
        # A child always is younger than what it follows: the rows before need not be read.
        rows = self._reader.checkpoints(
            Query(session=self._session.id, after_seq=first - 1, include_hidden=True)
        )
        self._rows.update((row.id, row) for row in rows)
        known = {each.checkpoint for each in self._data.edits} | self._hidden
        for row in rows:
            if row.prev in self._hidden and not row.hidden and row.id not in known:
                self._block(
                    f"{_name(row)} was saved on it since",
                    f"s.restore('#{row.seq}') and s.fork('#{row.seq}') go on from there",
                    checkpoint=row.id.hex(),
                )
        links = relink(rows, shown=self._shown, hidden=self._hidden, told=self._told())
        return {row.id: links[row.id] for row in rows if links[row.id] != (row.prev, row.skipped)}

    def _told(self) -> dict[CheckpointId, tuple[CheckpointId | None, int]]:
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
                raise NotFoundError(
                    f"{self._subject.summary} cannot be {_done(self._subject.verb)}: "
                    f"checkpoint {checkpoint.hex()[:12]} is no longer in the store",
                    code=ErrorCode.UNDO_GONE,
                    hint="retention or gc removed it for good; a backup from before may have it",
                    session=self._session.id,
                    checkpoint=checkpoint.hex(),
                )
            self._rows[checkpoint] = row
        return self._rows[checkpoint]

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


def relink(
    rows: Sequence[CheckpointRow],
    *,
    shown: Collection[CheckpointId],
    hidden: Collection[CheckpointId],
    told: Mapping[CheckpointId, tuple[CheckpointId | None, int]] | None = None,
) -> Mapping[CheckpointId, tuple[CheckpointId | None, int]]:
    """Where each row leads once some are shown and some are hidden: `prev` and `skipped`.

    `rows` has those that change and all that are younger. An older one is not affected, and neither is where it leads.
    `told` has where rows led that the entry changed: where the parent is gone for good, nothing else knows.
    """
    known = {row.id: row for row in rows}

    def stays(checkpoint: CheckpointId) -> bool:
        return checkpoint in shown or not (checkpoint in hidden or known[checkpoint].hidden)

    links: dict[CheckpointId, tuple[CheckpointId | None, int]] = {}
    # Oldest first: where a parent leads is known before its children are looked at.
    for row in sorted(rows, key=lambda row: row.seq):
        parent = row.parents[0] if row.parents else None
        if parent in known:
            beyond, more = links[parent]
            links[row.id] = (parent, 0) if stays(parent) else (beyond, more + 1)
        elif told and row.id in told:
            links[row.id] = told[row.id]
        elif row.prev in known and not stays(row.prev):
            # The parent is gone for good, and so is the way between: count on from what the row knows itself.
            beyond, more = links[row.prev]
            links[row.id] = beyond, row.skipped + 1 + more
        else:
            links[row.id] = row.prev, row.skipped
    return links


def _name(row: CheckpointRow) -> str:
    return f"#{row.seq}"


def _done(verb: str) -> str:
    return "undone" if verb == "undo" else "redone"
