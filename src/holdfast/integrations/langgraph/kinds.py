"""Classes of other kinds than the engine takes apart by itself, as LangGraph's own serializer keeps them.

Each function here says how one kind is kept, or None for a class that is not of it. Data is plain and readable, and
what is made of it runs no more code than the class needs: the constructor of a secret, nothing of a list or dict.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from holdfast.errors import ErrorCode
from holdfast.objects.codec.classes import (
    check_fields,
    class_name,
    mismatch,
    refuse_other_attributes,
    unset_field,
)
from holdfast.objects.codec.errors import RefusedError


class Kept(NamedTuple):
    """The two functions that a class is registered with."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def kept_pattern() -> Kept:
    """A compiled regular expression, by its text and flags."""
    return Kept(lambda value: {"pattern": value.pattern, "flags": value.flags}, _compiled)


def _compiled(data: Any) -> re.Pattern[Any]:
    flags = data["flags"]
    # DEBUG makes `compile` print; loading a state prints nothing, whoever made it.
    return re.compile(data["pattern"], flags & ~re.DEBUG.value)


def kept_secret(cls: type[Any]) -> Kept | None:
    """Pydantic's SecretStr and its like: the secret itself, readable by whoever can read the store.

    LangGraph's own serializer does the same. A state without the secret would not be the state that was saved; a secret
    that must not be in the store has no place in the state of a graph.
    """
    if not callable(getattr(cls, "get_secret_value", None)):
        return None
    return Kept(lambda value: value.get_secret_value(), cls)


def kept_slots(cls: type[Any]) -> Kept:
    """A class whose instances are their slots and nothing else; what is None is left out."""
    names = [name for base in reversed(cls.__mro__) for name in vars(base).get("__slots__", ())]

    def encode(value: Any) -> dict[str, Any]:
        fields = {}
        for name in names:
            if not hasattr(value, name):
                raise unset_field(value, name)
            if getattr(value, name) is not None:
                fields[name] = getattr(value, name)
        return fields

    def decode(data: Any) -> Any:
        check_fields(cls, data, names)
        value = object.__new__(cls)
        for name in names:
            object.__setattr__(value, name, data.get(name))
        return value

    return Kept(encode, decode)


def kept_v1_model(cls: type[Any]) -> Kept | None:
    """A model of pydantic 1, which pydantic 2 brings along as `pydantic.v1`."""
    base = getattr(sys.modules.get("pydantic.v1.main"), "BaseModel", None)
    if base is None or not issubclass(cls, base):
        return None

    def encode(value: Any) -> dict[str, Any]:
        private = [name for name in cls.__private_attributes__ if hasattr(value, name)]
        return {
            "fields": dict(value.__dict__),
            "set": sorted(value.__fields_set__),
            **({"private": {name: getattr(value, name) for name in private}} if private else {}),
        }

    def decode(data: Any) -> Any:
        value = object.__new__(cls)
        object.__setattr__(value, "__dict__", dict(data["fields"]))
        object.__setattr__(value, "__fields_set__", set(data["set"]))
        for name, content in data.get("private", {}).items():
            if name not in cls.__private_attributes__:
                raise mismatch(cls, f"it has no private attribute {name!r}")
            object.__setattr__(value, name, content)
        return value

    return Kept(encode, decode)


# What a subclass of each is filled with; the others get their content when they are made.
_FILL: Final[dict[type, Callable[[Any, Any], object]]] = {
    list: list.extend,
    dict: dict.update,
    set: set.update,
}
_BASES: Final = (str, int, float, bytes, bytearray, tuple, frozenset, complex, *_FILL)


def kept_subclass(cls: type[Any]) -> Kept | None:
    """A subclass of text, a number, a list, a dict and the like that adds methods and no attributes."""
    # The next class with a layout of its own must be the plain one: an OrderedDict or a defaultdict holds more.
    base: Any = next((each for each in cls.__mro__ if each.__module__ in ("builtins", "collections")), object)
    if base not in _BASES or any(
        vars(each).get("__slots__") for each in cls.__mro__[: cls.__mro__.index(base)]
    ):
        return None
    fill = _FILL.get(base)
    new: Any = base.__new__

    def encode(value: Any) -> Any:
        refuse_other_attributes(value, frozenset())
        # The content as the plain type has it, whatever the class makes of iteration or conversion.
        return _plain(base, value)

    def decode(data: Any) -> Any:
        if type(data) is not base:
            raise mismatch(cls, f"it is no {base.__name__}")
        if fill is None:
            return new(cls, data)
        value = new(cls)
        fill(value, data)
        return value

    return Kept(encode, decode)


def _plain(base: type[Any], value: Any) -> Any:
    if base is dict:
        return dict(dict.items(value))
    if base in (list, tuple, set, frozenset):
        return base(base.__iter__(value))
    if base in (str, bytes, bytearray):
        return base.__getitem__(value, slice(None))
    return base.__pos__(value)


def stand_in_for(cls: type[Any]) -> Callable[[Any], Any] | None:
    """What is stored in place of objects that cannot be made again: text of an exception, the offset of a time zone."""
    if issubclass(cls, BaseException):
        # LangGraph does the same, and shows this text as the error of a task.
        return repr
    return _fixed_zone if issubclass(cls, dt.tzinfo) else None


def _fixed_zone(zone: dt.tzinfo) -> dt.timezone:
    """The zone of a date that pydantic parsed, or a library made: a fixed offset is the same in every class."""
    offset = zone.utcoffset(None)
    if offset is None:
        raise RefusedError(
            f"a time zone of class {class_name(type(zone))} has other offsets at other times, and cannot be saved",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint='use zoneinfo.ZoneInfo("Area/City"), or date.astimezone(datetime.timezone.utc)',
        )
    return dt.timezone(offset) if offset else dt.UTC
