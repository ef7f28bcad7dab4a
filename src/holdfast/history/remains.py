"""What is left of the history of one session around checkpoints that are lost, and where it goes on beyond them.

A way back follows `prev` as far as that leads. Where a row on the way is not readable, it goes on with what that row
followed, if it still says so; otherwise with the newest checkpoint before it by number, of the same branch if there is
one. Numbers only ever fall on the way, so that it ends whatever damaged rows say.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping
from typing import Final

from holdfast.record import Record
from holdfast.storage.inspection import LostRow
from holdfast.storage.records import CheckpointId, CheckpointRow

NO_NUMBER: Final = 1 << 62
"""Beyond the number of any checkpoint."""


class Way(Record):
    """Where a way back leads."""

    to: CheckpointRow | None
    """The first checkpoint on it that is there; None where there is none."""
    skipped: int
    """How many checkpoints are known to lie before it on the way."""
    unreadable: tuple[LostRow, ...]
    """Those of them whose rows cannot be read."""


class Remains:
    """The rows of a session that are readable, and what is known of the others.

    Args:
        rows: The readable ones, removed ones too.
        lost: Those whose rows are not readable. Ones of other sessions do no harm.
        without: Readable ones that do not count as being there.
    """

    def __init__(
        self,
        rows: Iterable[CheckpointRow],
        lost: Mapping[CheckpointId, LostRow],
        *,
        without: Container[CheckpointId] = (),
    ) -> None:
        self._rows = {row.id: row for row in rows}
        self._lost = lost
        self._without = without
        self.there = sorted(filter(self._is_there, self._rows.values()), key=_number)
        """What is there, oldest first."""
        self._by_branch: dict[str, list[CheckpointRow]] = {}
        for row in self.there:
            self._by_branch.setdefault(row.branch, []).append(row)

    def beyond(self, name: CheckpointId, branch: str, before: int = NO_NUMBER) -> Way:
        """Where a way leads on from the checkpoint of that name, it included, for one of that branch and number."""
        return self._walk(name, branch, before, [])

    def beyond_lost(self, lost: LostRow, branch: str) -> Way:
        """The same from a checkpoint that is lost, and may have no name."""
        before = NO_NUMBER if lost.seq is None else lost.seq
        following = self._followed(lost, before)
        if following is None:
            return Way(self.newest_before(before, branch), 1, (lost,))
        way = self._walk(following, branch, before, [lost])
        return way._replace(skipped=way.skipped + 1)

    def newest_before(self, number: int, branch: str) -> CheckpointRow | None:
        """The newest checkpoint with a lower number, of that branch if it has one.

        A branch that has nothing of its own left began somewhere before; the nearest there is takes its place.
        """
        for rows in (self._by_branch.get(branch, []), self.there):
            at = bisect_left(rows, number, key=_number)
            if at:
                return rows[at - 1]
        return None

    def leads_to(self, name: CheckpointId, before: int) -> bool:
        """Whether that checkpoint is there, and comes before that number."""
        row = self._rows.get(name)
        return row is not None and self._is_there(row) and row.seq < before

    def _walk(self, at: CheckpointId | None, branch: str, before: int, passed: list[LostRow]) -> Way:
        skipped = 0
        while at is not None:
            row, lost = self._rows.get(at), self._lost.get(at)
            if row is not None and row.seq < before:
                if self._is_there(row):
                    return Way(row, skipped, tuple(passed))
                skipped += 1 + row.skipped
                before, at = row.seq, row.prev
                continue
            skipped += 1
            if lost is not None:
                passed.append(lost)
                before = before if lost.seq is None else min(before, lost.seq)
            at = None if lost is None else self._followed(lost, before)
            if at is None:
                return Way(self.newest_before(before, branch), skipped, tuple(passed))
        return Way(None, skipped, tuple(passed))

    def _followed(self, lost: LostRow, before: int) -> CheckpointId | None:
        return next((each for each in lost.followed if self._number_of(each) < before), None)

    def _number_of(self, name: CheckpointId) -> int:
        """The number of a checkpoint; one that was never there has none that could come before anything."""
        row, lost = self._rows.get(name), self._lost.get(name)
        if row is not None:
            return row.seq
        return NO_NUMBER if lost is None or lost.seq is None else lost.seq

    def _is_there(self, row: CheckpointRow) -> bool:
        return not row.hidden and row.id not in self._without


def _number(row: CheckpointRow) -> int:
    return row.seq
