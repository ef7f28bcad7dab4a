"""The merge base: the nearest checkpoints that two lines of history have in common.

Every parent counts here, not only the one that a walk follows: after a merge, what was merged is an ancestor too, so
that the next merge of the same branch begins where the last one ended. A checkpoint that was removed counts for as long
as its row is there. A line that began as a fork into another session goes on there.

A child is always younger than its parents (the writer sees to that), so going from the youngest to the oldest reaches a
checkpoint only after all that come from it. One that both lines reach is a base, and all that comes before it is not.
Nearly always there is one; branches that were merged into each other crosswise may have several.

Where rows are gone for good, the walk goes on with `prev`. Retention and prune keep every checkpoint that two lines
lead to, so what they remove is no base. A person may delete or forget one. So the base is not exact where both lines
name the same missing parent; and where something is missing on one line, at a time that the other line reaches back to,
and the log says that somebody deleted or forgot something. A merge that asks once too often is better than one that
takes work back without a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Query

_PAGE = 256
_OURS, _THEIRS, _BEFORE = 1, 2, 4
_BOTH = _OURS | _THEIRS
_BY_HAND = frozenset({"delete", "clear", "forget", "repair", "drop", "import"})


class MergeBase(Record):
    """Where two lines met last."""

    rows: tuple[CheckpointRow, ...]
    """The youngest first."""
    exact: bool
    """Whether nothing nearer is known to be gone for good."""


def find_merge_base(reader: Reader, ours: CheckpointRow, theirs: CheckpointRow) -> MergeBase | None:
    """The nearest checkpoints that are ancestors of both, or one of them; None where there is none."""
    rows = _Rows(reader)
    marks = {ours.id: _OURS}
    marks[theirs.id] = marks.get(theirs.id, 0) | _THEIRS
    queue: list[tuple[int, bytes, CheckpointRow]] = []
    for row in {ours.id: ours, theirs.id: theirs}.values():
        heappush(queue, _youngest_first(row))
    found: dict[CheckpointId, CheckpointRow] = {}
    missing: dict[CheckpointId, int] = {}
    gaps: list[tuple[int, int, bool]] = []
    reach = {_OURS: ours.created_at, _THEIRS: theirs.created_at}
    """How far back each line is one of its own."""
    sessions = {ours.session, theirs.session}
    while any(not marks[row.id] & _BEFORE for _, _, row in queue):
        row = heappop(queue)[2]
        mark = marks[row.id]
        sessions.add(row.session)
        if mark == _BOTH:
            found[row.id] = row
            mark |= _BEFORE
        if mark in reach:
            reach[mark] = min(reach[mark], row.created_at)
            for parent in rows.missing(row):
                missing[parent] = missing.get(parent, 0) | mark
                gaps.append((mark, row.created_at, parent != row.parents[0]))
                reach[mark] = min([reach[mark], *(each.created_at for each in rows.parents(row))])
        for parent_row in rows.parents(row):
            before = marks.get(parent_row.id, 0)
            if before | mark != before:
                marks[parent_row.id] = before | mark
                heappush(queue, _youngest_first(parent_row))
    bases = tuple(row for row in found.values() if not marks[row.id] & _BEFORE)
    if not bases:
        return None
    # What is older than the gap may have been in it, if it is of the other line.
    open_gaps = [is_merged for mark, at, is_merged in gaps if reach[_BOTH - mark] < at]
    lost = _BOTH in missing.values() or any(open_gaps) or (bool(open_gaps) and _deleted(reader, sessions))
    # Where one side is the base, all that both have in common is before it, whatever is gone.
    return MergeBase(bases, exact=not lost or bases[0].id in (ours.id, theirs.id))


def _deleted(reader: Reader, sessions: Iterable[str]) -> bool:
    """Whether somebody removed something by hand; what retention and prune remove is no base."""
    return any(entry.kind in _BY_HAND for each in sessions for entry in reader.operations(each))


def _youngest_first(row: CheckpointRow) -> tuple[int, bytes, CheckpointRow]:
    # Of two of the same moment, the greater id: any order does, as long as it is always the same.
    return -row.created_at, bytes(255 - each for each in row.id), row


class _Rows:
    """Rows by id, read in pages: a parent is nearly always one of those right before its child."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[CheckpointId, CheckpointRow | None] = {}
        self._read: list[tuple[str, int, int]] = []

    def missing(self, row: CheckpointRow) -> list[CheckpointId]:
        """The parents of a row that are gone for good."""
        return [each for each in row.parents if self._get(each, row) is None]

    def parents(self, row: CheckpointRow) -> list[CheckpointRow]:
        """What a row was made from, as far as it is there, removed or not; `prev` in place of a first parent."""
        found = [self._get(each, row) for each in row.parents]
        if found and found[0] is None and row.prev is not None:
            found[0] = self._get(row.prev, row)
        return [each for each in found if each is not None]

    def _get(self, wanted: CheckpointId, child: CheckpointRow) -> CheckpointRow | None:
        """The row of an id, removed or not; None where it is gone for good."""
        if wanted not in self._known and not any(
            session == child.session and low <= child.seq <= high for session, low, high in self._read
        ):
            query = Query(session=child.session, before_seq=child.seq, include_hidden=True, limit=_PAGE)
            page = self._reader.checkpoints(query)
            self._read.append((child.session, page[-1].seq if page else child.seq, child.seq))
            self._known.update((each.id, each) for each in page)
        if wanted not in self._known:
            self._known[wanted] = self._reader.checkpoint(wanted)
        return self._known[wanted]
