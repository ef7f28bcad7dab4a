"""What a caller says about a save, checked before anything else happens.

A save that cannot be described is refused before its state is encoded and long before anything is written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.history.checkpoint import STATUSES, TRIGGERS, Checkpoint
from holdfast.history.jsontext import metadata_text
from holdfast.history.names import check_key, check_tags
from holdfast.record import Record
from holdfast.storage.tables import is_storable

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.storage.tables import RowChange

_Number = TypeVar("_Number", int | None, float | None)

_LARGEST = sys.float_info.max

_MAX_MESSAGE = 64 * 1024
"""A message is a line or a paragraph; more than this belongs into the state."""


class Draft(Record):
    """The checked description of a save: everything in a checkpoint that comes from the caller."""

    message: str
    tags: tuple[str, ...]
    step: int | None
    status: str
    trigger: str
    metadata: str
    tokens: int | None
    cost_usd: float | None
    duration_ms: float | None
    key: str | None
    created_at: int | None = None
    """When it was made, where that is not now."""
    rows: tuple[RowChange, ...] = ()
    """Changes of extension tables that go with it."""


def check_draft(  # noqa: PLR0913 - as many as a checkpoint has fields
    message: str = "",
    *,
    tags: Iterable[str] = (),
    step: int | None = None,
    status: str = "running",
    trigger: str = "manual",
    metadata: Mapping[str, Any] | None = None,
    tokens: int | None = None,
    cost_usd: float | None = None,
    duration_ms: float | None = None,
    key: str | None = None,
    created_at: datetime | None = None,
    rows: Iterable[RowChange] = (),
) -> Draft:
    """Check each part and return them as one record.

    Raises:
        InvalidInputError: One of them cannot be kept; the message names it.
    """
    return Draft(
        message=check_message(message),
        tags=() if tags == () else check_tags(tags),
        step=check_step(step),
        status=check_status(status),
        trigger=check_trigger(trigger),
        metadata=metadata_text(metadata),
        tokens=_amount(_whole(tokens, "tokens"), "tokens"),
        cost_usd=_real(cost_usd, "cost_usd"),
        duration_ms=_real(duration_ms, "duration_ms"),
        key=None if key is None else check_key(key),
        created_at=None if created_at is None else _moment(created_at),
        rows=() if rows == () else check_rows(rows),
    )


def check_rows(rows: Any) -> tuple[RowChange, ...]:
    """Return the changes if that is what they are."""
    from holdfast.storage.tables import RowChange

    # One change is a tuple itself.
    changes = tuple(rows) if isinstance(rows, Iterable) and not isinstance(rows, RowChange) else (None,)
    if not all(isinstance(each, RowChange) for each in changes):
        raise _bad(
            "rows", "must be a list of changes", "make them with table.insert(...), update, upsert or delete"
        )
    return changes


def check_text(text: str, name: str, hint: str = "leave them out") -> str:
    """Return `text` if a database takes it."""
    if type(text) is not str:
        raise _bad(name, f"must be a text, not {type(text).__name__}", f"pass {name} as a str")
    if not is_storable(text):
        raise _bad(name, "holds a NUL or half a surrogate pair", hint)
    return text


def check_message(message: str) -> str:
    """Return `message` if it can be kept."""
    check_text(message, "message", "put raw data into the state")
    if len(message) > _MAX_MESSAGE:
        raise _bad(
            "message", f"has {len(message)} characters", f"keep it under {_MAX_MESSAGE}; the state has room"
        )
    return message


def check_step(step: int | None, name: str = "step") -> int | None:
    """Return `step` if it can be a step number, or another count; None is none."""
    return _whole(step, name)


def check_status(status: str) -> str:
    """Return `status` if it is one."""
    if status not in STATUSES:
        raise _bad("status", f"cannot be {status!r}", f"use one of: {', '.join(STATUSES)}")
    return status


def check_trigger(trigger: str) -> str:
    """Return `trigger` if it is one."""
    if type(trigger) is str:
        kind, colon, event = trigger.partition(":")
        if trigger in TRIGGERS or (kind == "auto" and event.isprintable() and bool(event) == bool(colon)):
            return trigger
    raise _bad("trigger", f"cannot be {trigger!r}", f"use auto:<event> or one of: {', '.join(TRIGGERS)}")


def _moment(when: Any) -> int:
    # Only who brings something from elsewhere needs it.
    from holdfast.history.times import to_microseconds

    if isinstance(when, str):
        raise _bad(
            "created_at", "must be a datetime, not a str", "datetime.fromisoformat makes one of a text"
        )
    return to_microseconds(when, now=0, what="created_at")


def _whole(number: int | None, name: str) -> int | None:
    if number is None or (type(number) is int and -(2**63) <= number < 2**63):
        return number
    raise _bad(name, f"must be a whole number of 64 bits, not {number!r:.60}", f"pass {name} as an int")


def _real(number: float | None, name: str) -> float | None:
    if number is None:
        return None
    if type(number) not in (int, float) or not -_LARGEST <= number <= _LARGEST:
        raise _bad(name, f"must be a finite number, not {number!r:.60}", f"pass {name} as a float")
    return _amount(float(number), name)


def _amount(number: _Number, name: str) -> _Number:
    if number is not None and number < 0:
        raise _bad(name, f"cannot be {number}", f"{name} counts up from 0")
    return number


def _bad(name: str, why: str, hint: str) -> InvalidInputError:
    return InvalidInputError(f"{name} {why}", code=ErrorCode.BAD_ARGUMENT, hint=hint, argument=name)


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
