"""grep: the texts of a history that match, newest checkpoint first, as they are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from holdfast.errors import InvalidInputError
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec.paths import parse_path
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.change import Change, path_text
from holdfast.objects.diffing.locating import locate
from holdfast.objects.diffing.states import changes_of_roots
from holdfast.reports.search import GrepMatch
from holdfast.storage.ports import Reader
from holdfast.storage.records import ChunkHash
from holdfast.store.place import Place
from holdfast.store.searching.chunks import open_state, reading_state
from holdfast.store.searching.findings import OF_ONE_STATE, Findings, Notes
from holdfast.store.searching.line import Line, Stop, read_stops
from holdfast.store.searching.occurrences import came_in
from holdfast.store.searching.patterns import Pattern
from holdfast.store.searching.texts import Found, Group, Groups, TextSearch

_NO_TYPES: Final = TypeRegistry()
_REMEMBERED: Final = 8
"""States whose finds are at hand: the one before is asked for twice, and restores bring back recent ones."""


def grep(
    place: Place,
    pattern: Pattern,
    ref: str | Checkpoint = "@",
    *,
    path: str | None = None,
    new: bool = False,
    limit: int | None = None,
) -> Findings[GrepMatch]:
    """Texts that match; see `Session.grep`. What is wrong with the call is raised at once."""
    if path is not None:
        parse_path(path)
    notes = Notes()
    search = _StateSearch(Line(place, ref), pattern, path, notes)
    return Findings(islice(_matches(search, notes, path, new=new), limit), notes)


def _matches(search: _StateSearch, notes: Notes, path: str | None, *, new: bool) -> Iterator[GrepMatch]:
    line = search.line
    position, readable = 0, False
    while line.has(position):
        stop = line.at(position)
        assert stop is not None
        position += 1
        finds = search.finds(stop)
        if finds is None:
            continue
        readable = True
        found = _brought(search, stop, finds, position) if new and finds else _placed(finds)
        if found:
            checkpoint = line.checkpoint(stop)
            for each in found:
                where = path_text(each.steps)
                yield GrepMatch(checkpoint, where, each.text, each.start, each.stop, each.offset)
    if not readable and notes.failure is not None:
        raise notes.failure
    if line.empty is not None:
        notes.add(line.empty)
    if readable and not search.was_there:
        notes.add(f"there is no {path} in any state that was searched")


def _brought(search: _StateSearch, stop: Stop, finds: Groups, position: int) -> list[Found]:
    """What matches in a state and did not in the one before, which is at a position or older."""
    before = _before(search, position)
    if before is None:
        return _placed(finds)
    kept, gone = _unseen(finds, before[1])
    # Only where a text with a match went away can one of these be that text in another form.
    return search.came_in(kept, before[0], stop) if kept and gone else kept


def _before(search: _StateSearch, position: int) -> tuple[Stop, Groups] | None:
    """The next older state that can be read, from a position on, and what matches in it."""
    while (stop := search.line.at(position)) is not None:
        finds = search.finds(stop)
        if finds is not None:
            return stop, finds
        position += 1
    return None


def _placed(groups: Iterable[Group]) -> list[Found]:
    return [each for group in groups for each in group.placed()]


def _unseen(groups: Groups, before: Groups) -> tuple[list[Found], bool]:
    """Those that the state before does not have, wherever in it: what moved is not new. And whether some of it went."""
    had = Counter(each.mark for group in _without(before, groups) for each in group.finds)
    kept = []
    for each in _placed(_without(groups, before)):
        had[each.mark] -= 1
        if had[each.mark] < 0:
            kept.append(each)
    return kept, any(left > 0 for left in had.values())


def _without(groups: Groups, others: Groups) -> list[Group]:
    """The groups that the others do not have: nearly all are in both states, and need not be looked into."""
    # By identity: they are remembered, and to compare what is in them would be what this saves.
    left = Counter(id(each.finds) for each in others)
    kept = []
    for each in groups:
        left[id(each.finds)] -= 1
        if left[id(each.finds)] < 0:
            kept.append(each)
    return kept


class _StateSearch:
    """What matches in a state, or in the part of it at a path."""

    def __init__(self, line: Line, pattern: Pattern, path: str | None, notes: Notes) -> None:
        self.line = line
        self._path = path
        self._steps = [] if path is None else parse_path(path)
        self._notes = notes
        self._pattern = pattern
        self._search = TextSearch(pattern)
        self._finds: dict[ChunkHash, Groups] = {}
        self._damaged: set[ChunkHash] = set()
        self.was_there = False
        """Whether some state had something at the path."""

    def finds(self, stop: Stop) -> Groups | None:
        """What matches in the state of a stop; None where that cannot be read."""
        if stop.root in self._damaged:
            return None
        if stop.root not in self._finds:
            try:
                self._finds[stop.root] = self._found(stop)
            except OF_ONE_STATE as error:
                self._damaged.add(stop.root)
                self._notes.unreadable(stop, error)
                return None
            if len(self._finds) > _REMEMBERED:
                del self._finds[next(iter(self._finds))]
        return self._finds[stop.root]

    def came_in(self, found: list[Found], old: Stop, new: Stop) -> list[Found]:
        """Those that came in from one state to the next, of which texts that were edited are told apart."""

        def work(reader: Reader) -> list[Change]:
            roots = old.root, new.root
            return changes_of_roots(*roots, reader.chunks, _NO_TYPES, path=self._path, whole=True)

        try:
            changes = read_stops(self.line, [old, new], work)
        except OF_ONE_STATE:
            # Damaged since it was searched: that a text is told once too often loses nothing.
            return found
        return list(came_in(found, changes, self._pattern))

    def _found(self, stop: Stop) -> Groups:
        def work(reader: Reader) -> Groups:
            with reading_state(stop.root):
                place = locate(open_state(stop.root, reader.chunks), self._steps, reader.chunks)
                if place.value is None:
                    return ()
                self.was_there = True
                found = self._search.search(place.value, reader.chunks)
            taken = tuple(each.step for each in place.steps)
            return tuple(each._replace(way=(*taken, *each.way)) for each in found) if taken else found

        try:
            return read_stops(self.line, [stop], work)
        except InvalidInputError as error:
            # A pattern that takes too long: which state that was is of use to who wrote it.
            error.args = (f"{error}, in checkpoint {stop.shown()}", *error.args[1:])
            raise
