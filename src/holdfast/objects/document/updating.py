"""The tree of a document, from the one before and what was written since.

A node that nothing was written to is taken as it stands; of the others, only the runs in which something was written
are encoded again. What comes out is, byte for byte, the tree that `splitting` makes of the plain value: a document and
a plain dict that are equal have the same root.

A container is brought up to date as a whole or not at all. Where a value in it cannot be saved, those that came before
are up to date and the others are not, and the next attempt goes on from there.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.objects.codec import msgpack
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.document.containers import ROOT, Tracked, positions
from holdfast.objects.document.dirty import EXACT, PLAIN, VOLATILE, Edit, marks_of
from holdfast.objects.document.item_packing import ItemPacker
from holdfast.objects.document.kept import Item, KeptNode, NewChunks
from holdfast.objects.document.recutting import Region, Regrouping, replace_runs
from holdfast.objects.document.runs import OddKeyError, RunCutter, parts_of
from holdfast.objects.tree import nodes
from holdfast.objects.tree.boundaries import Cuts
from holdfast.objects.tree.nodes import Node
from holdfast.objects.tree.probing import is_larger, worth_asking
from holdfast.objects.tree.sequence import ChunkSink, Sequence
from holdfast.objects.tree.spilling import within_limit
from holdfast.storage.records import ChunkHash

_MAP_MARKS: Final = frozenset((*range(0x80, 0x90), 0xDE, 0xDF))

Written = tuple[Any, Any]
"""A container, and what was written to it before it was encoded."""


class TreeUpdate:
    """Brings the nodes of one document up to date, once."""

    def __init__(self, types: TypeRegistry, cuts: Cuts, sink: NewChunks, *, asks: bool = False) -> None:
        """`asks` is whether to look for large containers before encoding them: later on, few are new."""
        self.cuts = cuts
        self.packer = ItemPacker(types)
        self.written: list[Written] = []
        """What has been encoded now, and counts as unchanged from here on."""
        self._sink = sink
        self._asks = asks

    def container(self, container: Any, depth: int) -> bytes | KeptNode:
        """A container that lies in `depth` others: literally where it is small, else its node.

        Raises:
            InvalidInputError: It holds something that cannot be saved.
        """
        node: KeptNode | None = container._node
        if node is not None:
            if container._writes is None and not container._marks & VOLATILE:
                return node
            if node.kind != nodes.RAW and self._update(container, node, depth):
                return node
        elif (
            self._asks
            and worth_asking(container, _beside(container))
            and is_larger(container, self.cuts.item_limit)
        ):
            # It need not be encoded as a whole to find that out.
            cut = self._cut_anew(container, depth)
            if cut is not None:
                return cut
        data = self.packer.pack(container, depth)
        if len(data) > self.cuts.item_limit:
            return self._large(container, data, depth)
        if node is not None or container._writes is not None or container._marks:
            self._settle(container, None)
        return data

    def pieces(self, data: bytes) -> KeptNode:
        """The node of a value that is cut without regard to what is in it."""
        sink = ChunkSink(frozenset())
        sequence = Sequence(nodes.RAW, self.cuts, sink, None)
        sequence.add_pieces(self.cuts.pieces(data))
        part, size = sequence.finish()
        for chunk in sink.new.values():
            self._sink.adopt(chunk)
        return KeptNode(nodes.RAW, size=size, part=part, pieces=tuple(sink.seen))

    def _large(self, container: Any, data: bytes, depth: int) -> KeptNode:
        """The node of a container that is encoded as `data`, without what was remembered of it."""
        old: KeptNode | None = container._node
        if container._plain is list or data[0] in _MAP_MARKS:
            cut = self._cut_anew(container, depth)
            if cut is not None:
                return cut
        forget_nodes(container)
        node = self.pieces(data)
        self._sink.leave_out(old.pieces if old is not None else ())
        self._settle(container, node)
        return node

    def _cut_anew(self, container: Any, depth: int) -> KeptNode | None:
        """The node of a container that is cut by its items, without what was remembered of it; None where it is not."""
        if depth >= self.cuts.node_depth:
            return None
        forget_nodes(container)
        node = KeptNode(nodes.LIST if container._plain is list else nodes.DICT)
        return node if self._update(container, node, depth) else None

    def _update(self, container: Any, node: KeptNode, depth: int) -> bool:
        """Bring a node up to date; whether the container still is one, of that kind."""
        edits = _edits(container, node)
        cutter = RunCutter(self, container, node, edits, depth)
        regrouping = Regrouping(node.levels[0], edits, cutter)
        try:
            # Where nothing but the run at the end has changed, that is a region of no groups, as before.
            regions = [each for each in regrouping.regions() if each.groups or each.start != each.stop]
        except OddKeyError:
            return False
        # Up to here the node is what it was, so that a value that cannot be saved changes nothing.
        tail = cutter.rest() if regrouping.to_the_end else node.tail
        size = _size_with(node, regions, tail, len(container))
        if size <= self.cuts.item_limit:
            return False
        self._sink.leave_out(_replaced_pieces(node, regions, gone=tail is not node.tail))
        if regions:
            replace_runs(node, regions, self.cuts, self._sink)
        node.tail = tail
        self._seal(node, len(container), size)
        container._node = node
        self._take_writes(container)
        if container._marks & VOLATILE and next(node.volatile_places(), None) is None:
            container._marks &= ~VOLATILE
        return True

    def _seal(self, node: KeptNode, count: int, size: int) -> None:
        """Work out how a node stands in its parent."""
        node.count, node.size = count, size
        levels = [
            level.entries[above.covered :]
            for level, above in zip(node.levels[:-1], node.levels[1:], strict=True)
        ]
        whole = Node(node.kind, count, size, levels[::-1], parts_of(node.tail))
        node.part, spilled = within_limit(whole, self.cuts)
        before, node.spilled = node.spilled, tuple([name for name, _ in spilled])
        for position, (name, data) in enumerate(spilled):
            if name not in before:
                self._sink.put(name, data, before[position] if position < len(before) else None)

    def _take_writes(self, container: Any) -> None:
        if container._writes is not None:
            self.written.append((container, container._writes))
            container._writes = None

    def _settle(self, container: Any, node: KeptNode | None) -> None:
        """All of a container has been encoded, and nothing in it has a node of its own."""
        # What they remember is not part of this tree, and may be gone from the store when they are needed again.
        forget_nodes(container)
        container._node = node
        to_do = [container]
        while to_do:
            each = to_do.pop()
            if each._writes is not None:
                to_do += each._writes.children.values()
                self._take_writes(each)
        if container._marks:
            _count_marks(container)


def _beside(container: Any) -> int:
    """How many items there are where a container lies."""
    place: Any = container._place
    return 0 if place is None or place is ROOT else len(place)


def forget_nodes(container: Any) -> None:
    """Forget the nodes of a container and of all in it."""
    to_do = [container]
    while to_do:
        each = to_do.pop()
        # Only what has a node has nodes in it.
        if each._node is not None:
            each._node = None
            to_do += [value for _, value in each._places() if isinstance(value, Tracked)]


def _count_marks(container: Any) -> None:
    """Find out which marks a container and those in it still deserve."""
    found = [container]
    for each in found:
        found += [value for _, value in each._places() if isinstance(value, Tracked) and value._marks]
    for each in reversed(found):
        marks = EXACT if each._plain is dict and {*map(type, each)} - {str} else 0
        for _, value in each._places():
            if type(value) not in PLAIN:
                marks |= value._marks if isinstance(value, Tracked) else marks_of(value)
        each._marks = marks


def _edits(container: Any, node: KeptNode) -> list[Edit]:
    """What is different from the node that is remembered; all of it where that is not known."""
    writes = container._writes
    if writes is None:
        writes = container._new_writes()
    places = set(node.volatile_places()) if container._marks & VOLATILE else set()
    edits: list[Edit] | None = None
    if writes.length != node.count:
        # The node is a new one, or something went behind the back of the document.
        pass
    elif container._plain is list:
        found = positions(container, writes.children.values())
        before = map(writes.before, found)
        edits = writes.edits(len(container), places.union(old for old in before if old is not None))
    else:
        keys = [child._hint for child in writes.children.values() if child._place is container]
        edits = writes.edits(container, keys, places, tail=len(node.tail))
    return [Edit(0, node.count, 0, len(container))] if edits is None else edits


def _size_with(node: KeptNode, regions: list[Region], tail: list[Item], count: int) -> int:
    header = msgpack.array_header if node.kind == nodes.LIST else msgpack.map_header
    size = len(header(count)) + node.levels[0].size + sum([item.size for item in tail])
    for start, stop, groups in regions:
        size += sum(group.entry.size for group in groups)
        size -= sum(entry.size for entry in node.levels[0].entries[start:stop])
    return size


def _replaced_pieces(node: KeptNode, regions: list[Region], *, gone: bool) -> list[ChunkHash]:
    """The chunks of the large values in what is replaced."""
    large = [item.large for item in node.tail if item.large is not None] if gone else []
    for start, stop, _ in regions:
        for note in node.notes[start:stop]:
            large += note.large if note is not None else ()
    return [name for each in large for name in each.node.pieces]
