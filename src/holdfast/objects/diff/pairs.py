"""Which item of a list became which: by `id`, then by likeness in the same place.

Equal items are the same item, and are gone before it comes to this. Of those that are left, a dict or object whose `id`
both sides have is the same item, changed. What is still left stands between items that stayed: there one may have
become the other if they are alike, in order. The rest was removed or added; what was removed here and added there has
moved.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from holdfast.objects.diff.alignment import Pair, align, common_start, windows_between
from holdfast.objects.diff.encoded_value import (
    DICT,
    LIST,
    Encoded,
    Large,
    Opened,
    Value,
    identity_in,
    open_value,
)
from holdfast.objects.diff.sequences import Item, Stretch, items_at_hand
from holdfast.objects.tree import nodes
from holdfast.record import Record

_COMPARED: Final = 400
"""Possible pairs in one place up to which the best ones are looked for; beyond, the first becomes the first."""
_ALIKE: Final = 0.2

Place = tuple[int, int]
"""A stretch, and the number of an item in it."""


class Paired(Record):
    """What became of the items of a list."""

    kept: list[list[Pair]]
    """For each stretch: the items on both sides that stand for each other, going up."""
    moved: dict[Place, Place]
    """Items that stand elsewhere now: their new place, and the old one."""


class _Side:
    """The items of one side, opened when they are asked for."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self._opened: dict[int, Opened | None] = {}

    def opened(self, at: int) -> Opened | None:
        if at not in self._opened:
            value = self.items[at].value
            self._opened[at] = open_value(value) if isinstance(value, Encoded) else _at_hand(value)
        return self._opened[at]

    def identity(self, at: int) -> bytes | None:
        """The `id` of an item, where it has one that can tell it from others."""
        item = self.items[at].value
        if isinstance(item, Encoded) and not item.may_have_id:
            return None
        opened = self.opened(at)
        return None if opened is None else identity_in(opened)


def _at_hand(value: Large) -> Opened | None:
    """What of a large dict can be seen without reading; enough for an `id`."""
    if value.node.kind != nodes.DICT:
        return None
    items = [item for item in items_at_hand(value) if isinstance(item.value, Encoded)]
    return Opened(DICT, (DICT,), [item.value for item in items], [item.key for item in items])  # type: ignore[misc]


def pair_items(stretches: list[Stretch]) -> Paired:
    """Find out which item became which in all stretches of a list."""
    sides = [(_Side(stretch.old), _Side(stretch.new)) for stretch in stretches]
    kept = [_same_ids(old, new) for old, new in sides]
    moved = _moved(sides, kept)
    gone, come = set(moved.values()), set(moved)
    for number, (old, new) in enumerate(sides):
        whole = (0, len(old.items), 0, len(new.items))
        for old_start, old_stop, new_start, new_stop in windows_between(kept[number], whole):
            left = [at for at in range(old_start, old_stop) if (number, at) not in gone]
            right = [at for at in range(new_start, new_stop) if (number, at) not in come]
            kept[number] += _likely(old, new, left, right)
        kept[number].sort()
    return Paired(kept, moved)


def _same_ids(old: _Side, new: _Side) -> list[Pair]:
    """The items with the same `id`, in order."""
    if not old.items or not new.items:
        return []
    # Without an id an item is like no other here.
    before: list[Hashable] = [old.identity(at) or ("old", at) for at in range(len(old.items))]
    after: list[Hashable] = [new.identity(at) or ("new", at) for at in range(len(new.items))]
    return align(before, after)


def _moved(sides: list[tuple[_Side, _Side]], kept: list[list[Pair]]) -> dict[Place, Place]:
    """What was removed in one place and added in another: the same `id`, or else equal."""
    removed: dict[Hashable, list[Place]] = {}
    added: list[tuple[Hashable, Place]] = []
    for number, (old, new) in enumerate(sides):
        stayed = {left for left, _ in kept[number]}, {right for _, right in kept[number]}
        for at in range(len(old.items)):
            if at not in stayed[0]:
                removed.setdefault(_name(old, at), []).append((number, at))
        added += [(_name(new, at), (number, at)) for at in range(len(new.items)) if at not in stayed[1]]
    moved: dict[Place, Place] = {}
    for places in removed.values():
        # Taken from the end: the first that was removed is the first that was added.
        places.reverse()
    for name, place in added:
        if removed.get(name):
            moved[place] = removed[name].pop()
    return moved


