"""How the objects of a class come apart into plain data, and are put together again without running its code.

Each kind of class has its `Shape`. `take` gives what is stored; `make` builds the object around stored data without
`__init__`, `__post_init__` or validators: they ran when the object was first made, and may do things (open a
connection, count, log) that loading must not do. Classes of another kind need an encode and a decode function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, Flag
from types import BuiltinFunctionType
from typing import Any, Protocol

from holdfast.errors import ErrorCode
from holdfast.objects.refusal import MismatchError, RefusedError


class Shape(Protocol):
    """What holdfast knows about one class."""

    def take(self, value: Any) -> tuple[Any, Any]:
        """The stored data of an object, and what else its kind needs (or None)."""
        ...

    def make(self, data: Any, extra: Any) -> Any:
        """The object that data and extra were taken from."""
        ...

    # A shape may have `glance` too: a list of values that tells any two objects apart whose data or extra differ, and
    # an object from every value that is none. It is never stored. It is worth having where `take` costs more: a large
    # state that is saved again is compared by it (`bulk.BulkPacker.look`). And `together`, which several classes may
    # share: the same for a list of objects at once (`memo.Together`).
    #
    # And `layout`: what makes an object that `make` has made, given an empty one of its class (`object.__new__`), as
    # pairs of a function and what to call it with after the object. Where many states with the same objects are
    # loaded, they are made again by it, with copies of all that can change (`molds.Mold`).


class Taken:
    """What `Shape.take` gave, for an `upgrade` that makes the object itself and hands on all of it."""

    __slots__ = ("data", "extra")

    def __init__(self, data: Any, extra: Any) -> None:
        self.data = data
        self.extra = extra


class CustomShape:
    """A class with functions of its own for both ways."""

    __slots__ = ("_decode", "_encode")

    def __init__(self, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
        self._encode = encode
        self._decode = decode

    def take(self, value: Any) -> tuple[Any, Any]:
        """Whatever the encode function returns."""
        return self._encode(value), None

    def make(self, data: Any, extra: Any) -> Any:  # noqa: ARG002 - such a class has none
        """Whatever the decode function returns."""
        return self._decode(data)


class StandInShape:
    """A class whose objects are not kept: another value is stored in their place, and comes back."""

    __slots__ = ("stand_in",)

    def __init__(self, stand_in: Callable[[Any], Any]) -> None:
        self.stand_in = stand_in

    def take(self, value: Any) -> tuple[Any, Any]:
        """What is stored in its place."""
        return self.stand_in(value), None

    def make(self, data: Any, extra: Any) -> Any:  # noqa: ARG002 - nothing is stored under a name
        """What was stored."""
        return data


class EnumShape:
    """An enum member by its name; a combination of flags by its value."""

    __slots__ = ("_cls", "_members")

    def __init__(self, cls: type[Enum]) -> None:
        self._cls = cls
        self._members: Mapping[str, Enum] = cls.__members__

    def take(self, value: Any) -> tuple[Any, Any]:
        """The name where the member has one of its own."""
        name = value.name
        if name is not None and self._members.get(name) is value:
            return name, None
        if isinstance(value, Flag) and type(value.value) is int:
            return value.value, None
        raise RefusedError(
            f"this {class_name(self._cls)} is none of the members that its class declares",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="register the class with encode= and decode=",
        )

    def make(self, data: Any, extra: Any) -> Any:  # noqa: ARG002 - an enum has none
        """The member itself: there is one of each."""
        if type(data) is str:
            member = self._members.get(data)
            if member is not None:
                return member
        elif type(data) is int:
            try:
                return self._cls(data)
            except (ValueError, TypeError):
                # Not a value of this enum (any more): the same finding as an unknown name.
                pass
        raise mismatch(
            self._cls, f"it has no member {data!r}" if isinstance(data, str | int) else "not a member"
        )


def class_name(cls: type) -> str:
    """The qualified name of a class, without the functions it was defined in."""
    return cls.__qualname__.rpartition("<locals>.")[2]


def mismatch(cls: type, why: str) -> MismatchError:
    """Stored data that does not fit this class."""
    return MismatchError(
        f"the stored data does not fit class {class_name(cls)}: {why}",
        code=ErrorCode.TYPE_MISMATCH,
        hint="register the class with a higher version= and an upgrade= function that brings old data into shape",
    )


def has_plain_layout(cls: type) -> bool:
    """Whether instances hold nothing but attributes: no list, dict, exception or other C object underneath."""
    for base in cls.__mro__:
        if isinstance(base.__dict__.get("__new__"), BuiltinFunctionType):
            return base is object
    return True
