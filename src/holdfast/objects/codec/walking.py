"""The slow way to encode: a walk in Python that can do everything, and knows where it is.

It writes exactly the bytes that `packing` would, for any value `packing` can do; and it does what that cannot: keys
that are no text, lone surrogates, thousands of levels. Where a value cannot be saved at all, it knows the path. It
keeps its own stack, so the depth of a value never becomes the depth of Python's.

Going deeper, it hands whole subtrees to `packing` again, at depths 0, 1, 3, 7, 15 ...: often enough that one odd key
does not make a large state slow, seldom enough that nothing is encoded over and over.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

import ormsgpack

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.codec import builtin_types, msgpack, paths, places
from holdfast.objects.codec.builtin_types import encoded_type
from holdfast.objects.codec.errors import RefusedError
from holdfast.objects.codec.packing import OutOfReachError, Packer
from holdfast.objects.codec.parts import INSTEAD, SORTED, take_apart
from holdfast.objects.codec.registry import TypeRegistry

_NATIVE: Final = frozenset((type(None), bool, float, bytes))
_END: Final = object()


class _Open:
    """A container that is being written."""

    __slots__ = ("at", "code", "items", "key", "size", "slot", "starts", "value")

    def __init__(self, value: Any, code: int, items: list[Any], slot: int) -> None:
        self.value = value
        """Held, so that its id stays its own."""
        self.code = code
        self.items: Iterator[Any] = iter(items)
        self.slot = slot
        """Where in the pieces its header goes: an extension's is known only at its end."""
        self.size = 0
        self.at = -1
        """The position of the item being written."""
        self.key: Any = None
        self.starts: list[int] | None = [] if code in SORTED else None
        """Where the pieces of each member begin, to sort them by."""


