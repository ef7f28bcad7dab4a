"""The cuts of a level after some of its units changed: the same ones as if it were cut from the beginning.

Where a run or an index ends depends on what is in it, from its first unit on. So cutting begins anew at the start of
the group in which the first change lies, and goes on until a new cut falls where an old one was, behind the change:
from there on all groups are what they were. What changed on this level are the units that changed for the next.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import Generic, Protocol, TypeVar

from holdfast.objects.document.dirty import Edit
from holdfast.objects.document.kept import Group, KeptNode, Level, NewChunks
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree import nodes
from holdfast.objects.tree.boundaries import Cuts
from holdfast.objects.tree.nodes import Entry
from holdfast.record import Record

Unit = TypeVar("Unit")


class Cutter(Protocol[Unit]):
    """Puts the units of a level into groups. Those it holds at the end are in none."""

    def begin(self, group: int, start: int, edit: int) -> Iterator[Unit]:
        """Hold the units from `start`, where an old group begins, to the edit of that number; return the ones after.

        Those that it holds stand where they always stood: none of them ends the group.
        """
        ...

    def add(self, unit: Unit) -> bool:
        """Take a unit; whether it ends its group."""
        ...

    def close(self) -> Group:
        """The group of the units it holds."""
        ...


class Region(Record):
    """Groups `start` to `stop` of a level are replaced by others."""

    start: int
    stop: int
    groups: list[Group]


class Regrouping(Generic[Unit]):
    """Finds the groups of one level that change."""

    def __init__(self, level: Level, edits: list[Edit], cutter: Cutter[Unit]) -> None:
        self._level = level
        self._edits = edits
        self._cutter = cutter
        self._at = 0
        """The first edit that is not behind the last cut."""
        self._bounds: list[int] | None = None
        self.to_the_end = False
        """Whether cutting went on to the end: then the cutter holds the units that are in no group."""

    def regions(self) -> list[Region]:
        """The regions that change, from left to right."""
        found = []
        while self._at < len(self._edits) and not self.to_the_end:
            found.append(self._region())
        return found

    def _region(self) -> Region:
        first = self._edits[self._at]
        start, before = self._group_of(first.old_start)
        position = before + first.new_start - first.old_start
        groups: list[Group] = []
        for unit in self._cutter.begin(start, position, self._at):
            if not self._cutter.add(unit):
                continue
            groups.append(self._cutter.close())
            position += groups[-1].width
            stop = self._old_cut(position)
            if stop is not None:
                return Region(start, stop, groups)
        self.to_the_end = True
        return Region(start, len(self._level.entries), groups)

    def _old_cut(self, position: int) -> int | None:
        """The group that began before where there is a cut now; None where there was no cut."""
        edits = self._edits
        while self._at < len(edits) and edits[self._at].new_stop <= position:
            self._at += 1
        if self._at < len(edits) and edits[self._at].new_start < position:
            return None
        passed = edits[self._at - 1]
        old = position - passed.new_stop + passed.old_stop
        if old >= self._level.covered:
            return len(self._level.widths) if old == self._level.covered else None
        bounds = self._all_bounds()
        group = bisect_left(bounds, old)
        return group if bounds[group] == old else None

    def _group_of(self, old: int) -> tuple[int, int]:
        """The group that an old unit is in, and where that begins."""
        if old >= self._level.covered:
            return len(self._level.widths), self._level.covered
        bounds = self._all_bounds()
        group = bisect_right(bounds, old) - 1
        return group, bounds[group]

    def _all_bounds(self) -> list[int]:
        # Not made for what is at the end: there it would take longer than all the rest.
        if self._bounds is None:
            self._bounds = [0, *accumulate(self._level.widths)]
        return self._bounds


class IndexCutter:
    """Puts the entries of one level into the indexes of the next."""

    def __init__(self, entries: list[Entry], edits: list[Edit], cuts: Cuts) -> None:
        self._entries = entries
        self._edits = edits
        self._cuts = cuts
        self._held: list[Entry] = []

    def begin(self, group: int, start: int, edit: int) -> Iterator[Entry]:  # noqa: ARG002 - see the protocol
        """See `Cutter`."""
        change = self._edits[edit].new_start
        self._held = self._entries[start:change]
        return islice(self._entries, change, None)

    def add(self, unit: Entry) -> bool:
        """See `Cutter`."""
        self._held.append(unit)
        return self._cuts.ends_index(unit.hash, len(self._held))

    def close(self) -> Group:
        """See `Cutter`."""
        held, self._held = self._held, []
        chunk = nodes.index_chunk(held)
        entry = Entry(hash_chunk(chunk), sum(each.count for each in held), sum(each.size for each in held))
        return Group(entry, len(held), chunk)


def replace_runs(node: KeptNode, regions: list[Region], cuts: Cuts, sink: NewChunks) -> None:
    """Put new runs into a node, and new indexes over them."""
    for region in reversed(regions):
        node.notes[region.start : region.stop] = [group.note for group in region.groups]
    edits = _replace(node.levels[0], regions, sink)
    height = 1
    while edits:
        if height == len(node.levels):
            node.levels.append(Level())
        level = node.levels[height]
        cutter = IndexCutter(node.levels[height - 1].entries, edits, cuts)
        edits = _replace(level, Regrouping(level, edits, cutter).regions(), sink)
        height += 1
    while len(node.levels) > 1 and not node.levels[-2].entries:
        node.levels.pop()


def _replace(level: Level, regions: list[Region], sink: NewChunks) -> list[Edit]:
    """Put new groups into a level; return what changed for the level above."""
    edits = []
    shift = 0
    for start, stop, groups in regions:
        replaced = level.entries[start:stop]
        if [group.entry for group in groups] != replaced:
            _put(groups, replaced, sink)
            edits.append(Edit(start, stop, start + shift, start + shift + len(groups)))
        shift += len(groups) - len(replaced)
    for start, stop, groups in reversed(regions):
        level.covered += sum(group.width for group in groups) - sum(level.widths[start:stop])
        level.size += sum(group.entry.size for group in groups)
        level.size -= sum(entry.size for entry in level.entries[start:stop])
        level.entries[start:stop] = [group.entry for group in groups]
        level.widths[start:stop] = [group.width for group in groups]
    return edits


def _put(groups: list[Group], replaced: list[Entry], sink: NewChunks) -> None:
    """Hand over the chunks that were not among those that they replace."""
    stored = {entry.hash for entry in replaced}
    for position, group in enumerate(groups):
        if group.entry.hash not in stored:
            base = replaced[position].hash if position < len(replaced) else None
            sink.put(group.entry.hash, group.chunk, base)
