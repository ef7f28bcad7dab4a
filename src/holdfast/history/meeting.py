"""Where two lines of history meet: the checkpoints that both come from, and from which none of the others comes.

Every parent counts here, not only the one that a walk follows: after a merge, what was merged is an ancestor too, so
that the next merge of the same branch begins where the last one ended. A checkpoint that was removed counts like any
other for as long as its row is there: with an older one in its place, what one side took back in between would look
untouched, and the other side would win without a word. A line that began as a fork into another session goes on there.

A child is always younger than its parents (the writer sees to that), so going from the youngest to the oldest meets a
checkpoint only after all that come from it. One that both lines have is a meeting, and all that comes before it is not.
Nearly always there is one. Branches that were merged into each other crosswise may have several, and each of them knows
something that the others do not.

Where rows on the way are gone for good, the walk goes on with what is left before them. Whether a nearer meeting may
have gone with them is what `losses` knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from holdfast.history.losses import Gap, may_hide_a_meeting
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Query

_PAGE = 256
"""Rows read ahead, as in `walk`."""
_OURS, _THEIRS, _BEFORE = 1, 2, 4
_BOTH = _OURS | _THEIRS
_NEVER = 1 << 63
"""After every time."""


class Meeting(Record):
    """Where two lines meet."""

    rows: tuple[CheckpointRow, ...]
    """The youngest first; of two of the same moment the one with the greater id."""
    exact: bool
    """Whether these are the nearest there ever were: nothing nearer is gone for good, as far as can be told."""


def find_meeting(reader: Reader, ours: CheckpointRow, theirs: CheckpointRow) -> Meeting | None:
    """The nearest checkpoints that are ancestors of both, or one of them; None where there is none."""
    walk = _Walk(_Rows(reader))
    walk.add(ours, _OURS)
    walk.add(theirs, _THEIRS)
    met = walk.meetings()
    if not met:
        return None
    if met[0].id in (ours.id, theirs.id):
        # All that both have in common is before this one, whatever is gone.
        return Meeting(met, exact=True)
    lost = walk.shares_what_is_gone or may_hide_a_meeting(
        reader, walk.open_gaps(), walk.removed, alone=len(walk.sessions) == 1
    )
    return Meeting(met, exact=not lost)


class _Walk:
    """Two lines, walked from the youngest row to the oldest."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        self._marks: dict[CheckpointId, int] = {}
        self._gone: dict[CheckpointId, int] = {}
        self._queue: list[tuple[int, bytes, CheckpointRow]] = []
        self._waiting: set[CheckpointId] = set()
        self._undecided = 0
        """How many of those that wait are not known to come before a meeting."""
        self._gaps: list[Gap] = []
        self._reach = {_OURS: _NEVER, _THEIRS: _NEVER}
        """How far back each line is one of its own, as far as that is known."""
        self.sessions: set[str] = set()
        """Those that the lines go through."""
        self.removed: list[tuple[CheckpointRow, int]] = []
        """Rows of one line that were removed, and of which one."""

    @property
    def shares_what_is_gone(self) -> bool:
        """Whether both lines lead to a checkpoint that is gone for good: then they met there, or nearer."""
        return _BOTH in self._gone.values()

    def open_gaps(self) -> list[Gap]:
        """Those in which something of the other line can have been: what is older than the row behind the gap."""
        return [gap for gap in self._gaps if self._reach[_BOTH - gap.line] < gap.row.created_at]

    def add(self, row: CheckpointRow, mark: int) -> None:
        """Have a row looked at, as one of these lines."""
        before = self._marks.get(row.id, 0)
        after = self._marks[row.id] = before | mark
        if after == before:
            return
        if row.id not in self._waiting:
            # A second time only where clocks put a child before its parent.
            self._waiting.add(row.id)
            heappush(self._queue, (-row.created_at, _falling(row.id), row))
            self._undecided += not after & _BEFORE
        elif after & _BEFORE and not before & _BEFORE:
            self._undecided -= 1

    def meetings(self) -> tuple[CheckpointRow, ...]:
        """All of them."""
        met: dict[CheckpointId, CheckpointRow] = {}
        while self._undecided:
            row = heappop(self._queue)[2]
            self._waiting.discard(row.id)
            self.sessions.add(row.session)
            mark = self._marks[row.id]
            self._undecided -= not mark & _BEFORE
            if mark == _BOTH:
                met[row.id] = row
                mark |= _BEFORE
            for parent in self._rows.parents(row):
                self.add(parent, mark)
            if not mark & _BEFORE:
                self._note(row, mark)
        return tuple(row for row in met.values() if not self._marks[row.id] & _BEFORE)

    def _note(self, row: CheckpointRow, line: int) -> None:
        reach = row.created_at
        if row.hidden:
            self.removed.append((row, line))
        for number, parent in enumerate(row.parents):
            if self._rows.known(parent) is None:
                before = self._rows.known(row.prev) if number == 0 and row.prev is not None else None
                self._gaps.append(
                    Gap(
                        row,
                        first=number == 0,
                        line=line,
                        since=0 if before is None else before.seq,
                        # Two saves are two moments.
                        came_along=before is not None and before.stored_at == row.stored_at,
                    )
                )
                self._gone[parent] = self._gone.get(parent, 0) | line
                reach = min(reach, 0 if before is None else before.created_at)
        self._reach[line] = min(self._reach[line], reach)


class _Rows:
    """Rows by id, read in pages: a parent is nearly always one of those right before its child."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[CheckpointId, CheckpointRow | None] = {}
        self._read: list[tuple[str, int, int]] = []

    def parents(self, row: CheckpointRow) -> Iterator[CheckpointRow]:
        """What a checkpoint was made from, as far as it is still there, removed or not."""
        for number, parent in enumerate(row.parents):
            found = self._get(parent, row)
            if found is None and number == 0 and row.prev is not None:
                # The parent is gone for good; what is left before it is still known.
                found = self._get(row.prev, row)
            if found is not None:
                yield found

    def known(self, parent: CheckpointId) -> CheckpointRow | None:
        """A row that was asked for before."""
        return self._known.get(parent)

    def _get(self, wanted: CheckpointId, child: CheckpointRow) -> CheckpointRow | None:
        if wanted not in self._known and not self._is_read(child):
            query = Query(session=child.session, before_seq=child.seq, include_hidden=True, limit=_PAGE)
            page = self._reader.checkpoints(query)
            self._read.append((child.session, page[-1].seq if page else child.seq, child.seq))
            self._known.update((each.id, each) for each in page)
        if wanted not in self._known:
            self._known[wanted] = self._reader.checkpoint(wanted)
        return self._known[wanted]

    def _is_read(self, child: CheckpointRow) -> bool:
        """Whether a page has what comes right before: a parent that is not in it is far away, or gone."""
        return any(session == child.session and low <= child.seq <= high for session, low, high in self._read)


def _falling(checkpoint: CheckpointId) -> bytes:
    """What sorts the other way round than the id."""
    return bytes(255 - each for each in checkpoint)
