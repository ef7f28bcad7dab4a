"""Who changed what is at a path: `blame` finds the newest change, `history_of` all of them, by one exact walk.

Values are compared as they are stored: the encoding is canonical, so equal bytes (or, of a large value, equal hashes)
are equal values, and only what leads to the path is read. Both walk the way that `log` shows, where what was merged is
there from the merge on. blame goes further: where the other side of a merge has the same value, it goes on there.

An unreadable state counts as if it had the value of the next older readable one. So a change is always told of a
checkpoint whose state was seen, with the unreadable ones right before it that may have made it instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from holdfast.errors import HoldfastError, NotFoundError
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.state_path import PathStep, Step, missing, not_a_path, parse_path
from holdfast.objects.diff.encoded_value import Encoded, Large, Value
from holdfast.objects.diff.location import locate, open_state, select_part, whole_of
from holdfast.objects.tree.chunk_cache import ChunksAtHand
from holdfast.objects.tree.nodes import MalformedNodeError
from holdfast.objects.tree.read import Read, fetch, join_node, not_a_state
from holdfast.record import Record
from holdfast.reports.search import Blame, ChangeOp, PathChange
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow
from holdfast.store.place import Place
from holdfast.store.search.line import DAMAGED, Findings, Line, Notes, Stop, stop_of


def blame(place: Place, types: TypeRegistry, path: str, ref: str | Checkpoint = "@") -> Blame:
    """The newest change of what is at a path; see `Session.blame`."""
    line = Line(place, ref, ranges=False)
    walk = _Walk(line, path, types, Notes())
    change = next(walk.changes(), None)
    if change is None:
        raise walk.nowhere()
    merges: list[Checkpoint] = []
    while (merged := _merged_line(place, walk, change)) is not None:
        walk = _Walk(merged, path, types, walk.notes, walk.loads)
        found = next(walk.changes(), None)
        if found is None:
            # The merged line never had anything there, and neither has the merge: the merge removed it.
            break
        merges.append(change.checkpoint)
        change = found
    return Blame(
        change.checkpoint,
        change.op,
        change.path,
        change.value,
        change.old,
        change.before,
        loads=walk.loads,
        merges=tuple(merges),
        skipped=change.skipped,
        notes=walk.notes.texts(),
    )


def history_of(
    place: Place,
    types: TypeRegistry,
    path: str,
    ref: str | Checkpoint = "@",
    *,
    oldest_first: bool = False,
    limit: int | None = None,
) -> Findings[PathChange]:
    """Every change of what is at a path; see `Session.history_of`. What is wrong with the call is raised at once."""
    walk = _Walk(Line(place, ref), path, types, Notes())

    def found() -> Iterator[PathChange]:
        changes = walk.changes()
        yield from reversed(list(changes)) if oldest_first else changes
        if walk.line.empty is not None:
            walk.notes.add(walk.line.empty)
        elif not walk.seen:
            raise walk.nowhere()

    return Findings(islice(found(), limit), walk.notes)


class Part(Record):
    """What is at a path of one state, encoded."""

    value: Value | None
    """None where there is nothing."""
    steps: tuple[PathStep, ...]
    """The way there, as it was taken."""


def find_part(stop: Stop, steps: list[Step], read: Read) -> Part:
    """Go to a path in the state of a stop, reading only what leads there."""
    try:
        found = locate(open_state(stop.root, read), steps, read)
    except MalformedNodeError as error:
        raise not_a_state(stop.root, error) from error
    return Part(found.value, tuple(each.step for each in found.steps))


def decoded(value: Value | None, read: Read, types: TypeRegistry) -> Any:
    """The value itself; None for nothing."""
    if value is None:
        return None
    return decode_value(whole_of(value, read).data, types)


def _same(one: Value | None, other: Value | None, read: Read) -> bool:
    """Whether two values are equal, types and order included."""
    if one is None or other is None:
        return one is other
    if one.token == other.token:
        return True
    if isinstance(one, Encoded) and isinstance(other, Large):
        one, other = other, one
    if isinstance(one, Large) and isinstance(other, Encoded):
        # The same value may stand whole in a tuple, and as a tree of its own in a list.
        return one.node.size == len(other.data) and join_node(one.node, read) == other.data
    return False


class _Run(Record):
    """Neighbours with the same value."""

    oldest: Stop
    """The oldest of them so far: the one that set the value, if the one before has another."""
    value: Value | None
    decoded: Any


class _Walk:
    """The values at one path along one line, newest first."""

    def __init__(self, line: Line, path: str, types: TypeRegistry, notes: Notes, loads: int = 0) -> None:
        if not path:
            raise not_a_path(path)
        self.line = line
        self.path = path
        self.steps = parse_path(path)
        self.notes = notes
        self.loads = loads
        """States of which the part was read."""
        self.seen = False
        """Whether any state has something there."""
        self._types = types
        self._at_hand = ChunksAtHand()

    def changes(self) -> Iterator[PathChange]:
        """Every change, newest first."""
        run: _Run | None = None
        skipped: list[Stop] = []
        for stop, in_range in self._stops():
            if run is not None and run.oldest.root == stop.root:
                run, skipped = run._replace(oldest=stop), []
                if in_range:
                    continue
                return
            try:
                # Read and compared in one view, which ends before anybody else's code runs.
                value, known, is_same = self.line.read([stop], lambda reader: self._look(reader, stop, run))  # noqa: B023
            except DAMAGED as error:
                self.notes.unreadable(stop, error)
                skipped.append(stop)
                continue
            if run is not None and not is_same:
                yield self._change(run, value, known, stop, skipped)
            if not in_range:
                return
            run = run._replace(oldest=stop) if run is not None and is_same else _Run(stop, value, known)
            skipped = []
        if run is not None and run.value is not None:
            yield self._change(run, None, None, None, skipped)

    def nowhere(self) -> HoldfastError:
        """The error for a path that leads nowhere in any state: it says what the newest readable one has instead."""
        newest = None
        for stop in self.line.stops():
            try:
                self.line.view(lambda reader: select_part(stop.root, self.path, reader.chunks, self._types))  # noqa: B023
            except NotFoundError as found:
                newest = found
                break
            except DAMAGED:
                continue
        if newest is None and self.notes.failure is not None:
            return self.notes.failure
        error = newest or missing(self.steps, len(self.steps) - 1, "no state has it")
        error.args = (f"{error} (it is not in any state of the history)", *error.args[1:])
        return error

    def value_of(self, stop: Stop) -> Value | None:
        """What one state has at the path."""
        return self.line.read([stop], lambda reader: find_part(stop, self.steps, reader.chunks).value)

    def _stops(self) -> Iterator[tuple[Stop, bool]]:
        """The stops of the line, and then those before it: a range begins with what was there before."""
        last = None
        for batch in self.line.batches():
            self._read_ahead(batch)
            for last in batch:
                yield last, True
        while last is not None and (last := self.line.older(last)) is not None:
            yield last, False

    def _read_ahead(self, batch: list[Stop]) -> None:
        if len(batch) > 1:
            through = self._at_hand.begin().through
            # What is damaged is found again, and noted, one by one.
            with suppress(*DAMAGED):
                self.line.view(lambda reader: fetch([stop.root for stop in batch], through(reader.chunks)))

    def _look(self, reader: Reader, stop: Stop, run: _Run | None) -> tuple[Value | None, Any, bool]:
        read = self._at_hand.begin().through(reader.chunks)
        value = find_part(stop, self.steps, read).value
        is_same = run is not None and _same(value, run.value, read)
        known = None if is_same else decoded(value, read, self._types)
        self.loads += 1
        self.seen = self.seen or value is not None
        return value, known, is_same

    def _change(
        self, run: _Run, old: Value | None, known: Any, before: Stop | None, skipped: list[Stop]
    ) -> PathChange:
        op: ChangeOp = "add" if old is None else "remove" if run.value is None else "replace"
        shown = self.line.checkpoint
        return PathChange(
            checkpoint=shown(run.oldest),
            op=op,
            path=self.path,
            value=run.decoded,
            old=known,
            before=None if before is None else shown(before),
            skipped=tuple(shown(each) for each in skipped),
        )


def _merged_line(place: Place, walk: _Walk, change: PathChange) -> Line | None:
    """The line that a change came from by a merge: that of the merged checkpoint, if it has the same value."""
    made = change.checkpoint
    if len(made.parents) < 2:
        return None
    merge, row = walk.line.view(lambda reader: _merge_and_merged(reader, made))
    if row is not None:
        merged = Line(place, row)
        for stop in merged.stops():
            try:
                mine, theirs = walk.value_of(merge), walk.value_of(stop)
                if walk.line.read([merge, stop], lambda reader: _same(mine, theirs, reader.chunks)):  # noqa: B023
                    return merged
                break
            except DAMAGED as error:
                walk.notes.unreadable(stop, error)
    if row is None or row.id.hex() != made.parents[1]:
        walk.notes.add("it is a merge, and what was merged was removed: the value may be from there", merge)
    return None


def _merge_and_merged(reader: Reader, made: Checkpoint) -> tuple[Stop, CheckpointRow | None]:
    merge = reader.checkpoint(CheckpointId(bytes.fromhex(made.id)))
    assert merge is not None
    row = reader.checkpoint(merge.parents[1])
    while row is not None and row.hidden:
        # The nearest ancestor that is left.
        row = None if row.prev is None else reader.checkpoint(row.prev)
    return stop_of(merge), row
