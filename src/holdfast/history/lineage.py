"""The lineage of a session as data: which checkpoint follows which, where lines part and meet, and who heads them.

Everything comes from the rows of one reading. A link leads to the nearest ancestor that is still there, with the
number of those that were removed in between; a link that leads nowhere is damage, and is said to be. A line whose
branch was deleted is part of the lineage like any other, and is known by having no branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.errors import IntegrityError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.lanes import Begins, Point, Row, arrange
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import BranchRow, CheckpointId, CheckpointRow, Query, SessionRow


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
    begun = {row.id: _begins(reader, row) for row in rows[:limit] if _may_begin(row)}
    return lineage(rows[:limit], reader.branches(session), owner, branch, more=more, begun=begun)


def _may_begin(row: CheckpointRow) -> bool:
    """Whether a line begins at a checkpoint that was made from another, and not because that one was removed."""
    return bool(row.parents) and row.prev is None and not row.skipped


def _begins(reader: Reader, row: CheckpointRow) -> Begins:
    parent = reader.checkpoint(row.parents[0])
    if parent is None:
        return "missing"
    return "late" if parent.session == row.session else "elsewhere"


def lineage(
    rows: Sequence[CheckpointRow],
    branches: Sequence[BranchRow],
    owner: SessionRow,
    branch: str,
    *,
    more: bool = False,
    begun: Mapping[CheckpointId, Begins] | None = None,
) -> Tree:
    """The lineage of `rows`, the visible ones of a session, newest first.

    Args:
        rows: The checkpoints.
        branches: All branches of the session.
        owner: The session.
        branch: The branch in use.
        more: Whether there are older ones.
        begun: Why lines begin at checkpoints that were made from others.

    Raises:
        IntegrityError: A link leads nowhere, or to a newer checkpoint.
    """
    heads: dict[CheckpointId, list[str]] = {}
    for each in branches:
        heads.setdefault(each.head, []).append(each.name)
    links = _links(rows, more=more)
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
    return Tree(owner.id, branch, nodes, _points(rows, nodes, links, begun or {}), more=more)


_Links = list[tuple[int | None, tuple[int, ...]]]
"""For each row the place of `prev` and those of further parents; places past the rows are older than what is shown."""


def _links(rows: Sequence[CheckpointRow], *, more: bool) -> _Links:
    places = {row.id: at for at, row in enumerate(rows)}
    older: dict[CheckpointId, int] = {}
    links: _Links = []
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
    links: _Links,
    begun: Mapping[CheckpointId, Begins],
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
                skipped=row.skipped,
                begins=begun.get(row.id),
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
