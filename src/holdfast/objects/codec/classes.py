"""How the objects of a class come apart into plain data, and are put together again without running its code.

Each kind of class has its `Shape`. `take` gives what is stored; `make` builds the object around stored data without
`__init__`, `__post_init__` or validators: they ran when the object was first made, and may do things (open a
connection, count, log) that loading must not do. Classes of another kind need an encode and a decode function.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, Flag
from types import BuiltinFunctionType, MemberDescriptorType
from typing import Any, Final, Protocol

from holdfast.errors import ErrorCode
from holdfast.objects.codec.errors import MismatchError, RefusedError
from holdfast.objects.codec.paths import field_step


class Shape(Protocol):
    """What holdfast knows about one class."""

    def take(self, value: Any) -> tuple[Any, Any]:
        """The stored data of an object, and what else its kind needs (or None)."""
        ...

    def make(self, data: Any, extra: Any) -> Any:
        """The object that data and extra were taken from."""
        ...


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


MISSING: Final = object()
"""No value: a field without a default."""

Default = Callable[[Any], Any]
"""Gives the default of a field, or MISSING; it is passed the object under construction."""

_ATTRS_HASH: Final = "_attrs_cached_hash"
# Set by typing on what `Box[int](...)` makes; it says nothing about the object, and nothing depends on it.
_TYPING_NOTE: Final = "__orig_class__"


class FieldShape:
    """An object with attributes: a dataclass or attrs instance."""

    __slots__ = ("_cls", "_defaults", "_hash_cache", "_known", "_names", "_slotted", "_unsaved_slots")

    def __init__(self, cls: type, defaults: dict[str, Default]) -> None:
        self._cls = cls
        self._defaults = defaults
        self._names = tuple(defaults)
        self._slotted = frozenset(name for name in defaults if _is_slot(cls, name))
        self._known = frozenset(defaults) | frozenset(cached_names(cls)) | {_ATTRS_HASH, _TYPING_NOTE}
        self._unsaved_slots = tuple(_slots_beside(cls, defaults))
        self._hash_cache = _ATTRS_HASH in getattr(getattr(cls.__hash__, "__code__", None), "co_names", ())

    def take(self, value: Any) -> tuple[Any, Any]:
        """The fields by name."""
        refuse_other_attributes(value, self._known)
        for name in self._unsaved_slots:
            if hasattr(value, name):
                raise other_attribute(value, name)
        try:
            return {name: getattr(value, name) for name in self._names}, None
        except AttributeError as error:
            name = next(name for name in self._names if not hasattr(value, name))
            raise unset_field(value, name) from error

    def make(self, data: Any, extra: Any) -> Any:  # noqa: ARG002 - these have none
        """The object, without `__init__`; fields that were not stored get their defaults."""
        check_fields(self._cls, data, self._names)
        value: Any = object.__new__(self._cls)
        attributes = getattr(value, "__dict__", None)
        for name in [*data, *(name for name in self._names if name not in data)]:
            content = data[name] if name in data else default_of(self._cls, name, self._defaults[name], value)
            if name in self._slotted or attributes is None:
                object.__setattr__(value, name, content)
            else:
                # Straight into the dict: a property of the same name would run code.
                attributes[name] = content
        if self._hash_cache:
            # attrs expects to find this from the start.
            object.__setattr__(value, _ATTRS_HASH, None)
        return value


class NamedTupleShape:
    """A named tuple, by field name: fields may be added with a default later."""

    __slots__ = ("_cls", "_defaults", "_known", "_names")

    def __init__(self, cls: type[Any]) -> None:
        self._cls = cls
        self._known = frozenset(cached_names(cls))
        self._names: tuple[str, ...] = cls._fields
        self._defaults: dict[str, Any] = cls._field_defaults

    def take(self, value: Any) -> tuple[Any, Any]:
        """The fields by name."""
        refuse_other_attributes(value, self._known)
        if len(value) != len(self._names):
            raise RefusedError(
                f"a {class_name(self._cls)} of {len(value)} items where the class has {len(self._names)} fields",
                code=ErrorCode.VALUE_UNSUPPORTED,
                hint="make it with its own constructor",
            )
        return dict(zip(self._names, value, strict=True)), None

    def make(self, data: Any, extra: Any) -> Any:  # noqa: ARG002 - a tuple has none
        """The tuple, without the class's own `__new__`."""
        check_fields(self._cls, data, self._names)
        contents = {**self._defaults, **data}
        for name in self._names:
            if name not in contents:
                raise no_default(self._cls, name)
        return tuple.__new__(self._cls, [contents[name] for name in self._names])


