"""One sequence on its way into a tree: items gather in runs, full runs become chunks, entries gather in indexes.

The run at the end, and the entries at the end of each level, are not full; they stay in the node, unless they make it
too large (`spilling`). Adding to the end of a long list therefore changes the node alone, until a run is full.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from holdfast.objects.codec import msgpack
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree import nodes
from holdfast.objects.tree.boundaries import Cuts, worth_at_once
from holdfast.objects.tree.memo import HEAD_BYTES, Alike, IndexMemo, NodeMemo, RunMemo, fingerprint
from holdfast.objects.tree.new_chunks import HeldChunks
from holdfast.objects.tree.nodes import Entry, Node, Parts
from holdfast.objects.tree.spilling import within_limit
from holdfast.record import Record
from holdfast.storage.records import ChunkHash, NewChunk


class ChunkSink:
    """Collects the chunks of a state: the names of all, the bytes of those that the store does not have yet."""

    def __init__(self, stored: frozenset[ChunkHash]) -> None:
        self._stored = stored
        self.seen: list[ChunkHash] = []
        """All of them, some more than once."""
        self.new: dict[ChunkHash, NewChunk] = {}
        self._held = HeldChunks()

    def put(self, name: ChunkHash, data: bytes, base: ChunkHash | None) -> None:
        """Take a chunk; `base` is one that is probably much like it."""
        self.seen.append(name)
        if name not in self._stored and name not in self.new:
            self.new[name] = self._held.make(name, data, base)

    def mark(self) -> tuple[int, int]:
        """How far it is now, to come back to."""
        return len(self.seen), len(self.new)

    def take_back(self, mark: tuple[int, int]) -> None:
        """Forget what was put since `mark`: what it was made for is cut another way."""
        del self.seen[mark[0] :]
        while len(self.new) > mark[1]:
            self.new.popitem()


class Finished(Record):
    """A sequence as it stands in its parent."""

    part: bytes
    """Its node, packed."""
    size: int
    """Encoded bytes that the node stands for."""


class Sequence:
    """Builds the node of one list, dict or long value."""

    def __init__(self, kind: int, cuts: Cuts, sink: ChunkSink, old: NodeMemo | None) -> None:
        self.memo = NodeMemo(kind)
        self._kind = kind
        self._cuts = cuts
        self._sink = sink
        self._old = old
        self.next_old = 0
        """The run of the last save that comes next, if everything is as it was."""
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

    def take(self, runs: list[RunMemo]) -> None:
        """Take over runs of the last save that follow each other; all of them full."""
        self.next_old += len(runs)
        entries = [run.entry for run in runs if run.entry is not None]
        self._sink.seen += [entry.hash for entry in entries]
        self._push_leaves(runs, entries)

    def take_tail(self, run: RunMemo, literal: bytes) -> None:
        """Begin with the run that was at the end of the last save."""
        self.next_old += 1
        self._literal = [literal]
        self._run_weight = self._run_size = run.size
        self.run_count = run.count

    def add(self, part: bytes, number: int) -> bool:
        """Add an item that stands literally; whether it ends the run."""
        self._literal.append(part)
        size = len(part)
        self._run_size += size
        self._run_weight += size
        self.run_count += 1
        return self._cuts.ends_leaf(number, size, self._run_weight)

    def add_several(self, parts: list[bytes], numbers: list[int]) -> tuple[int, bool]:
        """Add items that stand literally, up to one that ends the run: how many, and whether there was one."""
        sizes = list(map(len, parts))
        end = self._cuts.first_end(numbers, sizes, self._run_weight)
        taken = len(parts) if end is None else end + 1
        self._literal += parts[:taken]
        size = sum(sizes[:taken])
        self._run_size += size
        self._run_weight += size
        self.run_count += taken
        return taken, end is not None

    def at_once(self) -> int:
        """How many of the next items to encode at once, if they are like those of this run and the one before."""
        # Not like all of them: behind a million numbers there may be long texts, and most of what is encoded of those
        # would be encoded for nothing.
        count, size = self.run_count, self._run_size
        if self.memo.leaves:
            count, size = count + self.memo.leaves[-1].count, size + self.memo.leaves[-1].size
        return worth_at_once(count, size)

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

    def alone(self) -> bytes | None:
        """The run as a list of its own is encoded, of keys and values in turn; None where nodes stand in it."""
        if self._parts:
            return None
        self._literal = [b"".join(self._literal)]
        return self._header(self.run_count) + self._literal[0]

    def _header(self, count: int) -> bytes:
        return msgpack.array_header(count if self._kind == nodes.LIST else 2 * count)

    def cut(self, *, binary: bool, looked: bytes | None = None, alike: Alike | None = None) -> None:
        """End the run: it becomes a chunk.

        Args:
            binary: Whether there are bytes among its values.
            looked: A print to remember it by, in place of its own.
            alike: What is to be remembered beside that.
        """
        count, size = self.run_count, self._run_size
        parts = self._take_parts()
        run = self._remembered(parts, count, size, binary=binary)
        self._close(parts, run if looked is None else replace(run, print=looked, looked=True, alike=alike))

    def add_pieces(self, pieces: Iterable[bytes]) -> None:
        """Add runs of bytes: all of them are full but the last, which stays in the node."""
        last = b""
        for piece in pieces:
            if last:
                self._close([last], RunMemo(None, len(last), len(last), None, b"", binary=True))
            last = piece
        self._literal = [last]
        self.run_count = self._run_size = len(last)

    def finish(self, *, binary: bool = True) -> Finished:
        """The node, with what is not full inside; `binary` as in `cut`."""
        run_count, run_size = self.run_count, self._run_size
        count, size = self._count + run_count, self._size + run_size
        parts = self._take_parts()
        if run_count:
            self.memo.tail = self._remembered(parts, run_count, run_size, binary=binary)
        size += len(nodes.header(self._kind, count))
        node = Node(self._kind, count, size, self._levels[::-1], parts)
        part, spilled = within_limit(node, self._cuts)
        before = self._old.spilled if self._old else []
        for position, (name, data) in enumerate(spilled):
            self._sink.put(name, data, before[position] if position < len(before) else None)
            self.memo.spilled.append(name)
        return Finished(part, size)

    def _take_parts(self) -> Parts:
        parts = [*self._parts, b"".join(self._literal)]
        self._start_run()
        return parts

    def _remembered(self, parts: Parts, count: int, size: int, *, binary: bool) -> RunMemo:
        if len(parts) > 1 or self._kind == nodes.RAW:
            return RunMemo(None, count, size, None, b"", binary)
        run = parts[0]
        return RunMemo(None, count, size, fingerprint(self._header(count) + run), run[:HEAD_BYTES], binary)

    def _close(self, parts: Parts, run: RunMemo) -> None:
        chunk = nodes.leaf_chunk(parts)
        name = hash_chunk(chunk)
        self._sink.put(name, chunk, self._old_leaf())
        self.next_old += 1
        entry = Entry(name, run.count, run.size)
        self._push_leaves([replace(run, entry=entry)], [entry])

    def _push_leaves(self, leaves: list[RunMemo], entries: list[Entry]) -> None:
        self._count += sum([leaf.count for leaf in leaves])
        self._size += sum([leaf.size for leaf in leaves])
        self.memo.leaves += leaves
        level = 0
        # The indexes that come to their end on one level are what is added to the next.
        while entries:
            entries = self._push(entries, level)
            level += 1

    def _push(self, entries: list[Entry], level: int) -> list[Entry]:
        if level == len(self._levels):
            self._levels.append([])
            self.memo.indexes.append([])
        bounds, held = self._cuts.index_bounds(), self._levels[level]
        ended = []
        for entry in entries:
            held.append(entry)
            if entry.hash < bounds[len(held)]:
                index = self._index(held, self._old_index(level))
                self.memo.indexes[level].append(index)
                ended.append(index.entry)
                held = []
        self._levels[level] = held
        return ended

    def _index(self, entries: list[Entry], old: IndexMemo | None) -> IndexMemo:
        # Entries that were taken over are the same objects: comparing them takes no time.
        if old is not None and old.entries == entries:
            self._sink.seen.append(old.entry.hash)
            return old
        chunk = nodes.index_chunk(entries)
        name = hash_chunk(chunk)
        self._sink.put(name, chunk, old.entry.hash if old else None)
        sums = sum(each.count for each in entries), sum(each.size for each in entries)
        return IndexMemo(Entry(name, *sums), entries)

    def _old_leaf(self) -> ChunkHash | None:
        if self._old is None or self.next_old >= len(self._old.leaves):
            return None
        entry = self._old.leaves[self.next_old].entry
        return entry.hash if entry else None

    def _old_index(self, level: int) -> IndexMemo | None:
        if self._old is None or level >= len(self._old.indexes):
            return None
        position, before = len(self.memo.indexes[level]), self._old.indexes[level]
        return before[position] if position < len(before) else None
