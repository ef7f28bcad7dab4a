"""The slow way to decode: MessagePack read in Python, item by item, with a stack of its own.

It reads everything the format allows, to the full depth, and knows the path of whatever it cannot read. Bytes from a
store are checked against their hash before they come here, but may have been made by anyone: nothing is made room for
before it is there, so that memory stays in proportion to the input whatever a header claims.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from holdfast.errors import ErrorCode, HoldfastError, StateError, UnsupportedError
from holdfast.objects.codec import builtin_types, msgpack, paths, places
from holdfast.objects.codec.errors import MalformedError, MismatchError, UnknownCodeError
from holdfast.objects.codec.framing import frame
from holdfast.objects.codec.parts import put_together, scalar_from
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.unpacking import NotReadError, Unpacker

_NUMBERS: Final = {
    0xCA: struct.Struct(">f"),
    0xCB: struct.Struct(">d"),
    0xCC: struct.Struct(">B"),
    0xCD: struct.Struct(">H"),
    0xCE: struct.Struct(">I"),
    0xCF: struct.Struct(">Q"),
    0xD0: struct.Struct(">b"),
    0xD1: struct.Struct(">h"),
    0xD2: struct.Struct(">i"),
    0xD3: struct.Struct(">q"),
}
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}
# Mark -> how many bytes its length takes.
_BINARY: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_TEXT: Final = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_FIXED_EXTENSION: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_EXTENSION: Final = {0xC7: 1, 0xC8: 2, 0xC9: 4, **dict.fromkeys(_FIXED_EXTENSION, 0)}
_ARRAY: Final = {0xDC: 2, 0xDD: 4}
_MAP_MARKS: Final = {0xDE: 2, 0xDF: 4}


class _Open:
    """A container that is being read."""

    __slots__ = ("code", "count", "end", "items")

    def __init__(self, code: int, count: int, end: int) -> None:
        self.code = code
        self.count = count
        """How many items are to come; for a map, keys and values."""
        self.end = end
        """Where an extension's payload ends."""
        self.items: list[Any] = []


