"""What a search is asked for, checked before it begins."""

from __future__ import annotations

from datetime import datetime

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.history.checkpoint import Checkpoint


def check_filters(**filters: object) -> None:
    """Refuse a name that is no text; None is none."""
    for name, value in filters.items():
        if value is not None and type(value) is not str:
            raise _bad_filter(name, value, f"pass {name} as a str")


def check_checkpoint(name: str, value: object, hint: str) -> None:
    """Refuse what is no checkpoint; None is none."""
    if value is not None and not isinstance(value, Checkpoint):
        raise _bad_filter(name, value, hint)


def _bad_filter(name: str, value: object, hint: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name} cannot be a {type(value).__name__}", code=ErrorCode.BAD_ARGUMENT, hint=hint, argument=name
    )


def microseconds(when: datetime | str, name: str, now: int, *, end: bool = False) -> int:
    """A moment that somebody named, in microseconds since 1970."""
    # Only a search by time needs to read times.
    from holdfast.history.times import to_microseconds

    return to_microseconds(when, now=now, what=name, end=end)
