"""Merging any two values that come from one: nothing is lost, nothing is doubled, and what does not touch commutes.

Every leaf of a generated value is unique and says who wrote it, so that it can be looked for in what came out.
"""

from __future__ import annotations

import copy
from collections import Counter
from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.objects.codec import encode_value
from holdfast.objects.merging.conflict import ABSENT, MergeConflict
from holdfast.objects.merging.states import MergedValue, merge_values
from holdfast.objects.merging.texts import merge_lines
from holdfast.objects.registry import TypeRegistry
from holdfast.testing.values import identical, values

TYPES = TypeRegistry()
KEYS = ["a", "b", "c", "d", "id"]


def merged(base: Any, ours: Any, theirs: Any, resolve: Any = None) -> MergedValue:
    return merge_values(base, ours, theirs, TYPES, resolve)


def same(one: Any, other: Any) -> bool:
    return encode_value(one, TYPES) == encode_value(other, TYPES)


class Writer:
    """Draws values whose leaves nobody else has."""

    def __init__(self, draw: Any, name: str, *, renames: bool = True) -> None:
        self.draw = draw
        self.renames = renames
        """Whether it also changes the `id` of an item, which makes another item of it."""
        self.name = name
        self.numbers = count()

    def leaf(self) -> str:
        return f"{self.name}{next(self.numbers)}"

    def value(self, depth: int = 3) -> Any:
        kind = self.draw(st.sampled_from(["leaf", "list", "dict", "items"])) if depth else "leaf"
        size = self.draw(st.integers(0, 5)) if kind != "leaf" else 0
        if kind == "list":
            return [self.value(depth - 1) for _ in range(size)]
        if kind == "items":
            return [{"id": self.leaf(), "text": self.leaf()} for _ in range(size)]
        if kind == "dict":
            return {key: self.value(depth - 1) for key in self.draw(st.permutations(KEYS))[:size]}
        return self.leaf()

    def edited(self, value: Any, times: int) -> Any:
        value = copy.deepcopy(value)
        for _ in range(self.draw(st.integers(0, times))):
            value = self.edit(value)
        return value

    def edit(self, value: Any) -> Any:
        if isinstance(value, list | dict) and value and self.draw(st.booleans()):
            places = list(value) if isinstance(value, dict) else range(len(value))
            at = self.draw(st.sampled_from(places))
            if at != "id" or self.renames:
                value[at] = self.edit(value[at])
            return value
        if isinstance(value, list):
            return self.edit_list(value)
        if isinstance(value, dict):
            return self.edit_dict(value)
        return self.value(1)

    def edit_list(self, value: list[Any]) -> Any:
        at = self.draw(st.integers(0, len(value)))
        match self.draw(st.sampled_from(["insert", "append", "remove", "trim", "move", "shuffle", "clear"])):
            case "insert":
                value.insert(at, self.value(1))
            case "append":
                value += [self.value(1) for _ in range(self.draw(st.integers(1, 2)))]
            case "remove" if at < len(value):
                del value[at]
            case "trim":
                del value[:at]
            case "move" if at < len(value):
                value.insert(self.draw(st.integers(0, len(value) - 1)), value.pop(at))
            case "shuffle":
                return self.draw(st.permutations(value))
            case "clear":
                return []
        return value

    def edit_dict(self, value: dict[str, Any]) -> Any:
        key = self.draw(st.sampled_from(KEYS if self.renames else KEYS[:-1]))
        match self.draw(st.sampled_from(["set", "remove", "reorder", "leaf"])):
            case "set":
                value[key] = self.value(1)
            case "remove":
                value.pop(key, None)
            case "reorder":
                return dict(self.draw(st.permutations(list(value.items()))))
            case "leaf":
                return self.leaf()
        return value


@st.composite
def threes(draw, *, renames=True):
    base = Writer(draw, "b").value()
    ours, theirs = (Writer(draw, name, renames=renames).edited(base, 4) for name in "ot")
    return base, ours, theirs


def leaves(value: Any) -> Counter[Any]:
    found: Counter[Any] = Counter()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        else:
            found[each] += 1
    return found


def told(conflicts: tuple[MergeConflict, ...]) -> Counter[Any]:
    sides = [getattr(each, side) for each in conflicts for side in ("base", "ours", "theirs")]
    return leaves([side for side in sides if side is not ABSENT])


@given(values())
def test_what_nobody_changed_stays(value):
    result = merged(value, value, value)
    assert identical(result.value, value)
    assert not result.conflicts


@given(values(), values())
def test_where_one_side_changed_nothing_the_other_is_the_result(base, changed):
    for sides in ((changed, base), (base, changed), (changed, changed)):
        result = merged(base, *sides)
        assert identical(result.value, changed)
        assert not result.conflicts


@given(values(), values(), values())
def test_values_of_every_type_merge_or_conflict_and_can_always_be_decided(base, ours, theirs):
    result = merged(base, ours, theirs)
    for conflict in result.conflicts:
        assert not identical(conflict.ours, conflict.theirs)
    for side in ("ours", "theirs"):
        decided = merged(base, ours, theirs, side)
        assert not decided.conflicts
        assert [each.conflict.path for each in decided.resolved] == [each.path for each in result.conflicts]


