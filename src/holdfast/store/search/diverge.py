"""diverge: the first checkpoint at which two lines of work differ, found by comparing roots.

Two lines are compared step by step from where they part, or, where they have no checkpoint in common (two sessions, two
executions), from their beginnings. Neighbours with the same root are one step: a fork or a note changes no state. Of
states only the two that differ are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby, zip_longest

from holdfast.history.checkpoint import Checkpoint
from holdfast.history.refs import ancestors
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.reports.search import Divergence
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointRow
from holdfast.store.diff import diff_refs
from holdfast.store.place import Place, read_again, session_of

_Line = list[CheckpointRow]


def diverge(place: Place, types: TypeRegistry, a: str | Checkpoint, b: str | Checkpoint) -> Divergence:
    """Where two lines of work part; see `Session.diverge`."""
    last, one, other, same = read_again(partial(_compared, place, a, b))
    # Where one line has ended, its last state is what the other one goes on from.
    before, after = one or last, other or last
    diff = None if before is None or after is None else diff_refs(place, types, before, after)
    return Divergence(last, one, other, same, diff)


def _compared(
    place: Place, a: str | Checkpoint, b: str | Checkpoint
) -> tuple[Checkpoint | None, Checkpoint | None, Checkpoint | None, int]:
    with place.backend.reader() as reader:
        common, ours, theirs = _parted(reader, place.find_any(reader, a), place.find_any(reader, b))
        last, same = common, 0
        found: tuple[CheckpointRow | None, CheckpointRow | None] = None, None
        for one, other in zip_longest(_steps(common, ours), _steps(common, theirs)):
            if one is None or other is None or one.root != other.root:
                found = one, other
                break
            last, same = one, same + 1
        shown = [None if row is None else Checkpoint(row, session_of(reader, row)) for row in (last, *found)]
    return shown[0], shown[1], shown[2], same


def _parted(
    reader: Reader, one: CheckpointRow, other: CheckpointRow
) -> tuple[CheckpointRow | None, _Line, _Line]:
    """The newest checkpoint that both lines have, if any, and what each has beyond it, oldest first."""
    lines = _line(reader, one), _line(reader, other)
    left, right = next(lines[0], None), next(lines[1], None)
    ours: _Line = []
    theirs: _Line = []
    while left is not None or right is not None:
        if left is not None and right is not None and left.id == right.id:
            return left, ours[::-1], theirs[::-1]
        # A child is always younger than its parents: the younger one cannot be on the rest of the other line.
        if right is None or (left is not None and left.created_at >= right.created_at):
            assert left is not None
            ours.append(left)
            left = next(lines[0], None)
        else:
            theirs.append(right)
            right = next(lines[1], None)
    return None, ours[::-1], theirs[::-1]


def _line(reader: Reader, row: CheckpointRow) -> Iterator[CheckpointRow]:
    """A checkpoint and its ancestors, also those in the session that it was forked from."""
    while True:
        oldest = row
        for oldest in ancestors(reader, row):
            yield oldest
        parent = reader.checkpoint(oldest.parents[0]) if oldest.parents else None
        if parent is None or parent.session == oldest.session or parent.hidden:
            return
        row = parent


def _steps(common: CheckpointRow | None, rows: _Line) -> Iterator[CheckpointRow]:
    """The first of each run of equal states, without those that still have the state of the common checkpoint."""
    for root, run in groupby(rows, key=lambda row: row.root):
        first = next(run)
        if common is None or root != common.root or first is not rows[0]:
            yield first
