"""What becomes of dicts, lists, texts, sets and objects that two sides changed."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.merge.conflict import ABSENT
from holdfast.objects.merge.states import MergedValue, merge_values

TYPES = TypeRegistry()
SET = [(0, 0, ""), (0, 2, "c"), (3, 0, "b")]


@dataclass
class Plan:
    goal: str
    steps: list[str]
    done: bool = False


@dataclass
class Note:
    id: int
    text: str


class Colour(Enum):
    RED = 1
    BLUE = 2
    GREEN = 3


class Model(BaseModel):
    a: int = 0
    b: int = 0
    c: int = 0


def merged(base: Any, ours: Any, theirs: Any, resolve: Any = None) -> MergedValue:
    types = TYPES.child([Plan, Note, Colour, Model])
    return merge_values([base], ours, theirs, types, resolve)


def clean(base: Any, ours: Any, theirs: Any) -> Any:
    result = merged(base, ours, theirs)
    assert result.conflicts == ()
    return result.value


def only(base: Any, ours: Any, theirs: Any) -> tuple[str, str, Any, Any, Any]:
    result = merged(base, ours, theirs)
    (conflict,) = result.conflicts
    # Nothing was decided: our side stands in its place.
    assert merged(base, ours, theirs, "ours").value == result.value
    return conflict.kind, conflict.path, conflict.base, conflict.ours, conflict.theirs


def item(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": number, **fields}


class TestDicts:
    def test_keys_are_in_our_order_and_then_come_theirs(self):
        result = clean({"a": 1, "b": 1}, {"a": 1, "o": 1, "b": 1}, {"t": 1, "a": 1, "b": 2})
        assert list(result) == ["a", "o", "b", "t"]

    def test_if_they_alone_changed_the_order_it_is_theirs(self):
        result = clean({"a": 1, "b": 1}, {"a": 2, "b": 1, "o": 1}, {"b": 1, "a": 1})
        assert list(result.items()) == [("b", 1), ("a", 2), ("o", 1)]

    def test_if_both_changed_the_order_it_is_ours_and_no_conflict(self):
        base = {"a": 1, "b": 1, "c": 1}
        result = clean(base, {"c": 1, "a": 1, "b": 1}, {"b": 2, "a": 1, "c": 1})
        assert list(result.items()) == [("c", 1), ("a", 1), ("b", 2)]

    def test_both_changed_one_key(self):
        assert only({"a": 1}, {"a": 2}, {"a": 3}) == ("edit/edit", "a", 1, 2, 3)

    @pytest.mark.parametrize(("ours", "theirs"), [(1.0, True), ([1], "1"), ({}, []), (None, 0), ((), [])])
    def test_both_changed_one_key_to_other_types(self, ours, theirs):
        assert only({"a": 1}, {"a": ours}, {"a": theirs})[0] == "type"

    @pytest.mark.parametrize(("base", "ours", "theirs"), [(1, 1, 1.0), (True, 1, True), (0.0, -0.0, 0.0)])
    def test_equal_values_of_other_types_are_changes(self, base, ours, theirs):
        result = clean({"a": base, "b": 0}, {"a": ours, "b": 1}, {"a": theirs, "b": 0})
        assert repr(result["a"]) == repr(ours if repr(ours) != repr(base) else theirs)

    def test_a_change_of_what_the_other_removed_is_a_conflict_both_ways(self):
        assert only({"k": 1}, {"k": 2}, {}) == ("edit/remove", "k", 1, 2, ABSENT)
        assert only({"k": 1}, {}, {"k": 2}) == ("remove/edit", "k", 1, ABSENT, 2)

    def test_both_added_one_key(self):
        assert only({}, {"k": 1}, {"k": 2}) == ("add/add", "k", ABSENT, 1, 2)
        assert only({}, {"k": [1]}, {"k": [2]}) == ("add/add", "k", ABSENT, [1], [2])

    def test_dicts_that_both_added_are_merged(self):
        assert clean({}, {"k": {"x": 1}}, {"k": {"y": 2}}) == {"k": {"x": 1, "y": 2}}
        assert only({}, {"k": {"x": 1}}, {"k": {"x": 2}}) == ("add/add", "k.x", ABSENT, 1, 2)

    def test_a_dict_stays_a_dict_when_its_first_key_comes_that_is_no_text(self):
        assert clean({"a": 1}, {"a": 1, 2: 2}, {"a": 5}) == {"a": 5, 2: 2}
        assert clean({"a": 1, 2: 2}, {"a": 1}, {"a": 5, 2: 2}) == {"a": 5}

    def test_keys_that_python_takes_for_one_are_a_conflict(self):
        assert only({"d": {"x": 0}}, {"d": {"x": 0, 1: "o"}}, {"d": {"x": 0, True: "t"}})[:2] == (
            "edit/edit",
            "d",
        )

    @pytest.mark.parametrize("make", [OrderedDict, Counter, lambda pairs: defaultdict(int, pairs)])
    def test_other_mappings_are_merged_and_keep_their_kind(self, make):
        result = clean(make({"a": 1, "b": 1}), make({"a": 2, "b": 1}), make({"a": 1, "b": 1, "c": 1}))
        assert result == make({"a": 2, "b": 1, "c": 1})
        assert type(result) is type(make({}))


class TestSequences:
    def test_what_both_appended_is_ours_and_then_theirs(self):
        assert clean(["a"], ["a", "o"], ["a", "t1", "t2"]) == ["a", "o", "t1", "t2"]

    @pytest.mark.parametrize(
        ("ours", "theirs", "result"),
        [
            (["p", "o"], ["p", "t"], ["p", "o", "t"]),
            (["o", "p"], ["p", "t"], ["o", "p", "t"]),
            (["o", "p"], ["p", "o"], ["o", "p"]),
            (["p"], ["p", "p"], ["p", "p"]),
        ],
    )
    def test_what_both_appended_in_common_is_there_once(self, ours, theirs, result):
        found = clean(["a"], ["a", *ours], ["a", *theirs])
        assert Counter(found) == Counter(["a", *result])
        assert found[0] == "a"

    def test_one_trimmed_what_the_other_appended_to(self):
        assert clean(list("abcd"), list("cdo"), list("abcdt")) == list("cdot")
        assert clean(list("abcd"), [], list("abcdt")) == ["t"]

    def test_both_put_something_into_one_place(self):
        assert only(list("abc"), list("aobc"), list("atbc")) == ("add/add", "[1:2]", [], ["o"], ["t"])

    def test_an_item_that_both_changed(self):
        assert only(list("abc"), list("aoc"), list("atc")) == ("edit/edit", "[1]", "b", "o", "t")

    def test_a_stretch_that_both_rewrote(self):
        kind, path, base, ours, theirs = only(
            ["a", "b", "z"], ["a", "o1", "o2", "o3", "z"], ["a", "t1", "t2", "z"]
        )
        assert (kind, path) == ("edit/edit", "[1:4]")
        assert (base, ours, theirs) == (["b"], ["o1", "o2", "o3"], ["t1", "t2"])

    def test_a_stretch_that_one_rewrote_where_the_other_changed_an_item(self):
        base, ours, theirs = list("abc"), ["a", "O1", "c"], ["a", "T1", "T2", "c"]
        assert only(base, ours, theirs) == ("edit/edit", "[1:2]", ["b"], ["O1"], ["T1", "T2"])
        assert merged(base, ours, theirs, "ours").value == ours
        assert merged(base, ours, theirs, "theirs").value == theirs
        assert only(base, theirs, ours) == ("edit/edit", "[1:3]", ["b"], ["T1", "T2"], ["O1"])

    def test_a_stretch_that_one_rewrote_and_the_other_removed(self):
        base, ours, theirs = list("abc"), ["a", "c"], ["a", "T1", "T2", "c"]
        assert only(base, ours, theirs) == ("remove/edit", "[1:1]", ["b"], [], ["T1", "T2"])
        assert only(base, theirs, ours) == ("edit/remove", "[1:3]", ["b"], ["T1", "T2"], [])
        assert merged(base, ours, theirs, "ours").value == ours
        assert merged(base, ours, theirs, "theirs").value == theirs

    def test_only_what_touches_is_in_the_conflict(self):
        base = list("abcdef")
        ours, theirs = ["a", "O", "c", "d", "f"], ["a", "T1", "T2", "c", "X", "d", "e", "f"]
        assert only(base, ours, theirs) == ("edit/edit", "[1:2]", ["b"], ["O"], ["T1", "T2"])
        assert merged(base, ours, theirs, "ours").value == ["a", "O", "c", "X", "d", "f"]

    def test_what_was_put_beside_a_plain_value_that_both_changed_belongs_to_it(self):
        # Alike, so that the first would be taken for the item and the second for a new one.
        base, ours, theirs = ["a", "note", "c"], ["a", "note o", "c"], ["a", "note t", "more", "c"]
        found = only(base, ours, theirs)
        assert found == ("edit/edit", "[1:2]", ["note"], ["note o"], ["note t", "more"])
        assert only(["note"], ["note o", "o"], ["note t", "t"])[1] == "[0:2]"
        assert only(base, ["a", "c"], theirs)[1] == "[1:1]"

    def test_what_was_put_beside_an_item_with_parts_does_not_belong_to_it(self):
        base, ours, theirs = [{"k": 1, "t": "x"}], [{"k": 2, "t": "x"}], [{"k": 3, "t": "x"}, "new"]
        assert only(base, ours, theirs)[:2] == ("edit/edit", "[0].k")
        assert merged(base, ours, theirs, "ours").value == [*ours, "new"]
        assert clean(base, ours, [{"k": 1, "t": "y"}, "new"]) == [{"k": 2, "t": "y"}, "new"]
        assert only(base, [], theirs)[:2] == ("remove/edit", "[0]")
        assert merged(base, [], theirs, "ours").value == ["new"]

    def test_an_item_with_an_id_is_not_replaced_by_another_one(self):
        base = ["a", item(1), "c"]
        assert clean(base, ["a", "c"], ["a", item(2), item(3), "c"]) == ["a", item(2), item(3), "c"]
        assert only(base, ["a", item(1, k=1), "c"], ["a", item(2), "c"])[:2] == ("edit/remove", "[1]")

    def test_what_was_put_beside_an_item_with_an_id_does_not_belong_to_it(self):
        base, ours, theirs = ["a", item(1)], ["a", Note(1, "o")], ["a", item(1, k=2), "new"]
        assert only(base, ours, theirs)[:2] == ("type", "[1]")
        assert merged(base, ours, theirs, "ours").value == [*ours, "new"]

    def test_a_change_of_what_the_other_removed(self):
        base = [{"k": 1, "t": "x"}, "b", "c"]
        assert only(base, [{"k": 2, "t": "x"}, "b", "c"], ["b", "c"])[:2] == ("edit/remove", "[0]")

    def test_an_item_that_was_moved_is_changed_where_it_is_now(self):
        item, changed = {"k": 1, "a": "long enough to be known"}, {"k": 2, "a": "long enough to be known"}
        assert clean([item, "b", "c"], ["b", "c", item], [changed, "b", "c"]) == ["b", "c", changed]
        assert clean([item, "b", "c"], ["b", "c", item], ["b", "c"]) == ["b", "c"]

    def test_both_moved_one_item_elsewhere(self):
        assert only(list("abcde"), list("bcdea"), list("bcade"))[:2] == ("order", "")

    def test_a_conflict_beside_a_moved_item_is_about_the_whole_list(self):
        kind, path, *_ = only({"l": list("abcdefg")}, {"l": list("bcodefga")}, {"l": list("abctdefg")})
        assert (kind, path) == ("order", "l")

    def test_an_edit_of_what_was_moved_to_where_both_appended_is_not_lost(self):
        item, changed = {"k": 1, "a": "long enough to be known"}, {"k": 2, "a": "long enough to be known"}
        for theirs in ([changed, "b", "c", "t"], [item, "b", "c", item]):
            assert only([item, "b", "c"], ["b", "c", item], theirs)[0] == "order"

    def test_a_deque_grows_like_a_list_unless_it_has_a_limit(self):
        assert clean(deque("a"), deque("ao"), deque("at")) == deque("aot")
        assert only(deque("a", 2), deque("ao", 2), deque("at", 2))[:2] == ("edit/edit", "")

    def test_a_tuple_is_merged_by_position_and_does_not_grow(self):
        assert clean((1, 2), (5, 2), (1, 7)) == (5, 7)
        assert only((1,), (1, 2), (1, 3))[0] == "edit/edit"


class TestItemsWithAnId:
    def test_each_is_merged_with_itself_wherever_it_stands(self):
        base = [item(1, x=1, y=1), item(2)]
        ours, theirs = [item(2), item(1, x=2, y=1)], [item(1, x=1, y=2), item(2)]
        assert clean(base, ours, theirs) == [item(2), item(1, x=2, y=2)]

    def test_what_both_added_in_one_place_is_ours_and_then_theirs(self):
        base = [item(1), item(2)]
        ours, theirs = [item(1), item(10), item(2)], [item(1), item(20), item(2), item(21)]
        assert [each["id"] for each in clean(base, ours, theirs)] == [1, 10, 20, 2, 21]

    def test_an_equal_item_that_both_added_is_one_item(self):
        assert clean([], [item(1, a=1)], [item(1, a=1), item(2)]) == [item(1, a=1), item(2)]
        assert clean(["x"], ["x", item(1, a=1)], ["x", item(1, a=1), "t"]) == ["x", item(1, a=1), "t"]

    @pytest.mark.parametrize("first", [item(0), "a list that is not all of items with an id"])
    @pytest.mark.parametrize("theirs", [item(1, b=1), item(1, a=2), item(1, a=1, b=1)])
    def test_an_id_that_both_gave_to_a_new_item_is_a_conflict_of_the_items(self, first, theirs):
        found = only([first], [first, item(1, a=1)], [first, theirs])
        assert found == ("add/add", "[1]", ABSENT, item(1, a=1), theirs)

    def test_a_change_of_what_the_other_removed(self):
        base = [item(1, a=1), item(2)]
        kind, path, _, ours, theirs = only(base, [item(2)], [item(1, a=2), item(2)])
        assert (kind, path, ours, theirs) == ("remove/edit", "[0]", ABSENT, item(1, a=2))
        assert merged(base, [item(2)], [item(1, a=2), item(2)], "theirs").value == [item(1, a=2), item(2)]

    def test_orders_that_contradict_each_other(self):
        base = [item(1), item(2), item(3)]
        assert only(base, [item(3), item(1), item(2)], [item(2), item(1), item(3)])[:2] == ("order", "")
        assert clean(base, base[::-1], [*base[::-1], item(4)]) == [*base[::-1], item(4)]

    def test_ids_that_are_there_twice_say_nothing(self):
        assert clean([item(1)], [item(1), item(1)], [item(1)]) == [item(1), item(1)]


class TestTexts:
    def test_lines_apart_are_both_changed(self):
        assert clean("a\nb\nc\nd\n", "A\nb\nc\nd\n", "a\nb\nc\nD\ne\n") == "A\nb\nc\nD\ne\n"

    def test_lines_beside_each_other_are_a_conflict_of_the_whole_text(self):
        assert only({"t": "a\nb\nc"}, {"t": "a\nB\nc"}, {"t": "a\nb\nC"})[:3] == ("edit/edit", "t", "a\nb\nc")

    def test_lines_that_both_appended_are_a_conflict(self):
        assert only("a\n", "a\no\n", "a\nt\n")[0] == "edit/edit"

    def test_half_a_surrogate_pair_makes_a_text_one_thing(self):
        assert only("a\nb\nc\ud800", "A\nb\nc\ud800", "a\nb\nC\ud800")[0] == "edit/edit"


class TestSets:
    @pytest.mark.parametrize("kind", [set, frozenset])
    def test_members_come_and_go(self, kind):
        result = clean(kind({1, 2}), kind({1, 2, 3}), kind({2, 4}))
        assert (result, type(result)) == (kind({2, 3, 4}), kind)

    def test_members_that_python_takes_for_one_are_a_conflict(self):
        assert only(set(), {1}, {True})[0] == "edit/edit"


class TestObjects:
    def test_fields_are_merged(self):
        base = Plan("win", ["a"])
        assert clean(base, Plan("win", ["a", "o"]), Plan("draw", ["a", "t"])) == Plan("draw", ["a", "o", "t"])

    def test_a_field_that_both_changed(self):
        assert only(Plan("a", []), Plan("b", []), Plan("c", []))[:2] == ("edit/edit", "goal")

    def test_what_a_model_was_told_is_merged(self):
        result = clean(Model(a=1), Model(a=1, c=2), Model(a=1, b=3))
        assert result == Model(a=1, b=3, c=2)
        assert result.model_fields_set == {"a", "b", "c"}
        # Written as if it had been made so: all fields were set, which needs no list of them.
        base, ours, theirs = (
            Opaque("M", 1, {"a": 1, "b": n, "c": m}, {"set": ["a", *more]}) for n, m, more in SET
        )
        assert merge_values([base], ours, theirs, TYPES).value == Opaque(
            "M", 1, {"a": 1, "b": 3, "c": 2}, None
        )
        assert clean(Model(), Model(c=2), Model(b=3)).model_fields_set == {"b", "c"}
