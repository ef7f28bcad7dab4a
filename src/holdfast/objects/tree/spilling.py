"""What a node has no room for: its right edge goes into chunks where it would make the node too large.

A node keeps its unfinished run and unfinished indexes inside, and stands in its parent's run. Nodes in nodes in nodes,
each of them small, would so add up to one chunk as large as the state. The rule depends on the node alone: what would
be packed to more than the limit gives away its run first, and then its entries, from the lowest level up. The states
that agents have never come near it.
"""

from __future__ import annotations

from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree import nodes
from holdfast.objects.tree.boundaries import Cuts
from holdfast.objects.tree.nodes import Entry, Node
from holdfast.record import Record
from holdfast.storage.records import ChunkHash


class Spilled(Record):
    """A chunk that a node gave away."""

    hash: ChunkHash
    data: bytes


class Standing(Record):
    """A node as it stands in its parent."""

    part: bytes
    spilled: list[Spilled]
    """From the run up."""


def within_limit(node: Node, cuts: Cuts) -> Standing:
    """The node, packed to no more bytes than it may have."""
    part = node.pack()
    return Standing(part, []) if len(part) <= cuts.node_limit else _spill(node, cuts.node_limit)


def _spill(node: Node, limit: int) -> Standing:
    levels = [list(level) for level in reversed(node.levels)] or [[]]
    spilled: list[Spilled] = []

    def given_away(data: bytes, count: int, size: int) -> Entry:
        spilled.append(Spilled(hash_chunk(data), data))
        return Entry(spilled[-1].hash, count, size)

    count = node.count - sum(entry.count for level in levels for entry in level)
    size = node.size - len(node.header()) - sum(entry.size for level in levels for entry in level)
    if count:
        levels[0].append(given_away(nodes.leaf_chunk(node.tail), count, size))
    height = 0
    while len(part := _packed(node, levels)) > limit and height < len(levels):
        held = levels[height]
        # One entry alone is no smaller in an index; and each level has to hold two at least of the one below.
        if len(held) > 1:
            if height + 1 == len(levels):
                levels.append([])
            sums = sum(entry.count for entry in held), sum(entry.size for entry in held)
            levels[height + 1].append(given_away(nodes.index_chunk(held), *sums))
            levels[height] = []
        height += 1
    return Standing(part, spilled)


def _packed(node: Node, levels: list[list[Entry]]) -> bytes:
    return Node(node.kind, node.count, node.size, levels[::-1], [b""]).pack()
