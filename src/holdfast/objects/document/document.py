"""A document: a tracked dict or list whose tree is made anew from the one before and from what was written since.

A container that nothing was written to is taken as it stands; of the others, only the runs in which something was
written are encoded again, and of a list that was added to only what was added. What comes out is, byte for byte, the
tree that `tree.build` makes of the plain value: a document and a plain dict that are equal have the same root.

What was encoded is not what is stored: a commit may fail, or still be under way when the next one is prepared. So every
encoding stays here until it is confirmed, with the chunks it made and the writes that went into it. The next one takes
along the chunks that the store may not have, and `changes` counts from the last one that is known to be stored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress, count, islice
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
from holdfast.objects.document.dirty import EXACT, PLAIN, VOLATILE, marks_of
from holdfast.objects.tree import nodes
from holdfast.objects.tree.boundaries import FORMAT_0, Cuts
from holdfast.objects.tree.build import Built, Cutter, Run, SavedNode, StateMemo, TreeBuilder
from holdfast.objects.tree.state import EncodedState, encode_state
from holdfast.storage.records import ChunkHash, NewChunk

Path = tuple[Any, ...]
WritesOf = Callable[[Any], Any]
"""What was written to a container; None where nothing was."""

Written = tuple[Any, Any]
"""A container, and what was written to it before it was encoded."""


class DocumentBuilder(TreeBuilder):
    """Builds the tree of a document, once.

    A container is brought up to date as a whole or not at all. Where a value in it cannot be saved, those that came
    before are up to date and the others are not, and the next attempt goes on from there.
    """

    def __init__(
        self, types: TypeRegistry, stored: ChunkHash | None, cuts: Cuts, *, wanted: bool = True
    ) -> None:
        super().__init__(types, None if stored is None else StateMemo(stored, None), cuts, wanted=wanted)
        self.written: list[Written] = []
        """What has been encoded now, and counts as unchanged from here on."""
        self.count = 0
        """How many values were encoded."""

    def known(self, old: SavedNode | None) -> set[ChunkHash]:
        """The chunks of the node itself: containers in it have nodes of their own."""
        return set() if old is None else old.chunks()

    def value(self, value: Any, old: SavedNode | None, depth: int, **more: Any) -> Built:
        """See `TreeBuilder.value`."""
        return (
            self._tracked(value, depth, more)
            if isinstance(value, Tracked)
            else super().value(value, old, depth, **more)
        )

    def _tracked(self, value: Any, depth: int, more: dict[str, Any]) -> Built:
        node = value._node
        if node is not None and value._writes is None and not value._marks & VOLATILE:
            return Built(node.part, node.size, node)
        built = super().value(value, node, depth, **more)
        if built.node is None or built.node.kind == nodes.RAW:
            self.settle(value, built.node)
        else:
            value._node = built.node
            if value._writes is not None:
                # Those that stand literally were encoded together with others.
                for child in value._writes.children.values():
                    if child._writes is not None:
                        self.settle(child, None)
                self._take_writes(value)
            if value._marks & VOLATILE and not any(run.volatile for run in built.node.all_runs()):
                value._marks &= ~VOLATILE
        return built

    def encode(self, value: Any) -> bytes:
        """One value, exactly."""
        self.count += 1
        exact = value._marks & EXACT if isinstance(value, Tracked) else type(value) not in PLAIN
        packed = None if exact else self.encoder.at_once(value, tracked=True)
        return self.encoder.exactly(value) if packed is None else packed

    def cutter(self, kind: int, value: Any, old: SavedNode | None, depth: int) -> Cutter:
        """See `TreeBuilder.cutter`."""
        return _DocumentCutter(self, kind, value, old, depth)

    def settle(self, container: Any, node: SavedNode | None) -> None:
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

    def _take_writes(self, container: Any) -> None:
        self.written.append((container, container._writes))
        container._writes = None


class _DocumentCutter(Cutter):
    """A container of a document on its way into a node: what nobody wrote to is not encoded."""

    looks = False

    def __init__(
        self, builder: DocumentBuilder, kind: int, value: Any, old: SavedNode | None, depth: int
    ) -> None:
        self._document = builder
        super().__init__(builder, kind, value, old, depth)

    def open(self, value: Any) -> None:
        """Begin behind all that stands at the beginning."""
        self.encode_run = self._encode_run
        self._exact = bool(value._marks & EXACT)
        self._is_volatile = bool(value._marks & VOLATILE)
        self._total = len(value)
        self._prefix = self._suffix = 0
        self._dirty: list[int] = []
        old = self.old
        if old is not None:
            self._find_dirty(value, old)
            if self._is_clean(0, old.covered) and not (
                self._is_volatile and any(run.volatile for run in old.runs)
            ):
                self.growing.take_all(old)
                self.begin = old.covered
                if (
                    old.tail is not None
                    and self._is_clean(old.covered, old.count)
                    and not old.tail.run.volatile
                ):
                    self.start_with(old.tail)
                    self.begin = old.count
            if old.mixed:
                self.ask_each()
        self.items = self._from(value, self.begin)

    def _find_dirty(self, value: Any, old: SavedNode) -> None:
        """Find out which items are the same as before: so many at both ends, but for some positions."""
        writes = value._writes
        if writes is None:
            self._prefix = old.count if old.count == self._total else 0
            return
        if writes.length != old.count:
            # Something went behind the back of the document.
            return
        self._dirty = positions(value, writes.children.values())
        if not self.pairs:
            self._prefix, self._suffix = writes.ends(value)
            return
        self._prefix = writes.prefix(value)
        if writes.touched:
            touched = compress(count(), map(writes.touched.__contains__, islice(value, self._prefix)))
            self._dirty = sorted({*self._dirty, *touched})

    def _is_clean(self, start: int, stop: int) -> bool:
        """Whether nothing was written to the items between two positions, and they are where they were."""
        at = bisect_left(self._dirty, start)
        return stop <= self._prefix and (at == len(self._dirty) or self._dirty[at] >= stop)

    def _from(self, value: Any, start: int) -> list[Any]:
        if not self.pairs:
            items: list[Any] = value[start:]
            return items
        number = len(value) - start
        if number < start:
            return list(islice(reversed(value.items()), number))[::-1]
        return list(islice(value.items(), start, None))

    def take(self, old: SavedNode) -> bool:
        """Take over runs that nobody wrote to; where that is not known, those that are encoded as they were."""
        taken: list[Run] = []
        at = first = self.begin + self.at
        while at < self._total:
            start = at if at < self._prefix else at - self._total + old.count
            position = old.run_at(start) if at < self._prefix or self._total - at <= self._suffix else None
            if position is None:
                break
            self.growing.next_old = position - len(taken)
            run = old.runs[position]
            stop = at + run.entry.count
            if run.volatile or not self._stands_between(at, stop):
                break
            taken.append(run)
            at = stop
        self.growing.take(taken)
        self.at += at - first
        if taken or at < self._prefix or self._total - at <= self._suffix:
            self._missed = self.at if not taken else -1
            return bool(taken)
        return super().take(old)

    def _stands_between(self, start: int, stop: int) -> bool:
        """Whether nothing was written to a run that stood here before."""
        at = bisect_left(self._dirty, start)
        if at < len(self._dirty) and self._dirty[at] < stop:
            return False
        return stop <= self._prefix or (start >= self._prefix and stop <= self._total)

    def _encode_run(self, items: list[Any]) -> bytes:
        self._document.count += len(items)
        packed = None if self._exact else self.builder.encoder.at_once(items, tracked=True)
        return self.builder.encoder.exactly(items) if packed is None else packed

    def encode(self, value: Any) -> bytes:
        """One value, exactly."""
        return self.builder.encode(value)

    def encode_each(self, items: Iterable[Any]) -> list[bytes] | None:
        """Some values one by one, if that needs no care."""
        encoded = None if self._exact else self.builder.encoder.each(items, tracked=True)
        self._document.count += len(encoded or ())
        return encoded

    def child(self, key: Any, value: Any) -> SavedNode | None:  # noqa: ARG002 - the value knows
        """The node that the value was when the document was encoded last."""
        return value._node if isinstance(value, Tracked) else None

    def built(self, value: Any, old: SavedNode | None) -> Built:
        """See `Cutter.built`."""
        if isinstance(value, Tracked):
            return self.builder.value(value, old, self.depth, around=self.old)
        return super().built(value, old)

    def keep(self, key: Any, value: Any, node: SavedNode) -> None:
        """Remember the node of a value that is no container: those know their own."""
        if not isinstance(value, Tracked):
            super().keep(key, value, node)

    def volatile(self, count: int) -> bool:
        """Whether the last so many items may change unnoticed."""
        if not self._is_volatile:
            return False
        items = self.items[max(self.at - count, 0) : self.at]
        return any(map(_is_volatile, [item for _, item in items] if self.pairs else items))


def _is_volatile(value: Any) -> bool:
    if type(value) in PLAIN:
        return False
    return bool((value._marks if isinstance(value, Tracked) else marks_of(value)) & VOLATILE)


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


class DocumentEncoder:
    """Encodes one document, again and again."""

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
        builder = DocumentBuilder(self._types, None, self._cuts, wanted=False)
        try:
            return builder.root(builder.value(self._root, None, 0)).root == stored
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
        builder = DocumentBuilder(self._types, self._stored, self._cuts)
        attempt = _Attempt(builder.new, builder.written)
        earlier = list(self._attempts)
        self._attempts.append(attempt)
        try:
            # Where another encoding is on its way, what is stored now may not be the last state when this one arrives.
            built = builder.value(self._root, None, 0)
            memo = StateMemo(builder.root(built, always=bool(earlier)).root, None)
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
        if any(each.chunks for each in earlier):
            self._take_along(earlier, attempt)
        new, took = tuple(attempt.chunks.values()), perf_counter_ns() - began
        state = EncodedState(memo.root, built.size, new, memo, relies_on=self._stored, nanoseconds=took)
        return DocumentEncoding(state, builder.count, attempt)

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
        where = self._drifted()
        self.forget()
        _adopt(self._root)
        raise StateError(
            f"{where} was changed without the document noticing it",
            code=ErrorCode.DOCUMENT_DRIFT,
            hint="change it through the document's own methods; save() again writes all of it as it is now",
            path=where,
        )

    def _drifted(self) -> str:
        """The path of the smallest container that is known to be another than was encoded."""
        fresh: Any = tracked_copy(self._root)
        DocumentBuilder(self._types, None, self._cuts, wanted=False).value(fresh, None, 0)
        kept: Any = self._root
        steps: list[str] = []
        while kept is not None:
            pairs = zip(kept._places(), fresh._places(), strict=False)
            inner = [(place, value, other) for (place, value), (_, other) in pairs if _differ(value, other)]
            place, kept, fresh = inner[0] if inner else (None, None, None)
            if inner:
                steps.append(paths.key_step(place))
        return paths.render(steps)

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
        self._root._wrote().forget()

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
                names |= container._node.chunks()
                to_do += [value for _, value in container._places() if isinstance(value, Tracked)]
        return names


def _adopt(root: Any) -> None:
    """Track the dicts and lists that something put into a document behind its back."""
    to_do = [root]
    while to_do:
        container = to_do.pop()
        for place, value in list(container._places()):
            if type(value) is dict or type(value) is list:
                container._plain.__setitem__(container, place, container._taken_in(value, place))
        to_do += [value for _, value in container._places() if isinstance(value, Tracked)]


def _differ(kept: Any, fresh: Any) -> bool:
    if not (isinstance(kept, Tracked) and isinstance(fresh, Tracked)):
        return False
    return kept._node is not None and fresh._node is not None and kept._node.part != fresh._node.part


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
    prefix, suffix = writes.ends(items)
    last = len(items) - suffix
    gone, come = writes.length - prefix - suffix, last - prefix
    nested = [at for at in positions(items, writes.children.values()) if at < prefix or at >= last]
    for at in nested:
        if at < prefix:
            yield items[at], (*path, at)
    if gone == come:
        if gone:
            yield Change("replace", (*path, prefix), gone)
    else:
        if gone:
            yield Change("remove", (*path, prefix), gone)
        if come:
            yield Change("add", (*path, prefix), come)
    for at in nested:
        if at >= last:
            yield items[at], (*path, at)


def _dict_steps(pairs: Any, writes: Any, path: Path) -> Iterator[Change | tuple[Any, Path]]:
    kept = writes.kept(pairs)
    if kept is None:
        yield Change("replace", path)
        return
    nested = {child._hint: child for child in writes.children.values() if child._place is pairs}
    for key in writes.before():
        if key in writes.gone:
            yield Change("remove", (*path, key))
    for key in islice(pairs, kept):
        if key in writes.touched:
            yield Change("replace", (*path, key))
        elif key in nested:
            yield nested[key], (*path, key)
    for key in islice(pairs, kept, None):
        yield Change("add", (*path, key))
