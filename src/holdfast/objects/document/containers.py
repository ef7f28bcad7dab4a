"""The dicts and lists of a document: real ones, so that everything that reads such can read them, that know of writes.

Each has one place in one tree. A value that is put in is copied in: dicts and lists become tracked ones, all the way
down, and a tracked one that has its place already is copied like any other. What is taken out stands on its own from
then on, and may be put in again.

A container that is written to notes it (`dirty`), and tells the one it lies in, which tells the next, up to the root.
The first write after a save does that; the ones after it find it done. Nothing here knows how a tree is encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress, count, pairwise, repeat
from operator import index, is_, is_not
from typing import Any, Final, Self, SupportsIndex

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.codec import paths
from holdfast.objects.codec.builtin_types import EncodedAsPlain
from holdfast.objects.document.dirty import (
    EXACT,
    PLAIN,
    VOLATILE,
    DictWrites,
    ListWrites,
    is_same,
    marks_of,
)

ROOT: Final = object()
"""What the outermost container of a document lies in."""

_TEXT: Final = frozenset((str,))
_ABSENT: Final = object()


class Tracked(EncodedAsPlain):
    """A dict or list of a document."""

    __slots__ = ()

    _place: Any
    """The container it lies in, ROOT, or None where it stands on its own."""
    _hint: Any
    """Its key there; for an item of a list, a position it had at some time."""
    _writes: Any
    """What was written to it since it was encoded; None where nothing was."""
    _marks: int
    """What is in it, all the way down (`dirty`). They may say too much."""
    _node: Any
    """What the encoder remembers of it; None where it stands literally in its parent, or is new."""

    def _wrote(self) -> Any:
        """Return where to note a write, and see to it that everything above knows that there is one."""
        if self._writes is None:
            line: list[Any] = [self]
            outer = self._place
            while outer is not None and outer is not ROOT:
                line.append(outer)
                if outer._writes is not None:
                    break
                outer = outer._place
            # From above, so that whoever has notes is known all the way up, even if Ctrl-C comes in between.
            for outer, inner in pairwise(reversed(line)):
                if outer._writes is None:
                    outer._writes = outer._new_writes()
                outer._writes.children[id(inner)] = inner
            self._writes = self._new_writes()
        return self._writes

    def _new_writes(self) -> Any:
        raise NotImplementedError

    def _places(self) -> Iterable[tuple[Any, Any]]:
        """Every value with its key or position."""
        raise NotImplementedError

    def copy(self) -> Any:
        """Return a plain dict or list of the same items; containers among them are still those of the document."""
        return self._plain(self)

    def _mark(self, marks: int) -> None:
        """Something with these marks has come into it."""
        outer: Any = self
        # All the way up, whatever is there already: a mark may have been taken off above.
        while marks and outer is not None and outer is not ROOT:
            outer._marks |= marks
            outer = outer._place

    def _taken_in(self, value: Any, hint: Any) -> Any:
        """Return what to store for a value: itself, or a container that has its place here from now on.

        Raises:
            InvalidInputError: It contains itself, or this container. Nothing has changed.
        """
        if not isinstance(value, Tracked) and type(value) is not dict and type(value) is not list:
            self._mark(marks_of(value))
            return value
        if isinstance(value, Tracked) and value._place is None and id(value) not in _line(self):
            made = _anew(value)
        else:
            made = tracked_copy(value, self)
        made._place, made._hint = self, hint
        self._mark(made._marks)
        return made

    def _all_taken_in(self, values: Iterable[Any], hints: Iterable[Any]) -> list[Any]:
        """Return what to store for each value: for all of them, or nothing has changed."""
        made: list[Any] = []
        try:
            for value, hint in zip(values, hints, strict=False):
                made.append(value if type(value) in PLAIN else self._taken_in(value, hint))
        except BaseException:
            # Those that stood on their own do so again.
            for each in made:
                if isinstance(each, Tracked):
                    each._place = None
            raise
        return made

    def _let_go(self, value: Any) -> None:
        """A value has left this container."""
        if isinstance(value, Tracked) and value._place is self:
            value._place = None
            if self._writes is not None:
                self._writes.children.pop(id(value), None)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return plain_copy(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Another process gets the plain value: a document lives in this one.
        return self._plain, (self.copy(),)


class TrackedDict(Tracked, dict[Any, Any]):
    """A dict that has its place in a document."""

    __slots__ = ("_hint", "_marks", "_node", "_place", "_writes")

    _plain = dict

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:  # noqa: D102
        self = super().__new__(cls)
        _start(self)
        return self

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.update(*args, **kwargs)

    def _new_writes(self) -> DictWrites:
        return DictWrites(len(self))

    def _places(self) -> Iterable[tuple[Any, Any]]:
        return self.items()

    def __setitem__(self, key: Any, value: Any) -> None:
        old = dict.get(self, key, _ABSENT)
        if not is_same(old, value):
            self._store(key, value if type(value) in PLAIN else self._taken_in(value, key), old)

    def _store(self, key: Any, value: Any, old: Any) -> None:
        writes = self._wrote()
        if old is not _ABSENT:
            writes.touched.add(key)
        elif type(key) is not str:
            self._mark(EXACT)
        dict.__setitem__(self, key, value)
        if old is not _ABSENT:
            self._let_go(old)

    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyError(key)
        self.pop(key)

    def pop(self, key: Any, default: Any = _ABSENT, /) -> Any:
        """Remove a key and return its value, or the default where it is not there."""
        if key not in self:
            if default is _ABSENT:
                raise KeyError(key)
            return default
        self._wrote().remove((key,), self)
        value = dict.pop(self, key)
        self._let_go(value)
        return value

    def popitem(self) -> tuple[Any, Any]:
        """Remove and return the pair that was put in last."""
        if not self:
            return dict.popitem(self)
        key = next(reversed(self))
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove everything."""
        values = list(self.values())
        if values:
            self._wrote().remove(list(self), self)
            dict.clear(self)
        for value in values:
            self._let_go(value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set what another mapping, or pairs, or keywords have: all of it, or nothing where one is refused."""
        given = dict(*args, **kwargs)
        changed = {key: given[key] for key in given if not is_same(dict.get(self, key, _ABSENT), given[key])}
        made = self._all_taken_in(changed.values(), changed)
        for key, value in zip(changed, made, strict=True):
            self._store(key, value, dict.get(self, key, _ABSENT))

    def setdefault(self, key: Any, default: Any = None, /) -> Any:
        """Return the value of a key, which is set to the default first where it is not there."""
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc]
        self.update(other)
        return self


class TrackedList(Tracked, list[Any]):
    """A list that has its place in a document.

    A slice is often assigned what mostly was there before (`messages[:] = messages[-40:]`). Items that are the same
    objects at both ends of it did not change, and containers that only changed places within it keep their identity.
    """

    __slots__ = ("_hint", "_marks", "_node", "_place", "_writes")

    _plain = list

    def __new__(cls, *_args: Any) -> Self:  # noqa: D102
        self = super().__new__(cls)
        _start(self)
        return self

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self[:] = items

    def _new_writes(self) -> ListWrites:
        return ListWrites(len(self))

    def _places(self) -> Iterable[tuple[Any, Any]]:
        return enumerate(self)

    def append(self, item: Any) -> None:
        """Add an item at the end."""
        end = len(self)
        made = item if type(item) in PLAIN else self._taken_in(item, end)
        self._wrote().splice(end, end, end)
        list.append(self, made)

    def extend(self, items: Iterable[Any]) -> None:
        """Add items at the end: all of them, or none where one is refused or the iterator fails."""
        end = len(self)
        self._replace(end, end, list(items))

    def insert(self, place: SupportsIndex, item: Any) -> None:
        """Add an item before a position."""
        at, _, _ = slice(index(place), None).indices(len(self))
        self._replace(at, at, [item])

    def __setitem__(self, place: Any, value: Any) -> None:
        if not isinstance(place, slice):
            self._set(index(place), value)
            return
        start, stop, step = place.indices(len(self))
        items = list(value)
        if step == 1:
            self._replace(start, max(start, stop), items)
        else:
            self._replace_each(place, range(start, stop, step), items)

    def _set(self, place: int, value: Any) -> None:
        old = list.__getitem__(self, place)
        if is_same(old, value):
            return
        at = place % len(self)
        made = value if type(value) in PLAIN else self._taken_in(value, at)
        self._wrote().splice(at, at + 1, len(self))
        list.__setitem__(self, at, made)
        self._let_go(old)

    def _replace(self, start: int, stop: int, items: list[Any]) -> None:
        """Put items in the place of those from `start` to `stop`."""
        old = list.__getitem__(self, slice(start, stop))
        head, tail = _common_ends(old, items)
        start, stop = start + head, stop - tail
        old, items = old[head : len(old) - tail], items[head : len(items) - tail]
        if not old and not items:
            return
        made, leaving = self._rearranged(old, items, count(start))
        self._wrote().splice(start, stop, len(self))
        list.__setitem__(self, slice(start, stop), made)
        for item in leaving:
            self._let_go(item)

    def _replace_each(self, place: slice, positions: range, items: list[Any]) -> None:
        """Put items in the place of those at some positions, one by one."""
        if len(items) != len(positions):
            raise ValueError(
                f"attempt to assign sequence of size {len(items)} to extended slice of size {len(positions)}"
            )
        made, leaving = self._rearranged(list.__getitem__(self, place), items, positions)
        if positions:
            self._wrote().splice(min(positions), max(positions) + 1, len(self))
        list.__setitem__(self, place, made)
        for item in leaving:
            self._let_go(item)

    def _rearranged(
        self, old: list[Any], items: list[Any], hints: Iterable[int]
    ) -> tuple[list[Any], Iterable[Any]]:
        """Return what to store for items that come into the place of old ones, and which of those are left over."""
        leaving = {id(item): item for item in old if isinstance(item, Tracked)}
        staying = [leaving.pop(id(item), None) for item in items] if leaving else [None] * len(items)
        others = [None if stays is not None else item for stays, item in zip(staying, items, strict=True)]
        made = self._all_taken_in(others, hints)
        return [
            each if stays is None else stays for stays, each in zip(staying, made, strict=True)
        ], leaving.values()

    def __delitem__(self, place: Any) -> None:
        if not isinstance(place, slice):
            self.pop(place)
            return
        positions = range(*place.indices(len(self)))
        if not positions:
            return
        self._wrote().splice(min(positions), max(positions) + 1, len(self))
        old = list.__getitem__(self, place)
        list.__delitem__(self, place)
        for item in old:
            self._let_go(item)

    def pop(self, place: SupportsIndex = -1, /) -> Any:
        """Remove and return an item, the last one by default."""
        at = index(place)
        item = list.__getitem__(self, at) if self else list.pop(self)
        at %= len(self)
        self._wrote().splice(at, at + 1, len(self))
        list.__delitem__(self, at)
        self._let_go(item)
        return item

    def remove(self, item: Any) -> None:
        """Remove the first item that equals this one."""
        del self[self.index(item)]

    def clear(self) -> None:
        """Remove everything."""
        del self[:]

    def __iadd__(self, items: Iterable[Any]) -> Self:  # type: ignore[misc]
        self.extend(items)
        return self

    def __imul__(self, times: SupportsIndex) -> Self:
        number = index(times)
        if number < 1:
            self.clear()
        else:
            self.extend(list(self) * (number - 1))
        return self

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        """Sort in place. Where `key` or a comparison fails, the items are all there, in some order."""
        before = list(self)
        writes = self._wrote()
        prefix, suffix = writes.prefix, writes.suffix
        # While it runs, and if it fails, items may be anywhere.
        writes.forget()
        list.sort(self, key=key, reverse=reverse)
        head, tail = _common_ends(before, self)
        writes.prefix, writes.suffix = prefix, suffix
        if head < len(self):
            writes.splice(head, len(self) - tail, len(self))

    def reverse(self) -> None:
        """Turn the order around."""
        self._wrote().forget()
        list.reverse(self)


_KINDS: Final[dict[type, Any]] = {dict: TrackedDict, list: TrackedList}


def _start(container: Any) -> None:
    container._place = container._hint = container._writes = container._node = None
    container._marks = 0


def tracked_copy(value: Any, into: Tracked | None = None, *, cls: Any = None) -> Any:
    """A tracked copy of a dict or list, plain or tracked, as deep as it goes; it stands on its own.

    Args:
        value: What to copy.
        into: The container it is to lie in. What contains that one would contain itself.
        cls: What the outermost copy is to be, where it is to be something special.

    Raises:
        InvalidInputError: It contains itself (`value-cycle`), or lies too deep (`value-too-deep`).
    """
    try:
        return _copied(value, cls or _kind(value), _line(into))
    except _CycleError as error:
        where = paths.render(error.steps[::-1], root="value")
        raise InvalidInputError(
            f"{where}: a dict or list that contains itself cannot be put into a document",
            code=ErrorCode.VALUE_CYCLE,
            hint="break the cycle first: keep an id of the other object instead of the object",
            path=where,
        ) from None
    except RecursionError as error:
        raise InvalidInputError(
            "value: too many dicts and lists lie in each other",
            code=ErrorCode.VALUE_TOO_DEEP,
            hint="keep the parts in one flat list or dict, and refer to them by id",
        ) from error


class _CycleError(Exception):
    """A value contains itself; each level adds its step."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []


def _kind(value: Any) -> Any:
    return _KINDS[value._plain if isinstance(value, Tracked) else type(value)]


def _copied(value: Any, cls: Any, above: set[int]) -> Any:
    """A copy of a value that lies in the containers with these ids."""
    if id(value) in above:
        raise _CycleError
    made: Any
    put: Callable[..., None]
    pairs: Iterable[tuple[Any, Any]]
    if cls._plain is dict:
        made, put = dict.__new__(cls), dict.__setitem__
        dict.update(made, value)
        pairs = list(made.items())
        marks = 0 if _TEXT.issuperset(map(type, made)) else EXACT
    else:
        made, put, marks = list.__new__(cls), list.__setitem__, 0
        list.extend(made, value)
        pairs = enumerate(list(made))
    _start(made)
    above.add(id(value))
    for place, inner in pairs:
        kind = type(inner)
        if kind in PLAIN:
            continue
        if kind is dict or kind is list or isinstance(inner, Tracked):
            try:
                copied = _copied(inner, _kind(inner), above)
            except _CycleError as error:
                error.steps.append(paths.key_step(place))
                raise
            copied._place, copied._hint = made, place
            put(made, place, copied)
            marks |= copied._marks
        else:
            marks |= marks_of(inner)
    above.discard(id(value))
    made._marks = marks
    return made


def _line(container: Tracked | None) -> set[int]:
    """The ids of a container and of all that it lies in."""
    ids = set()
    outer: Any = container
    while outer is not None and outer is not ROOT:
        ids.add(id(outer))
        outer = outer._place
    return ids


def _anew(container: Tracked) -> Tracked:
    """Forget what the encoder knew of a container and all in it: they may have missed saves meanwhile."""
    open_containers = [container]
    while open_containers:
        each = open_containers.pop()
        each._writes = each._node = None
        open_containers += [value for _, value in each._places() if isinstance(value, Tracked)]
    return container


def plain_copy(container: Tracked, memo: dict[int, Any] | None = None) -> Any:
    """The plain dict or list that equals a tracked one; nothing in it belongs to the document any more."""
    # Only needed for values of other kinds, which are rare.
    from copy import deepcopy

    memo = {} if memo is None else memo
    outermost = container.copy()
    to_do = [outermost]
    while to_do:
        made = to_do.pop()
        pairs = made.items() if type(made) is dict else enumerate(made)
        others = [(place, value) for place, value in pairs if type(value) not in PLAIN]
        for place, value in others:
            if isinstance(value, Tracked):
                made[place] = value.copy()
                to_do.append(made[place])
            elif marks_of(value) & VOLATILE:
                made[place] = deepcopy(value, memo)
    return outermost


def _common_ends(old: list[Any], new: list[Any]) -> tuple[int, int]:
    """How many objects are the same at the beginning of both, and how many at the end."""
    shorter = min(len(old), len(new))
    head = next(compress(count(), map(is_not, old, new)), shorter)
    tail = next(compress(count(), map(is_not, reversed(old), reversed(new))), shorter)
    return head, min(tail, shorter - head)


def positions(container: Any, children: Iterable[Tracked]) -> list[int]:
    """Where these are among the values of a container; those that are not there are left out.

    An item of a list remembers a position it once had, and rarely moved far from it.
    """
    here = [child for child in children if child._place is container]
    if not here:
        return []
    if container._plain is dict:
        keys = {child._hint for child in here}
        return list(compress(count(), map(keys.__contains__, container)))
    found, missing = [], {}
    for child in here:
        at = _near(container, child)
        if at is None:
            missing[id(child)] = child
        else:
            child._hint = at
            found.append(at)
    if missing:
        for at, item in enumerate(container):
            if id(item) in missing:
                item._hint = at
                found.append(at)
    return sorted(found)


def _near(items: TrackedList, child: Tracked) -> int | None:
    hint: int = child._hint
    for reach in (0, 64, 1024):
        first = max(hint - reach, 0)
        window = items[first : hint + reach + 1]
        at = next(compress(count(first), map(is_, window, repeat(child))), None)
        if at is not None:
            return at
    return None