def dataclass_defaults(cls: type[Any]) -> dict[str, Default]:
    """The fields of a dataclass with their defaults."""
    return {field.name: _dataclass_default(field) for field in dataclasses.fields(cls)}


def attrs_defaults(cls: type[Any]) -> dict[str, Default]:
    """The fields of an attrs class with their defaults."""
    nothing = sys.modules["attr"].NOTHING
    return {attribute.name: _attrs_default(attribute.default, nothing) for attribute in cls.__attrs_attrs__}


def _dataclass_default(field: dataclasses.Field[Any]) -> Default:
    if field.default is not dataclasses.MISSING:
        return lambda _value: field.default
    if field.default_factory is not dataclasses.MISSING:
        factory = field.default_factory
        return lambda _value: factory()
    return lambda _value: MISSING


def _attrs_default(default: Any, nothing: Any) -> Default:
    if default is nothing:
        return lambda _value: MISSING
    if hasattr(default, "factory") and hasattr(default, "takes_self"):
        if default.takes_self:
            with_self: Default = default.factory
            return with_self
        return lambda _value: default.factory()
    return lambda _value: default


def check_fields(cls: type, data: Any, names: Sequence[str]) -> None:
    """The stored data is a dict, and has no field that the class does not have."""
    if type(data) is not dict:
        raise mismatch(cls, "it is no set of fields")
    unknown = [name for name in data if name not in names]
    if unknown:
        raise mismatch(cls, f"it has no field {field_step(unknown[0])[1:]}")


def default_of(cls: type, name: str, default: Default, value: Any) -> Any:
    """The default of a field that was not stored."""
    content = default(value)
    if content is MISSING:
        raise no_default(cls, name)
    return content


def no_default(cls: type, name: str) -> MismatchError:
    """A field that was not stored and has no default."""
    return mismatch(cls, f"field {name!r} was not stored, and has no default")


def cached_names(cls: type) -> Iterator[str]:
    """The attributes in which cached properties keep their values."""
    for base in cls.__mro__:
        for name, attribute in vars(base).items():
            if isinstance(attribute, functools.cached_property):
                yield attribute.attrname or name


def refuse_other_attributes(value: Any, known: frozenset[str]) -> None:
    """Refuse an object that holds more than what will be stored of it."""
    attributes = getattr(value, "__dict__", None)
    if attributes and not attributes.keys() <= known:
        raise other_attribute(value, next(name for name in attributes if name not in known))


def other_attribute(value: Any, name: str) -> RefusedError:
    """An attribute that is no field."""
    return RefusedError(
        f"{class_name(type(value))} has no field of this name, so the attribute would be lost",
        code=ErrorCode.VALUE_UNSUPPORTED,
        hint="declare it as a field, or register the class with encode= and decode=",
        step=field_step(name),
    )


def unset_field(value: Any, name: str) -> RefusedError:
    """A field without a value."""
    return RefusedError(
        f"this field of {class_name(type(value))} has no value",
        code=ErrorCode.VALUE_UNSUPPORTED,
        hint="set the field before saving, or register the class with encode= and decode=",
        step=field_step(name),
    )


def _is_slot(cls: type, name: str) -> bool:
    for base in cls.__mro__:
        if name in vars(base):
            return isinstance(vars(base)[name], MemberDescriptorType)
    return False


def _slots_beside(cls: type, fields: Iterable[str]) -> Iterator[str]:
    """Slots that are no fields. attrs itself makes some, for cached properties and hashes; those are its own affair."""
    names = frozenset(fields)
    for base in cls.__mro__:
        if "__attrs_attrs__" not in vars(base):
            for name, attribute in vars(base).items():
                if isinstance(attribute, MemberDescriptorType) and name not in names:
                    yield name
