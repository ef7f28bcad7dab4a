"""The path language: how a place in a state is written, and read again.

    budget.tokens   messages[-1].role   messages[-20:]   notes['to do'][0]   scores{1}   tags{'x'}
    $.budget.tokens   /budget/tokens   /messages/0/role

All of these name places in the same way in every call and command. A name is a key of a mapping or a field of an
object; a name of digits is also a position in a list. Braces hold a key that is no text, or a member of a set, as a
Python literal or as tagged JSON. A text that begins with `/` is a JSON Pointer (RFC 6901).

A key that is no plain name stands in quotes as it is, up to the first quote that a `]` comes after: there are no
escapes, so that a backslash is a backslash. A key that has both `']` and `"]` in it has a `#` before and after its
quotes, or as many as it takes: `[#'a']b"]c'#]`.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, Final, Literal

from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError, shown
from holdfast.objects.codec import paths
from holdfast.objects.codec.errors import MalformedError
from holdfast.objects.codec.tagged_json import from_json, tagged_json
from holdfast.record import Record

_LISTED: Final = 10
"""Keys in a hint: enough to recognise the one that was meant."""

StepKind = Literal["key", "index", "field", "member", "extra"]


class PathStep(Record):
    """One step of a path.

    `kind` is key (of a mapping), index (of a list, tuple or deque), field (of an object), member (of a set: the member
    itself), or extra (what the class of an object keeps beside its fields).
    """

    kind: StepKind
    key: Any


Step = str | int | slice | PathStep
"""A step as it was asked for: a name, a position, a range, or exactly this key (or what stands beside the fields)."""

EXTRA: Final = PathStep("extra", None)

_PLAIN_NAME: Final = r"[^\W\d][\w-]*"
_STEP: Final = r"""
      (?P<dot>\.)? (?P<name>[^.\[\]{}'"]+)
    | \[ (?P<index>-?\d{1,18}) \]
    | \[ (?P<start>-?\d{1,18})? : (?P<stop>-?\d{1,18})? \]
    | \[ (?P<any>\*) \]
    | \[ (?P<marks>\#*) (?P<quote>['"]) (?P<text>(?s:.*?)) (?P=quote) (?P=marks) \]
    | (?P<brace>\{)
    """
_POSITION: Final = re.compile(r"-?[0-9]{1,18}")
_LITERALS: Final = (bool, str, bytes, type(None))
_MOST_BRACES: Final = 100


def parse_path(text: str, *, wildcard: bool = False) -> list[Step]:
    """The steps of a path.

    Args:
        text: The path; empty, or `$`, for the whole state.
        wildcard: Read `*` and `[*]` as any step, which is `slice(None)`.

    Raises:
        InvalidInputError: It is none (`bad-path`).
    """
    if not isinstance(text, str):
        raise not_a_path(text)
    if text.startswith("/"):
        return _pointer(text)
    steps: list[Step] = []
    start = position = 1 if re.match(r"\$(?=[.\[{]|$)", text) else 0
    step = re.compile(_STEP, re.VERBOSE)
    while position < len(text):
        match = step.match(text, position)
        if match is None or (match["any"] and not wildcard):
            raise not_a_path(text)
        if match["name"] and bool(match["dot"]) == (position == start == 0):
            raise not_a_path(text)
        if match["brace"]:
            key, position = _braced(text, match.end())
            steps.append(key)
        else:
            steps.append(slice(None) if wildcard and "*" in (match["name"], match["any"]) else _step(match))
            position = match.end()
    return steps


def path_text(steps: Sequence[PathStep]) -> str:
    """A path as text, from which `parse_path` makes steps to the same place."""
    texts = []
    for number, step in enumerate(steps):
        if step.kind == "index":
            texts.append(f"[{step.key}]")
        elif step.kind == "extra":
            texts.append("{extra}")
        elif type(step.key) is not str or step.kind == "member":
            texts.append(f"{{{_literal(step.key)}}}")
        elif re.fullmatch(_PLAIN_NAME, step.key):
            texts.append(f".{step.key}" if number else step.key)
        else:
            texts.append(quoted(step.key))
    return "".join(texts)


def json_pointer(tokens: Iterable[str]) -> str:
    """A JSON Pointer (RFC 6901)."""
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)


def quoted(key: str) -> str:
    """The step to any text key, in quotes that do not end before it does."""
    ends = ((quote, "#" * marks) for marks in count() for quote in "'\"")
    quote, marks = next((quote, marks) for quote, marks in ends if f"{quote}{marks}]" not in key)
    return f"[{marks}{quote}{key}{quote}{marks}]"


def position_of(step: Step) -> int | None:
    """The position in a list that a step names; None where it names none."""
    if isinstance(step, str) and _POSITION.fullmatch(step):
        return int(step)
    return step if isinstance(step, int) else None


def not_a_path(given: object) -> InvalidInputError:
    """The error for what is no path: a text that cannot be read as one, or no text at all."""
    return InvalidInputError(
        f"{shown(given)} is not a path",
        code=ErrorCode.BAD_PATH,
        hint="write it like messages[-20:], beliefs.b7.confidence, notes['to do'][0] or /plan/0",
    )


def missing(steps: Sequence[Step], number: int, why: str, known: Iterable[object] = ()) -> NotFoundError:
    """The error for a path that leads nowhere from step `number` on.

    Args:
        steps: The path.
        number: The step that could not be taken.
        why: What there is instead.
        known: The keys that are there, to guess what was meant.
    """
    from holdfast.settings.near import close_names, did_you_mean

    where = paths.render([_shown(step) for step in steps[: number + 1]])
    wanted = steps[number] if number < len(steps) else None
    names = [each for each in dict.fromkeys(known) if isinstance(each, str)]
    near = close_names(wanted, names) if isinstance(wanted, str) else []
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED:,} more" if names[_LISTED:] else "")
    there = f"its keys are: {listed}" if names else ""
    return NotFoundError(
        f"there is no {where}: {why}",
        code=ErrorCode.PATH_MISSING,
        hint=f"{did_you_mean(near)} {there}".strip() or "load the part above it to see what there is",
        candidates=near,
        path=where,
    )


def _pointer(text: str) -> list[Step]:
    if re.search("~(?![01])", text):
        raise not_a_path(text)
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _step(match: re.Match[str]) -> Step:
    if match["name"]:
        return match["name"]
    if match["index"]:
        return int(match["index"])
    if match["quote"]:
        return match["text"]
    start, stop = (int(match[side]) if match[side] else None for side in ("start", "stop"))
    return slice(start, stop)


def _braced(text: str, start: int) -> tuple[PathStep, int]:
    """The key in braces that begin before `start`, and where they end: at the first brace that makes it whole."""
    end = start - 1
    for _ in range(_MOST_BRACES):
        end = text.find("}", end + 1)
        if end < 0:
            break
        inner = text[start:end]
        if inner == "extra":
            return EXTRA, end + 1
        for read in (_from_json, ast.literal_eval):
            try:
                return PathStep("key", read(inner)), end + 1
            except (ValueError, SyntaxError, MalformedError, RecursionError, MemoryError):
                continue
    raise not_a_path(text)


def _from_json(text: str) -> Any:
    return from_json(json.loads(text))


def _literal(key: Any) -> str:
    """A key as text that is read as the very same key."""
    return repr(key) if _is_literal(key) else "".join(tagged_json(key, one_line=True))


def _is_literal(key: Any) -> bool:
    kind = type(key)
    if kind is tuple:
        return all(map(_is_literal, key))
    if kind is float:
        return math.isfinite(key)
    if kind is int:
        return bool(key.bit_length() < 1024)
    return kind in _LITERALS


def _shown(step: Step) -> str:
    if isinstance(step, slice):
        return f"[{'' if step.start is None else step.start}:{'' if step.stop is None else step.stop}]"
    return path_text([step]) if isinstance(step, PathStep) else paths.key_step(step)
