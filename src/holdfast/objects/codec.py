"""A value as bytes, and bytes as a value.

The bytes are canonical: the same value, types and order included, always gives the same ones, whichever way wrote
them. That is what makes equal hashes mean equal states.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import ErrorCode, InvalidInputError, StateError
from holdfast.objects.framing import frame, unframe
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.unpacking import NotReadError, Unpacker


def encode_value(value: Any, types: TypeRegistry) -> bytes:
    """The encoded value.

    Raises:
        InvalidInputError: It cannot be saved; the message has the path of what is in the way.
    """
    try:
        # Imported where it is needed: a program that only loads never does.
        from holdfast.objects.walking import Walker

        return Walker(types).encode(value)
    except RecursionError as error:
        # The walk itself needs a few frames whatever the depth of the value; the program has not even those left, or
        # an encode function of its own never ends.
        raise InvalidInputError(
            "the state could not be encoded: the program ran out of stack",
            code=ErrorCode.VALUE_TOO_DEEP,
            hint="save from a place that is not so deep in calls, or raise sys.setrecursionlimit()",
        ) from error


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
            from holdfast.objects.reading import Reader

            return Reader(unframe(framed), types).decode()
    except RecursionError as error:
        raise StateError(
            "the state could not be decoded: the program ran out of stack",
            code=ErrorCode.DECODE_FAILED,
            hint="load from a place that is not so deep in calls, or raise sys.setrecursionlimit()",
        ) from error
