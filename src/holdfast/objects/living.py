"""A document's tree through its life: encoded again and again, each time from the state of the last time.

What was encoded is not what is stored: a commit may fail, or still be under way when the next one is prepared. So every
encoding stays here until it is confirmed, with the chunks it made and the writes that went into it. The next one takes
along the chunks that the store may not have, and `changes` counts from the last one that is known to be stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

from holdfast.errors import ErrorCode, InvalidInputError, StateError
from holdfast.objects import nodes
from holdfast.objects.changes import Change, changes_in
from holdfast.objects.cutting import FORMAT_0, Cuts
from holdfast.objects.drift import find_drift
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.kept import KeptNode, NewChunks
from holdfast.objects.memo import StateMemo
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.state import EncodedState, encode_state
from holdfast.objects.tracked import ROOT, Tracked
from holdfast.objects.tracked_dict import TrackedDict
from holdfast.objects.tracked_list import TrackedList
from holdfast.objects.updating import TreeUpdate, Written, forget_nodes
from holdfast.storage.records import ChunkHash, NewChunk


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
