"""A mold: a list of values as it was decoded once, which gives any number of lists like it, for less than decoding.

Nothing that can change is shared: every dict, list, set and object in what a mold gives is new. What cannot change,
text above all, is the same in all, so that a hundred states with the same messages have their text in memory once.

All containers of one kind are copied by one call that loops in C, with what they hold still that of the original; then
each copy is put into the copy of what held it, again by a few calls for all of them. That takes a tenth of the time of
a function that goes into each value.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter, setitem
from typing import Any, Final

from holdfast.objects.fielded import FieldShape, NamedTupleShape
from holdfast.objects.pydantic_models import ModelShape
from holdfast.objects.registry import RegisteredType, TypeRegistry
from holdfast.objects.shapes import EnumShape, StandInShape
from holdfast.objects.trust import PLAIN, VOLATILE, marks_of

_new: Final = object.__new__

_Copy = Callable[[Any], Any]
_Layout = Callable[[Any], Iterable[tuple[Callable[..., Any], Any]]]
"""See `Shape`."""

_COPIES: Final[dict[type, _Copy]] = {dict: dict.copy, list: list.copy, set: set.copy}


_MADE_ALIKE: Final = (EnumShape, FieldShape, ModelShape, NamedTupleShape, StandInShape)
"""Shapes that make the same of the same data, and run no code of the program for it."""


class UnlikeError(Exception):
    """There is something among the values that only decoding can make."""


class NoRoomError(Exception):
    """There are more values than there is room for."""


class Watched(TypeRegistry):
    """A registry as it is, which notices where decoding runs code of the program.

    What that gives may be something else the next time, or something that others have too: no copy is like it.
    """

    def __init__(self, types: TypeRegistry) -> None:
        super().__init__(types)
        self.ran_code = False
        self._seen: dict[str, RegisteredType] = {}
        if types.finder is not None:
            self.on_missing(self._noted(types.finder))

    def by_name(self, name: str) -> RegisteredType | None:
        """What is registered under this name."""
        seen = self._seen.get(name)
        if seen is not None:
            return seen
        entry = super().by_name(name)
        if entry is None:
            return None
        if getattr(entry.shape, "layout", None) is None and not isinstance(entry.shape, _MADE_ALIKE):
            self.ran_code = True
        upgrade = None if entry.upgrade is None else self._noted(entry.upgrade)
        self._seen[name] = seen = RegisteredType(entry.cls, entry.name, entry.version, upgrade, entry.shape)
        return seen

    def _noted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            self.ran_code = True
            return function(*given)

        return call


class _Group:
    """Values that are copied alike, and put alike into what holds them."""

    __slots__ = ("copy", "held_by", "keys", "originals", "parents", "put", "start", "stop")

    def __init__(self, put: Callable[..., Any], copy: _Copy | None) -> None:
        self.put = put
        self.copy = copy
        """None for what is taken as it is."""
        self.originals: list[Any] = []
        self.held_by: list[tuple[_Group, int]] = []
        self.keys: list[Any] = []
        self.start = self.stop = 0
        self.parents: Callable[[list[Any]], Iterable[Any]] = iter

    def add(self, original: Any, holder: tuple[_Group, int], key: Any) -> tuple[_Group, int]:
        self.originals.append(original)
        self.held_by.append(holder)
        self.keys.append(key)
        return self, len(self.originals) - 1

    def settle(self, start: int) -> int:
        """Say where its copies stand among all; what comes after them stands where this returns."""
        self.start, self.stop = start, start + len(self.originals)
        return self.stop

    def find_parents(self) -> None:
        """To be called when all groups know where they stand."""
        self.parents = _chosen([group.start + position for group, position in self.held_by])
        self.held_by = []


class Mold:
    """Gives lists like one list."""

    def __init__(self, values: list[Any], types: TypeRegistry, most: int = sys.maxsize) -> None:
        """Take a list over. Nobody else may have it, or anything in it.

        Args:
            values: The list.
            types: The classes of what is in it.
            most: So many values there may be in it.

        Raises:
            NoRoomError: There are more.
            UnlikeError: It cannot be copied so that the copy is what decoding would give.
        """
        self._types = types
        self._most = most
        self._layouts: dict[type, _Layout] = {}
        self._groups: dict[tuple[Any, _Copy | None], _Group] = {}
        self.count = 0
        """How many values there are in it, on all levels."""
        self._outer = _Group(setitem, list.copy)
        self._go_through(values)
        start = self._outer.settle(0)
        for group in self._groups.values():
            start = group.settle(start)
        for group in self._groups.values():
            group.find_parents()
        self._copied = [self._outer, *self._groups.values()]

    def make(self) -> list[Any]:
        """A list of its own."""
        copies: list[Any] = []
        for group in self._copied:
            copies += group.originals if group.copy is None else map(group.copy, group.originals)
        for group in self._groups.values():
            made = copies[group.start : group.stop]
            if group.put is setitem:
                _run(map(setitem, group.parents(copies), group.keys, made))
            else:
                _run(map(group.put, group.parents(copies), made))
        outer: list[Any] = copies[0]
        return outer

    def _go_through(self, values: list[Any]) -> None:
        self._outer.originals.append(values)
        to_do: list[tuple[Any, tuple[_Group, int]]] = [(values, (self._outer, 0))]
        while to_do:
            container, place = to_do.pop()
            for put, key, value in self._held(container):
                self.count += 1
                if self.count > self._most:
                    raise NoRoomError
                if type(value) in PLAIN and put is setitem:
                    # The copy of the container has it already.
                    continue
                copy = self._copy_of(value)
                if copy is None and put is setitem:
                    continue
                original = type(value) if copy is _new else value
                added = self._group(put, copy).add(original, place, key)
                if copy is not None:
                    to_do.append((value, added))

    def _held(self, container: Any) -> Iterator[tuple[Callable[..., Any], Any, Any]]:
        """What is in a container, and how it is put there."""
        kind = type(container)
        if kind is list:
            yield from ((setitem, position, value) for position, value in enumerate(container))
        elif kind is dict:
            for key, value in container.items():
                _check_unchanging(key)
                yield setitem, key, value
        elif kind is set:
            for member in container:
                _check_unchanging(member)
        else:
            layout = self._layout(kind)
            yield from ((put, None, value) for put, value in layout(container))

    def _copy_of(self, value: Any) -> _Copy | None:
        kind = type(value)
        copy = _COPIES.get(kind)
        if copy is not None:
            return copy
        if kind not in PLAIN and marks_of(value) & VOLATILE:
            self._layout(kind)
            return _new
        return None

    def _layout(self, cls: type) -> _Layout:
        layout = self._layouts.get(cls)
        if layout is None:
            entry = self._types.by_class(cls)
            layout = None if entry is None else getattr(entry.shape, "layout", None)
            if layout is None:
                raise UnlikeError
            self._layouts[cls] = layout
        return layout

    def _group(self, put: Callable[..., Any], copy: _Copy | None) -> _Group:
        group = self._groups.get((put, copy))
        if group is None:
            group = self._groups[put, copy] = _Group(put, copy)
        return group


def _check_unchanging(value: Any) -> None:
    if type(value) not in PLAIN and marks_of(value) & VOLATILE:
        raise UnlikeError


def _chosen(positions: list[int]) -> Callable[[list[Any]], Iterable[Any]]:
    """What takes the values at these positions out of a list."""
    if len(positions) > 1:
        return itemgetter(*positions)
    only = positions[0]
    return lambda values: (values[only],)


def _run(calls: Iterable[Any]) -> None:
    deque(calls, maxlen=0)