class Reader:
    """Decodes one value."""

    def __init__(self, body: bytes, types: TypeRegistry, *, fast: bool = True) -> None:
        self._body = memoryview(body)
        self._types = types
        self._at = 0
        self._stack: list[_Open] = []
        self._extensions = 0
        self._unpacker = Unpacker(types) if fast else None

    def decode(self) -> Any:
        """The value.

        Raises:
            StateError: The bytes are no value, or one that does not fit the program (`decode-failed`, `type-mismatch`,
                `upgrade-failed`).
            UnsupportedError: They use an extension that this version does not know (`format-too-new`).
        """
        try:
            value = self._decode()
            if self._at != len(self._body):
                self._malformed("bytes after the end")
        except (MalformedError, MismatchError, UnknownCodeError) as error:
            raise self._error(error) from error.__cause__
        return value

    def _decode(self) -> Any:
        while True:
            value, opened = self._next()
            if opened:
                continue
            while self._stack:
                top = self._stack[-1]
                top.items.append(value)
                if len(top.items) < top.count:
                    break
                value = self._close()
            else:
                return value

    def _next(self) -> tuple[Any, bool]:
        """The next value; or, where a container with items begins, nothing yet, and True."""
        mark = self._take(1)[0]
        if mark < 0x80:
            return mark, False
        if mark >= 0xE0:
            return mark - 0x100, False
        if mark < 0xC0:
            return self._short(mark)
        if mark in _CONSTANTS:
            return _CONSTANTS[mark], False
        if mark in _NUMBERS:
            number = _NUMBERS[mark]
            return number.unpack(self._take(number.size))[0], False
        return self._long(mark)

    def _short(self, mark: int) -> tuple[Any, bool]:
        if mark < 0x90:
            return self._open(places.MAP, 2 * (mark & 0x0F))
        if mark < 0xA0:
            return self._open(places.LIST, mark & 0x0F)
        return self._text(mark & 0x1F), False

    def _long(self, mark: int) -> tuple[Any, bool]:
        if mark in _TEXT:
            return self._text(self._length(_TEXT[mark])), False
        if mark in _ARRAY:
            return self._open(places.LIST, self._length(_ARRAY[mark]))
        if mark in _MAP_MARKS:
            return self._open(places.MAP, 2 * self._length(_MAP_MARKS[mark]))
        if mark in _BINARY:
            return bytes(self._take(self._length(_BINARY[mark]))), False
        if mark in _EXTENSION:
            # In the fixed ones, the mark itself says the length.
            return self._extension(_FIXED_EXTENSION.get(mark) or self._length(_EXTENSION[mark]))
        return self._malformed("a mark that MessagePack does not use")

    def _take(self, size: int) -> memoryview:
        end = self._at + size
        limit = self._limit()
        if end > limit:
            self._malformed("it ends too early")
        taken = self._body[self._at : end]
        self._at = end
        return taken

    def _limit(self) -> int:
        return self._stack[-1].end if self._stack else len(self._body)

    def _length(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def _text(self, size: int) -> str:
        try:
            return str(self._take(size), "utf-8")
        except UnicodeDecodeError:
            return self._malformed("text that is not UTF-8")

    def _open(self, code: int, count: int, *, end: int | None = None) -> tuple[Any, bool]:
        limit = self._limit() if end is None else end
        if len(self._stack) >= msgpack.READ_DEPTH:
            self._malformed(f"more than {msgpack.READ_DEPTH:,} levels")
        self._stack.append(_Open(code, count, limit))
        if count:
            return None, True
        return self._close(), False

    def _extension(self, size: int) -> tuple[Any, bool]:
        code = int.from_bytes(self._take(1), "big", signed=True)
        start = self._at
        payload = self._take(size)
        if code in builtin_types.FROM_BYTES:
            return scalar_from(code, bytes(payload)), False
        if code != msgpack.RECORD and code not in builtin_types.FROM_ITEMS:
            raise UnknownCodeError(f"extension code {code}")
        depth = len(self._stack)
        if self._unpacker is not None and not depth & (depth + 1):
            try:
                return put_together(code, self._fast_items(payload), self._types), False
            except NotReadError:
                # The slow way from here on.
                pass
        self._extensions += 1
        if self._extensions > msgpack.MAX_EXTENSION_DEPTH:
            self._malformed(f"more than {msgpack.MAX_EXTENSION_DEPTH} extensions in each other")
        self._at = start
        return self._open(code, self._array_count(start + size), end=start + size)

    def _fast_items(self, payload: memoryview) -> list[Any]:
        assert self._unpacker is not None
        items = self._unpacker.unpack(frame((payload,)))
        if type(items) is not list:
            raise NotReadError
        return items

    def _array_count(self, end: int) -> int:
        """Every extension that holds values holds them as one array."""
        if self._at >= end:
            self._malformed("an extension without a payload")
        mark = self._take(1)[0]
        if 0x90 <= mark < 0xA0:
            return mark & 0x0F
        if mark not in _ARRAY:
            self._malformed("an extension that holds no array")
        return self._length(_ARRAY[mark])

    def _close(self) -> Any:
        top = self._stack.pop()
        try:
            if top.code == places.LIST:
                return top.items
            if top.code == places.MAP:
                return self._map(top.items)
            self._extensions -= 1
            if self._at != top.end:
                self._malformed("an extension that is longer than its items")
            return put_together(top.code, top.items, self._types)
        except (MalformedError, MismatchError, UnknownCodeError):
            # The container is still the place of the trouble.
            self._stack.append(top)
            raise

    def _map(self, items: list[Any]) -> dict[str, Any]:
        if any(type(key) is not str for key in items[::2]):
            self._malformed("a map key that is no text")
        return dict(zip(items[::2], items[1::2], strict=True))

    def _malformed(self, why: str) -> NoReturn:
        raise MalformedError(why)

    def _steps(self) -> Iterator[str]:
        outer, outer_at = places.LIST, 0
        for opened in self._stack:
            at = len(opened.items)
            code = places.map_code(outer, outer_at) if opened.code == places.MAP else opened.code
            if at < opened.count:
                key = opened.items[-1] if at and not places.is_key(code, at) else paths.UNREAD
                yield places.step(code, at, key)
            outer, outer_at = code, at

    def _error(self, error: MalformedError | MismatchError | UnknownCodeError) -> HoldfastError:
        where = paths.render([step for step in self._steps() if step])
        if isinstance(error, MismatchError):
            return StateError(f"{where}: {error}", code=error.code, hint=error.hint, path=where)
        if isinstance(error, UnknownCodeError):
            return UnsupportedError(
                f"{where}: {error} is not known to this version",
                code=ErrorCode.FORMAT_TOO_NEW,
                hint="upgrade holdfast: the state was saved by a newer version",
                path=where,
            )
        return StateError(
            f"{where}: the stored bytes are intact, but are no state: {error}",
            code=ErrorCode.DECODE_FAILED,
            hint="register the classes it was saved with, or load another checkpoint (s.log())",
            path=where,
        )
