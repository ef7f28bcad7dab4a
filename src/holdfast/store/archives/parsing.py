"""JSON from anybody: bounded before it is parsed, and refused where two readers could understand it differently.

Python's own parser builds everything it is given, takes the last of two equal keys, reads NaN, and recurses. So the
text is looked through first: its strings are taken out, and what is left says how many values there
are, how deep they lie and how long their numbers are. Only then is it parsed, keys are compared, and numbers that JSON
does not have are refused. What lies deeper than Python recurses is parsed by a loop (`deep.py`).
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any, Final, NoReturn

from holdfast.store.archives.limits import ArchiveLimits
from holdfast.store.archives.refusing import malformed, too_large
from holdfast.store.archives.strict import DuplicateKeyError, NotANumberError, finite, unique

_STRINGS: Final = re.compile(rb'"[^"]*"')
"""Where no quotation mark is escaped. An expression that knows escapes takes room for each character it has passed."""
_WINDOW: Final = 1 << 20
_BRACKETS: Final = b"[]{}"
_NOT_BRACKETS: Final = bytes(each for each in range(256) if each not in _BRACKETS)
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}

_LONGEST_NUMBER: Final = 400
"""Digits in a row; a float has 17, and larger whole numbers are written as text."""
_LONG_NUMBER: Final = re.compile(rb"[0-9]{%d}" % (_LONGEST_NUMBER + 1))
_MAYBE_INFINITE: Final = re.compile(rb"[0-9][eE]\+?[0-9]{3}|[0-9]{300}")
_NO_PAGE: Final = (
    "a page has no states to read back: export the checkpoints again, as .json, .json.gz or .jsonl"
)
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def parse(data: bytes, limits: ArchiveLimits, where: str) -> Any:
    """The value of a JSON text.

    Args:
        data: The text, in UTF-8.
        limits: What it may hold.
        where: What to call it in errors.

    Raises:
        InvalidInputError: It is too large (`archive-too-large`) or no JSON (`archive-malformed`).
    """
    exact = _measured(data, limits, where)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise malformed(where, "not-utf-8", f"byte {error.start:,} is not UTF-8") from error
    if text.startswith("\ufeff"):
        raise malformed(where, "byte-order-mark", "it begins with a byte order mark", "save it without one")
    try:
        value = _parsed(text, exact=exact)
    except DuplicateKeyError as error:
        raise malformed(where, "duplicate-key", f"an object has {error} twice") from error
    except NotANumberError as error:
        raise malformed(where, "not-a-number", f"{error} is no JSON number") from error
    except ValueError as error:
        if text.lstrip()[:1] == "<":
            raise malformed(where, "not-json", "it is a page to look at, not an archive", _NO_PAGE) from error
        raise malformed(where, "not-json", f"it is no JSON: {error!s:.200}") from error
    if b"\\u" in data and _has_half_pair(value):
        raise malformed(where, "lone-surrogate", "a text in it holds half a surrogate pair")
    return value


def _measured(data: bytes, limits: ArchiveLimits, where: str) -> bool:
    """Refuse what is too large; whether every number can be told to be finite without a look at it."""
    if len(data) > limits.checkpoint_bytes:
        raise too_large(
            where, "too-many-bytes", f"it has more than {limits.checkpoint_bytes:,} bytes", "checkpoint_bytes"
        )
    if b"\\" in data:
        # From left to right, so that a mark after two backslashes ends its string. As long as before.
        data = data.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    if len(data) > limits.text and any(
        found.end() - found.start() > limits.text for found in _STRINGS.finditer(data)
    ):
        raise too_large(where, "text-too-long", f"it has a text of more than {limits.text:,} bytes", "text")
    rest = _outside_strings(data)
    count = 1 + rest.count(b",") + rest.count(b"[") + rest.count(b"{")
    if count > limits.values:
        raise too_large(where, "too-many-values", f"it has more than {limits.values:,} values", "values")
    brackets = rest.translate(None, _NOT_BRACKETS)
    deepest = max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)
    if deepest > limits.depth:
        raise too_large(where, "too-deep", f"its values lie {deepest:,} deep in each other", "depth")
    if _LONG_NUMBER.search(rest):
        raise malformed(where, "number-too-long", f"it has a number of more than {_LONGEST_NUMBER} digits")
    return _MAYBE_INFINITE.search(rest) is None


def _outside_strings(data: bytes) -> bytes:
    """What stands between strings; no quotation mark in the data is escaped."""
    kept: list[bytes] = []
    inside = False
    # Window by window: a text of nothing but short strings would become millions of pieces at once.
    for start in range(0, len(data), _WINDOW):
        parts = data[start : start + _WINDOW].split(b'"')
        kept.append(b"".join(parts[inside::2]))
        inside ^= len(parts) % 2 == 0
    return b"".join(kept)


def _parsed(text: str, *, exact: bool) -> Any:
    to_float = None if exact else finite
    try:
        return json.loads(
            text, object_pairs_hook=unique, parse_float=to_float, parse_constant=_refuse_constant
        )
    except RecursionError:
        # Imported by those who meet such a file.
        from holdfast.store.archives.deep import parse_deep

        return parse_deep(text)


def _refuse_constant(text: str) -> NoReturn:
    raise NotANumberError(text)


def _has_half_pair(value: Any) -> bool:
    left = [value]
    while left:
        item = left.pop()
        if type(item) is str:
            if not item.isascii() and _SURROGATES.search(item):
                return True
        elif type(item) is list:
            left += item
        elif type(item) is dict:
            left += item.keys()
            left += item.values()
    return False
