"""A state into a tree of chunks: large lists and dicts are cut into runs of items, other large values into pieces.

The tree is a function of the encoded state alone. What the memo of the last save adds is speed: as many items as a run
had are encoded in one go, and where the bytes have the fingerprint of that run, it is taken over. What lies between is
encoded and looked at item by item, or some items at once where they are small. A state that was large before is so
never encoded as a whole: its bytes stay in the processor's cache until they are done with, which takes less time than
one long call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.codec.builtin_types import encoded_type
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree import nodes
from holdfast.objects.tree.boundaries import FORMAT_0, Cuts, literals, token
from holdfast.objects.tree.bulk import BulkPacker, UnaskedError, has_binary
from holdfast.objects.tree.memo import HEAD_BYTES, NodeMemo, RunMemo, StateMemo, fingerprint
from holdfast.objects.tree.nodes import MAX_STATE_BYTES
from holdfast.objects.tree.probing import is_larger, worth_asking
from holdfast.objects.tree.sequence import ChunkSink, Sequence

_MAP_MARKS: Final = frozenset((*range(0x80, 0x90), 0xDE, 0xDF))
_TEXT_MARKS: Final = frozenset((*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB))
_KINDS: Final[dict[type, int]] = {list: nodes.LIST, dict: nodes.DICT}


class _OddKeyError(Exception):
    """A dict has a key that is no text, half a surrogate pair, or too large: it is cut another way."""


@dataclass(slots=True)
class _Built:
    """A value as it stands in its parent: literally, or as a node with the memo of it."""

    part: bytes
    size: int
    """Encoded bytes; more than the part has where that is a node."""
    memo: NodeMemo | None


class Splitter:
    """Cuts one state; the chunks go into `sink`."""

    def __init__(self, types: TypeRegistry, memo: StateMemo | None, cuts: Cuts = FORMAT_0) -> None:
        self._types = types
        self._memo = memo
        self.cuts = cuts
        self._stored = memo.chunks if memo else frozenset()
        self.sink = ChunkSink(self._stored)
        self.packer = BulkPacker(types)
        self.encode: Callable[[Any], bytes] = self.packer.pack
        self.asks = memo is None
        """Whether to look for large values before encoding them: in a state that was saved before, few are new."""
        self.exact = False
        """Whether `encode` can be trusted with every value; see `bulk`."""

    def split(self, value: Any) -> tuple[StateMemo, int]:
        """Cut the state; return what to remember of it, and its encoded size.

        Raises:
            InvalidInputError: The state holds something that cannot be saved; the message has its path.
        """
        old = self._memo.node if self._memo else None
        try:
            try:
                built = self.build(value, old, 0)
            except UnaskedError:
                self.sink, self.exact, self.encode = ChunkSink(self._stored), True, self._encode_exactly
                built = self.build(value, old, 0)
        except InvalidInputError:
            # Parts do not know where they stand in the state: the whole does, and says what is wrong with it.
            self.sink = ChunkSink(self._stored)
            data = self._encode_exactly(value)
            _check_size(len(data))
            built = _Built(data, len(data), None) if len(data) <= self.cuts.item_limit else self._pieces(data)
        _check_size(built.size)
        kind = nodes.TREE if built.memo else nodes.WHOLE
        data = bytes((kind,)) + built.part
        root = hash_chunk(data)
        self.sink.put(root, data, self._memo.root if self._memo else None)
        return StateMemo(root, built.memo, frozenset(self.sink.seen)), built.size

    def build(self, value: Any, old: NodeMemo | None, depth: int) -> _Built:
        """A value as it stands in its parent; `old` is what stood there."""
        kind = _KINDS.get(encoded_type(value))
        if kind is not None:
            # Where it was cut before, or is certain to be, it need not be encoded as a whole to find that out.
            was_cut = old is not None and old.kind == kind
            if was_cut or (self.asks and is_larger(value, self.cuts.item_limit, self.packer.glance_of)):
                built = self._container(kind, value, old if was_cut else None, depth)
                if built is not None:
                    return built
        data = self.encode(value)
        if len(data) > self.cuts.item_limit:
            return self.large(value, data, depth)
        self.has_binary([value], data)
        return _Built(data, len(data), None)

    def large(self, value: Any, data: bytes, depth: int) -> _Built:
        """The node of a value that is encoded as `data`, and was none before."""
        _check_size(len(data))
        kind = _KINDS.get(encoded_type(value))
        if kind is not None and (kind == nodes.LIST or data[0] in _MAP_MARKS):
            built = self._container(kind, value, None, depth)
            if built is not None:
                return built
        self.has_binary([value], data)
        return self._pieces(data)

    def has_binary(self, values: list[Any], data: bytes) -> bool:
        """Whether there are bytes among these values, which are encoded as `data`."""
        return self.exact or has_binary(values, data)

    def _encode_exactly(self, value: Any) -> bytes:
        return encode_value(value, self._types)

    def _container(self, kind: int, value: Any, old: NodeMemo | None, depth: int) -> _Built | None:
        """The node of a list or dict; None where it is none, or not to be cut by its items."""
        if depth >= self.cuts.node_depth:
            return None
        mark = self.sink.mark()
        # A copy: another thread may be changing it.
        items = list(value) if kind == nodes.LIST else list(value.items())
        try:
            built = _Container(self, kind, items, old, depth).cut()
        except _OddKeyError:
            built = None
        if built is not None and built.size > self.cuts.item_limit:
            return built
        self.sink.take_back(mark)
        return None

    def _pieces(self, data: bytes) -> _Built:
        sequence = Sequence(nodes.RAW, self.cuts, self.sink, None)
        sequence.add_pieces(self.cuts.pieces(data))
        return _Built(*sequence.finish(), sequence.memo)


class _Container:
    """A list, or a dict as a list of pairs, on its way through `Sequence`."""

    def __init__(
        self, splitter: Splitter, kind: int, items: list[Any], old: NodeMemo | None, depth: int
    ) -> None:
        self._splitter = splitter
        self._kind = kind
        self._items = items
        self._old = old
        self._depth = depth
        self._sequence = Sequence(kind, splitter.cuts, splitter.sink, old)
        self._index = 0
        """Of the next item."""
        self._missed = -1
        """The last item at which no run of the last save stood again."""
        self._values: list[Any] = []
        """What stands literally in the run, of the items that were encoded one by one."""
        self._encoded: list[bytes] = []
        """And how each of them is encoded."""
        self._binary = False
        # Where there were nodes among the items each is asked about, and exact encoding knows no other way.
        self._alone_until = len(items) if splitter.exact or (old is not None and old.children) else 0
        """Up to which item each is looked at by itself."""

    def cut(self) -> _Built:
        """Go through all items."""
        sequence, count = self._sequence, len(self._items)
        while self._index < count:
            if sequence.run_count == 0 and self._old is not None and self._take_over(self._old):
                continue
            several = self._alone_until <= self._index < count - 1
            if self._add_several() if several else self._add_next():
                self._end_run()
        return _Built(*sequence.finish(binary=self._holds_binary()), sequence.memo)

    def _end_run(self) -> None:
        binary, packer = self._holds_binary(), self._splitter.packer
        looked = None
        if packer.met_objects:
            packer.met_objects = False
            looked = self._look_back()
        if looked is None:
            self._sequence.cut(binary=binary)
        else:
            self._sequence.cut(binary=looked[1], looked=looked[0], alike=packer.alike)

    def _look_back(self) -> tuple[bytes, bool] | None:
        """The print of `BulkPacker.look` for the run that ends here, and whether it saw bytes; or None."""
        alone, packer = self._sequence.alone(), self._splitter.packer
        several = self._several(self._index - self._sequence.run_count, self._index)
        data = None if alone is None else packer.look(several)
        # Another thread may have changed an object since it was encoded. What would be remembered then is a state that
        # is in no chunk, and the change would never be saved.
        if data is None or self._splitter.encode(several) != alone:
            return None
        try:
            return fingerprint(data), has_binary([*several, *packer.glanced], data)
        except UnaskedError:
            return None

    def _several(self, start: int, stop: int) -> list[Any]:
        """Items as they are encoded in one go."""
        items = self._items[start:stop]
        return list(chain.from_iterable(items)) if self._kind == nodes.DICT else items

    def _looks_same(self, run: RunMemo, several: list[Any]) -> bool:
        """Whether a run that is remembered by its look is these items."""
        packer = self._splitter.packer
        data = None if self._splitter.exact else packer.look_again(several, run.alike)
        if data is None or fingerprint(data) != run.print:
            return False
        try:
            return not run.binary or has_binary([*several, *packer.glanced], data)
        except UnaskedError:
            return False

    def _take_over(self, old: NodeMemo) -> bool:
        """Take over runs of the last save that stand here again; whether there are any."""
        start = self._index
        if self._missed != start:
            self._follow(old)
        if self._index == start:
            # Something was inserted or removed: the run may be one from further on, or from before.
            position = old.find(self._head(old))
            if position is not None and position != self._sequence.next_old:
                self._sequence.next_old = position
                self._follow(old)
        return self._index > start

    def _follow(self, old: NodeMemo) -> None:
        """Take over runs for as long as each stands where the last one ended."""
        encode, items, index = self._splitter.encode, self._items, self._index
        taken: list[RunMemo] = []
        tail: tuple[RunMemo, bytes] | None = None
        count = len(items)
        for run in old.runs()[self._sequence.next_old :]:
            stop = index + run.count
            if run.print is None or stop > count:
                break
            several = self._several(index, stop)
            if run.looked:
                if not self._looks_same(run, several):
                    break
                taken.append(run)
                index = stop
                continue
            data = encode(several)
            if fingerprint(data) != run.print:
                break
            if run.binary:
                self._splitter.has_binary(several, data)
            index = stop
            if run.entry is None:
                tail = run, data[-run.size :]
                break
            taken.append(run)
        self._sequence.take(taken)
        if tail is not None:
            self._sequence.take_tail(*tail)
            self._binary = tail[0].binary
        self._index = self._missed = index

    def _head(self, old: NodeMemo) -> bytes:
        """How a run that begins here would begin."""
        head, index = b"", self._index
        while len(head) < HEAD_BYTES and index < len(self._items):
            item = self._items[index]
            pair = item if self._kind == nodes.DICT else (index, item)
            if pair[0] in old.children:
                # It is probably still a node, and large; a run with a node in it is never taken over.
                return b""
            head += b"".join(map(self._splitter.encode, pair if self._kind == nodes.DICT else pair[1:]))
            index += 1
        return head[:HEAD_BYTES]

    def _add_several(self) -> bool:
        """Add some of the next items, if they are many and small, else the next one; whether the last ends the run."""
        count = self._sequence.at_once()
        if count == 1:
            return self._add_next()
        items = self._items[self._index : self._index + count]
        keys, values = zip(*items, strict=True) if self._kind == nodes.DICT else ((), items)
        names, encoded = self._names(keys), self._encode_each(values)
        if names is None or encoded is None:
            self._alone_until = self._index + len(items)
            return self._add_next()
        taken, ended = self._sequence.add_several(*literals(encoded, names))
        self._values += values[:taken]
        self._encoded += encoded[:taken]
        self._index += taken
        return ended

    def _encode_each(self, values: Collection[Any]) -> list[bytes] | None:
        """The bytes of values that all stand literally; None where one of them may not, or has to be asked about."""
        splitter, beside = self._splitter, len(self._items)
        if splitter.asks and any(worth_asking(value, beside) for value in values):
            return None
        encoded = splitter.packer.pack_each(values)
        if encoded is None or len(max(encoded, key=len)) > splitter.cuts.item_limit:
            return None
        return encoded

    def _names(self, keys: Collection[Any]) -> list[bytes] | None:
        """The bytes of keys; None where one of them is odd."""
        names = self._splitter.packer.pack_each(keys)
        limit = self._splitter.cuts.item_limit
        if names is None or {*map(type, keys)} - {str} or any(len(name) > limit for name in names):
            return None
        return names

    def _add_next(self) -> bool:
        """Add the next item; whether it ends the run."""
        splitter, index = self._splitter, self._index
        self._index += 1
        name, key, value = b"", index, self._items[index]
        if self._kind == nodes.DICT:
            key, value = value
            name = self._name(key)
        old = self._old.children.get(key) if self._old is not None else None
        if old is None and not (splitter.asks and worth_asking(value, len(self._items))):
            part = splitter.encode(value)
            if len(part) <= splitter.cuts.item_limit:
                self._values.append(value)
                self._encoded.append(part)
                return self._sequence.add(name + part, token(name or part))
            built = splitter.large(value, part, self._depth + 1)
        else:
            built = splitter.build(value, old, self._depth + 1)
        if built.memo is None:
            self._values.append(value)
            self._encoded.append(built.part)
            return self._sequence.add(name + built.part, token(name or built.part))
        self._sequence.memo.children[key] = built.memo
        return self._sequence.add_node(name, built.part, len(name) + built.size, token(name or built.part))

    def _name(self, key: Any) -> bytes:
        name = self._splitter.encode(key)
        if type(key) is not str or name[0] not in _TEXT_MARKS or len(name) > self._splitter.cuts.item_limit:
            raise _OddKeyError
        return name

    def _holds_binary(self) -> bool:
        """Whether there are bytes among what stands literally in the run that ends here."""
        values, encoded, binary = self._values, self._encoded, self._binary
        self._values, self._encoded, self._binary = [], [], False
        return self._splitter.has_binary(values, b"".join(encoded)) or binary


def _check_size(size: int) -> None:
    if size > MAX_STATE_BYTES:
        raise InvalidInputError(
            f"the state takes {size:,} bytes encoded, and {MAX_STATE_BYTES:,} is the most that can be saved",
            code=ErrorCode.VALUE_TOO_LARGE,
            hint="keep large data in files of its own, and their paths in the state",
            size_bytes=size,
        )
