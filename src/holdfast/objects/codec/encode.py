"""A value as bytes: canonical, the same value always gives the same ones. Equal hashes therefore mean equal states."""

from __future__ import annotations

from typing import Any

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.codec.registry import TypeRegistry


def encode_value(value: Any, types: TypeRegistry) -> bytes:
    """The encoded value.

    Raises:
        InvalidInputError: It cannot be saved; the message has the path of what is in the way.
    """
    try:
        # Imported where it is needed: a program that only loads never does.
        from holdfast.objects.codec.walking import Walker

        return Walker(types).encode(value)
    except RecursionError as error:
        # The walk itself needs a few frames whatever the depth of the value; the program has not even those left, or
        # an encode function of its own never ends.
        raise InvalidInputError(
            "the state could not be encoded: the program ran out of stack",
            code=ErrorCode.VALUE_TOO_DEEP,
            hint="save from a place that is not so deep in calls, or raise sys.setrecursionlimit()",
        ) from error
