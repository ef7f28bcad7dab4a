"""What was written to a document since it was saved last, as a list of places.

The list can be followed: go through a copy of the saved state from the first change to the last, take away what was
removed, put in what was added or replaced as it is in the document now, and the copy has become the document. Nothing
outside of the list is different, except inside of values that a document does not look into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter_ns
from typing import Any, Literal

from holdfast.errors import ErrorCode, InvalidInputError, StateError
from holdfast.objects.codec import paths
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.document.containers import (
    ROOT,
    Tracked,
    TrackedDict,
    TrackedList,
    positions,
    tracked_copy,
)
from holdfast.objects.document.kept import KeptNode, NewChunks
from holdfast.objects.document.updating import TreeUpdate, Written, forget_nodes
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree import nodes
from holdfast.objects.tree.boundaries import FORMAT_0, Cuts
from holdfast.objects.tree.memo import StateMemo
from holdfast.objects.tree.state import EncodedState, encode_state
from holdfast.storage.records import ChunkHash, NewChunk

Path = tuple[Any, ...]
WritesOf = Callable[[Any], Any]
"""What was written to a container; None where nothing was."""


@dataclass(frozen=True, slots=True)
class Change:
    """A place of a document that was written to.

    Attributes:
        op: "add", "remove" or "replace".
        path: The keys and positions that lead there, in the document as it is now. What was removed from a list stood
            right before what is at that position.
        count: Of a list, how many items from that position on.
    """

    op: Literal["add", "remove", "replace"]
    path: Path
    count: int = 1


def changes_in(root: Any, writes_of: WritesOf) -> list[Change]:
    """The changes in a container and all below it."""
    found: list[Change] = []
    open_containers = [_steps(root, writes_of, ())]
    while open_containers:
        step = next(open_containers[-1], None)
        if step is None:
            open_containers.pop()
        elif isinstance(step, Change):
            found.append(step)
        else:
            open_containers.append(_steps(step[0], writes_of, step[1]))
    return found


def _steps(container: Any, writes_of: WritesOf, path: Path) -> Iterator[Change | tuple[Any, Path]]:
    """The changes of one container, and in their place the containers in it that have changes."""
    writes = writes_of(container)
    if writes is None:
        return iter(())
    steps = _list_steps if container._plain is list else _dict_steps
    return steps(container, writes, path)


def _list_steps(items: Any, writes: Any, path: Path) -> Iterator[Change | tuple[Any, Path]]:
    nested = {writes.before(at): items[at] for at in positions(items, writes.children.values())}
    nested = {old: child for old, child in nested.items() if old is not None and old not in writes.touched}
    edits = writes.edits(len(items), nested)
    if edits is None:
        yield Change("replace", path)
        return
    for edit in edits:
        gone, come = edit.old_stop - edit.old_start, edit.new_stop - edit.new_start
        place = (*path, edit.new_start)
        if gone == come == 1 and edit.old_start in nested:
            yield nested[edit.old_start], place
        elif gone == come:
            yield Change("replace", place, gone)
        else:
            if gone:
                yield Change("remove", place, gone)
            if come:
                yield Change("add", place, come)


def _dict_steps(pairs: Any, writes: Any, path: Path) -> Iterator[Change | tuple[Any, Path]]:
    if writes.edits(pairs) is None:
        yield Change("replace", path)
        return
    gone = writes.gone()
    kept = list(islice(pairs, writes.length - len(gone)))
    nested = {child._hint: child for child in writes.children.values() if child._place is pairs}
    for key in gone:
        yield Change("remove", (*path, key))
    for key in kept:
        if key in writes.touched:
            yield Change("replace", (*path, key))
        elif key in nested:
            yield nested[key], (*path, key)
    for key in islice(pairs, len(kept), None):
        yield Change("add", (*path, key))


def find_drift(root: Any, types: TypeRegistry, cuts: Cuts) -> str:
    """The path of the smallest part that is known to differ: an item, or the run of items it lies in."""
    fresh = tracked_copy(root)
    TreeUpdate(types, cuts, NewChunks(wanted=False)).container(fresh, 0)
    kept = root
    steps: list[str] = []
    while True:
        places = _first_difference(kept._node, fresh._node, len(kept))
        if places is None:
            return paths.render(steps)
        values, fresh_values = _values(kept, places), _values(fresh, places)
        for (place, value), (_, other) in zip(values, fresh_values, strict=False):
            if (
                isinstance(value, Tracked)
                and isinstance(other, Tracked)
                and _differ(value._node, other._node)
            ):
                kept, fresh = value, other
                steps.append(paths.key_step(place))
                break
        else:
            return paths.render([*steps, *_named(values)])


def _differ(kept: KeptNode | None, fresh: KeptNode | None) -> bool:
    return kept is not None and fresh is not None and kept.part != fresh.part


def _first_difference(kept: KeptNode | None, fresh: KeptNode | None, count: int) -> range | None:
    """The positions of the first run, or the first item of the run at the end, that differs."""
    if kept is None or fresh is None or kept.kind != fresh.kind or kept.kind == nodes.RAW:
        return None
    start = 0
    for entry, other in zip(kept.levels[0].entries, fresh.levels[0].entries, strict=False):
        if entry != other:
            return range(start, min(start + max(entry.count, other.count), count))
        start += entry.count
    for item, made in zip(kept.tail, fresh.tail, strict=False):
        if (item.literal, item.part) != (made.literal, made.part):
            return range(start, start + 1)
        start += 1
    return range(start, count)


def _values(container: Any, places: range) -> list[tuple[Any, Any]]:
    return list(container._places())[places.start : places.stop]


def _named(values: list[tuple[Any, Any]]) -> list[str]:
    if not values:
        return []
    first, last = values[0][0], values[-1][0]
    if len(values) == 1:
        return [paths.key_step(first)]
    return [f"{paths.key_step(first)[:-1]}...{paths.key_step(last)[1:]}"]


@dataclass(slots=True)
class _Attempt:
    """An encoding that is not known to be stored."""

    chunks: dict[ChunkHash, NewChunk] = field(default_factory=dict)
    written: list[Written] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DocumentEncoding:
    """A document as it was at one moment, on its way into a store."""

    state: EncodedState
    values_encoded: int
    """How many values were encoded for it."""
    attempt: _Attempt = field(repr=False)


class LivingTree:
    """Encodes one document."""

    def __init__(
        self,
        root: TrackedDict | TrackedList,
        types: TypeRegistry,
        stored: ChunkHash | None = None,
        *,
        cuts: Cuts = FORMAT_0,
    ) -> None:
        """Begin with the outermost container, which was made from the state under the root `stored`, or is new."""
        self._root: Any = root
        self._types = types
        self._cuts = cuts
        self._stored = stored
        self._attempts: list[_Attempt] = []
        self._doubted = False
        root._place = ROOT
        if stored is None or not self._is_stored(stored):
            self.forget()

    def _is_stored(self, stored: ChunkHash) -> bool:
        """Build the tree of a state that was loaded. It is another one where a type has changed since, say."""
        update = TreeUpdate(self._types, self._cuts, NewChunks(wanted=False), asks=True)
        try:
            return hash_chunk(_root_chunk(update.container(self._root, 0))) == stored
        except InvalidInputError:
            # Loading made something of it that cannot be saved; the first save will say where.
            return False

    def encode(self) -> DocumentEncoding:
        """Turn the document into chunks: CPU only, no I/O. What is written from here on is for the next time.

        Raises:
            InvalidInputError: It holds something that cannot be saved; the message has its path.
        """
        began = perf_counter_ns()
        if self._doubted:
            self.forget()
        self._types.begin()
        sink = NewChunks()
        update = TreeUpdate(self._types, self._cuts, sink, asks=self._stored is None)
        attempt = _Attempt(sink.chunks, update.written)
        earlier = list(self._attempts)
        self._attempts.append(attempt)
        try:
            placed = update.container(self._root, 0)
        except InvalidInputError:
            # Parts do not know where they stand in the whole: the whole does, and says what is wrong with it.
            return self._encode_plainly(attempt)
        except RecursionError:
            # Less of the stack is needed to encode the whole; and if that is not there either, it says so.
            self.forget()
            return self._encode_plainly(attempt)
        except BaseException:
            # It may have come between two steps that belong together.
            self.forget()
            raise
        chunk = _root_chunk(placed)
        name = hash_chunk(chunk)
        if name != self._stored or earlier:
            # Where another encoding is on its way, what is stored now may not be the last state when this one arrives.
            sink.put(name, chunk, self._stored if name != self._stored else None)
        if any(each.chunks for each in earlier):
            self._take_along(earlier, attempt)
        size = len(placed) if isinstance(placed, bytes) else placed.size
        memo = StateMemo(name, None, frozenset())
        new, took = tuple(attempt.chunks.values()), perf_counter_ns() - began
        state = EncodedState(name, size, new, memo, relies_on=self._stored, nanoseconds=took)
        return DocumentEncoding(state, update.packer.count, attempt)

    def confirm(self, encoding: DocumentEncoding) -> None:
        """An encoding is in the store now, and with it all that went before it."""
        self._stored = encoding.state.root
        for position, attempt in enumerate(self._attempts):
            if attempt is encoding.attempt:
                del self._attempts[: position + 1]
                break

    def check(self, encoding: DocumentEncoding) -> None:
        """Encode everything plainly, and compare.

        Raises:
            StateError: They differ (`document-drift`). The next save writes everything as it is.
        """
        if encode_state(self._root, self._types, cuts=self._cuts).root == encoding.state.root:
            return
        where = find_drift(self._root, self._types, self._cuts)
        self.forget()
        raise StateError(
            f"{where} was changed without the document noticing it",
            code=ErrorCode.DOCUMENT_DRIFT,
            hint="change it through the document's own methods; save() again writes all of it as it is now",
            path=where,
        )

    def changes(self) -> list[Change]:
        """What was written since the encoding that is known to be stored."""
        if self._doubted:
            self.forget()
        written: dict[int, Any] = {}
        # A copy: a save that is under way in another thread may be confirmed meanwhile.
        for attempt in list(self._attempts):
            for container, writes in attempt.written:
                before = written.get(id(container))
                written[id(container)] = writes if before is None else before.then(writes)

        def writes_of(container: Any) -> Any:
            before, now = written.get(id(container)), container._writes
            return before.then(now) if before is not None and now is not None else before or now

        return changes_in(self._root, writes_of)

    def doubt(self) -> None:
        """Have the next encoding take nothing for known. It may be called while the document is being changed."""
        self._doubted = True

    def forget(self) -> None:
        """Take nothing for known: the next encoding is made from the values alone."""
        self._doubted = False
        self._stored = None
        forget_nodes(self._root)
        self._root._wrote().unsure = True

    def _encode_plainly(self, attempt: _Attempt) -> DocumentEncoding:
        state = encode_state(self._root, self._types, cuts=self._cuts)
        # It can be saved after all: an encode function does not say the same thing twice.
        self.forget()
        attempt.chunks = {chunk.hash: chunk for chunk in state.chunks}
        return DocumentEncoding(state, 0, attempt)

    def _take_along(self, earlier: list[_Attempt], attempt: _Attempt) -> None:
        """Add the chunks of earlier encodings that may not be in the store, and that are part of this one."""
        wanted = self._chunk_names()
        pending = {name: chunk for each in earlier for name, chunk in each.chunks.items() if name in wanted}
        attempt.chunks = pending | attempt.chunks
        for each in earlier:
            each.chunks = {}

    def _chunk_names(self) -> set[ChunkHash]:
        names: set[ChunkHash] = set()
        to_do = [self._root]
        while to_do:
            container = to_do.pop()
            if container._node is not None:
                names.update(container._node.chunks())
                to_do += [value for _, value in container._places() if isinstance(value, Tracked)]
        return names


def _root_chunk(placed: bytes | KeptNode) -> bytes:
    if isinstance(placed, bytes):
        return bytes((nodes.WHOLE,)) + placed
    return bytes((nodes.TREE,)) + placed.part
