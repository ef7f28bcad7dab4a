"""Undo and redo: which entry of the operation log comes next, what reversing it changes, and what to call it.

Undo and redo are entries of the log themselves, each with the number of the entry that it reverses, so the log alone
says what can be undone: two stacks that are never stored. An operation goes onto the stack of what can be undone and
empties the other one. An undo takes the top off and goes onto the stack of what can be redone. Walking back from the
end of the log, and jumping over what was reversed, finds the top of either.

Reversing applies an entry backwards. Every field that it changed must still be as it left it, or the reversal stops
with an error that names what moved: nothing that came since is lost. Only a removal is more patient: its checkpoints
come back even if their branch went on without them, and the branch stays where it is. A row that was saved in between
on something that comes back is linked to it.

Automatic retention and gc are not undone: they are passed over, and an operation is blocked only where they removed
what it would bring back. Nothing before a forget or a repair can be brought back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from holdfast.errors import ConflictError, ErrorCode, IntegrityError, NotFoundError
from holdfast.history import jsontext
from holdfast.history.oplog import Recorded, edit, recorded
from holdfast.history.refs import time_text
from holdfast.history.removal import links_past
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Edit, Move, Operation, Query, SessionRow

_PASSED_OVER = frozenset({"retire", "gc"})
_ENDS = frozenset({"forget", "repair"})
_REMOVALS = frozenset({"delete", "clear", "prune"})
_LINKS = frozenset({"prev", "skipped"})
_PAGE = 64


class Log:
    """The operation log of a session, read from its end in pages."""

    def __init__(self, reader: Reader, session: SessionRow) -> None:
        self._reader = reader
        self.session = session
        self._entries: dict[int, Operation] = {}
        self._from = session.log_count + 1

    def entry(self, number: int) -> Operation:
        """The entry of that number."""
        while number < self._from and self._from > 1:
            # Twice as far back each time.
            self._from = max(1, 2 * self._from - self.session.log_count - _PAGE)
            found = self._reader.operations(self.session.id, after=self._from - 1)
            self._entries = {each.number: each for each in found}
        if number not in self._entries:
            raise self._damaged(f"entry {number} is not in the store")
        return self._entries[number]

    def backwards(self) -> Iterator[Operation]:
        """All entries that are there, newest first."""
        for number in range(self.session.log_count, 0, -1):
            entry = self.entry(number)
            yield entry
            if entry.kind == "forget" or (entry.kind == "repair" and not self._has(number - 1)):
                # What was before went with it, or was no longer readable.
                return

    def reversed_by(self, entry: Operation) -> int:
        """The number of the entry that an undo or redo reverses; always an earlier one."""
        of = recorded(entry).of
        if of is None or not 0 < of < entry.number:
            raise self._damaged(f"entry {entry.number} does not say what it reverses")
        return of

    def origin(self, entry: Operation) -> Operation:
        """The operation that was undone and redone, however often."""
        while entry.kind in ("undo", "redo"):
            entry = self.entry(self.reversed_by(entry))
        return entry

    def undoable(self) -> Iterator[Operation]:
        """What can be undone, one after the other; a forget or repair ends it, as the last one given."""
        number = self.session.log_count
        while number > 0:
            entry = self.entry(number)
            if entry.kind == "undo":
                number = self.reversed_by(entry) - 1
                continue
            if entry.kind not in _PASSED_OVER:
                yield entry
            if entry.kind in _ENDS:
                return
            number -= 1

    def next_undo(self) -> Operation:
        """The operation that the next undo reverses.

        Raises:
            NotFoundError: There is none (`nothing-to-undo`), or it lies before a forget (`undo-gone`).
        """
        entry = next(self.undoable(), None)
        session = self.session.id
        if entry is None:
            hint = "saves are not undone: s.delete('@') removes the newest one"
            if len(self._reader.checkpoints(Query(session=session, limit=2))) == 2:
                hint += ", s.restore('@-') goes back before it"
            raise NotFoundError(
                f"session {session!r} has no operation that can be undone",
                code=ErrorCode.NOTHING_TO_UNDO,
                hint=hint,
                session=session,
            )
        if entry.kind in _ENDS:
            raise NotFoundError(
                f"{entry.kind} at {time_text(entry.at)} removed what this would bring back",
                code=ErrorCode.UNDO_GONE,
                hint="a backup from before may have it; s.operations() shows what was done since",
                session=session,
                at=time_text(entry.at),
            )
        return entry

    def next_redo(self) -> Operation:
        """The undo that the next redo reverses.

        Raises:
            NotFoundError: There is none (`nothing-to-redo`).
        """
        number = self.session.log_count
        while number > 0:
            entry = self.entry(number)
            if entry.kind == "undo":
                return entry
            if entry.kind == "redo":
                number = self.reversed_by(entry) - 1
            elif entry.kind in _PASSED_OVER:
                number -= 1
            else:
                break
        raise NotFoundError(
            f"session {self.session.id!r} has nothing to redo",
            code=ErrorCode.NOTHING_TO_REDO,
            hint="redo brings back what the last undo took, until something else is done; s.operations() lists that",
            session=self.session.id,
        )

    def _has(self, number: int) -> bool:
        found = self._reader.operations(self.session.id, after=number - 1)
        return bool(found) and found[0].number == number

    def _damaged(self, why: str) -> IntegrityError:
        return IntegrityError.row_damaged(f"the operation log of session {self.session.id!r}", why=why)


class Reversal(Record):
    """What one undo or redo writes."""

    edits: Sequence[tuple[CheckpointRow, Edit]]
    moves: Sequence[Move]
    switch_to: str | None


class Subject(Record):
    """What is to be reversed, and how to speak of it."""

    entry: Operation
    kind: str
    """The kind of the operation that was undone and redone."""
    summary: str
    verb: str
    """`undo` or `redo`."""


def plan_reversal(reader: Reader, session: SessionRow, subject: Subject) -> Reversal:
    """Plan the reversal of an entry as the next entry of the log.

    Raises:
        ConflictError: Something is not as the entry left it (`undo-blocked`).
        NotFoundError: Something that it would bring back is gone for good (`undo-gone`).
    """
    return _Reverse(reader, session, subject).plan()


class _Reverse:
    """One reversal, planned from one view."""

    def __init__(self, reader: Reader, session: SessionRow, subject: Subject) -> None:
        self._reader = reader
        self._session = session
        self._subject = subject
        self._data: Recorded = recorded(subject.entry)
        self._shown = {each.checkpoint for each in self._data.edits if each.after.get("hidden")}
        """What comes back."""
        self._hidden = {each.checkpoint for each in self._data.edits if each.before.get("hidden")}
        """What goes."""
        self._hidden |= set(self._data.made)
        self._rows: dict[CheckpointId, CheckpointRow] = {}

    def plan(self) -> Reversal:
        changes = self._recorded_changes()
        moves = self._moves()
        changes |= self._links_past_what_goes(changes)
        changes |= self._links_to_what_comes_back(changes)
        edits = [(self._rows[each], edit(self._rows[each], **fields)) for each, fields in changes.items()]
        edits = sorted((pair for pair in edits if pair[1] != edit(pair[0])), key=lambda pair: pair[0].seq)
        return Reversal(edits, moves, self._switch())

    def _recorded_changes(self) -> dict[CheckpointId, dict[str, Any]]:
        """The fields of each row as they were before the entry; all must still be as it left them."""
        number = self._session.log_count + 1
        changes: dict[CheckpointId, dict[str, Any]] = {}
        for each in self._data.edits:
            if each.before.keys() <= _LINKS and self._reader.checkpoint(each.checkpoint) is None:
                # It was only linked to another one, and is gone itself.
                continue
            row, fields = self._row(each.checkpoint), dict(each.before)
            moved = {name for name in fields if getattr(row, name) != each.after[name]}
            if moved & _LINKS:
                # Every other change of a link is in the log, and was undone before.
                raise self._gone(f"retention removed what lies around #{row.seq}", row.id)
            if moved:
                self._block(
                    f"#{row.seq} was changed since",
                    "s.operations() lists what was done",
                    checkpoint=row.id.hex(),
                )
            if fields.get("prev") is not None and not self._will_be_there(fields["prev"]):
                raise self._gone(f"what #{row.seq} followed is no longer in the store", row.id)
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
                before = move.expected
                if before is not None and before not in self._shown and self._row(before).hidden:
                    self._block(
                        f"#{self._row(before).seq} was removed since", "s.operations() lists what was done"
                    )
                moves.append(Move(move.branch, expected=head, head=before))
            elif not (self._subject.kind in _REMOVALS and move.expected in self._shown):
                self._block_moved(move, head)
        going = {move.branch: move.head for move in moves}
        for each in self._reader.branches(self._session.id):
            if going.get(each.name, each.head) in self._hidden:
                self._block(f"branch {each.name!r} is at what would go", "s.branches() lists the branches")
        return moves

    def _switch(self) -> str | None:
        if self._data.switch is None:
            return None
        before, after = self._data.switch
        if self._session.current != after:
            self._block(
                f"branch {self._session.current!r} is the current one now", f"s.switch({before!r}) sets it"
            )
        return before

    def _links_past_what_goes(
        self, changes: dict[CheckpointId, dict[str, Any]]
    ) -> dict[CheckpointId, dict[str, Any]]:
        """Links of removed rows that follow what goes; what is there and follows it stops the reversal."""
        followers: list[CheckpointRow] = []
        for gone in self._hidden:
            query = Query(session=self._session.id, prev=gone, include_hidden=True)
            for row in self._reader.checkpoints(query):
                if row.id in changes:
                    continue
                if not row.hidden:
                    self._block(
                        f"#{row.seq} was saved on it since",
                        f"s.restore('#{row.seq}') and s.fork('#{row.seq}') go on from there",
                        checkpoint=row.id.hex(),
                    )
                self._rows[row.id] = row
                followers.append(row)
        links = links_past([*(self._row(each) for each in self._hidden), *followers], self._hidden)
        return {row.id: dict(zip(("prev", "skipped"), links[row.id], strict=True)) for row in followers}

    def _links_to_what_comes_back(
        self, changes: dict[CheckpointId, dict[str, Any]]
    ) -> dict[CheckpointId, dict[str, Any]]:
        """Links of rows that were saved on something that comes back, while it was hidden.

        Such a row leads to where its hidden parent leads. Where a parent is gone for good, nobody knows whether the
        row followed what comes back.
        """
        links: dict[CheckpointId, dict[str, Any]] = {}
        for prev in {self._row(each).prev for each in self._shown}:
            query = Query(session=self._session.id, prev=prev or CheckpointId(b""), include_hidden=True)
            for row in self._reader.checkpoints(query):
                if row.id in changes or not row.parents or not row.skipped:
                    continue
                if row.parents[0] in self._shown:
                    self._rows[row.id] = row
                    links[row.id] = {"prev": row.parents[0], "skipped": 0}
                elif self._reader.checkpoint(row.parents[0]) is None and any(
                    self._row(each).prev == prev and self._row(each).seq < row.seq for each in self._shown
                ):
                    raise self._gone(f"what #{row.seq} followed is no longer in the store", row.id)
        return links

    def _will_be_there(self, checkpoint: CheckpointId) -> bool:
        row = self._rows.get(checkpoint) or self._reader.checkpoint(checkpoint)
        return row is not None and (checkpoint in self._shown or not row.hidden)

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
        at = f"is at #{self._row(head).seq} now" if head else "is gone"
        left = f"at {_name(self._reader, move.head)}" if move.head else "removed"
        before = None if move.expected is None else self._reader.checkpoint(move.expected)
        self._block(
            f"branch {move.branch!r} {at}, and was left {left}",
            self._instead(move, before),
            branch=move.branch,
        )

    def _instead(self, move: Move, before: CheckpointRow | None) -> str:
        """What to do where a branch moved on, and cannot be put back."""
        if self._subject.verb == "redo":
            return "run it again instead: what came since stays"
        if self._subject.kind == "rename":
            new, old = sorted((each.head is None, each.branch) for each in self._data.moves)
            return f"s.rename_branch({new[1]!r}, {old[1]!r}) gives the branch its name back"
        if before is None or before.hidden:
            return (
                f"s.delete_branch({move.branch!r}, force=True) removes the branch, and leaves its checkpoints"
            )
        if self._subject.kind == "drop":
            return f"s.fork('#{before.seq}') begins a branch there again"
        return f"to go back to where it was: s.restore('#{before.seq}') (holdfast restore '#{before.seq}')"

    def _block(self, why: str, hint: str, **details: Any) -> NoReturn:
        raise ConflictError(
            f"{self._subject.summary} cannot be {_done(self._subject.verb)}: {why}",
            code=ErrorCode.UNDO_BLOCKED,
            hint=hint,
            **{"session": self._session.id, "operation": self._subject.entry.number, **details},
        )


def summary(reader: Reader, log: Log, entry: Operation) -> str:
    """One line about an entry, for people; a row that is gone for good is named by the first digits of its id."""
    kind = entry.kind
    if kind in ("undo", "redo"):
        return f"{kind} of {summary(reader, log, log.origin(entry))}"
    data = recorded(entry)
    branches = [repr(move.branch) for move in data.moves]
    what = kind
    if kind == "delete" and data.removed == 1:
        what += f" {_name(reader, next(e.checkpoint for e in data.edits if e.after.get('hidden')))}"
    elif kind in _REMOVALS:
        what += f" {data.removed} checkpoint{'' if data.removed == 1 else 's'}"
    elif data.made:
        row = reader.checkpoint(data.made[0])
        source = "" if row is None else f" {_name(reader, _source(kind, row), home=row.session)}"
        what += f"{source} on branch {branches[0]}{'' if row is None else f' as #{row.seq}'}"
    elif kind in ("annotate", "tag", "pin"):
        edited = data.edits[0]
        before, after = set(edited.before.get("tags", ())), set(edited.after.get("tags", ()))
        signs = [f" +{tag}" for tag in sorted(after - before)] + [
            f" -{tag}" for tag in sorted(before - after)
        ]
        what = "unpin" if edited.after.get("pinned") is False else kind
        what += f" {_name(reader, edited.checkpoint)}{''.join(signs)}"
    elif kind == "import":
        what += f" that moved branch {', '.join(branches)}"
    elif branches:
        what = f"{'delete' if kind == 'drop' else kind} branch {' to '.join(branches)}"
    elif data.switch is not None:
        what += f" from {data.switch[0]!r} to {data.switch[1]!r}"
    return "retire old checkpoints" if kind == "retire" else what


def _source(kind: str, row: CheckpointRow) -> CheckpointId:
    """The checkpoint that a fork, restore or merge was made of."""
    if kind == "restore":
        return CheckpointId(bytes.fromhex(jsontext.parse(row.metadata)["restored_from"]))
    return row.parents[1 if kind == "merge" else 0]


def _name(reader: Reader, checkpoint: CheckpointId, *, home: str | None = None) -> str:
    row = reader.checkpoint(checkpoint)
    if row is None:
        return checkpoint.hex()[:12]
    elsewhere = f" of session {row.session!r}" if home not in (None, row.session) else ""
    return f"#{row.seq}{elsewhere}"


def _done(verb: str) -> str:
    return "undone" if verb == "undo" else "redone"
