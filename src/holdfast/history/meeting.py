"""Where two lines of history meet: the newest checkpoint that both come from.

Every parent counts here, not only the one that a walk follows: after a merge, what was merged is an ancestor too, so
that the next merge of the same branch begins where the last one ended. A checkpoint that was removed counts like any
other for as long as its row is there: with an older one in its place, what one side took back in between would look
untouched, and the other side would win without a word. A line that began as a fork into another session goes on there.

A child is always younger than its parents (the writer sees to that), so going from the youngest to the oldest meets a
checkpoint only after all that come from it. The first one that both lines have is the answer. Where branches were
merged into each other crosswise there may be several of which none comes from another; the youngest is taken, and of
two of the same moment the one with the greater id.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Query

_PAGE = 256
"""Rows read ahead, as in `walk`."""
_OURS, _THEIRS = 1, 2
_BOTH = _OURS | _THEIRS


def find_meeting(reader: Reader, ours: CheckpointRow, theirs: CheckpointRow) -> CheckpointRow | None:
    """The nearest checkpoint that is an ancestor of both, or one of them; None where there is none."""
    rows = _Rows(reader)
    lines: dict[CheckpointId, int] = {}
    waiting: list[tuple[int, bytes, CheckpointRow]] = []

    def add(row: CheckpointRow, line: int) -> None:
        if row.id not in lines:
            heappush(waiting, (-row.created_at, _falling(row.id), row))
        lines[row.id] = lines.get(row.id, 0) | line

    add(ours, _OURS)
    add(theirs, _THEIRS)
    while waiting:
        row = heappop(waiting)[2]
        line = lines[row.id]
        if line == _BOTH:
            return row
        for parent in rows.parents(row):
            add(parent, line)
    return None


class _Rows:
    """Rows by id, read in pages: a parent is nearly always one of those right before its child."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[CheckpointId, CheckpointRow] = {}
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

    def _get(self, wanted: CheckpointId, child: CheckpointRow) -> CheckpointRow | None:
        if wanted not in self._known and not self._is_read(child):
            query = Query(session=child.session, before_seq=child.seq, include_hidden=True, limit=_PAGE)
            page = self._reader.checkpoints(query)
            self._read.append((child.session, page[-1].seq if page else child.seq, child.seq))
            self._known.update((each.id, each) for each in page)
        return self._known.get(wanted) or self._reader.checkpoint(wanted)

    def _is_read(self, child: CheckpointRow) -> bool:
        """Whether a page has what comes right before: a parent that is not in it is far away, or gone."""
        return any(session == child.session and low <= child.seq <= high for session, low, high in self._read)


def _falling(checkpoint: CheckpointId) -> bytes:
    """What sorts the other way round than the id."""
    return bytes(255 - each for each in checkpoint)
