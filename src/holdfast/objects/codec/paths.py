"""Where in a state something is, as text a person can paste: `state['tools'][3].client`.

A path is a list of steps, each already text. Steps are made from keys of any type without ever calling the `repr` of a
container: it may be as deep as the value that is being refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

MEMBER: Final = "<member>"
"""The step into a set, whose members have no place of their own."""

UNREAD: Final = object()
"""Stands for a key that is not known yet."""

_EDGE = 8
_TEXT_LIMIT = 40


def index_step(position: int) -> str:
    """The step to an item by its position."""
    return f"[{position}]"


def key_step(key: Any) -> str:
    """The step to the value of a mapping under that key."""
    return f"[{_key_text(key)}]"


def into_key_step(key: Any) -> str:
    """The step into a key of a mapping, rather than to its value."""
    return "<key>" if key is UNREAD else f"<key {_key_text(key)}>"


def field_step(name: Any) -> str:
    """The step to a field of an object."""
    if type(name) is str and name.isidentifier():
        return f".{name}"
    return key_step(name)


def render(steps: Sequence[str], *, root: str = "state") -> str:
    """The whole path; a very long one keeps its two ends."""
    if len(steps) <= 2 * _EDGE + 1:
        return root + "".join(steps)
    left_out = len(steps) - 2 * _EDGE
    return f"{root}{''.join(steps[:_EDGE])}...({left_out:,} more)...{''.join(steps[-_EDGE:])}"


def _key_text(key: Any) -> str:
    kind = type(key)
    if kind in {str, bytes}:
        shown = ascii(key[:_TEXT_LIMIT]) if _has_surrogates(key) else repr(key[:_TEXT_LIMIT])
        return shown if len(key) <= _TEXT_LIMIT else f"{shown[:-1]}...{shown[-1]}"
    if kind in {bool, float, complex, type(None)}:
        return repr(key)
    if kind is int:
        # The decimal digits of a huge int take quadratic time, and Python refuses past a limit.
        return repr(key) if key.bit_length() <= 128 else "<big int>"
    return f"<{kind.__name__}>"


def _has_surrogates(text: str | bytes) -> bool:
    if isinstance(text, bytes):
        return False
    return any("\ud800" <= character <= "\udfff" for character in text[:_TEXT_LIMIT])
