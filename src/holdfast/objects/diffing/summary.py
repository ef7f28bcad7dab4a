"""A diff in one line for people: what is most telling first, as much as fits.

Items that came or went are counted by the name of their list: `+2 messages`. A value that became another is told as it
is: `score 0.41 to 0.63`. What happened inside of several items is counted again: `3 tasks changed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from holdfast.objects.diffing.change import Change, Excerpt, PathStep, path_text
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


def _phrases(changes: Iterable[Change]) -> list[_Phrase]:
    came: dict[str, list[int]] = {}
    inside: dict[tuple[str, str], list[Change]] = {}
    moved: dict[str, int] = {}
    rows: set[str] = set()
    found: list[_Phrase] = []
    for change in changes:
        steps = change.steps
        if change.op == "move":
            name = _holder(steps)
            moved[name] = moved.get(name, 0) + 1
        elif change.op != "replace" and (len(steps) > 1 or (steps and steps[-1].kind == "index")):
            name = _holder(steps)
            counts = came.setdefault(name, [0, 0])
            counts[change.op == "remove"] += 1
            if steps[-1].kind == "index":
                rows.add(name)
        elif change.op != "replace":
            sign = "+" if change.op == "add" else "-"
            found.append(_Phrase(70, f"{sign}{_name(steps)}" if steps else f"{change.op}ed", 1))
        else:
            inside.setdefault(_owner(steps), []).append(change)
    found += [_counted(name, *counts, items=name in rows) for name, counts in came.items()]
    for (owner, _), some in inside.items():
        found += _replaced(owner, some)
    found += [_Phrase(20, f"{_many(count, name)} moved", count) for name, count in moved.items()]
    return found


def _counted(name: str, added: int, removed: int, *, items: bool) -> _Phrase:
    # A list that grew says what the agent did; one that shrank, what it gave up.
    signs = [f"{sign}{count:,}" for sign, count in (("+", added), ("-", removed)) if count]
    word = _many(added + removed, name).partition(" ")[2]
    weight = (100 if items else 80) + min(added + removed, 50) / 100
    return _Phrase(weight, f"{' '.join(signs)} {word}", added + removed)


def _replaced(owner: str, changes: list[Change]) -> list[_Phrase]:
    if len(changes) > _TOLD_APART and owner:
        items = len({change.steps[:-1] for change in changes})
        return [_Phrase(60, f"{_many(items, owner)} changed", len(changes))]
    return [_one(change) for change in changes]


def _one(change: Change) -> _Phrase:
    name = _name(change.steps) or _STATE
    depth = len(change.steps)
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
    if type(old) is int and type(new) is int:
        return f"{old:,}", f"{new:,}"
    before, after = f"{old:.4g}", f"{new:.4g}"
    if before != after:
        return before, after
    same = type(old) is type(new) and old == new
    return (before, after) if same else (repr(old), repr(new))


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _holder(steps: Sequence[PathStep]) -> str:
    """The name of the container that a change is in."""
    for step in reversed(steps[:-1]):
        if step.kind in ("key", "field"):
            return _cut(_last_name(step), _NAME)
    return "items" if steps and steps[-1].kind == "index" else "keys"


def _owner(steps: Sequence[PathStep]) -> tuple[str, str]:
    """The list whose item a change is in, and what of the item: changes of the same are counted."""
    for at in range(len(steps) - 1, 0, -1):
        if steps[at].kind == "index" and steps[at - 1].kind in ("key", "field"):
            return _cut(_last_name(steps[at - 1]), _NAME), path_text(
                [step for step in steps if step.kind != "index"]
            )
    return "", path_text(steps)


def _name(steps: Sequence[PathStep]) -> str:
    """The last names of a path: enough to know what is meant."""
    text = path_text(steps)
    if len(text) > _NAME:
        text = path_text(steps[-2:]) if len(steps) > 2 else text
        text = text.removeprefix(".")
    return _cut(text, _NAME)


def _last_name(step: PathStep) -> str:
    return step.key if isinstance(step.key, str) and step.key else path_text([step])


def _many(count: int, name: str) -> str:
    if count == 1 and name.endswith("s") and not name.endswith(("ss", "us", "is", "ies")):
        name = name[:-1]
    return f"{count:,} {name}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