def _name(side: _Side, at: int) -> Hashable:
    identity = side.identity(at)
    return side.items[at].value.token if identity is None else ("id", identity)


def _likely(old: _Side, new: _Side, left: list[int], right: list[int]) -> list[Pair]:
    """Pairs of items in one place that are alike enough to be one item, changed."""
    if not left or not right:
        return []
    if len(left) == len(right) == 1:
        # By far the most common place, and the depth of a value: nothing in it has to be looked at.
        return [(left[0], right[0])] if _may_be_one(old, new, left[0], right[0]) else []
    if len(left) * len(right) > _COMPARED:
        pairs = zip(left, right, strict=False)
        return [pair for pair in pairs if _likeness(old, new, *pair) >= _ALIKE]
    # As many as there were: each may have become any other thing, in its place.
    least = 0.0 if len(left) == len(right) else _ALIKE
    scores = [[_likeness(old, new, one, other) for other in right] for one in left]
    return [(left[one], right[other]) for one, other in _best(scores, least)]


def _best(scores: list[list[float]], least: float) -> list[Pair]:
    """The pairs with the highest sum of scores, going up on both sides."""
    rows, columns = len(scores), len(scores[0])
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows - 1, -1, -1):
        for column in range(columns - 1, -1, -1):
            score = scores[row][column]
            taken = best[row + 1][column + 1] + score if score > least else -1.0
            best[row][column] = max(taken, best[row + 1][column], best[row][column + 1])
    pairs = []
    row = column = 0
    while row < rows and column < columns:
        score = scores[row][column]
        if score > least and best[row][column] == best[row + 1][column + 1] + score:
            pairs.append((row, column))
            row, column = row + 1, column + 1
        elif best[row][column] == best[row + 1][column]:
            row += 1
        else:
            column += 1
    return pairs


def _may_be_one(old: _Side, new: _Side, left: int, right: int) -> bool:
    """Not if both say who they are: had they said the same, they would not be left."""
    return old.identity(left) is None or new.identity(right) is None


def _likeness(old: _Side, new: _Side, left: int, right: int) -> float:
    """How alike two items are, from 0 (one cannot have become the other) to 1."""
    if not _may_be_one(old, new, left, right):
        return 0.0
    one, other = old.opened(left), new.opened(right)
    if one is None or other is None:
        return _scalar_likeness(old.items[left].value, new.items[right].value)
    if one.frame != other.frame:
        return 0.01
    if one.shape == LIST:
        same = len({each.token for each in one.values} & {each.token for each in other.values})
        return 0.25 + 0.75 * same / max(len(one.values), len(other.values), 1)
    before, after = _contents(one), _contents(other)
    common = before.keys() & after.keys()
    equal = len([key for key in common if before[key] == after[key]])
    return 0.1 + (0.3 * len(common) + 0.6 * equal) / max(len(before), len(after), 1)


def _contents(opened: Opened) -> dict[Hashable, Hashable]:
    tokens = [value.token for value in opened.values]
    return dict(zip(opened.keys or tokens, tokens, strict=True))


def _scalar_likeness(one: Value, other: Value) -> float:
    if not isinstance(one, Encoded) or not isinstance(other, Encoded):
        # Large values of the same kind: what they have in common is found out when they are compared.
        same = type(one) is type(other) and _kind(one) == _kind(other)
        return 0.3 if same else 0.01
    if one.sort != other.sort:
        return 0.01
    if one.sort != "text":
        return 0.25
    size = max(len(one.data), len(other.data))
    return 0.15 + 0.85 * _shared_ends(one.data, other.data) / size


def _kind(value: Value) -> Any:
    return value.node.kind if isinstance(value, Large) else None


def _shared_ends(one: bytes, other: bytes) -> int:
    """How many bytes two texts have in common at their beginning and end, after the mark with the length."""
    one, other = one[1:], other[1:]
    front = common_start(one, other)
    return front + common_start(one[front:][::-1], other[front:][::-1])