@given(threes())
def test_neither_side_is_lost(three):
    base, ours, theirs = three
    result = merged(base, ours, theirs)
    known = leaves(result.value) + told(result.conflicts)
    for side, name in ((ours, "o"), (theirs, "t")):
        assert {leaf for leaf in leaves(side) if leaf[0] == name} <= known.keys()
    # What both sides still have is still there.
    assert leaves(ours).keys() & leaves(theirs).keys() <= known.keys()


@given(threes(renames=False))
def test_nothing_is_there_twice(three):
    result = merged(*three)
    assert all(number == 1 for number in leaves(result.value).values())


@given(threes())
def test_what_both_removed_stays_away(three):
    base, ours, theirs = three
    gone = leaves(base).keys() - leaves(ours).keys() - leaves(theirs).keys()
    assert not gone & leaves(merged(base, ours, theirs).value).keys()


def at(value: Any, conflict: MergeConflict) -> Any:
    for step in conflict.steps:
        if isinstance(step.key, str) and step.kind == "index":
            start, stop = step.key.split(":")
            value = value[int(start) : int(stop)]
        else:
            value = value[step.key]
    return value


@given(threes())
def test_deciding_for_ours_keeps_ours_at_every_conflict(three):
    base, ours, theirs = three
    result = merged(base, ours, theirs, "ours")
    there = leaves(result.value)
    for conflict, how in result.resolved:
        assert how == "ours"
        if conflict.ours is not ABSENT:
            assert same(at(ours, conflict), conflict.ours)
            assert leaves(conflict.ours).keys() <= there.keys()
    assert {leaf for leaf in leaves(ours) if leaf[0] == "o"} <= there.keys()


@given(threes())
def test_deciding_for_theirs_keeps_theirs_at_every_conflict(three):
    base, ours, theirs = three
    result = merged(base, ours, theirs, "theirs")
    assert {leaf for leaf in leaves(theirs) if leaf[0] == "t"} <= leaves(result.value).keys()


@given(threes())
def test_a_function_that_chooses_ours_is_the_same_as_the_word(three):
    base, ours, theirs = three
    one = merged(base, ours, theirs, "ours")
    other = merged(base, ours, theirs, lambda conflict: conflict.ours)
    assert same(one.value, other.value)
    assert [each.how for each in other.resolved] == ["ours"] * len(one.resolved)


def without_order(value: Any) -> Any:
    """The same with the keys of every dict sorted: whose new key comes first is no part of what was said."""
    if isinstance(value, dict):
        return {key: without_order(value[key]) for key in sorted(value)}
    return [without_order(each) for each in value] if isinstance(value, list) else value


@given(st.data())
def test_edits_of_different_keys_are_both_made_whichever_comes_first(data):
    base = {key: Writer(data.draw, f"b{key}").value() for key in "pqrs"}
    mine = data.draw(st.sets(st.sampled_from("pqrsuv")))
    ours, theirs, both = (copy.deepcopy(base) for _ in range(3))
    for name, side, own in (("o", ours, mine), ("t", theirs, {*"pqrsuv"} - mine)):
        writer = Writer(data.draw, name)
        for key in sorted(own):
            match data.draw(st.sampled_from(["edit", "remove", "leave"])):
                case "edit":
                    side[key] = writer.edited(side[key], 3) if key in side else writer.value()
                case "remove":
                    side.pop(key, None)
            both.pop(key, None)
            if key in side:
                both[key] = copy.deepcopy(side[key])
    one, other = merged(base, ours, theirs), merged(base, theirs, ours)
    assert not one.conflicts
    assert not other.conflicts
    assert same(without_order(one.value), without_order(both))
    assert same(without_order(other.value), without_order(both))


@given(st.data(), st.booleans())
def test_edits_of_different_parts_of_a_list_are_both_made_whichever_comes_first(data, named):
    writer = Writer(data.draw, "b")
    items = [{"id": writer.leaf(), "n": writer.leaf()} if named else writer.leaf() for _ in range(9)]
    halves = items[:4], items[4], items[5:]
    parts = [items[:4], items[5:]]
    changed = []
    for name, part in zip("ot", parts, strict=True):
        hand, new = Writer(data.draw, name), list(part)
        for _ in range(data.draw(st.integers(0, 3))):
            place = data.draw(st.integers(0, len(new)))
            match data.draw(st.sampled_from(["insert", "remove", "replace"])):
                case "insert":
                    new.insert(place, {"id": hand.leaf()} if named else hand.leaf())
                case "remove" if place < len(new):
                    del new[place]
                case "replace" if place < len(new) and not named:
                    new[place] = hand.leaf()
        changed.append(new)
    ours, theirs = [*changed[0], *items[4:]], [*items[:5], *changed[1]]
    for sides in ((ours, theirs), (theirs, ours)):
        result = merged(items, *sides)
        assert not result.conflicts
        assert same(result.value, [*changed[0], halves[1], *changed[1]])


LINES = st.lists(st.sampled_from(["one", "two", "three", ""]), max_size=6).map("\n".join)


@given(LINES, LINES, LINES)
def test_lines_are_merged_the_same_from_both_sides_and_none_that_is_new_is_lost(base, ours, theirs):
    assert merge_lines(base, base, theirs) == theirs
    assert merge_lines(base, ours, base) == ours
    result = merge_lines(base, ours, theirs)
    assert result == merge_lines(base, theirs, ours)
    if result is not None:
        was, there = Counter(base.split("\n")), Counter(result.split("\n"))
        for side in (ours, theirs):
            came = Counter(side.split("\n")) - was
            assert not came - there
