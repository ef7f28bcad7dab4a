"""Bytes as a value: the one that was encoded, types and order included.

One call into C decodes a whole value: ormsgpack builds lists, dicts and scalars itself and calls back for extensions.
The bytes are what their hash says, but may have been made by anyone: no class is looked for outside of the registry,
and memory, depth and time stay in proportion to the input whatever its headers claim.
"""

from __future__ import annotations

import os
from datetime import UTC
from typing import Any, Final

import ormsgpack

from holdfast.errors import ErrorCode, HoldfastError, StateError, UnsupportedError
from holdfast.objects.codec import builtin_types, msgpack
from holdfast.objects.codec.classes import Taken
from holdfast.objects.codec.errors import MalformedError, MismatchError, UnknownCodeError
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import RegisteredType, TypeRegistry

# ormsgpack does not mind bytes after the end of a value. So each is read as the first of a pair, whose second is a
# number that nobody can have known when the bytes were made.
_NONCE: Final = int.from_bytes(os.urandom(8), "big") | 1 << 63
_OPENING: Final = b"\x92"
_CLOSING: Final = b"\xcf" + _NONCE.to_bytes(8, "big")

_UTC: Final = b"\x91\x00"


def decode_value(body: bytes | memoryview, types: TypeRegistry) -> Any:
    """The value that was encoded; see `decode_pieces`."""
    return decode_pieces([body], types)


def decode_pieces(pieces: list[bytes | memoryview], types: TypeRegistry) -> Any:
    """The value whose encoding these are, one after the other. The list is empty afterwards.

    Raises:
        StateError: The bytes are no value, or do not fit the registered types.
        UnsupportedError: A newer version wrote them.
    """
    framed = b"".join((_OPENING, *pieces, _CLOSING))
    # Copied: while the value is built, memory holds its bytes once.
    pieces.clear()
    return _Decoder(types, len(framed)).decode(framed)


class _LostError(Exception):
    """A callback failed, and nobody knows why."""


class _Decoder:
    """Decodes one value."""

    __slots__ = ("_depth", "_failure", "_held", "_held_limit", "_level", "_types")

    def __init__(self, types: TypeRegistry, size: int) -> None:
        self._types = types
        self._held_limit = msgpack.held_limit(size, 24)
        self._failure: BaseException | None = None
        self._level = self._depth = self._held = 0

    def decode(self, framed: bytes) -> Any:
        try:
            return self._decoded(framed)
        except _LostError:
            # A signal handler raised something as a callback was entered, which is lost; or there is no stack left.
            pass
        try:
            return self._decoded(framed)
        except _LostError as error:
            raise _error(RecursionError()) from error

    def _decoded(self, framed: bytes) -> Any:
        self._begin()
        try:
            pair = ormsgpack.unpackb(framed, ext_hook=self._answer)
        except (ValueError, RecursionError) as error:
            failure = self._failure or error
            if str(failure) == "ext_hook failed":
                raise _LostError from error
            raise _error(failure) from failure.__cause__
        if pair[1] != _NONCE:
            raise _error(MalformedError("there are bytes behind its end"))
        return pair[0]

    def _begin(self) -> None:
        self._failure = None
        self._level = self._depth = self._held = 0

    def _answer(self, code: int, payload: bytes) -> Any:
        try:
            if code in builtin_types.FROM_BYTES:
                return _scalar(code, payload)
            if payload == _UTC and code == msgpack.TIMEZONE:
                # In nearly every date there is.
                return UTC
            items = self._items(payload)
            if code == msgpack.RECORD:
                return _record(items, self._types)
            return _collected(code, items)
        except BaseException as error:
            # ormsgpack swallows it, Ctrl-C included; the first is the cause of the others.
            self._failure = self._failure or error
            raise

    def _items(self, payload: bytes) -> list[Any]:
        size, depth = len(payload), 0
        self._level += 1
        if self._level > msgpack.FREE_LEVELS:
            depth = msgpack.depth_of(payload)
        else:
            # One value, and nothing behind it.
            ormsgpack.Fragment(payload)
        self._depth += depth
        self._held += size
        if self._depth > msgpack.MOST_LEVELS or self._held > self._held_limit:
            raise MalformedError("too many extensions in each other")
        items = ormsgpack.unpackb(payload, ext_hook=self._answer)
        if type(items) is not list:
            raise MalformedError("an extension that holds no array")
        self._level -= 1
        self._depth -= depth
        self._held -= size
        return items


def _error(failure: BaseException) -> BaseException:
    """What the caller sees of a failure."""
    if isinstance(failure, RecursionError):
        return StateError(
            "the state could not be decoded: the program ran out of stack",
            code=ErrorCode.DECODE_FAILED,
            hint="load from a place that is not so deep in calls, or raise sys.setrecursionlimit()",
        )
    if isinstance(failure, HoldfastError) or not isinstance(failure, Exception):
        return failure
    if isinstance(failure, MismatchError):
        return StateError(str(failure), code=failure.code, hint=failure.hint)
    if isinstance(failure, UnknownCodeError):
        return UnsupportedError(
            f"{failure} is not known to this version",
            code=ErrorCode.FORMAT_TOO_NEW,
            hint="upgrade holdfast: the state was saved by a newer version",
        )
    return StateError(
        f"the stored bytes are intact, but are no state: {failure}",
        code=ErrorCode.DECODE_FAILED,
        hint="register the classes it was saved with, or load another checkpoint (s.log())",
    )


def _collected(code: int, items: list[Any]) -> Any:
    """The value of an extension that holds further values."""
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


def _scalar(code: int, payload: bytes) -> Any:
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
