"""Merging any two values that come from one: nothing is lost, nothing is doubled, and what does not touch commutes.

Every leaf of a generated value is unique and says who wrote it, so that it can be looked for in what came out.
"""

from __future__ import annotations

import copy
from collections import Counter
from itertools import count, groupby
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from tests.property.test_diff_trees import AROUNDS, deep
from tests.property.test_tree import SMALL
from tests.values import identical, values

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.merge.conflict import ABSENT, MergeConflict
from holdfast.objects.merge.merge import merge_lines
from holdfast.objects.merge.resolve import Resolver
from holdfast.objects.merge.states import MergedValue, merge_roots, merge_values
from holdfast.objects.tree.state import encode_state

TYPES = TypeRegistry()
KEYS = ["a", "b", "c", "d", "id"]


def merged(base: Any, ours: Any, theirs: Any, resolve: Any = None) -> MergedValue:
    return merge_values([base], ours, theirs, TYPES, resolve)


def same(one: Any, other: Any) -> bool:
    return encode_value(one, TYPES) == encode_value(other, TYPES)


def merged_from_store(base: Any, ours: Any, theirs: Any, resolve: Any = None) -> MergedValue:
    """The same from the trees of the three."""
    states = [encode_state(each, TYPES, cuts=SMALL) for each in (base, ours, theirs)]
    chunks = {chunk.hash: chunk.data for state in states for chunk in state.chunks}
    resolver = Resolver(resolve, TYPES)
    resolver.begin()
    was, mine, other = (state.root for state in states)
    found = merge_roots(
        [was], mine, other, lambda names: {name: chunks[name] for name in names}, TYPES, resolver
    )
    value = (
        decode_value(found.data, TYPES) if found.root is None else (ours if found.root == mine else theirs)
    )
    return MergedValue(value, found.conflicts, found.resolved)


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


@st.composite
def deep_threes(draw):
    """The same so deep that the trees of their states end above them, and so large that they do not stand in these."""
    padding = [f"p{number}" for number in range(draw(st.integers(0, 60)))]
    around = draw(AROUNDS)
    return tuple(deep([each, padding], around) for each in draw(threes()))


def leaves(value: Any) -> Counter[Any]:
    found: Counter[Any] = Counter()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Opaque):
            waiting.append(each.data)
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each
        elif isinstance(each, int):
            # What lies around a value has numbers in it.
            continue
        else:
            found[each] += 1
    return found


def told(conflicts: tuple[MergeConflict, ...]) -> Counter[Any]:
    sides = [getattr(each, side) for each in conflicts for side in ("base", "ours", "theirs")]
    return leaves([side for side in sides if side is not ABSENT])


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


@given(deep_threes())
def test_neither_side_is_lost_however_deep_it_lies_in_a_stored_state(three):
    base, ours, theirs = three
    result = merged_from_store(base, ours, theirs)
    known = leaves(result.value) + told(result.conflicts)
    for side, name in ((ours, "o"), (theirs, "t")):
        assert {leaf for leaf in leaves(side) if leaf[0] == name} <= known.keys()
    assert leaves(ours).keys() & leaves(theirs).keys() <= known.keys()
    gone = leaves(base).keys() - leaves(ours).keys() - leaves(theirs).keys()
    assert not gone & leaves(result.value).keys()
    for side in ("ours", "theirs"):
        assert not merged_from_store(base, ours, theirs, side).conflicts


@given(threes(renames=False))
@example(([{"a": "b0", "b": "b1"}, "b2"], [{"a": "o0", "b": "b1"}, "b2"], ["b2", {"b": "b1"}, "t0"]))
def test_nothing_is_there_twice_but_what_a_conflict_is_about(three):
    result = merged(*three)
    twice = {leaf for leaf, number in leaves(result.value).items() if number > 1}
    # An item that one side edited, and the other moved and edited so much that it counts as removed and as another.
    assert twice <= told(result.conflicts).keys()


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


@st.composite
def touching(draw, *, all_of_it):
    """A list, and two that have something else in its place wherever the second one has.

    Between two items that nobody touches is a stretch. The first side puts other items into its place, or none. The
    second changes no item that the first one left: it replaces, or removes, all or some of the stretch.
    """
    writers = [Writer(draw, name) for name in "bot"]
    base, ours, theirs = ([], [], [])  # type: tuple[list[Any], list[Any], list[Any]]
    for _ in range(draw(st.integers(1, 4))):
        was = [writers[0].leaf() for _ in range(draw(st.integers(1, 4)))]
        mine = [writers[1].leaf() for _ in range(draw(st.integers(0, 5)))]
        other: list[Any] = []
        keeps = [not all_of_it and draw(st.booleans()) for _ in was]
        for keep, run in groupby(zip(keeps, was, strict=True), key=lambda pair: pair[0]):
            fresh = [writers[2].leaf() for _ in range(draw(st.integers(0, 3)))]
            other += [each for _, each in run] if keep else fresh
        stable = writers[0].leaf()
        for row, part in ((base, was), (ours, mine), (theirs, other)):
            row += [*part, stable]
    # Without the last one, the end of the list is a stretch too.
    cut = draw(st.integers(0, 1))
    return [row[: len(row) - cut] for row in (base, ours, theirs)]


@given(touching(all_of_it=True))
def test_where_both_changed_the_same_stretches_each_side_can_have_its_way(three):
    base, ours, theirs = three
    result = merged(base, ours, theirs)
    assert merged(base, ours, theirs, "theirs").value == theirs
    # Nothing is taken from them unasked, and nothing of either side is untold.
    assert result.value == ours
    assert leaves(theirs).keys() <= (leaves(result.value) + told(result.conflicts)).keys()
    assert bool(result.conflicts) == (ours != theirs)


@st.composite
def same_ids(draw):
    """Items that both sides added, and counted in the same way."""
    base = [{"id": number} for number in range(draw(st.integers(0, 2)))]
    sides = []
    for _ in range(2):
        size = draw(st.integers(0, 3))
        contents = draw(st.lists(st.sampled_from("xyz"), min_size=size, max_size=size))
        sides.append([*base, *({"id": len(base) + at, text: at} for at, text in enumerate(contents))])
    return base, *sides


@given(same_ids())
def test_new_items_with_one_id_are_one_if_they_are_equal_and_a_conflict_if_not(three):
    base, ours, theirs = three
    result = merged(base, ours, theirs)
    both = list(zip(ours, theirs, strict=False))
    assert [(c.ours, c.theirs) for c in result.conflicts] == [pair for pair in both if pair[0] != pair[1]]
    assert {c.kind for c in result.conflicts} <= {"add/add"}
    assert all(each in ours or each in theirs for each in result.value)


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
