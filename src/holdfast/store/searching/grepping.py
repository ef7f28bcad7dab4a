"""grep: the texts of a history that match, newest checkpoint first, as they are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from holdfast.errors import InvalidInputError
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.diffing.change import path_text
from holdfast.objects.diffing.locating import locate
from holdfast.objects.selection import Step, parse_path
from holdfast.storage.ports import Reader
from holdfast.storage.records import ChunkHash
from holdfast.store.place import Place
from holdfast.store.searching.chunks import open_state, reading_state
from holdfast.store.searching.line import Line, Stop, read_stops
from holdfast.store.searching.patterns import Pattern
from holdfast.store.searching.reports import GrepMatch
from holdfast.store.searching.texts import Found, TextSearch

_REMEMBERED: Final = 8
"""States whose finds are at hand: the one before is asked for twice, and restores bring back recent ones."""


def grep(
    place: Place, pattern: Pattern, ref: str | Checkpoint = "@", *, path: str | None = None, new: bool = False
) -> Iterator[GrepMatch]:
    """Texts that match; see `Session.grep`. What is wrong with the call is raised at once."""
    steps = parse_path(path) if path else []
    search = _StateSearch(Line(place, ref), pattern, steps)
    return _matches(search, new=new)


def _matches(search: _StateSearch, *, new: bool) -> Iterator[GrepMatch]:
    line = search.line
    position = 0
    while line.has(position):
        stop = line.at(position)
        assert stop is not None
        position += 1
        finds = search.finds(stop)
        if new and finds and (before := line.at(position)) is not None:
            finds = _unseen(finds, search.finds(before))
        if finds:
            checkpoint = line.checkpoint(stop)
            for each in finds:
                path = path_text(each.steps)
                yield GrepMatch(checkpoint, path, each.text, each.start, each.stop, each.offset)


def _unseen(finds: tuple[Found, ...], before: tuple[Found, ...]) -> tuple[Found, ...]:
    """Those that the state before does not have, wherever in it: an item that moved is not new."""
    had = Counter(each.mark for each in before)
    kept = []
    for each in finds:
        had[each.mark] -= 1
        if had[each.mark] < 0:
            kept.append(each)
    return tuple(kept)


class _StateSearch:
    """What matches in a state, or in the part of it at a path."""

    def __init__(self, line: Line, pattern: Pattern, steps: list[Step]) -> None:
        self.line = line
        self._steps = steps
        self._search = TextSearch(pattern)
        self._finds: dict[ChunkHash, tuple[Found, ...]] = {}

    def finds(self, stop: Stop) -> tuple[Found, ...]:
        """What matches in the state of a stop."""
        if stop.root not in self._finds:
            self._finds[stop.root] = self._found(stop)
            if len(self._finds) > _REMEMBERED:
                del self._finds[next(iter(self._finds))]
        return self._finds[stop.root]

    def _found(self, stop: Stop) -> tuple[Found, ...]:
        def work(reader: Reader) -> tuple[Found, ...]:
            with reading_state(stop.root):
                place = locate(open_state(stop.root, reader.chunks), self._steps, reader.chunks)
                if place.value is None:
                    return ()
                found = self._search.search(place.value, reader.chunks)
            taken = tuple(each.step for each in place.steps)
            return tuple(each._replace(steps=(*taken, *each.steps)) for each in found) if taken else found

        try:
            return read_stops(self.line, [stop], work)
        except InvalidInputError as error:
            # A pattern that takes too long: which state that was is of use to who wrote it.
            error.args = (f"{error}, in checkpoint {stop.shown()}", *error.args[1:])
            raise
