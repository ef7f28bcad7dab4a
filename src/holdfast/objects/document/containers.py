"""Containers that know what was written to them: what the dicts and lists of a document have in common.

They are real dicts and lists, so that everything that reads such can read them. Each has one place in one tree. A value
that is put in is copied in: dicts and lists become tracked ones, all the way down, and a tracked one that has its place
already is copied like any other. What is taken out stands on its own from then on, and may be put in again.

A container that is written to notes it (`writes`), and tells the one it lies in, which tells the next, up to the root.
The first write after a save does that; the ones after it find it done. Nothing here knows how a tree is encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress, count, pairwise, repeat
from operator import index, is_, is_not
from typing import Any, ClassVar, Final, Self, SupportsIndex

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.codec import paths
from holdfast.objects.codec.builtin_types import EncodedAsPlain, encoded_type
from holdfast.objects.document.dirty import (
    EXACT,
    MAX_HOLES,
    PLAIN,
    VOLATILE,
    DictWrites,
    ListWrites,
    is_same,
    marks_of,
)

ROOT: Final = object()
"""What the outermost container of a document lies in."""

_KINDS: Final[dict[type, Any]] = {}
_TEXT: Final = frozenset((str,))

_QUICK_DEPTH: Final = 50


class _NotQuickError(Exception):
    """A value is not one of those that most are."""


class Tracked(EncodedAsPlain):
    """A dict or list of a document."""

    __slots__ = ()

    _plain: ClassVar[type[Any]]
    """What it is, apart from being tracked: dict or list."""

    _place: Any
    """The container it lies in, ROOT, or None where it stands on its own."""
    _hint: Any
    """Its key there; for an item of a list, a position it had at some time."""
    _writes: Any
    """What was written to it since it was encoded; None where nothing was."""
    _marks: int
    """What is in it, all the way down (`trust`). They may say too much."""
    _node: Any
    """What the encoder remembers of it; None where it stands literally in its parent, or is new."""

    def __init_subclass__(cls) -> None:
        # Copying makes both kinds, and each kind copies: `tracked_dict` and `tracked_list` find each other here.
        _KINDS.setdefault(cls._plain, cls)

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

    def _put(self, place: Any, value: Any) -> None:
        """Store a value as it is, and note nothing."""
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


def start(container: Any, place: Any = None) -> None:
    """Give a container that is being made what it needs."""
    container._place = place
    container._hint = container._writes = container._node = None
    container._marks = 0


def tracked_copy(value: Any, into: Tracked | None = None, *, cls: Any = None) -> Any:
    """A tracked copy of a dict or list, plain or tracked, as deep as it goes; it stands on its own.

    Args:
        value: What to copy.
        into: The container it is to lie in. What contains that one would contain itself.
        cls: What the outermost copy is to be, where it is to be something special.

    Raises:
        InvalidInputError: It contains itself (`value-cycle`).
    """
    if not isinstance(value, Tracked):
        try:
            return _quick_copy(value, cls or _KINDS[type(value)], _QUICK_DEPTH)
        except (_NotQuickError, RecursionError):
            # Deep, cyclic or partly tracked already: the slow way can do it, or knows what is wrong with it.
            pass
    outermost = _copied_flat(value, cls or _KINDS[encoded_type(value)])
    # The copies on the way down, each with the containers in it that are still to be copied.
    open_copies = [(value, outermost, _nested(outermost))]
    active = {id(value)}
    above = _line(into) if isinstance(value, Tracked) else None
    if above is not None and id(value) in above:
        raise _cycle(open_copies)
    while open_copies:
        source, made, nested = open_copies[-1]
        if not nested:
            open_copies.pop()
            active.discard(id(source))
            if open_copies:
                open_copies[-1][1]._marks |= made._marks
            continue
        place, inner = nested.pop()
        if isinstance(inner, Tracked):
            above = _line(into) if above is None else above
        if id(inner) in active or (above is not None and id(inner) in above):
            raise _cycle(open_copies, place)
        copied = _copied_flat(inner, _KINDS[encoded_type(inner)])
        copied._place, copied._hint = made, place
        made._put(place, copied)
        deeper = _nested(copied)
        if deeper:
            open_copies.append((inner, copied, deeper))
            active.add(id(inner))
        else:
            made._marks |= copied._marks
    return outermost


def _quick_copy(value: Any, cls: Any, depth: int) -> Any:
    """The copy of a plain value of no great depth; states are made of little else, and have many containers."""
    if depth == 0:
        raise _NotQuickError
    made: Any
    pairs: Iterable[tuple[Any, Any]]
    put: Callable[..., None]
    if cls._plain is dict:
        made, put, pairs = dict.__new__(cls), dict.__setitem__, value.items()
        dict.update(made, value)
        marks = 0 if _TEXT.issuperset(map(type, value)) else EXACT
    else:
        made, put, pairs, marks = list.__new__(cls), list.__setitem__, enumerate(value), 0
        list.extend(made, value)
    made._place = made._hint = made._writes = made._node = None
    for place, inner in pairs:
        kind = type(inner)
        if kind in PLAIN:
            continue
        if kind is dict or kind is list:
            copied = _quick_copy(inner, _KINDS[kind], depth - 1)
            copied._place, copied._hint = made, place
            put(made, place, copied)
            marks |= copied._marks
        elif isinstance(inner, Tracked):
            raise _NotQuickError
        else:
            marks |= marks_of(inner)
    made._marks = marks
    return made


def _copied_flat(value: Any, cls: Any) -> Any:
    plain = cls._plain
    made = plain.__new__(cls)
    start(made)
    if plain is dict:
        dict.update(made, value)
    else:
        list.extend(made, value)
    return made


def _nested(made: Any) -> list[tuple[Any, Any]]:
    """The dicts and lists in a flat copy that are still to be copied; what else there is marks it."""
    values = made
    if made._plain is dict:
        values = made.values()
        if not _TEXT.issuperset(map(type, made)):
            made._marks = EXACT
    if PLAIN.issuperset(map(type, values)):
        return []
    nested = []
    for place, value in made._places():
        kind = type(value)
        if kind is dict or kind is list or isinstance(value, Tracked):
            nested.append((place, value))
        elif kind not in PLAIN:
            made._marks |= marks_of(value)
    return nested


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


def _cycle(open_copies: list[tuple[Any, Any, Any]], *last: Any) -> InvalidInputError:
    places = [made._hint for _, made, _ in open_copies[1:]] + list(last)
    where = paths.render([paths.key_step(place) for place in places], root="value")
    return InvalidInputError(
        f"{where}: a dict or list that contains itself cannot be put into a document",
        code=ErrorCode.VALUE_CYCLE,
        hint="break the cycle first: keep an id of the other object instead of the object",
        path=where,
    )


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


_ABSENT: Final = object()


class TrackedDict(Tracked, dict[Any, Any]):
    """A dict that has its place in a document."""

    __slots__ = ("_hint", "_marks", "_node", "_place", "_writes")

    _plain = dict

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:  # noqa: D102
        self = super().__new__(cls)
        start(self)
        return self

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.update(*args, **kwargs)

    def _new_writes(self) -> DictWrites:
        return DictWrites(len(self))

    def _places(self) -> Iterable[tuple[Any, Any]]:
        return self.items()

    def _put(self, place: Any, value: Any) -> None:
        dict.__setitem__(self, place, value)

    def __setitem__(self, key: Any, value: Any) -> None:
        old = dict.get(self, key, _ABSENT)
        if not is_same(old, value):
            self._store(key, value if type(value) in PLAIN else self._taken_in(value, key), old)

    def _store(self, key: Any, value: Any, old: Any) -> None:
        writes = self._wrote()
        if old is not _ABSENT:
            writes.touch(key)
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
    """A list that has its place in a document."""

    __slots__ = ("_hint", "_marks", "_node", "_place", "_writes")

    _plain = list

    def __new__(cls, *_args: Any) -> Self:  # noqa: D102
        self = super().__new__(cls)
        start(self)
        return self

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self[:] = items

    def _new_writes(self) -> ListWrites:
        return ListWrites(len(self))

    def _places(self) -> Iterable[tuple[Any, Any]]:
        return enumerate(self)

    def _put(self, place: Any, value: Any) -> None:
        list.__setitem__(self, place, value)

    def append(self, item: Any) -> None:
        """Add an item at the end."""
        end = len(self)
        made = item if type(item) in PLAIN else self._taken_in(item, end)
        self._wrote().splice(end, end, 1)
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
        start_, stop, step = place.indices(len(self))
        items = list(value)
        if step == 1:
            self._replace(start_, max(start_, stop), items)
        else:
            self._replace_each(place, range(start_, stop, step), items)

    def _set(self, place: int, value: Any) -> None:
        old = list.__getitem__(self, place)
        if is_same(old, value):
            return
        at = place % len(self)
        made = value if type(value) in PLAIN else self._taken_in(value, at)
        self._wrote().touch(at)
        list.__setitem__(self, at, made)
        self._let_go(old)

    def _replace(self, start_: int, stop: int, items: list[Any]) -> None:
        """Put items in the place of those from `start_` to `stop`."""
        old = list.__getitem__(self, slice(start_, stop))
        head, tail = _common_ends(old, items)
        start_, stop = start_ + head, stop - tail
        old, items = old[head : len(old) - tail], items[head : len(items) - tail]
        if not old and not items:
            return
        made, leaving = self._rearranged(old, items, count(start_))
        self._wrote().splice(start_, stop, len(made))
        list.__setitem__(self, slice(start_, stop), made)
        for item in leaving:
            self._let_go(item)

    def _replace_each(self, place: slice, positions: range, items: list[Any]) -> None:
        """Put items in the place of those at some positions, one by one."""
        if len(items) != len(positions):
            raise ValueError(
                f"attempt to assign sequence of size {len(items)} to extended slice of size {len(positions)}"
            )
        made, leaving = self._rearranged(list.__getitem__(self, place), items, positions)
        for position in positions:
            self._wrote().touch(position)
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
        writes = self._wrote()
        old = list.__getitem__(self, place)
        first, last = min(positions), max(positions)
        if positions.step in (1, -1) or len(positions) > MAX_HOLES:
            writes.splice(first, last + 1, last + 1 - first - len(positions))
        else:
            # From the right, so that the positions of those that are still to go stay what they are.
            for position in sorted(positions, reverse=True):
                writes.splice(position, position + 1, 0)
        list.__delitem__(self, place)
        for item in old:
            self._let_go(item)

    def pop(self, place: SupportsIndex = -1, /) -> Any:
        """Remove and return an item, the last one by default."""
        at = index(place)
        item = list.__getitem__(self, at) if self else list.pop(self)
        at %= len(self)
        self._wrote().splice(at, at + 1, 0)
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
        # While it runs, and if it fails, items may be anywhere.
        writes.unsure, was = True, writes.unsure
        list.sort(self, key=key, reverse=reverse)
        head, tail = _common_ends(before, self)
        end = len(self) - tail
        if end > head:
            writes.splice(head, end, end - head)
        writes.unsure = was

    def reverse(self) -> None:
        """Turn the order around."""
        self._wrote().splice(0, len(self), len(self))
        list.reverse(self)


def _common_ends(old: list[Any], new: list[Any]) -> tuple[int, int]:
    """How many objects are the same at the beginning of both, and how many at the end."""
    shorter = min(len(old), len(new))
    head = next(compress(count(), map(is_not, old, new)), shorter)
    tail = next(compress(count(), map(is_not, reversed(old), reversed(new))), shorter)
    return head, min(tail, shorter - head)


def positions(items: TrackedList, children: Iterable[Tracked]) -> list[int]:
    """Where these are among the items; those that are not are left out.

    A container remembers a position it once had, and rarely moved far from it.
    """
    found, missing = [], []
    for child in children:
        if child._place is items:
            at = _near(items, child)
            if at is None:
                missing.append(child)
            else:
                child._hint = at
                found.append(at)
    if missing:
        wanted = {id(child): child for child in missing}
        for at, item in enumerate(items):
            if id(item) in wanted:
                item._hint = at
                found.append(at)
    return found


def _near(items: TrackedList, child: Tracked) -> int | None:
    hint: int = child._hint
    for reach in (0, 64, 1024):
        first = max(hint - reach, 0)
        window = items[first : hint + reach + 1]
        at = next(compress(count(first), map(is_, window, repeat(child))), None)
        if at is not None:
            return at
    return None
