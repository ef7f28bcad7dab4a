"""The lineage of a session as data: which checkpoint follows which, where lines part and meet, and how to draw it.

Everything comes from the rows of one view. A link leads to the nearest ancestor that is still there, with the number of
those that were removed in between; a link that leads nowhere is damage, and is said to be. A line whose branch was
deleted is part of the lineage like any other, and is known by having no branch.

To draw it, a *line* is a checkpoint and what it follows, by `prev`, down to the root or to where it parted from another
line. A line keeps one lane (a column) from its newest row to its end, and the line in use has lane 0 for itself. An
edge leads from a lane of one row to a lane of the row below; who follows edges downwards from a checkpoint meets
exactly its parents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Literal

from holdfast.errors import IntegrityError
from holdfast.history.checkpoint import Checkpoint
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import BranchRow, CheckpointId, CheckpointRow, Query, SessionRow

Kind = Literal["checkpoint", "folded", "older"]
Link = Literal["line", "fork", "merge"]

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
    kind: Literal["checkpoint", "older"] = "checkpoint"


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
    edges: tuple[Edge, ...]
    """What leads from here to the next row, whichever line it belongs to, by the lane it runs in."""


class _Stop(Record):
    """A row before it has a lane. `prev` and `merged` are rows."""

    kind: Kind
    line: int
    points: tuple[int, ...]
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
    shown = [at for at in range(len(points)) if hidden.get(at) != ()]
    rows = {at: row for row, at in enumerate(shown)}
    """The row of a point that links lead to: a folded run is only ever entered at its newest."""
    stops = []
    for at in shown:
        run, point = hidden.get(at, (at,)), points[at]
        prev, merged = points[run[-1]].prev, () if len(run) > 1 else point.merged
        stops.append(
            _Stop(
                "folded" if len(run) > 1 else point.kind,
                lines[at],
                run if point.kind == "checkpoint" else (),
                None if prev is None else rows[prev],
                tuple(rows[each] for each in merged),
            )
        )
    return stops


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
            yield Row(stop.kind, lane, stop.points, edges)
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


class Node(Record):
    """A checkpoint and its place in the lineage."""

    checkpoint: Checkpoint
    parents: tuple[str, ...]
    """The ids it leads to, of those that are shown: `prev` first, then further parents of a merge."""
    skipped: int
    """How many removed checkpoints lie between it and `prev`."""
    branches: tuple[str, ...]
    """The branches whose head it is."""
    fork: bool
    """Lines part here: more than one goes on from it."""
    tip: bool
    """Nothing that is shown follows it."""
    on_branch: bool
    """Some branch leads to it."""
    current: bool
    """It is the head of the branch in use."""


class Tree:
    """The lineage of a session; made by `session.tree()`. Iterating gives its nodes, newest first."""

    __slots__ = ("_points", "branch", "more", "nodes", "roots", "session")

    def __init__(
        self, session: str, branch: str, nodes: Sequence[Node], points: Sequence[Point], *, more: bool
    ) -> None:
        self.session = session
        self.branch = branch
        """The branch in use."""
        self.nodes = tuple(nodes)
        self.roots = tuple(node.checkpoint.id for node in nodes if not node.parents)
        """The ids of those that lead to none that is shown."""
        self.more = more
        """Whether there are older ones that a limit left out."""
        self._points = points

    def rows(self, *, fold: int | None = None) -> list[Row]:
        """Lay the lineage out for a drawing: a lane for each line, and the edges from row to row.

        Args:
            fold: Show runs of checkpoints with nothing special about them as one row, but for so many at either end;
                None shows all.
        """
        head = next((at for at, node in enumerate(self.nodes) if node.current), None)
        return arrange(self._points, head, fold=fold)

    def lanes(self) -> list[int]:
        """The lane of each node, in the order of the nodes; the same however the layout is folded."""
        return [row.lane for row in self.rows() if row.kind == "checkpoint"]

    def to_dict(self) -> dict[str, Any]:
        """The lineage as plain JSON data, the same on every surface."""
        return {
            "session": self.session,
            "branch": self.branch,
            "nodes": [_plain(node, lane) for node, lane in zip(self.nodes, self.lanes(), strict=True)],
            "roots": list(self.roots),
            "more": self.more,
        }

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<Tree of {self.session!r}: {len(self.nodes)} checkpoints, {len(self.roots)} roots>"


def tree_of(reader: Reader, session: str, branch: str, *, limit: int | None = None) -> Tree:
    """The lineage of a session, or of its newest `limit` checkpoints; an empty one where there are none."""
    owner = reader.session(session)
    if owner is None:
        return Tree(session, branch, (), (), more=False)
    # One more than is wanted tells whether there are more.
    rows = reader.checkpoints(Query(session=session, limit=None if limit is None else limit + 1))
    more = limit is not None and len(rows) > limit
    return lineage(rows[:limit], reader.branches(session), owner, branch, more=more)


def lineage(
    rows: Sequence[CheckpointRow],
    branches: Sequence[BranchRow],
    owner: SessionRow,
    branch: str,
    *,
    more: bool = False,
) -> Tree:
    """The lineage of `rows`, the visible ones of a session, newest first.

    Args:
        rows: The checkpoints.
        branches: All branches of the session.
        owner: The session.
        branch: The branch in use.
        more: Whether there are older ones.

    Raises:
        IntegrityError: A link leads nowhere, or to a newer checkpoint.
    """
    heads: dict[CheckpointId, list[str]] = {}
    for each in branches:
        heads.setdefault(each.head, []).append(each.name)
    links = _link_places(rows, more=more)
    following = [0] * len(rows)
    merging = [0] * len(rows)
    for first, further in links:
        if first is not None and first < len(rows):
            following[first] += 1
        for parent in further:
            merging[parent] += 1
    nodes: list[Node] = []
    led_to: set[int] = set()
    for at, (row, (first, further)) in enumerate(zip(rows, links, strict=True)):
        names = tuple(heads.get(row.id, ()))
        shown = (*(() if first is None or first >= len(rows) else (first,)), *further)
        on_branch = bool(names) or at in led_to
        if on_branch:
            led_to.update(shown)
        nodes.append(
            Node(
                checkpoint=Checkpoint(row, owner),
                parents=tuple(rows[parent].id.hex() for parent in shown),
                skipped=row.skipped,
                branches=names,
                fork=following[at] + len(names) > 1,
                tip=not following[at] and not merging[at],
                on_branch=on_branch,
                current=branch in names,
            )
        )
    return Tree(owner.id, branch, nodes, _points(rows, nodes, links), more=more)


_LinkPlaces = list[tuple[int | None, tuple[int, ...]]]
"""For each row the place of `prev` and those of further parents; places past the rows are older than what is shown."""


def _link_places(rows: Sequence[CheckpointRow], *, more: bool) -> _LinkPlaces:
    places = {row.id: at for at, row in enumerate(rows)}
    older: dict[CheckpointId, int] = {}
    links: _LinkPlaces = []
    for at, row in enumerate(rows):
        first = None
        if row.prev is not None:
            first = places.get(row.prev)
            if first is None and more:
                first = older.setdefault(row.prev, len(rows) + len(older))
            if first is None or first <= at:
                raise _astray(
                    row, row.prev, "is not in the store" if first is None else "does not come before it"
                )
        further = _further(row, places)
        for parent in further:
            if parent <= at:
                raise _astray(row, rows[parent].id, "does not come before it")
        links.append((first, further))
    return links


def _further(row: CheckpointRow, places: Mapping[CheckpointId, int]) -> tuple[int, ...]:
    """The further parents of a merge that are shown, each once."""
    if len(row.parents) < 2:
        return ()
    return tuple(
        places[parent] for parent in dict.fromkeys(row.parents[1:]) if parent in places and parent != row.prev
    )


def _astray(child: CheckpointRow, parent: CheckpointId, why: str) -> IntegrityError:
    return IntegrityError.row_damaged(
        f"checkpoint {child.id.hex()}", why=f"its ancestor {parent.hex()} {why}"
    )


def _points(
    rows: Sequence[CheckpointRow],
    nodes: Sequence[Node],
    links: _LinkPlaces,
) -> list[Point]:
    """What the layout needs, and one point more for each checkpoint beyond the limit that a line leads to."""
    points: list[Point] = []
    beyond = 0
    for row, node, (first, further) in zip(rows, nodes, links, strict=True):
        follows = first is not None and first < len(rows) and rows[first].branch == row.branch
        # The head of a branch is a tip, or lines part there.
        special = node.fork or node.tip or row.tags or row.pinned
        points.append(
            Point(
                prev=first,
                merged=further,
                name=row.branch,
                plain=follows and not special,
            )
        )
        beyond = max(beyond, 0 if first is None else first + 1 - len(rows))
    return points + [Point(kind="older")] * beyond


def _plain(node: Node, lane: int) -> dict[str, Any]:
    return {
        "checkpoint": node.checkpoint.to_dict(),
        "parents": list(node.parents),
        "skipped": node.skipped,
        "branches": list(node.branches),
        "fork": node.fork,
        "tip": node.tip,
        "on_branch": node.on_branch,
        "current": node.current,
        "lane": lane,
    }
