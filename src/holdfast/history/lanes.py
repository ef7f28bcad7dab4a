"""Where each checkpoint of a tree stands when it is drawn: rows, lanes, and the edges from one row to the next.

A *line* is a checkpoint and what it follows, by `prev`, down to the root or to where it parted from another line. A
line keeps one lane (a column) from its newest row to its end, and the line in use has lane 0 for itself. The result is
plain data that a terminal and a page can draw alike: an edge leads from a lane of one row to a lane of the row below,
and whoever follows edges downwards from a checkpoint meets exactly its parents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Literal

from holdfast.record import Record

Begins = Literal["elsewhere", "late", "missing"]
"""Why a line begins at a checkpoint that was made from another: that one is of another session, it came after it, or it
is not in the store."""
Kind = Literal["checkpoint", "folded", "removed", "elsewhere", "late", "missing", "older"]
Link = Literal["line", "fork", "merge"]

_BELOW = ("removed", "elsewhere", "late", "missing")
"""Rows that say what is below a checkpoint in the place of one."""

_WORTH_FOLDING = 3
"""Fewer rows than this are shown: a row that stands for two hides more than it saves."""


class Point(Record):
    """What the layout has to know about a checkpoint; it names others by their place in the list, always further on."""

    prev: int | None = None
    merged: tuple[int, ...] = ()
    """Further parents."""
    name: str = ""
    """The branch it was born on: where lines part, the older part belongs to the line of the same name."""
    plain: bool = False
    """Nothing about it must be seen: it may be folded."""
    skipped: int = 0
    """How many were removed right below it."""
    kind: Literal["checkpoint", "older"] = "checkpoint"
    begins: Begins | None = None
    """A line begins here, though it was made from a checkpoint; where some were removed, that is what is said."""


class Edge(Record):
    """A piece of a link: from a lane of one row to a lane of the row below it."""

    above: int
    below: int
    kind: Link
    """`line` goes on in its lane, `fork` leads to where the line parted from another, `merge` to a further parent."""


class Row(Record):
    """One row of the drawing."""

    kind: Kind
    lane: int
    points: tuple[int, ...]
    """The checkpoints it stands for, newest first: one, several for `folded`, none for the others."""
    removed: int
    """How many removed checkpoints it stands for."""
    edges: tuple[Edge, ...]
    """What leads from here to the next row, whichever line it belongs to, by the lane it runs in."""


class _Stop(Record):
    """A row before it has a lane. `prev` and `merged` are points until `_stops` has all rows, then rows."""

    kind: Kind
    line: int
    points: tuple[int, ...]
    removed: int
    prev: int | None
    merged: tuple[int, ...] = ()


def arrange(points: Sequence[Point], first: int | None = None, *, fold: int | None = None) -> list[Row]:
    """Lay out `points`, which come newest first.

    Args:
        points: The checkpoints; a place in the list names them.
        first: The head of the branch in use: its line gets lane 0.
        fold: Fold runs of plain checkpoints, but for so many at either end; None folds nothing.
    """
    lines = _lines(points, first)
    hidden = {} if fold is None else _folds(points, first, keep=fold)
    return list(_Sweep(_stops(points, lines, hidden), reserve=first is not None).rows())


def _lines(points: Sequence[Point], first: int | None) -> list[int]:
    """The line of each point. The one in use is line 0; of several that meet, the one of the same name goes on."""
    lines = [-1] * len(points)
    while first is not None:
        lines[first] = 0
        first = points[first].prev
    heirs: dict[int, int] = {}
    fresh = count(1)
    for at, point in enumerate(points):
        if lines[at] < 0:
            lines[at] = lines[heirs[at]] if at in heirs else next(fresh)
        below = point.prev
        if below is None:
            continue
        heir = heirs.get(below)
        if heir is None or points[heir].name != points[below].name == point.name:
            heirs[below] = at
    return lines


def _folds(points: Sequence[Point], first: int | None, *, keep: int) -> dict[int, tuple[int, ...]]:
    """What is not shown by itself: the newest of each folded run with the whole run, every other with nothing."""
    above = [0] * len(points)
    for point in points:
        for parent in (*point.merged, *(() if point.prev is None else (point.prev,))):
            above[parent] += 1

    def can_go(at: int) -> bool:
        point = points[at]
        alone = above[at] == 1 and point.prev is not None and not point.merged
        return point.plain and alone and at != first

    found: dict[int, tuple[int, ...]] = {}
    seen: set[int] = set()
    for start in range(len(points)):
        run: list[int] = []
        at: int | None = start
        while at is not None and at not in seen and can_go(at):
            seen.add(at)
            run.append(at)
            at = points[at].prev
        inner = tuple(run[keep : len(run) - keep])
        if len(inner) >= _WORTH_FOLDING:
            found |= dict.fromkeys(inner, ())
            found[inner[0]] = inner
    return found


def _stops(points: Sequence[Point], lines: Sequence[int], hidden: dict[int, tuple[int, ...]]) -> list[_Stop]:
    """The rows, in order, each leading to others by their place in this list."""
    stops: list[_Stop] = []
    rows: dict[int, int] = {}
    """The row of a point that links lead to: a folded run is only ever entered at its newest."""
    for at, point in enumerate(points):
        if (run := hidden.get(at, (at,))) == ():
            continue
        rows[at] = len(stops)
        last = points[run[-1]]
        if len(run) > 1:
            removed = sum(points[each].skipped for each in run)
            stops.append(_Stop("folded", lines[at], run, removed, last.prev))
            continue
        known = point.kind == "checkpoint"
        stops.append(_Stop(point.kind, lines[at], run if known else (), 0, last.prev, point.merged))
        kind: Kind | None = "removed" if point.skipped else point.begins
        if kind is not None:
            stops.append(_Stop(kind, lines[at], (), point.skipped, last.prev))
    return [_resolved(stops, at, rows) for at in range(len(stops))]


def _resolved(stops: Sequence[_Stop], at: int, rows: dict[int, int]) -> _Stop:
    stop = stops[at]
    prev = None if stop.prev is None else rows[stop.prev]
    if at + 1 < len(stops) and stop.kind == "checkpoint" and stops[at + 1].kind in _BELOW:
        prev = at + 1
    return stop._replace(prev=prev, merged=tuple(rows[each] for each in stop.merged))


class _Sweep:
    """One pass from the newest row to the oldest, with what each lane is on its way to."""

    def __init__(self, stops: Sequence[_Stop], *, reserve: bool) -> None:
        self._stops = stops
        self._lowest = 1 if reserve else 0
        self._held: dict[int, int] = {0: 0} if reserve else {}
        """The lane of each line that has one."""
        self._targets: list[int | None] = [None] if reserve else []
        self._kinds: list[Link] = ["line"] if reserve else []
        self._closed: set[int] = set()
        """Lanes that ended without a link. Another line below would seem to go on from there, so they stay empty."""
        self._tips = set(range(len(stops))) - {stop.prev for stop in stops}
        self._edges: dict[tuple[int, int, Link], Edge] = {}

    def rows(self) -> Iterator[Row]:
        """The rows with their lanes and edges."""
        lane = self._lane_of(0) if self._stops else 0
        for at, stop in enumerate(self._stops):
            self._targets = [None if target == at else target for target in self._targets]
            if stop.prev is None:
                self._closed.add(lane)
            else:
                same = self._stops[stop.prev].line == stop.line
                self._targets[lane], self._kinds[lane] = stop.prev, "line" if same else "fork"
            begun = {self._merge(target) for target in stop.merged}
            below = self._lane_of(at + 1) if at + 1 < len(self._stops) else 0
            edges = tuple(
                self._edge(
                    lane if at_lane in begun else at_lane, below if target == at + 1 else at_lane, kind
                )
                for at_lane, (target, kind) in enumerate(zip(self._targets, self._kinds, strict=True))
                if target is not None
            )
            yield Row(stop.kind, lane, stop.points, stop.removed, edges)
            lane = below

    def _lane_of(self, at: int) -> int:
        line = self._stops[at].line
        if line not in self._held:
            self._held[line] = self._take()
        return self._held[line]

    def _merge(self, target: int) -> int:
        """The lane that leads to a further parent: that of its line where it begins there, one for itself otherwise."""
        # A lane that is already on its way somewhere is never shared: the drawing could be read both ways.
        lane = self._lane_of(target) if target in self._tips else None
        if lane is None or self._targets[lane] is not None:
            lane = self._take()
        self._targets[lane], self._kinds[lane] = target, "merge"
        return lane

    def _take(self) -> int:
        for lane in count(self._lowest):
            if lane == len(self._targets):
                self._targets.append(None)
                self._kinds.append("line")
            if self._targets[lane] is None and lane not in self._closed:
                return lane
        raise AssertionError("counting does not end")

    def _edge(self, above: int, below: int, kind: Link) -> Edge:
        # The same few edges stand in thousands of rows.
        key = (above, below, kind)
        if (edge := self._edges.get(key)) is None:
            edge = self._edges[key] = Edge(*key)
        return edge
