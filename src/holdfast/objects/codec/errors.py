"""Why one value cannot be kept or rebuilt, before its place in the state is known.

The code that takes a single value apart, or puts it together, does not know where it lies. It raises one of these; the
walk over the whole state knows the path, and makes the error that the caller sees.
"""

from __future__ import annotations

from holdfast.errors import ErrorCode


class RefusedError(Exception):
    """A value that cannot be saved, or not as it is."""

    def __init__(self, message: str, *, code: ErrorCode, hint: str, step: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.step = step
        """The rest of the path, where the trouble is one attribute of the value."""


class MismatchError(Exception):
    """Stored data that does not fit the registered class, or could not be upgraded to it."""

    def __init__(self, message: str, *, code: ErrorCode, hint: str) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


class MalformedError(Exception):
    """Bytes that are not an encoded value."""


class UnknownCodeError(Exception):
    """An extension that this version does not know."""
