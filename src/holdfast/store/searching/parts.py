"""What is at one path in many states: found without decoding it, and compared as it is encoded.

The encoding is canonical, so two states have the same value at a path exactly where it has the same bytes there, or,
where it is large, the same node. Only what leads to it is read, and a state that was looked at is not looked at again.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.errors import HoldfastError
from holdfast.objects.codec.paths import Step
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.encoded import Large, Value
from holdfast.objects.diffing.locating import locate
from holdfast.objects.tree.chunk_cache import ChunksAtHand
from holdfast.objects.tree.read import Read, fetch
from holdfast.storage.ports import Reader
from holdfast.storage.records import ChunkHash
from holdfast.store.searching.chunks import decoded, open_state, reading_state, same
from holdfast.store.searching.findings import OF_ONE_STATE, Notes
from holdfast.store.searching.line import Line, Stop, read_stops

_KNOWN: Final = 512
"""States whose part is remembered: more than a search by halves asks for, and few enough to hold."""


class Parts:
    """The part at one path, for the states of one line or of several."""

    def __init__(self, line: Line, steps: list[Step], types: TypeRegistry, notes: Notes) -> None:
        self._line = line
        self._steps = steps
        self._types = types
        self._known: dict[ChunkHash, Value | None] = {}
        self._damaged: set[ChunkHash] = set()
        self._at_hand = ChunksAtHand()
        self.notes = notes
        self.loads = 0
        """States that were looked into."""
        self.seen = False
        """Whether any of them has anything there."""
        self.readable = False
        """Whether any of them could be read."""

    def knows(self, stop: Stop) -> bool:
        """Whether what that state has there needs no reading."""
        return stop.root in self._known

    def damaged(self, stop: Stop) -> bool:
        """Whether that state cannot be read; it is looked into to know."""
        if stop.root not in self._known:
            self.learn([stop])
        return stop.root in self._damaged

    def gave_up(self, stop: Stop) -> bool:
        """Whether that state is known to be damaged."""
        return stop.root in self._damaged

    def give_up(self, stop: Stop, error: HoldfastError) -> None:
        """Take a state for damaged from now on."""
        self._known.pop(stop.root, None)
        self._damaged.add(stop.root)
        self.notes.unreadable(stop, error)

    def learn(self, stops: list[Stop]) -> None:
        """Look into several states in one view, whose roots are read together."""
        new = {stop.root: stop for stop in stops if stop.root not in self._known}
        wanted = [stop for root, stop in new.items() if root not in self._damaged]
        if not wanted:
            return
        kept = self._at_hand.begin()

        def work(reader: Reader) -> None:
            read = kept.through(reader.chunks)
            fetch([stop.root for stop in wanted], read)
            for stop in wanted:
                if stop.root not in self._known:
                    self._find(stop, read)

        try:
            read_stops(self._line, wanted, work)
        except OF_ONE_STATE as error:
            if len(wanted) == 1:
                self.loads += 1
                self.give_up(wanted[0], error)
                return
            for stop in wanted:
                self.learn([stop])

    def value(self, stop: Stop | None) -> Value | None:
        """What is there in a state that can be read; None where there is nothing, as there is behind the oldest."""
        if stop is None:
            return None
        if stop.root not in self._known:
            self.learn([stop])
        return self._known[stop.root]

    def equal(self, one: Stop | None, other: Stop | None) -> bool | None:
        """Whether two states that can be read have the same there; None where one of them turns out to be damaged."""
        left, right = self.value(one), self.value(other)
        if left is None or right is None or type(left) is type(right):
            return same(left, right, _nothing)
        # The same value may stand whole in one state, and in chunks of its own in the other.
        large = one if isinstance(left, Large) else other
        assert large is not None
        try:
            return read_stops(self._line, [large], lambda reader: same(left, right, reader.chunks))
        except OF_ONE_STATE as error:
            self.give_up(large, error)
            return None

    def decoded(self, stop: Stop | None) -> Any:
        """What is there as it is loaded; None for nothing."""
        value = self.value(stop)
        if value is None or stop is None:
            return None
        kept = self._at_hand.begin()
        return read_stops(
            self._line,
            [stop],
            lambda reader: decoded(value, kept.through(reader.chunks), self._types),
        )

    def _find(self, stop: Stop, read: Read) -> None:
        with reading_state(stop.root):
            found = locate(open_state(stop.root, read), self._steps, read).value
        self.loads += 1
        self.readable = True
        self.seen = self.seen or found is not None
        self._known[stop.root] = found
        if len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]


def _nothing(names: Any) -> dict[ChunkHash, bytes]:
    raise AssertionError(f"values of one kind are compared without reading: {list(names)}")
