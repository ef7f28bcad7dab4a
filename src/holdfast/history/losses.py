"""Whether something that matters to a merge may have gone for good on the way between two checkpoints.

Most gaps are harmless. Retention leaves every checkpoint at which lines meet that stay (`crossings`), so what it took
out of the middle of a line led from one checkpoint to one other. But what lies in another session, or in an archive
that was never imported, is not seen by it; and a person may delete anything, or forget it. The operation log tells who
did what while the row behind a gap was there. Where it tells of something that can have taken a meeting away, or cannot
be read, the answer is yes: a merge that asks once too often is better than one that takes work back without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from holdfast.errors import IntegrityError
from holdfast.history import jsontext
from holdfast.history.oplog import FROM_SESSION, Recorded, recorded
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Operation


class Gap(Record):
    """A checkpoint and one of its parents, which is gone for good."""

    row: CheckpointRow
    first: bool
    """Whether it was the first parent, so that `prev` leads on."""
    line: int
    """Whose line it is on."""
    since: int
    """The number of what `prev` leads to; 0 where it leads to nothing, or nowhere. What went came after that."""
    came_along: bool
    """Whether it came into the session together with what `prev` leads to: from a copy or an archive, with the gap."""


def may_hide_a_meeting(
    reader: Reader, gaps: Iterable[Gap], removed: Iterable[tuple[CheckpointRow, int]], *, alone: bool
) -> bool:
    """Whether lines may have met where these gaps are.

    Args:
        reader: Where to look.
        gaps: All that are on one of both lines, and not on the other.
        removed: The rows that are likewise, and were removed, but not for good; and whose line they are on.
        alone: Whether both lines are in one session.
    """
    removed = list(removed)
    logs: dict[str, _Log] = {}
    for gap in gaps:
        if _was_elsewhere(gap):
            return True
        session = gap.row.session
        if session not in logs:
            try:
                logs[session] = _Log(reader, session)
            except IntegrityError:
                # A log that cannot be read says nothing in favour of anybody.
                return True
        log = logs[session]
        # A prune saw to it that lines still meet, as far as they are in its session.
        if log.tells_of_a_loss(gap) or any(
            _may_lie_in(gap, row, line) and not (alone and log.was_pruned(row)) for row, line in removed
        ):
            return True
    return False


def _was_elsewhere(gap: Gap) -> bool:
    """Whether the parent, or one before it, was not in the session, so that nobody looked after it."""
    if gap.first:
        # Where nothing is left before it, the line may have begun as a fork of another session. And what happened
        # before a copy was made, the log of the copy does not tell.
        return gap.row.prev is None or gap.came_along
    return FROM_SESSION in jsontext.parse(gap.row.metadata)


def _may_lie_in(gap: Gap, row: CheckpointRow, line: int) -> bool:
    """Whether a gap may lead past a row of the other line: `prev` leads past what was removed, and nothing else."""
    same = gap.first and line != gap.line and row.session == gap.row.session
    return same and gap.since < row.seq < gap.row.seq


class _Log:
    """What the log of a session tells."""

    def __init__(self, reader: Reader, session: str) -> None:
        self._reader = reader
        self._entries: Sequence[tuple[Operation, Recorded]] = [
            (each, recorded(each)) for each in reader.operations(session)
        ]
        self._prunes = {each.number for each, _ in self._entries if each.kind == "prune"}
        merges = [(each, data) for each, data in self._entries if each.kind == "merge"]
        self._made = {made for _, data in merges for made in data.made}
        self._merged = {data.merged[0] for _, data in merges if data.merged is not None}
        self._from_elsewhere = [
            (data.seq + 1, made)
            for _, data in merges
            if data.merged is not None and data.merged[1] != session
            for made in data.made
        ]

    def was_pruned(self, row: CheckpointRow) -> bool:
        """Whether it was a prune that removed a row."""
        return row.hidden in self._prunes

    def tells_of_a_loss(self, gap: Gap) -> bool:
        """Whether a meeting may have been lost there."""
        row = gap.row
        if not gap.first and row.id not in self._made:
            # It came from an archive: what it was merged from may never have been here.
            return True
        if any(gap.since < seq < row.seq and not self._is_there(made) for seq, made in self._from_elsewhere):
            return True
        # What happened when the newest checkpoint was none of those in the gap cannot have touched them.
        return self._last_loss >= gap.since

    @cached_property
    def _last_loss(self) -> int:
        """The newest number there was when something was done that can have taken a meeting away; -1 for never."""
        newest_first = sorted(self._entries, key=lambda entry: entry[1].seq, reverse=True)
        return next((data.seq for entry, data in newest_first if self._took_a_meeting(entry, data)), -1)

    def _took_a_meeting(self, entry: Operation, data: Recorded) -> bool:
        if entry.kind in ("forget", "repair"):
            return True
        if entry.kind == "delete":
            return self._deleted_a_meeting(data)
        if entry.kind in ("undo", "redo") and any(each.after.get("hidden") == 0 for each in data.edits):
            # What came back was not there when others went.
            return True
        # A line that no branch led to was nobody's for a while, unless it had been merged before.
        return entry.kind != "rename" and any(
            move.head is None and move.expected not in self._merged for move in data.moves
        )

    def _deleted_a_meeting(self, data: Recorded) -> bool:
        gone = {each.checkpoint for each in data.edits if each.after.get("hidden")}
        ways = sum(each.checkpoint not in gone for each in data.edits) + len(data.moves)
        return any(
            (ways > 1 or each in self._merged or self._is_merge(each)) and not self._is_there(each)
            for each in gone
        )

    def _is_merge(self, checkpoint: CheckpointId) -> bool:
        row = self._reader.checkpoint(checkpoint)
        return checkpoint in self._made or (row is not None and len(row.parents) > 1)

    def _is_there(self, checkpoint: CheckpointId) -> bool:
        row = self._reader.checkpoint(checkpoint)
        return row is not None and not row.hidden
