"""Bytes as a value: the one that was encoded, types and order included."""

from __future__ import annotations

from typing import Any

from holdfast.errors import ErrorCode, StateError
from holdfast.objects.codec.framing import frame, unframe
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.unpacking import NotReadError, Unpacker


def decode_value(body: bytes | memoryview, types: TypeRegistry) -> Any:
    """The value that was encoded; see `decode_pieces`."""
    return decode_pieces([body], types)


def decode_pieces(pieces: list[bytes | memoryview], types: TypeRegistry) -> Any:
    """The value whose encoding these are, one after the other. The list is empty afterwards.

    Raises:
        StateError: The bytes are no value, or do not fit the registered types.
        UnsupportedError: A newer version wrote them.
    """
    framed = frame(pieces)
    # Copied: while the value is built, memory holds its bytes once.
    pieces.clear()
    return decode_framed(framed, types)


def decode_framed(framed: bytes | memoryview, types: TypeRegistry) -> Any:
    """The value whose encoding is in a frame; see `decode_pieces`. Nothing in it refers to the frame."""
    try:
        try:
            return Unpacker(types).unpack(framed)
        except NotReadError:
            from holdfast.objects.codec.reading import Reader

            return Reader(unframe(framed), types).decode()
    except RecursionError as error:
        raise StateError(
            "the state could not be decoded: the program ran out of stack",
            code=ErrorCode.DECODE_FAILED,
            hint="load from a place that is not so deep in calls, or raise sys.setrecursionlimit()",
        ) from error
