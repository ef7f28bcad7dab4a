"""Reading back what a subsystem stored: checked before anything of the live object is touched.

A value that does not fit is an error, and the recorder then carries the stored one forward instead of losing it. So a
key that this version does not know is refused too. A key that is missing is an older form, and keeps its default.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.errors import ErrorCode, InvalidInputError, StateError

NUMBER = (int, float)


def parts(value: Any, what: str, /, **kinds: type | tuple[type, ...]) -> dict[str, Any]:
    """The named parts of a stored dict, each of its type.

    Raises:
        StateError: It is no dict, has a part that nobody knows, or one of another type (`type-mismatch`).
    """
    if not isinstance(value, dict):
        raise misfit(what, f"it is a {type(value).__name__} and no dict")
    for name, part in value.items():
        if name not in kinds:
            raise misfit(what, f"it has a part {name!r} that this version does not know")
        kind = kinds[name]
        if not isinstance(part, kind) or (isinstance(part, bool) and kind in (int, NUMBER)):
            raise misfit(what, f"{name!r} is a {type(part).__name__}")
    return dict(value)


def rows(values: Iterable[Any], what: str, /, **kinds: type | tuple[type, ...]) -> list[dict[str, Any]]:
    """The same for each of several; all parts have to be there."""
    found = [parts(value, what, **kinds) for value in values]
    for row in found:
        if missing := kinds.keys() - row.keys():
            raise misfit(what, f"{min(missing)!r} is missing")
    return found


def numbers(value: Any, what: str, /, kind: tuple[type, ...] = NUMBER) -> dict[str, Any]:
    """A stored dict of numbers by name."""
    if not isinstance(value, dict):
        raise misfit(what, f"it is a {type(value).__name__} and no dict")
    for name, number in value.items():
        if type(name) is not str or not isinstance(number, kind) or isinstance(number, bool):
            raise misfit(what, f"{name!r} is no number by name")
    return dict(value)


def as_dict(item: Any) -> dict[str, Any]:
    """The fields of a slotted dataclass by name. What they hold is shared: the bytes are made right after."""
    return {name: getattr(item, name) for name in item.__slots__}


def misfit(what: str, why: str) -> StateError:
    """Stored data that this version of a subsystem cannot take."""
    return StateError(
        f"the stored state of {what} does not fit: {why}",
        code=ErrorCode.TYPE_MISMATCH,
        hint="run the version of the program that saved it, or bring the value into shape in restore()",
        part=what,
    )


def within(value: Any, name: str, low: float = 0.0, high: float = 1.0) -> float:
    """A number that a caller gave, if it is between these."""
    if isinstance(value, bool) or not isinstance(value, NUMBER) or not low <= value <= high:
        raise InvalidInputError(
            f"{name} cannot be {value!r}",
            code=ErrorCode.BAD_ARGUMENT,
            hint=f"give a number from {low:g} to {high:g}",
        )
    return float(value)


def at_least_one(value: Any, name: str) -> int:
    """A whole number that a caller gave, if it is above zero."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError(
            f"{name} cannot be {value!r}", code=ErrorCode.BAD_ARGUMENT, hint="give a whole number above 0"
        )
    return value


def unknown(what: str, name: str) -> InvalidInputError:
    """A name that a subsystem was asked about and does not have."""
    return InvalidInputError(
        f"there is no {what} {name!r}",
        code=ErrorCode.BAD_ARGUMENT,
        hint=f"use the id that adding the {what} returned; it may have been dropped since",
    )
