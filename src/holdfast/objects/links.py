"""Which chunks a chunk refers to, for those who look at chunks without loading a state: collecting, verifying, copying.

Most chunks are runs of items and refer to nothing; their first byte says so. The others name their children in entries,
in nodes, and in nodes that stand inside the last run of a node. Nothing here trusts the bytes: check the hash first.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.errors import IntegrityError
from holdfast.objects import nodes
from holdfast.objects.joining import MAX_NODE_DEPTH
from holdfast.objects.nodes import MalformedNodeError
from holdfast.objects.verified import Read, read_chunk
from holdfast.storage.records import ChunkHash

_ALONE = (nodes.WHOLE, nodes.LEAF)


def refers(data: bytes) -> bool:
    """Whether a chunk may refer to others."""
    return bool(data) and data[0] not in _ALONE


def links(name: ChunkHash, data: bytes) -> list[ChunkHash]:
    """The chunks that this one refers to, each once.

    Raises:
        IntegrityError: These bytes are no chunk of a tree.
    """
    try:
        return list(dict.fromkeys(_links(data)))
    except MalformedNodeError as error:
        raise IntegrityError.chunk_damaged(name, why=str(error)) from error


def reachable(root: ChunkHash, read: Read) -> Iterator[ChunkHash]:
    """All chunks of the state with this root, each once, itself first; those that refer to others are read.

    Raises:
        IntegrityError: A chunk is missing or damaged.
    """
    seen = {root}
    to_do = [root]
    while to_do:
        name = to_do.pop()
        yield name
        found = [each for each in links(name, read_chunk(name, read)) if each not in seen]
        seen.update(found)
        to_do += found


def _links(chunk: bytes) -> Iterator[ChunkHash]:
    if not refers(chunk):
        return
    body = memoryview(chunk)[1:]
    inside: list[tuple[bytes | memoryview, int]] = []
    if chunk[0] == nodes.INDEX:
        yield from (entry.hash for entry in nodes.parse_entries(body))
    elif chunk[0] == nodes.MIXED:
        inside += [(part, 1) for part in nodes.parse_parts(body)[1::2]]
    elif chunk[0] == nodes.TREE:
        inside.append((body, 1))
    else:
        raise MalformedNodeError(f"a chunk of kind {chunk[0]}")
    while inside:
        data, depth = inside.pop()
        # Each level is a copy of what is in it: hostile bytes could hold nodes in nodes without end.
        if depth > MAX_NODE_DEPTH:
            raise MalformedNodeError("nodes in nodes without end")
        node = nodes.parse_node(data)
        yield from (entry.hash for level in node.levels for entry in level)
        inside += [(part, depth + 1) for part in node.tail[1::2]]
