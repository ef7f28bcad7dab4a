"""A diff in one line for people: what is most telling first, as much as fits.

Items that came or went are counted by the name of their list: `+2 messages`; so are those of a dict that is a
collection: `+1 belief`. Any other key that came or went is no item, and is told by its path: `-messages[0].meta`. A
value that became another is told as it is: `score 0.41 to 0.63`. What happened inside of several items is counted
again: `3 tasks changed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.state_path import PathStep, path_text
from holdfast.objects.diff.change import Change, Place
from holdfast.record import Record

_STATE: Final = "state"
_NAME: Final = 28
_PARTS: Final = {"index": "items", "member": "members"}
_TOLD_APART: Final = 2
"""So many changes of the same field in different items are told one by one; more are counted."""


_SHORT: Final = 18
"""Characters up to which a text is told as it is."""


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

    depth: int
    list_name: str
    """The list whose item it is, or lies in; empty where there is none."""
    item: int
    """That item: a number that is its own."""
    field: tuple[PathStep, ...]
    """What of the item it is: the same in each item."""


def _around(change: Change) -> _Around:
    chain = change.place.chain()
    list_name, item = "", 0
    for outer, inner in pairwise(chain):
        if inner.step.kind == "index" and outer.step.kind in ("key", "field"):
            list_name, item = _cut(_last_name(outer.step), _NAME), id(inner)
    field = tuple(place.step for place in chain if place.step.kind != "index")
    return _Around(len(chain), list_name, item, field)


class _Sorted:
    """Changes by how they are told."""

    def __init__(self) -> None:
        self.came: dict[tuple[str, bool], list[int]] = {}
        """Items that were added and removed, by the name of what they are in, and whether that has places."""
        self.keys: dict[int, list[Change]] = {}
        """Keys that came or went outside of items, by what they are in."""
        self.moved: dict[tuple[str, str], int] = {}
        """Items and keys that stand elsewhere, by what they are called, and where they are if that has to be said."""
        self.inside: dict[Any, list[tuple[Change, _Around]]] = {}
        """Values that became others, and keys of items that came or went."""

    def sort(self, change: Change) -> None:
        around = _around(change)
        if change.op == "move":
            name = _items_of(change)
            called = _parts_in(change) if name is None else (name, "")
            self.moved[called] = self.moved.get(called, 0) + 1
        elif change.op != "replace" and (name := _items_of(change) or _collection_of(change)):
            counts = self.came.setdefault((name, change.place.step.kind == "index"), [0, 0])
            counts[change.op == "remove"] += 1
        elif change.op != "replace" and not around.list_name and around.depth > 1:
            self.keys.setdefault(id(change.place.parent), []).append(change)
        else:
            # What is in no list stands for itself.
            what = path_text(around.field) if around.list_name else len(self.inside)
            self.inside.setdefault((around.list_name, what), []).append((change, around))


def _items_of(change: Change) -> str | None:
    """What items are called that a change is one of: by their list or set, if that has a name of its own."""
    parent = change.place.parent
    if parent is None or change.place.step.kind not in _PARTS:
        return None
    if parent.parent is None:
        return _PARTS[change.place.step.kind]
    return _cut(_last_name(parent.step), _NAME) if parent.step.kind in ("key", "field") else None


def _collection_of(change: Change) -> str | None:
    """The same for the keys of a dict that is a collection: its name is a plural, and the value a dict or an object.

    A key alone says nothing of that: `beliefs.b7` is a belief, and `tests.failing` is no test.
    """
    parent = change.place.parent
    if parent is None or parent.parent is None or change.place.step.kind != "key":
        return None
    name = _last_name(parent.step) if parent.step.kind in ("key", "field") else ""
    if not _is_plural(name):
        return None
    value = change.plain("new" if change.op == "add" else "old")
    return _cut(name, _NAME) if isinstance(value, dict | Opaque) else None


def _parts_in(change: Change) -> tuple[str, str]:
    """What parts are called that have no name of their own, and where they are if that is not the state itself."""
    where = _place_name(change.place.parent) if change.place.parent else ""
    return _PARTS.get(change.place.step.kind, "keys"), f" in {where}" if where else ""


def _phrases(changes: Iterable[Change]) -> list[_Phrase]:
    telling = _Sorted()
    for change in changes:
        telling.sort(change)
    found = [_counted(name, *counts, row=row) for (name, row), counts in telling.came.items()]
    for some in telling.keys.values():
        depth = len(some[0].place.chain())
        found += (
            [_several_keys(some, depth)] if len(some) > _TOLD_APART else [_one(each, depth) for each in some]
        )
    for (owner, _), inside in telling.inside.items():
        found += _inside(owner, inside)
    found += [
        _Phrase(20, f"{_many(count, name)}{where} moved", count)
        for (name, where), count in telling.moved.items()
    ]
    return found


def _counted(name: str, added: int, removed: int, *, row: bool) -> _Phrase:
    # A list that grew says what the agent did; one that shrank, what it gave up.
    weight = (100 if row else 80) + min(added + removed, 50) / 100
    return _Phrase(weight, _signed(name, added, removed), added + removed)


def _several_keys(changes: list[Change], depth: int) -> _Phrase:
    added = sum(change.op == "add" for change in changes)
    name, where = _parts_in(changes[0])
    return _Phrase(71 - depth, _signed(name, added, len(changes) - added) + where, len(changes))


def _signed(name: str, added: int, removed: int) -> str:
    signs = [f"{sign}{count:,}" for sign, count in (("+", added), ("-", removed)) if count]
    return f"{' '.join(signs)} {_many(added + removed, name).partition(' ')[2]}"


def _inside(owner: str, changes: list[tuple[Change, _Around]]) -> list[_Phrase]:
    if len(changes) > _TOLD_APART:
        items = len({around.item for _, around in changes})
        return [_Phrase(60, f"{_many(items, owner)} changed", len(changes))]
    return [_one(change, around.depth) for change, around in changes]


def _one(change: Change, depth: int) -> _Phrase:
    name = _name(change) or _STATE
    return _replaced(name, change, depth) if change.op == "replace" else _came(name, change, depth)


def _came(name: str, change: Change, depth: int) -> _Phrase:
    sign = "+" if change.op == "add" else "-"
    return _Phrase(71 - depth, f"{sign}{name}" if depth else f"{change.op}ed", 1)


def _replaced(name: str, change: Change, depth: int) -> _Phrase:
    old, new = change.old, change.new
    if _is_number(old) and _is_number(new):
        before, after = _numbers(old, new)
        return _Phrase(95 - depth, f"{name} {before} to {after}", 1)
    short = _in_words(old), _in_words(new)
    if all(short):
        return _Phrase(85 - depth, f"{name} {short[0]} to {short[1]}", 1)
    if isinstance(old, str) and isinstance(new, str):
        grown = len(new) - len(old)
        more = f" ({grown:+,} characters)" if abs(grown) > _SHORT else ""
        return _Phrase(50 - depth, f"{name} edited{more}", 1)
    if type(old) is not type(new):
        return _Phrase(75 - depth, f"{name} {_kind_of(old)} to {_kind_of(new)}", 1)
    return _Phrase(45 - depth, f"{name} changed", 1)


def _name(change: Change) -> str:
    """The last names of a path: enough to know what is meant."""
    return _fitting(path_text(change.steps), change.place)


def _place_name(place: Place) -> str:
    """The same for what a change is in."""
    return _fitting(path_text([each.step for each in place.chain()]), place)


def _fitting(text: str, place: Place) -> str:
    chain = place.chain()
    if len(chain) > 2 and len(text) > _NAME:
        text = path_text([each.step for each in chain[-2:]]).removeprefix(".")
    return _cut(text, _NAME)


def _last_name(step: PathStep) -> str:
    return step.key if isinstance(step.key, str) and step.key else path_text([step])


def _many(count: int, name: str) -> str:
    if count == 1 and _is_plural(name) and not name.endswith("ies"):
        name = name[:-1]
    return f"{count:,} {name}"


def _is_plural(name: str) -> bool:
    return name.endswith("s") and not name.endswith(("ss", "us", "is"))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _in_words(value: Any) -> str | None:
    """A short value as text; None where it is none."""
    if isinstance(value, str):
        plain = len(value) <= _SHORT and value.isprintable() and value.strip() == value
        return (value or '""') if plain else None
    if value is None or isinstance(value, bool):
        return str(value)
    return _numbers(value, value)[0] if _is_number(value) else None


def _is_number(value: Any) -> bool:
    """Whether it is a number that can be told: an int has to fit in a few digits."""
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


def _kind_of(value: Any) -> str:
    """What kind of value it is, with its article."""
    name = type(value).__name__
    return "nothing" if value is None else f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"
