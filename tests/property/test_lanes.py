"""Layouts and drawings of random lineages: what they show is what there is, however it is read.

The drawing is read back as a person reads it: from a sign downwards along the strokes to the next sign.
"""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.cli.graph import UNICODE, draw
from holdfast.history.tree import Point, Row, arrange

NAMES = ("main", "x", "y")


@st.composite
def lineages(draw_) -> tuple[list[Point], int | None]:
    """Points, newest first, and the head of the branch in use."""
    size = draw_(st.integers(1, 20))
    near = draw_(st.booleans())
    points = []
    for at in range(size):
        older = st.integers(at + 1, size - 1)
        # Where most follow the one right before, there are runs to fold.
        usual = st.just(min(at + 1, size - 1)) if near and draw_(st.integers(0, 5)) else st.none() | older
        prev = draw_(usual) if at + 1 < size else None
        merged = draw_(st.lists(older, max_size=2, unique=True)) if at + 1 < size else []
        # Most checkpoints merge nothing.
        if draw_(st.integers(0, 3)):
            merged = []
        points.append(
            Point(
                prev=prev,
                merged=tuple(each for each in merged if each != prev),
                name=draw_(st.sampled_from(NAMES)),
                plain=bool(draw_(st.integers(0, 4 if near else 1))),
            )
        )
    return points, draw_(st.none() | st.integers(0, size - 1))


folds = st.none() | st.integers(0, 2)


def expected_links(points: list[Point], rows: list[Row]) -> list[set[int]]:
    """The rows that each row has to lead to, from the points alone."""
    row_of = {point: at for at, row in enumerate(rows) for point in row.points}
    wanted: list[set[int]] = []
    for row in rows:
        oldest = points[row.points[-1]]
        merged = oldest.merged if row.kind == "checkpoint" else ()
        wanted.append({row_of[each] for each in (oldest.prev, *merged) if each is not None})
    return wanted


@given(lineages(), folds)
def test_edges_lead_from_every_row_to_exactly_what_it_follows(lineage, fold):
    points, first = lineage
    rows = arrange(points, first, fold=fold)
    wanted = expected_links(points, rows)

    for start, row in enumerate(rows):
        found, at, lanes = set(), start, {row.lane}
        while lanes:
            lanes = {edge.below for edge in rows[at].edges if edge.above in lanes}
            at += 1
            if lanes and rows[at].lane in lanes:
                found.add(at)
                lanes -= {rows[at].lane}
        assert found == wanted[start]


@given(lineages(), folds)
def test_lanes_never_collide_and_no_edge_begins_or_ends_in_the_air(lineage, fold):
    points, first = lineage
    rows = arrange(points, first, fold=fold)

    passing: set[int] = set()
    for row, below in zip(rows, [*rows[1:], None], strict=True):
        assert row.lane not in passing
        assert {edge.above for edge in row.edges} - {row.lane} == passing
        assert below is not None or not row.edges
        if below is not None:
            further = [edge.below for edge in row.edges if edge.below != below.lane]
            assert len(further) == len(set(further))
            passing = set(further)


UP = set("│├┤┼╯╰┴")
DOWN = set("│├┤┼╮╭┬")
LEFT = set("─┤┼╮┬╯┴")
RIGHT = set("─├┼╭┬╰┴")
SIGN = "●"


def strokes_below(grid: list[str], y: int, x: int, way: str) -> set[tuple[int, int]]:
    """The signs that are met from a place on, going down and sideways but never up."""
    char = grid[y][x] if 0 <= x < len(grid[y]) else " "
    if way == "down":
        if char == SIGN:
            return {(y, x)}
        assert char in UP, f"a stroke from above ends in the air at line {y}, column {x}"
    found = set()
    if (char in DOWN and char != "│") or (way == "down" and char in DOWN):
        found |= strokes_below(grid, y + 1, x, "down")
    # A lane that is crossed stays as it is, and so does the stroke that passes under it.
    crossed = char == "│" and way != "down"
    if (way != "right" and char in LEFT) or (crossed and way == "left"):
        found |= strokes_below(grid, y, x - 1, "left")
    if (way != "left" and char in RIGHT) or (crossed and way == "right"):
        found |= strokes_below(grid, y, x + 1, "right")
    return found


@given(lineages(), folds)
@example(([Point(prev=2, name="x"), Point(prev=3, merged=(2,)), Point(prev=3, name="x"), Point()], 1), None)
def test_the_drawing_can_be_read_back(lineage, fold):
    points, first = lineage
    rows = arrange(points, first, fold=fold)
    lines = list(draw(rows, UNICODE, lambda _: SIGN))
    widest = max(len(text) for text, _ in lines)
    grid = [text.ljust(widest) for text, _ in lines] + [" " * widest]
    places = {(y, 2 * row.lane): y for y, (_, row) in enumerate(lines) if row is not None}
    order = [y for y, (_, row) in enumerate(lines) if row is not None]
    wanted = expected_links(points, rows)

    assert [row for _, row in lines if row is not None] == rows
    for (y, x), _ in places.items():
        below = grid[y + 1][x]
        found = strokes_below(grid, y + 1, x, "down") if below == SIGN or below in UP else set()
        assert {order.index(each) for each, _ in found} == wanted[order.index(y)]
