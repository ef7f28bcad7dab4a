"""A state into a tree of chunks: large lists and dicts are cut into runs of items, other large values into pieces.

The tree is a function of the encoded state alone. What is remembered of the last save adds speed: as many items as a
run had are encoded in one go, and where the bytes have the fingerprint of that run, it is taken over, and is neither
cut, hashed, compressed nor written again. A document (`document.document`) stands on the same builder: it knows which
runs nobody wrote to, and those are not even encoded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice
from typing import Any, Final, NamedTuple

import xxhash

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.codec import msgpack
from holdfast.objects.codec.builtin_types import encoded_type
from holdfast.objects.codec.encode import Encoder, UnaskedError, holds_binary
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree import nodes
from holdfast.objects.tree.boundaries import FORMAT_0, Cuts, literals, token, worth_at_once
from holdfast.objects.tree.new_chunks import HeldChunks
from holdfast.objects.tree.nodes import MAX_STATE_BYTES, Entry, Node, Parts
from holdfast.storage.records import ChunkHash, NewChunk

fingerprint = xxhash.xxh3_128_digest
"""128 bits that tell runs apart within one writer; never stored, never taken for a hash. Called for each run of each
save, so there is no function around it."""

KINDS: Final[dict[type, int]] = {list: nodes.LIST, dict: nodes.DICT}
_TEXT_MARKS: Final = frozenset((*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB))
_MANY: Final = 32
_COUNTED: Final = frozenset((list, dict, str, bytes))


class _OddKeyError(Exception):
    """A dict has a key that is no text, half a surrogate pair, or too large: it is cut into pieces."""


# Not frozen, though nothing changes one: see `nodes.Entry`.
@dataclass(slots=True)
class Run:
    """A run of items as it was saved last."""

    entry: Entry
    """Its chunk. The run at the end is not full, and has none that exists."""
    first: int
    """The `token` of its first item."""
    fingerprint: bytes | None
    """Of its items, encoded as one list; None where nodes stand in it, or something that is written unasked."""
    binary: bool = False
    """Whether there are bytes among its values: a bytearray in their place would be encoded alike."""
    volatile: bool = False
    """Whether it may change without anything being written to the document."""
    mixed: bool = False
    """Whether nodes stand in it."""
    raws: tuple[SavedNode, ...] = ()
    """The nodes in it of values that are no containers."""


@dataclass(slots=True)
class Tail:
    """The run at the end of a node, which is not full."""

    parts: list[bytes]
    weight: int
    run: Run


@dataclass(slots=True)
class SavedNode:
    """A large value as it was saved last: some 250 bytes for each 16 KB, and nothing of what is in it."""

    kind: int
    part: bytes = b""
    """How it stands in its parent."""
    count: int = 0
    size: int = 0
    """Encoded bytes that it stands for."""
    runs: list[Run] = field(default_factory=list)
    covered: int = 0
    """Items in full runs."""
    covered_size: int = 0
    levels: list[list[Entry]] = field(default_factory=list)
    """Entries that are in no index yet, from the lowest level up."""
    indexes: dict[tuple[int, ChunkHash], tuple[Entry, list[Entry]]] = field(default_factory=dict)
    """By level and the first chunk under it."""
    tail: Tail | None = None
    mixed: bool = False
    """Whether nodes stand among its items."""
    spilled: list[ChunkHash] = field(default_factory=list)
    children: dict[Any, SavedNode] = field(default_factory=dict)
    """The containers among its items that are nodes, by key or position; a document does not need them."""
    print: bytes = b""
    """The fingerprint of a value that is cut into pieces."""
    _looked_up: dict[str, Any] = field(default_factory=dict)

    def all_runs(self) -> list[Run]:
        """Those that are full, and the one at the end."""
        return self.runs if self.tail is None else [*self.runs, self.tail.run]

    def run_at(self, start: int) -> int | None:
        """The full run that began at this position."""
        starts: dict[int, int] = self._lookup("starts", self._starts)
        return starts.get(start)

    def run_with(self, first: int) -> int | None:
        """The full run whose first item had this token."""
        firsts: dict[int, int] = self._lookup("firsts", self._firsts)
        return firsts.get(first)

    def raw(self, name: bytes) -> SavedNode | None:
        """The node in it of a value with this fingerprint that is no container."""
        if self.kind == nodes.RAW:
            return self if self.print == name else None
        raws: dict[bytes, SavedNode] = self._lookup("raws", lambda: {raw.print: raw for raw in self._raws()})
        return raws.get(name)

    def chunks(self) -> set[ChunkHash]:
        """Its chunks, without those of containers in it."""
        names: set[ChunkHash] = self._lookup("chunks", self._chunks)
        return names

    def deep_chunks(self) -> set[ChunkHash]:
        """Its chunks, with those of all that is in it."""
        return self.chunks().union(*(child.deep_chunks() for child in self.children.values()))

    def _lookup(self, name: str, make: Callable[[], Any]) -> Any:
        found = self._looked_up.get(name)
        if found is None:
            found = self._looked_up[name] = make()
        return found

    def _starts(self) -> dict[int, int]:
        ends = accumulate([run.entry.count for run in self.runs], initial=0)
        return {start: at for at, start in zip(range(len(self.runs)), ends, strict=False)}

    def _firsts(self) -> dict[int, int]:
        return {run.first: at for at, run in enumerate(self.runs)}

    def _raws(self) -> list[SavedNode]:
        return [raw for run in self.all_runs() for raw in run.raws]

    def _chunks(self) -> set[ChunkHash]:
        names = {run.entry.hash for run in self.runs}
        names.update(self.spilled, [entry.hash for entry, _ in self.indexes.values()])
        return names.union(*(raw.chunks() for raw in self._raws()))


@dataclass(slots=True)
class StateMemo:
    """A state as it was saved last."""

    root: ChunkHash
    node: SavedNode | None


class Built(NamedTuple):
    """A value as it stands in its parent: literally, or as a node."""

    part: bytes
    size: int
    """Encoded bytes; more than the part has where that is a node."""
    node: SavedNode | None


class TreeBuilder:
    """Builds the tree of one state, once.

    Args:
        types: The classes the state may hold.
        memo: The state that the writer saved last.
        cuts: By which it is cut.
        wanted: Whether the chunks are; or the names alone.
    """

    def __init__(
        self,
        types: TypeRegistry,
        memo: StateMemo | None = None,
        cuts: Cuts = FORMAT_0,
        *,
        wanted: bool = True,
    ) -> None:
        self.cuts = cuts
        self.encoder = Encoder(types)
        self.new: dict[ChunkHash, NewChunk] = {}
        """The chunks that the last state did not have."""
        self._memo = memo
        self.probes = memo is None
        """Whether to look for large containers before encoding them: later on, few are new."""
        self._wanted = wanted
        self._held = HeldChunks()
        self._known: set[ChunkHash] | None = None

    def build(self, value: Any) -> tuple[StateMemo, int]:
        """Cut the state; return what to remember of it, and its encoded size.

        Raises:
            InvalidInputError: The state holds something that cannot be saved; the message has its path.
        """
        try:
            built = self.value(value, self._memo.node if self._memo else None, 0)
        except InvalidInputError:
            # Parts do not know where they stand in the state: the whole does, and says what is wrong with it.
            self.new.clear()
            built = self._literally(self.encoder.exactly(value), None)
        return self.root(built), built.size

    def root(self, built: Built, *, always: bool = False) -> StateMemo:
        """Make the root of a value that was built; `always` as a new chunk."""
        _check_size(built.size)
        chunk = bytes((nodes.WHOLE if built.node is None else nodes.TREE,)) + built.part
        name = hash_chunk(chunk)
        before = self._memo.root if self._memo else None
        if name != before or always:
            self.add(name, chunk, before if name != before else None)
        return StateMemo(name, built.node)

    def add(self, name: ChunkHash, data: bytes, base: ChunkHash | None) -> None:
        """Take a chunk; `base` is one that is probably much like it."""
        if self._wanted and name not in self.new:
            self.new[name] = self._held.make(name, data, base)

    def known(self, old: SavedNode | None) -> set[ChunkHash]:  # noqa: ARG002 - a document asks the node alone
        """Chunks that need not be sent again, among them those of the node that is being replaced."""
        if self._known is None:
            node = self._memo.node if self._memo else None
            self._known = set() if node is None else node.deep_chunks()
        return self._known

    def put(self, data: bytes, base: ChunkHash | None, old: SavedNode | None) -> ChunkHash:
        """Name a chunk, and take it if the last state did not have it."""
        name = hash_chunk(data)
        if name not in self.known(old):
            self.add(name, data, base)
        return name

    def value(
        self,
        value: Any,
        old: SavedNode | None,
        depth: int,
        *,
        around: SavedNode | None = None,
        data: bytes = b"",
    ) -> Built:
        """A value as it stands in its parent.

        Args:
            value: The value.
            old: What stood there when the state was saved last, where that was a node.
            depth: In how many nodes it lies.
            around: The node that it lies in, as it was.
            data: The value encoded, where that was done already.
        """
        kind = KINDS.get(encoded_type(value)) if depth < self.cuts.node_depth else None
        # Where it was cut before, or is certain to be, it need not be encoded as a whole to find that out.
        same = old if old is not None and old.kind == kind else None
        if kind is not None and (
            same or (not data and self.probes and _is_larger(value, self.cuts.item_limit))
        ):
            built = self._container(kind, value, same, depth)
            if built is not None:
                return built
        data = data or self.encode(value)
        if kind is not None and len(data) > self.cuts.item_limit:
            built = self._container(kind, value, None, depth)
            if built is not None:
                return built
        return self._literally(data, around or old)

    def _container(self, kind: int, value: Any, old: SavedNode | None, depth: int) -> Built | None:
        """The node of a list or dict; None where it is none, or not to be cut by its items."""
        mark = len(self.new)
        try:
            built = self.cutter(kind, value, old, depth).cut()
        except _OddKeyError:
            built = None
        if built is not None and built.size > self.cuts.item_limit:
            return built
        while len(self.new) > mark:
            self.new.popitem()
        return None

    def _literally(self, data: bytes, old: SavedNode | None) -> Built:
        """Bytes as they are, or cut into pieces."""
        if len(data) <= self.cuts.item_limit:
            return Built(data, len(data), None)
        _check_size(len(data))
        name = fingerprint(data)
        raw = old.raw(name) if old is not None else None
        if raw is None:
            growing = _Growing(self, nodes.RAW, old)
            last = b""
            for piece in self.cuts.pieces(data):
                if last:
                    growing.close([last], Run(Entry(ChunkHash(b""), len(last), len(last)), 0, None))
                last = piece
            raw = growing.finish(Tail([last], 0, Run(Entry(ChunkHash(b""), len(last), len(last)), 0, None)))
            raw.print = name
        return Built(raw.part, raw.size, raw)

    # What a document does in its own way:

    def encode(self, value: Any) -> bytes:
        """One value, exactly."""
        return self.encoder.exactly(value)

    def cutter(self, kind: int, value: Any, old: SavedNode | None, depth: int) -> Cutter:
        """What cuts a list or dict."""
        return Cutter(self, kind, value, old, depth)


class _Growing:
    """A node that is being made: full runs become chunks, their entries gather in indexes."""

    def __init__(self, builder: TreeBuilder, kind: int, old: SavedNode | None) -> None:
        self.node = SavedNode(kind)
        self.next_old = 0
        """The run of the last save that comes next, if everything is as it was."""
        self._builder = builder
        self._bounds = builder.cuts.index_bounds()
        self._old = old

    def take(self, runs: list[Run]) -> None:
        """Take over full runs of the last save that follow each other."""
        self.next_old += len(runs)
        self._push(runs)

    def take_all(self, old: SavedNode) -> None:
        """Take over all full runs of the last save, with the indexes over them."""
        node = self.node
        node.runs, node.covered, node.covered_size = list(old.runs), old.covered, old.covered_size
        node.levels, node.indexes = list(map(list, old.levels)), dict(old.indexes)
        node.mixed = any(run.mixed for run in old.runs) if old.mixed else False
        self.next_old = len(old.runs)

    def close(self, parts: Parts, run: Run) -> None:
        """End a run: it becomes a chunk."""
        old, at = self._old, self.next_old
        base = old.runs[at].entry.hash if old is not None and at < len(old.runs) else None
        run.entry.hash = self._builder.put(nodes.leaf_chunk(parts), base, old)
        self.next_old += 1
        self._push([run])

    def finish(self, tail: Tail) -> SavedNode:
        """The node, with what is not full inside."""
        node, old = self.node, self._old
        node.tail = tail
        node.mixed = node.mixed or tail.run.mixed
        node.count = node.covered + tail.run.entry.count
        node.size = node.covered_size + tail.run.entry.size + len(nodes.header(node.kind, node.count))
        node.part, spilled = within_limit(
            Node(node.kind, node.count, node.size, node.levels[::-1], tail.parts), self._builder.cuts
        )
        before = old.spilled if old is not None else []
        for at, data in enumerate(spilled):
            node.spilled.append(self._builder.put(data, before[at] if at < len(before) else None, old))
        return node

    def _push(self, runs: list[Run]) -> None:
        node, level = self.node, 0
        entries = [run.entry for run in runs]
        node.runs += runs
        node.mixed = node.mixed or any(run.mixed for run in runs)
        node.covered += sum([entry.count for entry in entries])
        node.covered_size += sum([entry.size for entry in entries])
        # The indexes that come to their end on one level are what is added to the next.
        while entries:
            if level == len(node.levels):
                node.levels.append([])
            held, ended = node.levels[level], []
            for entry in entries:
                held.append(entry)
                if entry.hash < self._bounds[len(held)]:
                    ended.append(self._index(level, held))
                    held = []
            node.levels[level] = held
            entries, level = ended, level + 1

    def _index(self, level: int, held: list[Entry]) -> Entry:
        key = level, held[0].hash
        known = self._old.indexes.get(key) if self._old is not None else None
        # Entries that were taken over are the same objects: comparing them takes no time.
        if known is None or known[1] != held:
            name = self._builder.put(nodes.index_chunk(held), known[0].hash if known else None, self._old)
            known = Entry(name, sum([each.count for each in held]), sum([each.size for each in held])), held
        self.node.indexes[key] = known
        return known[0]


class Cutter:
    """A list, or a dict as pairs, on its way into a node."""

    looks = True
    """Whether values may be among the items that are written without asking."""

    def __init__(
        self, builder: TreeBuilder, kind: int, value: Any, old: SavedNode | None, depth: int
    ) -> None:
        self.builder = builder
        self.encode_run: Callable[[list[Any]], bytes] = builder.encoder.unasked
        """Encodes a list of values; what is written unasked is for `holds_binary` to find."""
        self.growing = _Growing(builder, kind, old)
        self.old = old
        self.pairs = kind == nodes.DICT
        self.items: list[Any] = []
        """Those behind what was taken over to begin with."""
        self.begin = 0
        """So many were."""
        self.at = 0
        """The next item, counted from there."""
        self._cuts = builder.cuts
        self.depth = depth + 1
        self._missed = -1
        """The last item at which no run of the last save stood again."""
        self._alone_until = 0
        """Up to which item each is looked at by itself."""
        self._start_run()
        self.open(value)

    def open(self, value: Any) -> None:
        """Take the items."""
        # A copy: another thread may be changing it.
        self.items = list(value.items()) if self.pairs else list(value)
        # Where nodes were among the items each is asked about.
        if self.old is not None and self.old.mixed:
            self.ask_each()

    def ask_each(self) -> None:
        """Look at each item by itself."""
        self._alone_until = sys.maxsize

    def _start_run(self) -> None:
        self._parts: Parts = []
        self._literal: list[bytes] = []
        self._weight = self._count = self._size = self._first = 0
        self._raws: list[SavedNode] = []
        self._binary = self._unasked = False

    def start_with(self, tail: Tail) -> None:
        """Begin with the run that was at the end of the last save."""
        run = tail.run
        self._parts, self._literal = tail.parts[:-1], tail.parts[-1:]
        self._weight, self._first, self._raws = tail.weight, run.first, list(run.raws)
        self._count, self._size = run.entry.count, run.entry.size
        self._binary, self._unasked = run.binary, run.fingerprint is None and not run.mixed

    def cut(self) -> Built:
        """Go through all items."""
        total = len(self.items)
        while self.at < total:
            if not self._count and self.old is not None and self._missed != self.at and self.take(self.old):
                continue
            if self._alone_until > self.at or not self._add_several():
                self._add_next()
        tail = [*self._parts, b"".join(self._literal)]
        node = self.growing.finish(Tail(tail, self._weight, self._run(tail, full=False)))
        return Built(node.part, node.size, node)

    def take(self, old: SavedNode) -> bool:
        """Take over runs of the last save that stand here again; whether there are any."""
        before = self.at
        self._follow(old)
        if self.at == before:
            # Something was inserted or removed: the run may be one from further on, or from before.
            item = self.items[self.at]
            position = old.run_with(token(self.builder.encode(item[0] if self.pairs else item)))
            if position is not None and position != self.growing.next_old:
                self.growing.next_old = position
                self._follow(old)
        self._missed = self.at
        return self.at > before

    def _follow(self, old: SavedNode) -> None:
        """Take over runs for as long as each stands where the last one ended."""
        taken: list[Run] = []
        items, at, encode, pairs = self.items, self.at, self.encode_run, self.pairs
        total = len(items)
        # The heart of saving a state that was saved before: one call for each run.
        for run in islice(old.runs, self.growing.next_old, None):
            stop = at + run.entry.count
            if run.fingerprint is None or stop > total:
                break
            several = list(chain.from_iterable(items[at:stop])) if pairs else items[at:stop]
            data = encode(several)
            if fingerprint(data) != run.fingerprint or (run.binary and not _holds_bytes(several, data)):
                break
            taken.append(run)
            at = stop
        self.at = at
        self.growing.take(taken)
        if old.tail is not None and self.growing.next_old == len(old.runs):
            run = old.tail.run
            stop = at + run.entry.count
            if run.fingerprint is not None and at < stop <= total:
                several = self._several(at, stop)
                data = encode(several)
                if fingerprint(data) == run.fingerprint and (not run.binary or _holds_bytes(several, data)):
                    self.start_with(old.tail)
                    self.at = stop

    def _several(self, start: int, stop: int) -> list[Any]:
        """Items as they are encoded in one go."""
        items = self.items[start:stop]
        return list(chain.from_iterable(items)) if self.pairs else items

    def _add_several(self) -> bool:
        """Add some of the next items, if they are many and small; whether that was done."""
        # As many as are like those of this run and the one before, not like all of them: behind a million numbers there
        # may be long texts, and most of what is encoded of those would be encoded for nothing.
        count, size, runs = self._count, self._size, self.growing.node.runs
        if runs:
            count, size = count + runs[-1].entry.count, size + runs[-1].entry.size
        items = self.items[self.at : self.at + worth_at_once(count, size)]
        if len(items) < 2:
            return False
        encoded = self._encode_each([value for _, value in items] if self.pairs else items)
        names = self._names([key for key, _ in items]) if self.pairs and encoded is not None else []
        if encoded is None or names is None:
            self._alone_until = self.at + len(items)
            return False
        parts, numbers = literals(encoded, names)
        sizes = list(map(len, parts))
        end = self._cuts.first_end(numbers, sizes, self._weight)
        taken = len(parts) if end is None else end + 1
        self._first = self._first if self._count else numbers[0]
        self._literal += parts[:taken]
        more = sum(sizes[:taken])
        self._size += more
        self._weight += more
        self._count += taken
        self.at += taken
        if end is not None:
            self._close()
        return True

    def _encode_each(self, values: list[Any]) -> list[bytes] | None:
        """The bytes of values that all stand literally; None where one of them may not, or has to be asked about."""
        if self.builder.probes and any(worth_asking(value, len(self.items)) for value in values):
            return None
        encoded = self.encode_each(values)
        if encoded is None or len(max(encoded, key=len)) > self._cuts.item_limit:
            return None
        try:
            self._binary = (self.looks and holds_binary(values, b"".join(encoded))) or self._binary
        except UnaskedError:
            return None
        return encoded

    def _names(self, keys: list[Any]) -> list[bytes] | None:
        """The bytes of keys; None where one of them is odd."""
        names = self.builder.encoder.each(keys)
        limit = self._cuts.item_limit
        if names is None or {*map(type, keys)} - {str} or any(len(name) > limit for name in names):
            return None
        return names

    def _name(self, key: Any) -> bytes:
        name = self.builder.encode(key)
        if type(key) is not str or name[0] not in _TEXT_MARKS or len(name) > self._cuts.item_limit:
            raise _OddKeyError
        return name

    def _add_next(self) -> None:
        """Add the next item."""
        name, key, value = b"", self.begin + self.at, self.items[self.at]
        if self.pairs:
            key, value = value
            name = self._name(key)
        self.at += 1
        old = self.child(key, value)
        built = self.built(value, old)
        number = token(name or built.part)
        self._first = self._first if self._count else number
        self._literal.append(name)
        if built.node is None:
            self._literal.append(built.part)
            weight = len(name) + built.size
        else:
            self._parts += [b"".join(self._literal), built.part]
            self._literal = []
            weight = len(name) + self._cuts.node_weight
            self.keep(key, value, built.node)
        self._size += len(name) + built.size
        self._weight += weight
        self._count += 1
        if self._cuts.ends_leaf(number, weight, self._weight):
            self._close()

    def built(self, value: Any, old: SavedNode | None) -> Built:
        """An item as it stands in its run."""
        if old is not None or (self.builder.probes and worth_asking(value, len(self.items))):
            built = self.builder.value(value, old, self.depth, around=self.old)
            if built.node is None and self.looks:
                self._look(value, built.part)
            return built
        data = self.encode(value)
        if len(data) <= self._cuts.item_limit:
            return Built(data, len(data), None)
        return self.builder.value(value, None, self.depth, around=self.old, data=data)

    def encode(self, value: Any) -> bytes:
        """One value, exactly."""
        data = self.builder.encoder.unasked(value)
        return data if self._look(value, data) else self.builder.encoder.exactly(value)

    def _look(self, value: Any, data: bytes) -> bool:
        """Note whether there are bytes in a value; return whether nothing was written unasked."""
        try:
            self._binary = holds_binary([value], data) or self._binary
        except UnaskedError:
            # In a run that is encoded in one go it is written as something else.
            self._unasked = True
            return False
        return True

    def _close(self) -> None:
        parts = [*self._parts, b"".join(self._literal)]
        self.growing.close(parts, self._run(parts))
        self._start_run()

    def _run(self, parts: Parts, *, full: bool = True) -> Run:
        """What is remembered of the run that ends here."""
        entry = Entry(ChunkHash(b""), self._count, self._size)
        run = Run(entry, self._first, None, raws=tuple(self._raws), volatile=self.volatile(self._count))
        if len(parts) > 1:
            run.mixed = True
            return run
        if not self.looks and not full:
            # A document knows whether its last run is as it was.
            return run
        several = 2 * self._count if self.pairs else self._count
        run.fingerprint = fingerprint(msgpack.array_header(several) + parts[0])
        run.binary = self._binary
        if self._unasked:
            run.fingerprint = None
        return run

    # What a document does in its own way:

    def encode_each(self, items: Iterable[Any]) -> list[bytes] | None:
        """Some values one by one, if that needs no care."""
        return self.builder.encoder.each(items)

    def child(self, key: Any, value: Any) -> SavedNode | None:  # noqa: ARG002 - a document asks the value
        """The node that the value was when the state was saved last."""
        return self.old.children.get(key) if self.old is not None else None

    def keep(self, key: Any, value: Any, node: SavedNode) -> None:  # noqa: ARG002 - as above
        """Remember the node of a value."""
        if node.kind == nodes.RAW:
            self._raws.append(node)
        else:
            self.growing.node.children[key] = node

    def volatile(self, count: int) -> bool:  # noqa: ARG002 - as above
        """Whether the last so many items may change unnoticed."""
        return False


def _holds_bytes(values: list[Any], encoded: bytes) -> bool:
    try:
        return holds_binary(values, encoded)
    except UnaskedError:
        return False


def within_limit(node: Node, cuts: Cuts) -> tuple[bytes, list[bytes]]:
    """The node, packed to no more bytes than it may have; and the chunks that it gave away, from its run up.

    A node keeps its unfinished run and unfinished indexes inside, and stands in its parent's run. Nodes in nodes in
    nodes, each of them small, would so add up to one chunk as large as the state. The rule depends on the node alone:
    what would be packed to more than the limit gives away its run first, and then its entries, from the lowest level
    up. The states that agents have never come near it.
    """
    part = node.pack()
    spilled: list[bytes] = []
    if len(part) <= cuts.node_limit:
        return part, spilled
    levels = [list(level) for level in reversed(node.levels)] or [[]]

    def given_away(data: bytes, count: int, size: int) -> Entry:
        spilled.append(data)
        return Entry(hash_chunk(data), count, size)

    def packed() -> bytes:
        return Node(node.kind, node.count, node.size, levels[::-1], [b""]).pack()

    count = node.count - sum(entry.count for level in levels for entry in level)
    size = node.size - len(node.header()) - sum(entry.size for level in levels for entry in level)
    if count:
        levels[0].append(given_away(nodes.leaf_chunk(node.tail), count, size))
    height = 0
    while len(part := packed()) > cuts.node_limit and height < len(levels):
        held = levels[height]
        # One entry alone is no smaller in an index; and each level has to hold two at least of the one below.
        if len(held) > 1:
            if height + 1 == len(levels):
                levels.append([])
            sums = sum(entry.count for entry in held), sum(entry.size for entry in held)
            levels[height + 1].append(given_away(nodes.index_chunk(held), *sums))
            levels[height] = []
        height += 1
    return part, spilled


def worth_asking(value: Any, beside: int) -> bool:
    """Whether a value that stands `beside` so many others may be so large that it pays to ask before encoding it.

    Items of long lists are many and small, and are not asked about, unless they hold many others themselves.
    """
    return encoded_type(value) in KINDS and (beside < _MANY or len(value) >= _MANY)


def _is_larger(value: Any, limit: int) -> bool:
    """Whether a list or dict is certain to be encoded to more bytes than this. It looks at no more values than that.

    Encoding a large one only to learn that it has to be cut takes as much memory as itself, and time. A value of which
    this says no may still be large: the encoded bytes tell.
    """
    size = 0
    to_do = [value]
    while to_do:
        each = to_do.pop()
        # Each item of a list and each half of a pair takes a byte at least, and each character of a text.
        size += len(each)
        if size > limit:
            return True
        kind = encoded_type(each)
        if kind is dict:
            size += len(each)
            to_do += [item for item in list(each.values()) if encoded_type(item) in _COUNTED]
        elif kind is list:
            to_do += [item for item in list(each) if encoded_type(item) in _COUNTED]
    return False


def _check_size(size: int) -> None:
    if size > MAX_STATE_BYTES:
        raise InvalidInputError(
            f"the state takes {size:,} bytes encoded, and {MAX_STATE_BYTES:,} is the most that can be saved",
            code=ErrorCode.VALUE_TOO_LARGE,
            hint="keep large data in files of its own, and their paths in the state",
            size_bytes=size,
        )
