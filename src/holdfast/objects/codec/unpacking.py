"""The fast way to decode: one call into C for a whole value.

ormsgpack builds lists, dicts and scalars itself and calls back for extensions. It gives up where bytes are out of its
reach or a callback raises; then `reading` takes over, which finds the same value or the exact reason.
"""

from __future__ import annotations

from datetime import UTC
from typing import Any, Final

import ormsgpack

from holdfast.objects.codec import builtin_types, msgpack
from holdfast.objects.codec.framing import CLOSING, NONCE, OPENING
from holdfast.objects.codec.parts import put_together, scalar_from
from holdfast.objects.codec.registry import TypeRegistry

_MAX_LEVELS: Final = 64

_UTC: Final = b"\x91\x00"

_COPIES: Final = 8
_COPIES_MINIMUM: Final = 16 << 20


# What ormsgpack says when a callback raised, or could not even be entered.
_CALLBACK_FAILED: Final = "ext_hook failed"


class NotReadError(Exception):
    """These bytes cannot be decoded the fast way; whether they can be at all is for the slow way to say."""


_WRONG_BYTES: Final = NotReadError()
"""Stands for any failure of a callback that is not an interruption. The error itself would hold on to every frame."""


class Unpacker:
    """Decodes values in C, as long as none of them is out of reach."""

    __slots__ = ("_failure", "_held", "_held_limit", "_level", "_types")

    def __init__(self, types: TypeRegistry) -> None:
        self._types = types
        self._failure: BaseException | None = None
        self._level = 0
        self._held = 0
        self._held_limit = 0

    def unpack(self, framed: bytes | memoryview) -> Any:
        """The decoded value in a frame.

        Raises:
            NotReadError: It has to be decoded the slow way, if at all.
        """
        # Every level of extensions holds a copy of its payload while it is decoded: bytes made for it would otherwise
        # take many times their size.
        self._held_limit = max(_COPIES * len(framed), _COPIES_MINIMUM)
        self._failure = None
        self._level = self._held = 0
        try:
            return self._unpack(framed)
        except (ValueError, RecursionError) as error:
            # ormsgpack swallows what a callback raises, Ctrl-C included.
            self._raise_interrupt()
            raise NotReadError from error

    def _raise_interrupt(self) -> None:
        if self._failure is not None and self._failure is not _WRONG_BYTES:
            raise self._failure from None

    def _unpack(self, framed: bytes | memoryview) -> Any:
        try:
            pair = ormsgpack.unpackb(framed, ext_hook=self._answer)
        except ValueError as error:
            if self._failure is None and str(error) == _CALLBACK_FAILED and _has_stack():
                # Python runs signal handlers as a function is entered, before any try in it: what one raised just
                # then is lost. Going on as if nothing had happened would ignore a Ctrl-C or a request to stop.
                self._failure = KeyboardInterrupt("a signal arrived while a state was decoded")
            raise
        if type(pair[1]) is not int or pair[1] != NONCE:
            raise NotReadError
        return pair[0]

    def _answer(self, code: int, payload: bytes) -> Any:
        try:
            if code == msgpack.RECORD:
                return self._record(payload)
            if code in builtin_types.FROM_BYTES:
                return scalar_from(code, payload)
            if payload == _UTC and code == msgpack.TIMEZONE:
                # In nearly every date there is; worth a short cut.
                return UTC
            return self._put_together(code, payload)
        except Exception:
            # Whatever is wrong with the bytes, the slow way will find it again.
            if self._failure is None:
                self._failure = _WRONG_BYTES
            raise
        except BaseException as error:
            if self._failure is None:
                self._failure = error
            raise

    def _record(self, payload: bytes) -> Any:
        """An object of a class: what states of other programs are full of."""
        items = self._items(payload)
        if len(items) == 4:
            name, version, data, extra = items
            entry = self._types.by_name(name) if type(name) is str else None
            if entry is not None and version == entry.version and type(version) is int:
                # Whatever this raises, the slow way says what is wrong.
                return entry.shape.make(data, extra)
        return put_together(msgpack.RECORD, items, self._types)

    def _put_together(self, code: int, payload: bytes) -> Any:
        return put_together(code, self._items(payload), self._types)

    def _items(self, payload: bytes) -> list[Any]:
        size = len(payload)
        self._level += 1
        self._held += size
        if self._level > _MAX_LEVELS or self._held > self._held_limit:
            raise NotReadError
        # What `frame` does, in half of the time: this is called for every object.
        items = self._unpack(OPENING + payload + CLOSING)
        if type(items) is not list:
            raise NotReadError
        self._level -= 1
        self._held -= size
        return items


def _has_stack(calls: int = 10) -> bool:
    """Whether a few more calls are possible; if not, that is why the callback could not be entered."""
    try:
        return calls == 0 or _has_stack(calls - 1)
    except RecursionError:
        return False
