"""What is at one path in many states: found without decoding it, and compared as it is encoded.

The encoding is canonical, so two states have the same value at a path exactly where it has the same bytes there, or,
where it is large, the same node. Only what leads to it is read, and a state that was looked at is not looked at again.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.objects.diffing.encoded import Value
from holdfast.objects.diffing.locating import locate
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.selection import Step
from holdfast.objects.verified import Read
from holdfast.storage.ports import Reader
from holdfast.storage.records import ChunkHash
from holdfast.store.searching.chunks import RecentChunks, decoded, open_state, reading_state, same
from holdfast.store.searching.line import Line, Stop, read_stops

_KNOWN: Final = 512
"""States whose part is remembered: more than a search by halves asks for, and few enough to hold."""


class Parts:
    """The part at one path, position by position of a line."""

    def __init__(self, line: Line, steps: list[Step], types: TypeRegistry) -> None:
        self.line = line
        self._steps = steps
        self._types = types
        self._known: dict[ChunkHash, Value | None] = {}
        self._recent = RecentChunks()
        self.loads = 0
        """States that were looked into."""
        self.seen = False
        """Whether any of them has anything there."""

    def knows(self, stop: Stop) -> bool:
        """Whether what that state has there needs no reading."""
        return stop.root in self._known

    def learn(self, stops: list[Stop]) -> None:
        """Look into several states in one view, whose roots are read together."""
        wanted = list({stop.root: stop for stop in stops if stop.root not in self._known}.values())
        if not wanted:
            return

        def work(reader: Reader) -> None:
            read = self._recent.through(reader.chunks)
            # Read together, and remembered: one question instead of one for each.
            read([stop.root for stop in wanted])
            for stop in wanted:
                if stop.root not in self._known:
                    self._find(stop, read)

        read_stops(self.line, wanted, work)

    def value(self, position: int) -> Value | None:
        """What is there so many steps back; None where there is nothing, as there is behind the oldest."""
        stop = self.line.at(position)
        if stop is None:
            return None
        if stop.root not in self._known:
            self.learn([stop])
        return self._known[stop.root]

    def equal(self, one: Value | None, other: Value | None) -> bool:
        """Whether two of them are the same."""
        if one is None or other is None or type(one) is type(other):
            return same(one, other, _nothing)
        return self.line.view(lambda reader: same(one, other, reader.chunks))

    def decoded(self, value: Value | None, stop: Stop | None) -> Any:
        """One of them as it is loaded; None for nothing."""
        if value is None or stop is None:
            return None
        return read_stops(
            self.line,
            [stop],
            lambda reader: decoded(value, self._recent.through(reader.chunks), self._types),
        )

    def _find(self, stop: Stop, read: Read) -> None:
        self.loads += 1
        with reading_state(stop.root):
            found = locate(open_state(stop.root, read), self._steps, read).value
        self.seen = self.seen or found is not None
        self._known[stop.root] = found
        if len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]


def _nothing(names: Any) -> dict[ChunkHash, bytes]:
    raise AssertionError(f"values of one kind are compared without reading: {list(names)}")
