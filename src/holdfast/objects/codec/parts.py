"""One value that MessagePack has no type for, taken apart into a code and a payload, and put together again.

The payload is bytes where the value is a scalar, and a list of further values where it holds some. Both ways of
encoding and both ways of decoding go through here, so that a type is described once.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from holdfast.errors import ErrorCode
from holdfast.objects.codec import builtin_types, msgpack
from holdfast.objects.codec.classes import StandInShape, Taken, class_name
from holdfast.objects.codec.errors import MalformedError, MismatchError, RefusedError, UnknownCodeError
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import RegisteredType, TypeRegistry, can_register

SORTED: Final = frozenset((msgpack.SET, msgpack.FROZENSET))
"""The codes whose items are written in the order of their encoded bytes."""

INSTEAD: Final = -1
"""In place of a code: the payload is another value, to be written as if it stood there."""

# OrderedDict and the like go before dict: the most precise name is the best hint.
_EXACT_ONLY: Final = (
    str,
    bytes,
    float,
    list,
    *reversed(builtin_types.TO_ITEMS),
    *builtin_types.TO_BYTES,
    dict,
)


def take_apart(value: Any, types: TypeRegistry) -> tuple[int, Any]:
    """The code and payload of a value: bytes, or a list of items; any value where the code is `INSTEAD`.

    Raises:
        RefusedError: The value cannot be saved.
    """
    cls = type(value)
    scalar = builtin_types.TO_BYTES.get(cls)
    if scalar is not None:
        return scalar[0], scalar[1](value)
    several = builtin_types.TO_ITEMS.get(cls)
    if several is not None:
        return several[0], several[1](value)
    if cls is Opaque:
        return msgpack.RECORD, _opaque_items(value)
    entry = types.by_class(cls)
    if entry is not None:
        return _object(value, entry)
    return _take_late(value, cls, types)


def _object(value: Any, entry: RegisteredType) -> tuple[int, Any]:
    data, extra = entry.shape.take(value)
    if type(entry.shape) is StandInShape:
        return INSTEAD, data
    return msgpack.RECORD, [entry.name, entry.version, data, extra]


def put_together(code: int, items: list[Any], types: TypeRegistry) -> Any:
    """The value that a code and a list of items were taken from.

    Raises:
        MismatchError: A stored object does not fit its class.
        MalformedError: No value has these items.
        UnknownCodeError: The code is not one of ours.
    """
    if code == msgpack.RECORD:
        return _record(items, types)
    make = builtin_types.FROM_ITEMS.get(code)
    if make is None:
        raise UnknownCodeError(f"extension code {code}")
    try:
        return make(items)
    except (MismatchError, MalformedError, RecursionError):
        raise
    except Exception as error:
        # Crafted items of the wrong type or number, unhashable keys, dates that do not exist; and whatever the
        # __hash__ or __eq__ of the application's own class raises.
        raise MalformedError(f"extension {code}: {type(error).__name__}: {error}") from error


def scalar_from(code: int, payload: bytes) -> Any:
    """The value of a payload that is fixed bytes.

    Raises:
        MismatchError: This machine cannot make the value.
        MalformedError: No value has this payload.
    """
    try:
        return builtin_types.FROM_BYTES[code](payload)
    except (TypeError, ValueError, LookupError, ArithmeticError, OSError) as error:
        if code == msgpack.ZONEINFO:
            raise MismatchError(
                f"time zone {payload[:64].decode('utf-8', 'replace')!r} is not known here: {error}",
                code=ErrorCode.DECODE_FAILED,
                hint="install time zone data: pip install tzdata",
            ) from error
        raise MalformedError(f"extension {code}: {type(error).__name__}: {error}") from error


def _record(items: list[Any], types: TypeRegistry) -> Any:
    if len(items) != 4 or type(items[0]) is not str or type(items[1]) is not int:
        raise MalformedError("a record without name and version")
    name, version, data, extra = items
    entry = types.by_name(name) or types.found(name)
    if entry is None or version > entry.version:
        return Opaque(name, version, data, extra)
    if version == 0:
        return _foreign(entry, Opaque(name, version, data, extra))
    if version < entry.version:
        if entry.upgrade is None:
            raise MismatchError(
                f"the store has version {version} of {name!r}, and version {entry.version} has no upgrade function",
                code=ErrorCode.UPGRADE_FAILED,
                hint="register the class with upgrade=, a function (data, stored version) -> data",
            )
        data = _upgraded(entry.upgrade, data, version, name)
    try:
        return entry.shape.make(data, extra)
    except (MismatchError, RecursionError):
        raise
    except Exception as error:
        # The application's own decode function or default factory may raise anything.
        raise MismatchError(
            f"the stored {name!r} could not be turned back into an object: {type(error).__name__}: {error}",
            code=ErrorCode.DECODE_FAILED,
            hint="look at the cause; it was raised by the decode= function or a default factory of the class",
        ) from error


def _foreign(entry: RegisteredType, stored: Opaque) -> Any:
    """Versions begin with 1: this is another program's form of the object, and only an upgrade can know it."""
    if entry.upgrade is None:
        return stored
    try:
        data = entry.upgrade(stored.data, stored.version)
        if type(data) is Taken:
            return entry.shape.make(data.data, data.extra)
        return entry.shape.make(data, stored.extra)
    except (RecursionError, MemoryError):
        raise
    except Exception:  # noqa: BLE001 - the application's own code may raise anything
        # That the class does not take what another program wrote is no reason to lose the whole state.
        return stored


