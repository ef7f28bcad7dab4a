"""The fast way to encode: one call into C for a whole value.

ormsgpack walks lists and dicts itself and calls back for everything it has no type for. It gives up where a value is
out of its reach (a key that is no text, a lone surrogate, deep nesting) and where a callback raises; then, and only
then, `walking` takes over, which finds the same bytes or the exact reason. Nothing here needs to explain a failure.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from datetime import UTC
from itertools import compress, repeat
from operator import is_
from typing import Any, Final
from weakref import ref

import ormsgpack

from holdfast.objects.codec import msgpack
from holdfast.objects.codec.builtin_types import EncodedAsPlain
from holdfast.objects.codec.parts import INSTEAD, SORTED, take_apart
from holdfast.objects.codec.registry import TypeRegistry

_NATIVE_DEPTH: Final = 255
"""How deep lists and dicts may lie in each other for ormsgpack, from one extension to the next."""

_MAX_LEVELS: Final = 32
"""How deep extensions may lie in each other here: each level is a call in C and two in Python."""

# ormsgpack writes these as bytes, without asking.
_WRITTEN_UNASKED: Final = frozenset((bytearray, memoryview))
_LOOKED_INTO: Final = (list, dict)

_UTC: Final = ormsgpack.Ext(msgpack.TIMEZONE, b"\x91\x00")


class OutOfReachError(Exception):
    """This value cannot be encoded the fast way; whether it can be at all is for the slow way to say."""


class Packer:
    """Encodes values in C, as long as none of them is out of reach; after that, a new one is needed."""

    __slots__ = ("__weakref__", "_calls", "_failure", "_hooks", "_levels", "_types")

    def __init__(self, types: TypeRegistry) -> None:
        self._types = types
        self._failure: BaseException | None = None
        """What ended an attempt from outside: Ctrl-C, or what a signal handler raised."""
        self._hooks: list[Callable[[Any], Any]] = []
        self._calls = 0
        self._levels = _MAX_LEVELS

    def pack(self, value: Any, *, depth: int = 0, extensions: int = 0) -> bytes:
        """The encoded value.

        Args:
            value: What to encode.
            depth: How many containers it already lies in: with it, the whole must keep within the limits.
            extensions: How many of these are extensions.

        Raises:
            OutOfReachError: It has to be encoded the slow way, if at all.
        """
        self._levels = min(
            _MAX_LEVELS,
            msgpack.MAX_EXTENSION_DEPTH - extensions,
            (msgpack.MAX_DEPTH - depth) // _NATIVE_DEPTH - 1,
        )
        if self._levels < 0:
            raise OutOfReachError
        try:
            return self._pack(value, 0)
        except (TypeError, RecursionError) as error:
            # ormsgpack swallows what a callback raises, Ctrl-C and a signal handler's SystemExit included.
            if self._failure is not None:
                raise self._failure from None
            raise OutOfReachError from error

    def _pack(self, value: Any, level: int) -> bytes:
        calls = self._calls
        body = ormsgpack.packb(value, self._hook(level), msgpack.PACK_OPTIONS)
        if self._calls != calls:
            # While a callback runs, another thread may change a dict that is being written: its header would then
            # belie its pairs. This checks the structure without building anything.
            try:
                ormsgpack.Fragment(body)
            except ValueError as error:
                raise OutOfReachError from error
        # Without one of the marks that open binary data, there is none; with one, it may still be part of a number.
        if (b"\xc4" in body or b"\xc5" in body or b"\xc6" in body) and _holds_unasked(value):
            raise OutOfReachError
        return body

    def _hook(self, level: int) -> Callable[[Any], Any]:
        if level == len(self._hooks):
            generator = _answers(ref(self), level)
            next(generator)
            self._hooks.append(generator.send)
        return self._hooks[level]

    def answer(self, value: Any, level: int) -> ormsgpack.Ext | ormsgpack.Fragment:
        """What ormsgpack is to write for a value that it has no type for."""
        self._calls += 1
        return self._extension(value, level)

    def interrupted(self, error: BaseException) -> None:
        """Remember what ormsgpack is about to swallow; the first is the cause of the others."""
        if self._failure is None:
            self._failure = error

    def _extension(self, value: Any, level: int) -> ormsgpack.Ext | ormsgpack.Fragment:
        if value is UTC:
            # In nearly every date there is; worth a short cut.
            return _UTC
        if isinstance(value, EncodedAsPlain):
            if level >= self._levels:
                raise OutOfReachError
            return ormsgpack.Fragment(self._pack(value._plain(value), level + 1))
        code, payload = take_apart(value, self._types)
        if type(payload) is bytes and code != INSTEAD:
            return ormsgpack.Ext(code, payload)
        if level >= self._levels:
            raise OutOfReachError
        if code == INSTEAD:
            return ormsgpack.Fragment(self._pack(payload, level + 1))
        if code in SORTED:
            members = sorted(self._pack(member, level + 1) for member in payload)
            return ormsgpack.Ext(code, msgpack.array_header(len(members)) + b"".join(members))
        return ormsgpack.Ext(code, self._pack(payload, level + 1))


def _answers(packer: ref[Packer], level: int) -> Generator[Any, Any, None]:
    """The callback of a level, to be called by `send`.

    A generator rather than a function: Python runs signal handlers as a function is entered, outside of any try in it,
    and what they raise would be lost in ormsgpack. A generator is resumed inside the try. It holds neither its packer
    nor the value, which would keep both alive until the garbage collector comes by.
    """
    answer: Any = None
    try:
        while True:
            value = yield answer
            answer = packer().answer(value, level)  # type: ignore[union-attr]
            del value
    except GeneratorExit:
        # The packer is gone. Nothing may be called here: Python would run signal handlers after the call, and ignore
        # what they raise, as it does in every finalizer.
        return
    except Exception:
        # Whatever is wrong with the value, the slow way will find it again.
        raise
    except BaseException as error:
        packer().interrupted(error)  # type: ignore[union-attr]
        raise


def _holds_unasked(value: Any) -> bool:
    """Whether ormsgpack wrote something here without asking: looked up level by level, in C.

    Only lists and dicts are looked into: whatever else a value holds went through a callback, and had its own look.
    """
    kinds = [type(value)]
    level = [value]
    while level:
        found = set(kinds)
        if not _WRITTEN_UNASKED.isdisjoint(found):
            return True
        containers: list[Any] = []
        for kind in _LOOKED_INTO:
            if kind in found:
                containers += compress(level, map(is_, kinds, repeat(kind)))
        level = gc.get_referents(*containers)
        kinds = list(map(type, level))
    return False
