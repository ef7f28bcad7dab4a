"""Where in a state something is, as text a person can paste: `state['tools'][3].client`.

A path is a list of steps, each already text. Steps are made from keys of any type without ever calling the `repr` of a
container: it may be as deep as the value that is being refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

from holdfast.errors import ErrorCode, InvalidInputError, shown

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


_PLAIN_NAME: Final = r"[^\W\d][\w-]*"

QUOTED: Final = r"\[ (?P<marks>\#*) (?P<quote>['\"]) (?P<text>(?s:.*?)) (?P=quote) (?P=marks) \]"
"""A step in quotes, for a regular expression that is `VERBOSE`; the key is its group `text`."""


def is_plain(key: str) -> bool:
    """Whether a key stands in a path as it is."""
    return re.fullmatch(_PLAIN_NAME, key) is not None


def quoted(key: str) -> str:
    """The step to any text key, in quotes that do not end before it does."""
    ends = ((quote, "#" * marks) for marks in count() for quote in "'\"")
    quote, marks = next((quote, marks) for quote, marks in ends if f"{quote}{marks}]" not in key)
    return f"[{marks}{quote}{key}{quote}{marks}]"


Step = str | int | slice

# Compiled by the first path that is read: most programs read none.
_STEP: Final = rf"""
      (?P<dot>\.)? (?P<name>[^.\[\]'"]+)
    | \[ (?P<index>-?\d{{1,18}}) \]
    | \[ (?P<start>-?\d{{1,18}})? : (?P<stop>-?\d{{1,18}})? \]
    | {QUOTED}
    """


def parse_path(text: str) -> list[Step]:
    """The steps of a path.

    Raises:
        InvalidInputError: It is none (`bad-path`).
    """
    if not isinstance(text, str):
        raise not_a_path(text)
    steps: list[Step] = []
    position = 0
    step = re.compile(_STEP, re.VERBOSE)
    while position < len(text):
        match = step.match(text, position)
        if match is None or (match["name"] and bool(match["dot"]) == (position == 0)):
            raise not_a_path(text)
        steps.append(_step(match))
        position = match.end()
    return steps


def not_a_path(given: object) -> InvalidInputError:
    """The error for what is no path: a text that cannot be read as one, or no text at all."""
    return InvalidInputError(
        f"{shown(given)} is not a path",
        code=ErrorCode.BAD_PATH,
        hint="write it like messages[-20:], beliefs.b7.confidence or notes['to do'][0]",
    )


def _step(match: re.Match[str]) -> Step:
    if match["name"]:
        return match["name"]
    if match["index"]:
        return int(match["index"])
    if match["quote"]:
        return match["text"]
    start, stop = (int(match[side]) if match[side] else None for side in ("start", "stop"))
    return slice(start, stop)
