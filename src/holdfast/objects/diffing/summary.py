"""A diff in one line for people: what is most telling first, as much as fits.

Items that came or went are counted by the name of their list: `+2 messages`. A value that became another is told as it
is: `score 0.41 to 0.63`. What happened inside of several items is counted again: `3 tasks changed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from holdfast.objects.diffing.change import Change, Excerpt, Inherited, PathStep, Place, path_text
from holdfast.record import Record

_STATE: Final = "state"
_NAME: Final = 28
_SHORT: Final = 18
_TOLD_APART: Final = 2
"""So many changes of the same field in different items are told one by one; more are counted."""


class _Phrase(Record):
    """One thing to say: how telling it is, the words, and how many changes it stands for."""

    weight: float
    text: str
    changes: int


def summary_of(changes: Sequence[Change], width: int) -> str:
    """The most telling phrases that fit into `width` characters, and how many changes are left out."""
    phrases = sorted(_phrases(changes), key=lambda phrase: -phrase.weight)
    left = sum(phrase.changes for phrase in phrases)
    said = ""
    for phrase in phrases:
        joined = f"{said}, {phrase.text}" if said else phrase.text
        after = left - phrase.changes
        if len(joined) + (len(_more(after)) if after else 0) > width:
            continue
        said, left = joined, after
    if not said and phrases:
        return _cut(phrases[0].text, width)
    return said + _more(left) if left else said


def _more(count: int) -> str:
    return f", {count:,} more"


class _Around(Record):
    """What is told of a place by what it lies in."""

    depth: int = 0
    name: str | None = None
    """Of the last key or field on the way to it: what a list or dict there is called."""
    list_name: str = ""
    """The list whose item it is, or lies in; empty where there is none."""
    item: int = 0
    """That item: a number that is its own."""
    field: int = 0
    """What of the item it is: the same number in each item."""


class _Telling:
    """Finds the words for changes."""

    def __init__(self) -> None:
        self._around = Inherited(_Around(), self._passed_on)
        self._fields: dict[tuple[int, str], int] = {}

    def of(self, change: Change) -> _Around:
        return self._around.of(change.place)

    def holder(self, change: Change) -> str:
        """The name of the container that a change is in."""
        parent = change.place.parent
        name = None if parent is None else self._around.of(parent).name
        if name is not None:
            return name
        return "items" if _is_item(change) else "keys"

    def _passed_on(self, outer: _Around, place: Place) -> _Around:
        step = place.step
        inner = outer._replace(depth=outer.depth + 1)
        above = None if place.parent is None or place.parent.parent is None else place.parent.step
        if step.kind == "index":
            if above is None or above.kind not in ("key", "field"):
                return inner
            return inner._replace(list_name=_cut(_last_name(above), _NAME), item=id(place))
        field = self._fields.setdefault((outer.field, path_text([step])), len(self._fields) + 1)
        name = _cut(_last_name(step), _NAME) if step.kind in ("key", "field") else outer.name
        return inner._replace(name=name, field=field)


def _is_item(change: Change) -> bool:
    return change.place.parent is not None and change.place.step.kind == "index"


def _phrases(changes: Iterable[Change]) -> list[_Phrase]:
    telling = _Telling()
    came: dict[str, list[int]] = {}
    inside: dict[tuple[str, int], list[Change]] = {}
    moved: dict[str, int] = {}
    rows: set[str] = set()
    found: list[_Phrase] = []
    for change in changes:
        around = telling.of(change)
        if change.op == "move":
            name = telling.holder(change)
            moved[name] = moved.get(name, 0) + 1
        elif change.op != "replace" and (around.depth > 1 or _is_item(change)):
            name = telling.holder(change)
            counts = came.setdefault(name, [0, 0])
            counts[change.op == "remove"] += 1
            if _is_item(change):
                rows.add(name)
        elif change.op != "replace":
            sign = "+" if change.op == "add" else "-"
            found.append(_Phrase(70, f"{sign}{_name(change, 1)}" if around.depth else f"{change.op}ed", 1))
        else:
            # What is in no list stands for itself.
            what = around.field if around.list_name else -1 - len(inside)
            inside.setdefault((around.list_name, what), []).append(change)
    found += [_counted(name, *counts, items=name in rows) for name, counts in came.items()]
    for (owner, _), some in inside.items():
        found += _replaced(owner, [(change, telling.of(change)) for change in some])
    found += [_Phrase(20, f"{_many(count, name)} moved", count) for name, count in moved.items()]
    return found


def _counted(name: str, added: int, removed: int, *, items: bool) -> _Phrase:
    # A list that grew says what the agent did; one that shrank, what it gave up.
    signs = [f"{sign}{count:,}" for sign, count in (("+", added), ("-", removed)) if count]
    word = _many(added + removed, name).partition(" ")[2]
    weight = (100 if items else 80) + min(added + removed, 50) / 100
    return _Phrase(weight, f"{' '.join(signs)} {word}", added + removed)


def _replaced(owner: str, changes: list[tuple[Change, _Around]]) -> list[_Phrase]:
    if len(changes) > _TOLD_APART:
        items = len({around.item for _, around in changes})
        return [_Phrase(60, f"{_many(items, owner)} changed", len(changes))]
    return [_one(change, around.depth) for change, around in changes]


def _one(change: Change, depth: int) -> _Phrase:
    name = _name(change, depth) or _STATE
    if change.partial:
        return _Phrase(50 - depth, f"{name} edited", 1)
    old, new = change.old, change.new
    if _is_number(old) and _is_number(new):
        before, after = _numbers(old, new)
        return _Phrase(95 - depth, f"{name} {before} to {after}", 1)
    words = _words(old), _words(new)
    if all(words):
        return _Phrase(85 - depth, f"{name} {words[0]} to {words[1]}", 1)
    if isinstance(old, str) and isinstance(new, str):
        grown = len(new) - len(old)
        more = f" ({grown:+,} characters)" if abs(grown) > _SHORT else ""
        return _Phrase(50 - depth, f"{name} edited{more}", 1)
    if type(old) is not type(new):
        return _Phrase(75 - depth, f"{name} {_kind(old)} to {_kind(new)}", 1)
    return _Phrase(45 - depth, f"{name} changed", 1)


def _words(value: Any) -> str | None:
    """A short value as text; None where it is none."""
    if isinstance(value, Excerpt):
        return None
    if isinstance(value, str):
        plain = len(value) <= _SHORT and value.isprintable() and value.strip() == value
        return (value or '""') if plain else None
    if value is None or isinstance(value, bool):
        return str(value)
    return _numbers(value, value)[0] if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and (type(value) is float or value.bit_length() < 64)


def _numbers(old: float, new: float) -> tuple[str, str]:
    """Both as short as they still differ."""
    before, after = _number(old), _number(new)
    if before != after or (type(old) is type(new) and old == new):
        return before, after
    return repr(old), repr(new)


def _number(value: float) -> str:
    if type(value) is int:
        return f"{value:,}"
    text = f"{value:.4g}"
    # 1.0 is not 1; "inf", "nan" and "1e+05" need no more to be told from it.
    return text if not text.lstrip("-").isdigit() else f"{text}.0"


def _kind(value: Any) -> str:
    name = type(value).__name__
    return "nothing" if value is None else f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def _name(change: Change, depth: int) -> str:
    """The last names of a path: enough to know what is meant."""
    # A path of more steps than that is too long, whatever they are.
    text = path_text(change.steps) if depth <= _NAME else None
    if text is None or (depth > 2 and len(text) > _NAME):
        text = path_text([place.step for place in change.place.chain(2)]).removeprefix(".")
    return _cut(text, _NAME)


def _last_name(step: PathStep) -> str:
    return step.key if isinstance(step.key, str) and step.key else path_text([step])


def _many(count: int, name: str) -> str:
    if count == 1 and name.endswith("s") and not name.endswith(("ss", "us", "is", "ies")):
        name = name[:-1]
    return f"{count:,} {name}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