def _upgraded(upgrade: Any, data: Any, version: int, name: str) -> Any:
    try:
        return upgrade(data, version)
    except Exception as error:
        # The application's own function may raise anything.
        raise MismatchError(
            f"upgrading version {version} of {name!r} failed: {type(error).__name__}: {error}",
            code=ErrorCode.UPGRADE_FAILED,
            hint="look at the cause; it was raised by the upgrade= function of the class",
        ) from error


def _take_late(value: Any, cls: type, types: TypeRegistry) -> tuple[int, Any]:
    """The code and payload of a value whose class is not registered: of a library that few import, or to ask about."""
    scalar = builtin_types.late_taker(cls)
    if scalar is not None:
        return scalar[0], scalar[1](value)
    if cls is getattr(sys.modules.get("fractions"), "Fraction", None):
        return msgpack.FRACTION, builtin_types.fraction_items(value)
    # Last of all: about what can be kept, nobody is asked.
    entry = types.asked(cls)
    if entry is None:
        raise _refused(value, cls)
    return _object(value, entry)


def _opaque_items(value: Opaque) -> list[Any]:
    if type(value.name) is not str or type(value.version) is not int:
        raise RefusedError(
            "an Opaque whose name is no text, or whose version is no whole number",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="save it as it was loaded",
        )
    return [value.name, value.version, value.data, value.extra]


def _refused(value: Any, cls: type) -> RefusedError:
    name = class_name(cls)
    if cls is memoryview:
        return RefusedError(
            "a memoryview is a window onto bytes held elsewhere",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="save bytes(view)",
        )
    if can_register(cls):
        return RefusedError(
            f"class {name} is not registered",
            code=ErrorCode.TYPE_NOT_REGISTERED,
            hint=f"holdfast.open(types=[{name}]), or put @holdfast.register above the class",
        )
    if isinstance(value, _EXACT_ONLY):
        base = next(base for base in _EXACT_ONLY if isinstance(value, base))
        return RefusedError(
            f"{name}, a kind of {base.__name__}, is not registered",
            code=ErrorCode.TYPE_NOT_REGISTERED,
            hint=f"holdfast.register({name}, encode=..., decode=...), or save {base.__name__}(value)",
        )
    return RefusedError(
        f"a value of type {name} cannot be saved",
        code=ErrorCode.VALUE_UNSUPPORTED,
        hint=f"keep what is needed to make it again, or holdfast.register({name}, encode=..., decode=...)",
    )
