"""One sequence on its way into a tree: items gather in runs, full runs become chunks, entries gather in indexes.

The run at the end, and the entries at the end of each level, are not full; they stay in the node. Adding to the end of
a long list therefore changes the node alone, until a run is full.
"""

from __future__ import annotations

from dataclasses import replace

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects import nodes
from holdfast.objects.compression import MAX_CHUNK_BYTES
from holdfast.objects.cutting import Cuts
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.memo import HEAD_BYTES, NodeMemo, RunMemo, fingerprint
from holdfast.objects.nodes import Entry, Node, Parts
from holdfast.storage.records import Chunk, ChunkHash


class ChunkSink:
    """Collects the chunks of a state: the names of all, the bytes of those that the store does not have yet."""

    def __init__(self, stored: frozenset[ChunkHash]) -> None:
        self._stored = stored
        self.seen: set[ChunkHash] = set()
        self.new: dict[ChunkHash, Chunk] = {}

    def put(self, name: ChunkHash, data: bytes, base: ChunkHash | None) -> None:
        """Take a chunk; `base` is one that is probably much like it."""
        if len(data) > MAX_CHUNK_BYTES:
            raise InvalidInputError(
                f"a part of the state that cannot be divided takes {len(data):,} bytes",
                code=ErrorCode.VALUE_TOO_LARGE,
                hint="use short keys: a key of a dict is never divided",
            )
        self.seen.add(name)
        if name not in self._stored and name not in self.new:
            self.new[name] = Chunk(name, data, base)


class Sequence:
    """Builds the node of one list, dict or long value."""

    def __init__(self, kind: int, cuts: Cuts, sink: ChunkSink, old: NodeMemo | None) -> None:
        self.memo = NodeMemo(kind)
        self._kind = kind
        self._cuts = cuts
        self._sink = sink
        self._old = old
        self._next_old = 0
        self._levels: list[list[Entry]] = []
        self._count = 0
        self._size = 0
        self._parts: Parts = []
        self._start_run()

    def _start_run(self) -> None:
        self._parts = []
        self._literal: list[bytes] = []
        self._run_weight = 0
        self.run_count = 0
        self._run_size = 0

    def take_over(self, data: bytes, position: int, left: int) -> RunMemo | None:
        """Take over a run of the last save that stands at `position` again, where `left` items may still come."""
        old = self._old
        if old is None or self.run_count:
            return None
        for candidate in (self._next_old, old.find(data[position : position + HEAD_BYTES])):
            if candidate is None or candidate >= len(old.leaves):
                continue
            leaf = old.leaves[candidate]
            if leaf.entry is not None and _stands(leaf, data, position, left):
                self._next_old = candidate + 1
                self._sink.seen.add(leaf.entry.hash)
                self._push_leaf(leaf, leaf.entry)
                return leaf
        if old.tail is not None and _stands(old.tail, data, position, left):
            self._literal = [data[position : position + old.tail.size]]
            self._run_weight = self._run_size = old.tail.size
            self.run_count = old.tail.count
            return old.tail
        return None

    def add(self, part: bytes, number: int) -> bool:
        """Add an item that stands literally; whether it ends the run."""
        self._literal.append(part)
        size = len(part)
        self._run_size += size
        self._run_weight += size
        self.run_count += 1
        return self._cuts.ends_leaf(number, size, self._run_weight)

    def add_node(self, literal: bytes, part: bytes, size: int, number: int) -> bool:
        """Add an item of `size` encoded bytes that stands as literal bytes and a node; whether it ends the run."""
        self._literal.append(literal)
        self._parts += [b"".join(self._literal), part]
        self._literal = []
        self._run_size += size
        weight = len(literal) + self._cuts.node_weight
        self._run_weight += weight
        self.run_count += 1
        return self._cuts.ends_leaf(number, weight, self._run_weight)

    def cut(self, run: memoryview | None, *, binary: bool) -> None:
        """End the run: it becomes a chunk. `run` is its encoded bytes, where they are at hand in one piece."""
        count, size = self.run_count, self._run_size
        self._close(nodes.leaf_chunk(self._take_parts()), count, size, run, binary=binary)

    def add_run(self, piece: bytes) -> None:
        """Add a full run of bytes."""
        self._close(nodes.leaf_chunk([piece]), len(piece), len(piece), None, binary=True)

    def add_tail(self, piece: bytes) -> None:
        """Set the run that stays in the node."""
        self._literal = [piece]
        self.run_count = self._run_size = len(piece)

    def finish(self, run: memoryview | None = None, *, binary: bool = True) -> Node:
        """The node, with what is not full inside. `run` is the encoded bytes of the last run."""
        count, size = self._count + self.run_count, self._size + self._run_size
        if run and not self._parts:
            self.memo.tail = RunMemo(None, self.run_count, self._run_size, fingerprint(run), b"", binary)
        node = Node(self._kind, count, 0, self._levels[::-1], self._take_parts())
        return replace(node, size=size + len(node.header()))

    def _take_parts(self) -> Parts:
        parts = [*self._parts, b"".join(self._literal)]
        self._start_run()
        return parts

    def _close(self, chunk: bytes, count: int, size: int, run: memoryview | None, *, binary: bool) -> None:
        name = hash_chunk(chunk)
        self._sink.put(name, chunk, self._old_leaf())
        self._next_old += 1
        entry = Entry(name, count, size)
        print_, head = (fingerprint(run), bytes(run[:HEAD_BYTES])) if run is not None else (None, b"")
        self._push_leaf(RunMemo(entry, count, size, print_, head, binary), entry)

    def _push_leaf(self, leaf: RunMemo, entry: Entry) -> None:
        self._count += leaf.count
        self._size += leaf.size
        self.memo.leaves.append(leaf)
        self._push(entry, 0)

    def _push(self, entry: Entry, level: int) -> None:
        while True:
            if level == len(self._levels):
                self._levels.append([])
                self.memo.indexes.append([])
            entries = self._levels[level]
            entries.append(entry)
            if not self._cuts.ends_index(entry.hash, len(entries)):
                return
            chunk = nodes.index_chunk(entries)
            name = hash_chunk(chunk)
            self._sink.put(name, chunk, self._old_index(level))
            self.memo.indexes[level].append(name)
            entry = Entry(name, sum(each.count for each in entries), sum(each.size for each in entries))
            self._levels[level] = []
            level += 1

    def _old_leaf(self) -> ChunkHash | None:
        if self._old is None or self._next_old >= len(self._old.leaves):
            return None
        entry = self._old.leaves[self._next_old].entry
        return entry.hash if entry else None

    def _old_index(self, level: int) -> ChunkHash | None:
        if self._old is None or level >= len(self._old.indexes):
            return None
        position, before = len(self.memo.indexes[level]), self._old.indexes[level]
        return before[position] if position < len(before) else None


def _stands(run: RunMemo, data: bytes, position: int, left: int) -> bool:
    # More items than are left would reach into whatever follows this value in the whole.
    if run.print is None or run.count > left or position + run.size > len(data):
        return False
    return fingerprint(memoryview(data)[position : position + run.size]) == run.print
