"""Containers that know what was written to them: what the dicts and lists of a document have in common.

They are real dicts and lists, so that everything that reads such can read them. Each has one place in one tree. A value
that is put in is copied in: dicts and lists become tracked ones, all the way down, and a tracked one that has its place
already is copied like any other. What is taken out stands on its own from then on, and may be put in again.

A container that is written to notes it (`writes`), and tells the one it lies in, which tells the next, up to the root.
The first write after a save does that; the ones after it find it done. Nothing here knows how a tree is encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, ClassVar, Final

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects import path
from holdfast.objects.trust import EXACT, PLAIN, VOLATILE, marks_of

ROOT: Final = object()
"""What the outermost container of a document lies in."""

_KINDS: Final[dict[type, Any]] = {}
_TEXT: Final = frozenset((str,))

_QUICK_DEPTH: Final = 50


class _NotQuickError(Exception):
    """A value is not one of those that most are."""


class Tracked:
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


def encoded_type(value: Any) -> type:
    """What a value is encoded as: the containers of a document as the dict or list that they equal."""
    return value._plain if isinstance(value, Tracked) else type(value)


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
    where = path.render([path.key_step(place) for place in places], root="value")
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
