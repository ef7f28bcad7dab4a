"""Times in expressions: a text in ISO 8601 stands for a time where it is compared with one.

An expression has no way to write a time, and a state has plenty of them. Only the comparison of a time with a text is
read that way: two texts are two texts.
"""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any, Final

_LONGEST: Final = 64
"""Characters of a time in ISO 8601, and more than any has."""


def as_moments(left: Any, right: Any) -> tuple[Any, Any]:
    """Both values, with a text as a time where the other one is a time; as they are where that cannot be."""
    if isinstance(right, str) and isinstance(left, _KINDS):
        return left, _read(right, left)
    if isinstance(left, str) and isinstance(right, _KINDS):
        return _read(left, right), right
    return left, right


def _read(text: str, like: date | time) -> Any:
    # A datetime is a date as well.
    kind = next(each for each in _KINDS if isinstance(like, each))
    try:
        found = kind.fromisoformat(text) if len(text) <= _LONGEST else text
    except ValueError:
        return text
    if isinstance(found, datetime | time) and isinstance(like, datetime | time) and found.tzinfo is None:
        # "2026-11-16" is a day where the state's clock is.
        return found.replace(tzinfo=like.tzinfo)
    return found


_KINDS: Final = (datetime, date, time)
