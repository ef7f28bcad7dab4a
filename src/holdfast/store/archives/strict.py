"""What JSON leaves open, and we do not: an object with the same key twice, and numbers that no float is."""

from __future__ import annotations

from typing import Any


class DuplicateKeyError(ValueError):
    """An object has the same key twice."""


class NotANumberError(ValueError):
    """A number that JSON does not have, or that is too large for a float."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of these members."""
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKeyError(f"the key {key!r:.60}")
            seen.add(key)
    return made


def finite(text: str) -> float:
    """The number, if there is such a float."""
    number = float(text)
    if number - number != 0:
        raise NotANumberError(f"{text:.40}")
    return number
