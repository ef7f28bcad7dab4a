"""Which operation an undo takes back, and which one a redo brings again.

Undo and redo are entries of the operation log themselves, each with the number of the entry that it reverses, so the
log alone says what can be undone: two stacks that are never stored. An operation goes onto the stack of what can be
undone and empties the other one. An undo takes the top off and goes onto the stack of what can be redone; a redo takes
that off, and is an operation again. What was on a stack before an entry is what is on it once that entry has been
reversed, so that walking back from the end of the log, and jumping over what was reversed, finds the top.

Automatic retention and gc are nothing that people take back: they are passed over, and an operation is blocked only
where they removed what it would bring back. After forget, what lies before cannot be brought back; nor after a repair,
which took out what was damaged.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.errors import ErrorCode, IntegrityError, NotFoundError
from holdfast.history.oplog import recorded
from holdfast.history.unresolved import time_text
from holdfast.storage.ports import Reader
from holdfast.storage.records import Operation, Query, SessionRow

_PASSED_OVER = frozenset({"retire", "gc"})
_ENDS = frozenset({"forget", "repair"})
REMOVALS = frozenset({"delete", "clear", "prune"})

_PAGE = 32
"""Entries read at first; twice as many each time that is not enough."""


class Log:
    """The operation log of a session, read from its end and only as far back as it is asked for."""

    def __init__(self, reader: Reader, session: SessionRow) -> None:
        self._reader = reader
        self.session = session
        self._entries: dict[int, Operation] = {}
        self._from = session.log_count + 1
        self._page = _PAGE

    def entry(self, number: int) -> Operation:
        """The entry of that number; one that `forget` took away is told from one that is missing."""
        while number < self._from and self._from > 1:
            self._from = max(1, self._from - self._page)
            self._page *= 2
            found = self._reader.operations(self.session.id, after=self._from - 1)
            self._entries = {each.number: each for each in found}
        if number in self._entries:
            return self._entries[number]
        raise IntegrityError.row_damaged(
            f"the operation log of session {self.session.id!r}", why=f"entry {number} is not in the store"
        )

    def backwards(self) -> Iterator[Operation]:
        """All entries that are there, newest first."""
        number = self.session.log_count
        while number > 0:
            entry = self.entry(number)
            yield entry
            if entry.kind == "forget" or (entry.kind == "repair" and not self._has(number - 1)):
                # What was before went with it, or was no longer readable.
                return
            number = self.before(entry)

    def before(self, entry: Operation) -> int:
        """The number of the entry before; those whose place a retire took are not there. 0 before the first."""
        replaces = recorded(entry).replaces if entry.kind == "retire" else None
        if replaces is None:
            return entry.number - 1
        if not 0 < replaces < entry.number:
            raise IntegrityError.row_damaged(
                f"the operation log of session {self.session.id!r}",
                why=f"entry {entry.number} does not say what it took the place of",
            )
        return replaces - 1

    def instead_of_undo(self) -> str:
        """What to do about a save, which is no operation."""
        if len(self._reader.checkpoints(Query(session=self.session.id, limit=2))) < 2:
            return "saves are not undone: s.delete('@') removes the newest one"
        return (
            "saves are not undone: s.restore('@-') goes back before the newest one, s.delete('@') removes it"
        )

    def _has(self, number: int) -> bool:
        found = self._reader.operations(self.session.id, after=number - 1)
        return bool(found) and found[0].number == number

    def reversed_by(self, entry: Operation) -> int:
        """The number of the entry that an undo or redo reverses; always an earlier one."""
        of = recorded(entry).of
        if of is None or not 0 < of < entry.number:
            raise IntegrityError.row_damaged(
                f"the operation log of session {self.session.id!r}",
                why=f"entry {entry.number} does not say what it reverses",
            )
        return of

    def origin(self, entry: Operation) -> Operation:
        """What people did in the first place: an undo or redo is about an operation, however often it came and went."""
        while entry.kind in ("undo", "redo"):
            entry = self.entry(self.reversed_by(entry))
        return entry


def undoable(log: Log) -> Iterator[Operation]:
    """The operations that can be undone, one after the other; a forget ends it, as the last one given."""
    number = log.session.log_count
    while number > 0:
        entry = log.entry(number)
        if entry.kind == "undo":
            number = log.reversed_by(entry) - 1
            continue
        if entry.kind not in _PASSED_OVER:
            yield entry
        if entry.kind in _ENDS:
            return
        number = log.before(entry)


def next_undo(log: Log) -> Operation:
    """The operation that the next undo reverses.

    Raises:
        NotFoundError: There is none (`nothing-to-undo`), or it lies before a forget (`undo-gone`).
    """
    entry = next(undoable(log), None)
    if entry is None:
        raise NotFoundError(
            f"session {log.session.id!r} has no operation that can be undone",
            code=ErrorCode.NOTHING_TO_UNDO,
            hint=log.instead_of_undo(),
            session=log.session.id,
        )
    if entry.kind in _ENDS:
        raise _gone(log, entry)
    return entry


def next_redo(log: Log) -> Operation:
    """The undo that the next redo reverses.

    Raises:
        NotFoundError: There is none (`nothing-to-redo`).
    """
    number = log.session.log_count
    while number > 0:
        entry = log.entry(number)
        if entry.kind == "undo":
            return entry
        if entry.kind == "redo":
            number = log.reversed_by(entry) - 1
            continue
        if entry.kind not in _PASSED_OVER:
            break
        number = log.before(entry)
    raise NotFoundError(
        f"session {log.session.id!r} has nothing to redo",
        code=ErrorCode.NOTHING_TO_REDO,
        hint="redo brings back what the last undo took, until something else is done; s.operations() lists what was",
        session=log.session.id,
    )


def _gone(log: Log, end: Operation) -> NotFoundError:
    return NotFoundError(
        f"{end.kind} at {time_text(end.at)} removed what this would bring back",
        code=ErrorCode.UNDO_GONE,
        hint="a backup from before may have it; s.operations() shows what was done since",
        session=log.session.id,
        at=time_text(end.at),
    )