class Walker:
    """Encodes one value."""

    def __init__(self, types: TypeRegistry, *, fast: bool = True) -> None:
        self._types = types
        self._fast = fast
        self._pieces: list[bytes] = []
        self._stack: list[_Open] = []
        self._active: set[int] = set()
        self._extensions = 0
        self._packer = Packer(types)

    def encode(self, value: Any) -> bytes:
        """The encoded value.

        Raises:
            InvalidInputError: It cannot be saved; the message has the path.
        """
        self._write(value)
        while self._stack:
            top = self._stack[-1]
            item = next(top.items, _END)
            if item is _END:
                self._close(top)
                continue
            top.at += 1
            if top.starts is not None:
                top.starts.append(len(self._pieces))
            if places.is_key(top.code, top.at):
                top.key = item
            self._write(item)
        body = b"".join(self._pieces)
        if len(body) > msgpack.MAX_SIZE:
            raise self._too_large()
        return body

    def _write(self, value: Any) -> None:
        kind = type(value)
        if kind in _NATIVE:
            self._emit(ormsgpack.packb(value, None, msgpack.PACK_OPTIONS))
        elif kind is str:
            self._emit(self._text(value))
        elif kind is int and -(1 << 63) <= value < 1 << 64:
            self._emit(ormsgpack.packb(value))
        elif self._packed(value):
            pass
        elif encoded_type(value) is list:
            items = list(value)
            self._push(value, places.LIST, items)
            self._emit(msgpack.array_header(len(items)))
        elif encoded_type(value) is dict:
            self._open_dict(value)
        else:
            self._open_extension(value)

    def _emit(self, piece: bytes) -> None:
        self._pieces.append(piece)
        if self._stack:
            self._stack[-1].size += len(piece)

    def _text(self, value: str) -> bytes:
        try:
            return ormsgpack.packb(value)
        except TypeError:
            payload = builtin_types.surrogate_bytes(value)
            return msgpack.extension_header(msgpack.SURROGATES, len(payload)) + payload

    def _packed(self, value: Any) -> bool:
        """Try the fast way, where the depth says so."""
        depth = len(self._stack)
        packed = None if depth & (depth + 1) else self._pack_or_none(value)
        if packed is not None:
            self._emit(packed)
        return packed is not None

    def _pack_or_none(self, value: Any, inside: int = 0) -> bytes | None:
        if not self._fast:
            return None
        try:
            return self._packer.pack(value, depth=len(self._stack), extensions=self._extensions + inside)
        except OutOfReachError:
            self._packer = Packer(self._types)
            return None

    def _open_dict(self, value: dict[Any, Any]) -> None:
        try:
            items = builtin_types.pair_items(value)
        except RefusedError as refusal:
            raise self._refused(refusal) from None
        if all(type(key) is str and _is_clean(key) for key in items[::2]):
            self._push(value, self._map_code(), items)
            self._emit(msgpack.map_header(len(items) // 2))
            return
        packed = self._pack_or_none(items, inside=1)
        if packed is not None:
            self._emit(msgpack.extension_header(msgpack.PAIRS, len(packed)) + packed)
            return
        self._push(value, msgpack.PAIRS, items)
        self._emit(msgpack.array_header(len(items)))

    def _map_code(self) -> int:
        return places.map_code(self._stack[-1].code, self._stack[-1].at) if self._stack else places.MAP

    def _open_extension(self, value: Any) -> None:
        try:
            code, payload = take_apart(value, self._types)
        except RefusedError as refusal:
            raise self._refused(refusal) from refusal.__cause__
        except (InvalidInputError, RecursionError):
            raise
        except Exception as error:
            # The application's own encode function or property may raise anything.
            raise self._failed(value, error) from error
        if code == INSTEAD:
            self._write(payload)
            return
        if type(payload) is bytes:
            self._emit(msgpack.extension_header(code, len(payload)) + payload)
            return
        assert type(payload) is list
        self._push(value, code, payload)
        self._emit(msgpack.array_header(len(payload)))

    def _push(self, value: Any, code: int, items: list[Any]) -> None:
        if id(value) in self._active:
            raise self._cycle(value)
        if len(self._stack) >= msgpack.MAX_DEPTH:
            raise self._too_deep(f"more than {msgpack.MAX_DEPTH:,} containers lie in each other")
        opened = _Open(value, code, items, len(self._pieces))
        if code >= 0:
            self._extensions += 1
            if self._extensions > msgpack.MAX_EXTENSION_DEPTH:
                raise self._too_deep(
                    f"more than {msgpack.MAX_EXTENSION_DEPTH} tuples, sets or objects lie in each other"
                )
            self._pieces.append(b"")
        self._active.add(id(value))
        self._stack.append(opened)

    def _close(self, top: _Open) -> None:
        self._stack.pop()
        self._active.discard(id(top.value))
        if top.starts is not None:
            self._sort(top.slot + 2, top.starts)
        if top.size > msgpack.MAX_SIZE:
            raise self._too_large()
        if top.code >= 0:
            self._extensions -= 1
            header = msgpack.extension_header(top.code, top.size)
            self._pieces[top.slot] = header
            top.size += len(header)
        if self._stack:
            self._stack[-1].size += top.size

    def _sort(self, first: int, starts: list[int]) -> None:
        bounds = itertools.pairwise([*starts, len(self._pieces)])
        members = [b"".join(self._pieces[start:end]) for start, end in bounds]
        self._pieces[first:] = sorted(members)

    def _steps(self, levels: int | None = None) -> list[str]:
        steps = (places.step(opened.code, opened.at, opened.key) for opened in self._stack[:levels])
        return [step for step in steps if step]

    def _path(self, rest: str = "") -> str:
        return paths.render([*self._steps(), rest] if rest else self._steps())

    def _refused(self, refusal: RefusedError) -> InvalidInputError:
        where = self._path(refusal.step)
        return InvalidInputError(f"{where}: {refusal}", code=refusal.code, hint=refusal.hint, path=where)

    def _failed(self, value: Any, error: Exception) -> InvalidInputError:
        where = self._path()
        return InvalidInputError(
            f"{where}: taking this {type(value).__qualname__} apart failed: {type(error).__name__}: {error}",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="look at the cause; it was raised by the encode= function or a property of the class",
            path=where,
        )

    def _cycle(self, value: Any) -> InvalidInputError:
        where = self._path()
        outer = next(position for position, opened in enumerate(self._stack) if opened.value is value)
        origin = paths.render(self._steps(outer))
        return InvalidInputError(
            f"{where}: this {type(value).__qualname__} contains itself (it is {origin})",
            code=ErrorCode.VALUE_CYCLE,
            hint="break the cycle before saving: keep an id of the other object instead of the object",
            path=where,
        )

    def _too_large(self) -> InvalidInputError:
        where = self._path()
        return InvalidInputError(
            f"{where}: more than {msgpack.MAX_SIZE:,} bytes once encoded",
            code=ErrorCode.VALUE_TOO_LARGE,
            hint="keep large data in files or in states of their own, and its name in this one",
            path=where,
        )

    def _too_deep(self, why: str) -> InvalidInputError:
        where = self._path()
        return InvalidInputError(
            f"{where}: {why}",
            code=ErrorCode.VALUE_TOO_DEEP,
            hint="keep the parts in one flat list or dict, and refer to them by id",
            path=where,
        )


def _is_clean(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
