"""The dict of a document: every method that changes it notes what it changes, then does it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Self

from holdfast.objects.tracked import Tracked, start
from holdfast.objects.trust import EXACT, PLAIN, is_same
from holdfast.objects.writes import DictWrites

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
