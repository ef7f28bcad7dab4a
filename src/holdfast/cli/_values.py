"""Values of a state in one line: short for people, whole and as JSON for programs."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any

from holdfast.cli._terminal import text_width

NO_VALUE = "-"
"""In a pipe: the place of a value that is not there; no JSON text is this, and an empty field is easily lost."""
_SHOWN = 400
"""Characters of a value in a table, before it is cut to the width of the terminal."""
_CONTEXT = 12
"""Characters of a text that are shown before what is new in it."""
_ITEMS = 3
"""Items that are shown from the first one on that is new."""


def one_line(value: Any) -> str:
    """A value as people write it, on one line and not too long."""
    return _line(value)[0]


def _line(value: Any) -> tuple[str, bool]:
    """The line, and whether something of the value is not in it."""
    from holdfast.cli._notation import Limits, Notation

    notation = Notation(_SHOWN, Limits(items=8, characters=160, depth=3, lines=12))
    text = " ".join(line.strip() for line in notation.lines(value))
    return text, notation.cut


def what_is_new(value: Any, old: Any, width: int) -> str:
    """A value on one line; one too long for `width` as how much it is, and what of it `old` has not.

    What grows step by step begins the same every time, and where it is cut nobody sees what became of it.
    """
    text, cut = _line(value)
    if not cut and text_width(text) <= width:
        return text
    for kinds, told in _TOLD:
        if isinstance(value, kinds) and isinstance(old, kinds) and value:
            return told(value, old)
    return text


def _text(value: str, old: str) -> str:
    shared = _shared(value, old)
    rest = _line(value[max(0, min(shared, len(value) - 1) - _CONTEXT) :])[0]
    return f"{len(value):,} characters, \u2026 {rest}"


def _row(value: Sequence[Any], old: Sequence[Any]) -> str:
    # Where it is only shorter, its end is what is new about it.
    at = min(_shared(value, old), len(value) - 1)
    shown = ", ".join(_line(each)[0] for each in islice(value, at, at + _ITEMS))
    more = len(value) - at - _ITEMS
    return f"{_counted(value, 'item')}, [{at}]: {shown}" + (f" and {more:,} more" if more > 0 else "")


def _keyed(value: Mapping[Any, Any], old: Mapping[Any, Any]) -> str:
    new = {key: each for key, each in value.items() if key not in old or not _same(each, old[key])}
    gone = [key for key in old if key not in value]
    return ", ".join([_counted(value, "key"), *_parts(_line(new)[0] if new else "", gone)])


def _members(value: AbstractSet[Any], old: AbstractSet[Any]) -> str:
    new, gone = value - old, old - value
    return ", ".join([_counted(value, "member"), *_parts(f"new {_line(set(new))[0]}" if new else "", gone)])


def _parts(new: str, gone: Collection[Any]) -> Iterator[str]:
    if new:
        yield new
    if gone:
        yield f"without {_line(next(iter(gone)))[0]}" + (f" and {len(gone) - 1:,} more" * (len(gone) > 1))


def _counted(value: Collection[Any], one: str) -> str:
    return f"{len(value):,} {one}{'' if len(value) == 1 else 's'}"


def _shared(value: Sequence[Any], old: Sequence[Any]) -> int:
    """With how many items both begin."""
    pairs = enumerate(zip(value, old, strict=False))
    return next((at for at, (new, was) in pairs if not _same(new, was)), min(len(value), len(old)))


def _same(new: Any, old: Any) -> bool:
    try:
        return type(new) is type(old) and bool(new == old)
    except RecursionError:
        # Too deep for Python to compare: shown as changed, which costs a few columns.
        return False


_TOLD: tuple[tuple[Any, Callable[[Any, Any], str]], ...] = (
    (str, _text),
    ((list, tuple, deque), _row),
    (dict, _keyed),
    ((set, frozenset), _members),
)


def json_line(value: Any) -> str:
    """A value as tagged JSON, on one line and whole."""
    from holdfast.cli._tagged import tagged_json

    # Line ends are only ever between the tokens of JSON, in whatever pieces it comes: those in a text are escaped.
    return re.sub(r"(,?)\n *", lambda found: found[1] and ", ", "".join(tagged_json(value)))


def json_member(name: str, value: Any, *, depth: int = 1) -> str:
    """One member of a larger JSON document, with a value of a state."""
    from holdfast.cli._tagged import tagged_json

    return f'"{name}": {"".join(tagged_json(value, depth=depth))}'
