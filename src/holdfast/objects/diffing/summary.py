"""A diff in one line for people: what is most telling first, as much as fits.

Items that came or went are counted by the name of their list: `+2 messages`; so are those of a dict that is a
collection: `+1 belief`. Any other key that came or went is no item, and is told by its path: `-messages[0].meta`. A
value that became another is told as it is: `score 0.41 to 0.63`. What happened inside of several items is counted
again: `3 tasks changed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.diffing.change import Change, Inherited, PathStep, Place, path_text
from holdfast.objects.diffing.short_values import SHORT, in_words, is_number, kind_of, numbers
from holdfast.record import Record

_STATE: Final = "state"
_NAME: Final = 28
_PARTS: Final = {"index": "items", "member": "members"}
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
    list_name: str = ""
    """The list whose item it is, or lies in; empty where there is none."""
    item: int = 0
    """That item: a number that is its own."""
    field: int = 0
    """What of the item it is: the same number in each item."""


class _Surroundings:
    """Finds what is around each change; holds none of them, since it refers to itself and is freed late."""

    def __init__(self) -> None:
        self._around = Inherited(_Around(), self._passed_on)
        self._fields: dict[tuple[int, str], int] = {}

    def of(self, change: Change) -> _Around:
        return self._around.of(change.place)

    def _passed_on(self, outer: _Around, place: Place) -> _Around:
        step = place.step
        inner = outer._replace(depth=outer.depth + 1)
        above = None if place.parent is None or place.parent.parent is None else place.parent.step
        if step.kind == "index":
            if above is None or above.kind not in ("key", "field"):
                return inner
            return inner._replace(list_name=_cut(_last_name(above), _NAME), item=id(place))
        return inner._replace(
            field=self._fields.setdefault((outer.field, path_text([step])), len(self._fields) + 1)
        )


class _Sorted:
    """Changes by how they are told."""

    def __init__(self, surroundings: _Surroundings) -> None:
        self.of = surroundings.of
        self.came: dict[tuple[str, bool], list[int]] = {}
        """Items that were added and removed, by the name of what they are in, and whether that has places."""
        self.keys: dict[int, list[Change]] = {}
        """Keys that came or went outside of items, by what they are in."""
        self.moved: dict[tuple[str, str], int] = {}
        """Items and keys that stand elsewhere, by what they are called, and where they are if that has to be said."""
        self.inside: dict[tuple[str, int], list[Change]] = {}
        """Values that became others, and keys of items that came or went."""

    def sort(self, change: Change) -> None:
        around = self.of(change)
        if change.op == "move":
            name = _items_of(change)
            called = _parts_in(change, around.depth) if name is None else (name, "")
            self.moved[called] = self.moved.get(called, 0) + 1
        elif change.op != "replace" and (name := _items_of(change) or _collection_of(change)):
            counts = self.came.setdefault((name, change.place.step.kind == "index"), [0, 0])
            counts[change.op == "remove"] += 1
        elif change.op != "replace" and not around.list_name and around.depth > 1:
            self.keys.setdefault(id(change.place.parent), []).append(change)
        else:
            # What is in no list stands for itself.
            what = around.field if around.list_name else -1 - len(self.inside)
            self.inside.setdefault((around.list_name, what), []).append(change)


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


def _parts_in(change: Change, depth: int) -> tuple[str, str]:
    """What parts are called that have no name of their own, and where they are if that is not the state itself."""
    where = _place_name(change.place.parent, depth - 1) if change.place.parent else ""
    return _PARTS.get(change.place.step.kind, "keys"), f" in {where}" if where else ""


def _phrases(changes: Iterable[Change]) -> list[_Phrase]:
    telling = _Sorted(_Surroundings())
    for change in changes:
        telling.sort(change)
    found = [_counted(name, *counts, row=row) for (name, row), counts in telling.came.items()]
    for some in telling.keys.values():
        depth = telling.of(some[0]).depth
        found += (
            [_several_keys(some, depth)] if len(some) > _TOLD_APART else [_one(each, depth) for each in some]
        )
    for (owner, _), some in telling.inside.items():
        found += _inside(owner, [(change, telling.of(change)) for change in some])
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
    name, where = _parts_in(changes[0], depth)
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
    name = _name(change, depth) or _STATE
    return _replaced(name, change, depth) if change.op == "replace" else _came(name, change, depth)


def _came(name: str, change: Change, depth: int) -> _Phrase:
    sign = "+" if change.op == "add" else "-"
    return _Phrase(71 - depth, f"{sign}{name}" if depth else f"{change.op}ed", 1)


def _replaced(name: str, change: Change, depth: int) -> _Phrase:
    if change.partial:
        return _Phrase(50 - depth, f"{name} edited", 1)
    old, new = change.old, change.new
    if is_number(old) and is_number(new):
        before, after = numbers(old, new)
        return _Phrase(95 - depth, f"{name} {before} to {after}", 1)
    short = in_words(old), in_words(new)
    if all(short):
        return _Phrase(85 - depth, f"{name} {short[0]} to {short[1]}", 1)
    if isinstance(old, str) and isinstance(new, str):
        grown = len(new) - len(old)
        more = f" ({grown:+,} characters)" if abs(grown) > SHORT else ""
        return _Phrase(50 - depth, f"{name} edited{more}", 1)
    if type(old) is not type(new):
        return _Phrase(75 - depth, f"{name} {kind_of(old)} to {kind_of(new)}", 1)
    return _Phrase(45 - depth, f"{name} changed", 1)


def _name(change: Change, depth: int) -> str:
    """The last names of a path: enough to know what is meant."""
    # A path of more steps than that is too long, whatever they are.
    text = path_text(change.steps) if depth <= _NAME else None
    return _fitting(text, change.place, depth)


def _place_name(place: Place, depth: int) -> str:
    """The same for what a change is in."""
    text = path_text([each.step for each in place.chain()]) if depth <= _NAME else None
    return _fitting(text, place, depth)


def _fitting(text: str | None, place: Place, depth: int) -> str:
    if text is None or (depth > 2 and len(text) > _NAME):
        text = path_text([each.step for each in place.chain(2)]).removeprefix(".")
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
