"""Lineage as characters: the layout of a tree becomes lines for a terminal.

Every lane is two characters wide. Between two rows there are at most two lines of links: first what goes out from the
row above (merges), then what comes in to the row below (lines that part there). So a corner that opens downwards is
the beginning of a link and one that opens upwards its end. A link that crosses a lane passes under it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import IO, TYPE_CHECKING, Protocol, TypeVar

from holdfast.record import Record

if TYPE_CHECKING:
    from holdfast import Checkpoint


class Edge(Protocol):
    """What a drawing reads of an edge: it leads from a lane of one row to a lane of the row below."""

    @property
    def above(self) -> int:
        """The lane above."""
        ...

    @property
    def below(self) -> int:
        """The lane below."""
        ...


class Row(Protocol):
    """What a drawing reads of a row of a layout."""

    @property
    def kind(self) -> str:
        """What it shows: a checkpoint, or what stands for several."""
        ...

    @property
    def lane(self) -> int:
        """Its lane."""
        ...

    @property
    def edges(self) -> Sequence[Edge]:
        """The edges to the row below."""
        ...


_AnyRow = TypeVar("_AnyRow", bound=Row)

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8


class Signs(Record):
    """The characters of a drawing."""

    current: str
    plain: str
    pinned: str
    folded: str
    lane: str
    level: str
    corners: str
    """The corners and crossings, in the order of `_SHAPES`."""

    def corner(self, shape: int) -> str:
        """The character that goes these ways."""
        return self.lane if shape == _UP | _DOWN else self.corners[_SHAPES.index(shape)]

    def of(self, checkpoint: Checkpoint, *, current: bool) -> str:
        """The character that stands for a checkpoint."""
        return self.current if current else self.pinned if checkpoint.pinned else self.plain


_SHAPES = (
    _UP | _DOWN | _RIGHT,
    _UP | _DOWN | _LEFT,
    _UP | _DOWN | _LEFT | _RIGHT,
    _DOWN | _LEFT,
    _DOWN | _RIGHT,
    _DOWN | _LEFT | _RIGHT,
    _UP | _LEFT,
    _UP | _RIGHT,
    _UP | _LEFT | _RIGHT,
)
UNICODE = Signs("@", "○", "◆", "…", "│", "─", "├┤┼╮╭┬╯╰┴")
ASCII = Signs("@", "o", "*", ":", "|", "-", "+++...'''")


def signs_for(stream: IO[str]) -> Signs:
    """The characters that `stream` can encode."""
    try:
        "".join(UNICODE).encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):  # an old locale, or an encoding nobody knows
        return ASCII
    return UNICODE


def draw(
    rows: Sequence[_AnyRow], signs: Signs, sign: Callable[[_AnyRow], str]
) -> Iterator[tuple[str, _AnyRow | None]]:
    """Each line of the drawing, with the row that it shows or, for a line of links, None."""
    passing: AbstractSet[int] = frozenset()
    for row, below in zip(rows, [*rows[1:], None], strict=True):
        yield _line(signs, {**dict.fromkeys(passing, signs.lane), row.lane: sign(row)}), row
        if below is not None:
            for text in _links(row.edges, row.lane, below.lane, signs):
                yield text, None
            passing = {edge.below for edge in row.edges} - {below.lane}


def _line(signs: Signs, marks: dict[int, str], level: range = range(0)) -> str:
    """A line with a character in some lanes, and a level stroke from the first to the last lane of `level`."""
    cells = []
    for lane in range(max(marks) + 1):
        inside = lane in level
        cells.append(marks.get(lane, signs.level if inside else " "))
        cells.append(signs.level if inside and lane + 1 in level else " ")
    return "".join(cells).rstrip()


def _links(edges: Sequence[Edge], above: int, below: int, signs: Signs) -> Iterator[str]:
    """The lines between a row in lane `above` and one in lane `below`: what goes out, then what comes in."""
    straight = {edge.above for edge in edges if edge.above == edge.below}
    out: set[int] = set()
    into: set[int] = set()
    for edge in edges:
        if edge.above == edge.below:
            continue
        if edge.above != above:
            into.add(edge.above)
        elif edge.below != below or below not in straight:
            out.add(edge.below)
        elif above not in straight:
            into.add(above)
        else:
            # Both lanes go on by themselves. A stroke between them could be read either way, so the link goes round.
            spare = 1 + max(max(each.above, each.below) for each in edges)
            out.add(spare)
            into.add(spare)
    middle = straight | into | out
    if out:
        yield _joined(signs, above, out, top=straight | (into - out) | {above}, bottom=middle)
    if into:
        yield _joined(signs, below, into, top=middle, bottom=straight | (out - into) | {below})


def _joined(
    signs: Signs, hub: int, ends: set[int], *, top: AbstractSet[int], bottom: AbstractSet[int]
) -> str:
    """A line that links one lane with others; `top` and `bottom` are the lanes that the lines around it have."""
    marks = dict.fromkeys(top | bottom, signs.lane)
    first, last = min(hub, *ends), max(hub, *ends)
    for lane in (hub, *ends):
        shape = (_UP if lane in top else 0) | (_DOWN if lane in bottom else 0)
        marks[lane] = signs.corner(shape | (_LEFT if lane > first else 0) | (_RIGHT if lane < last else 0))
    return _line(signs, marks, range(first, last + 1))


def columns_of(labels: Sequence[str], first: str | None) -> list[tuple[int, frozenset[int]]]:
    """For rows that belong to one label each: the lane of each row, and the other lanes that go on past it.

    A label keeps its lane from its first row to its last, and `first` has lane 0 for itself.
    """
    last = {label: at for at, label in enumerate(labels)}
    lanes: list[str | None] = [first] if first in last else []
    ended: dict[int, int] = {}
    """The row at which a lane was last in use."""
    placed: list[tuple[int, frozenset[int]]] = []
    begun: set[str] = set()
    for at, label in enumerate(labels):
        if label not in lanes:
            # Not right below another: the two would look like one.
            free = (lane for lane, owner in enumerate(lanes) if owner is None and ended[lane] < at - 1)
            lane = next(free, len(lanes))
            lanes[lane : lane + 1] = [label]
        lane = lanes.index(label)
        begun.add(label)
        going = (each for each, owner in enumerate(lanes) if owner in begun and each != lane)
        placed.append((lane, frozenset(going)))
        if last[label] == at:
            begun.discard(label)
            if label != first:
                lanes[lane], ended[lane] = None, at
    return placed


def side_by_side(lane: int, going: AbstractSet[int], sign: str, signs: Signs) -> str:
    """One row of lanes that are only columns, without links."""
    return _line(signs, {**dict.fromkeys(going, signs.lane), lane: sign})
