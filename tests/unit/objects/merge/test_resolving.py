"""Who decides on conflicts, and what is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.merge.conflict import ABSENT
from holdfast.objects.merge.states import MergedValue, merge_values

CYCLE: list[Any] = []
CYCLE.append(CYCLE)
SAME = {"deeper": [1]}
BASE = {"a": 1, "b": {"x": 1, "y": 1}, "l": ["p", "q"], "odd key": 1, "same": SAME}
OURS = {"a": 2, "b": {"x": 2, "y": 2}, "l": ["p", "o", "q"], "odd key": 2, "same": SAME}
THEIRS = {"a": 3, "b": {"x": 3, "y": 3}, "l": ["p", "t", "q"], "odd key": 3, "same": SAME}


def merged(resolve: Any, base: Any = BASE, ours: Any = OURS, theirs: Any = THEIRS) -> MergedValue:
    return merge_values([base], ours, theirs, TypeRegistry(), resolve)


def test_a_function_may_leave_a_conflict_open():
    result = merged(lambda c: c if c.path == "a" else c.theirs)
    assert [each.path for each in result.conflicts] == ["a"]
    assert result.value == {**THEIRS, "a": 2}


def test_a_function_may_take_something_away():
    result = merged(lambda c: ABSENT)
    assert result.value == {"b": {}, "l": ["p", "q"], "same": SAME}


@pytest.mark.parametrize(
    ("pattern", "decided"),
    [
        ("a", ["a"]),
        ("b", ["b.x", "b.y"]),
        ("b.x", ["b.x"]),
        ("*.x", ["b.x"]),
        ("b.*", ["b.x", "b.y"]),
        ("l", ["l[1:2]"]),
        ("l[*]", ["l[1:2]"]),
        ("l[1:2]", ["l[1:2]"]),
        ("l[0:3]", ["l[1:2]"]),
        ("l[1:]", ["l[1:2]"]),
        ("l[:]", ["l[1:2]"]),
        ("l[3:3]", []),
        ("l[3:]", []),
        ("['odd key']", ["['odd key']"]),
        ('["odd key"]', ["['odd key']"]),
        ("odd key", ["['odd key']"]),
        ("", ["a", "b.x", "b.y", "l[1:2]", "['odd key']"]),
        ("*", ["a", "b.x", "b.y", "l[1:2]", "['odd key']"]),
        ("*.deeper", []),
        ("x.*", []),
        ("same", []),
        ("same.deeper[0]", []),
        ("l[0]", []),
        ("l[0:1]", []),
    ],
)
def test_a_path_stands_for_what_is_there_and_in_it(pattern, decided):
    result = merged({pattern: "theirs"})
    assert [each.conflict.path for each in result.resolved] == decided
    assert len(result.conflicts) == 5 - len(decided)


@pytest.mark.parametrize(
    "wrong",
    [
        "x",
        "b.z",
        "b.x.deeper",
        "same.deeper[1]",
        "l[9]",
        "l[5:9]",
        "l[3:9]",
        "l[2:1]",
        "b[0:1]",
        "odd keys",
        "{1}",
    ],
)
def test_a_path_that_is_nowhere_is_refused_and_the_conflicts_are_named(wrong):
    with pytest.raises(InvalidInputError) as caught:
        merged({wrong: "theirs", "": "ours"})
    assert caught.value.code is ErrorCode.BAD_ARGUMENT
    assert repr(wrong) in str(caught.value)
    assert "the conflicts are at a, b.x, b.y, l[1:2], ['odd key']" in caught.value.hint
    assert caught.value.details["conflicts"] == ["a", "b.x", "b.y", "l[1:2]", "['odd key']"]


def test_what_was_meant_is_guessed():
    three = ({"notes": {"x": 1}}, {"notes": {"x": 2}}, {"notes": {"x": 3}})
    for typed, meant in (("nots", "notes"), ("notes.y", "notes.x")):
        with pytest.raises(InvalidInputError) as caught:
            merged({typed: "theirs"}, *three)
        assert caught.value.hint == f"did you mean {meant}? the conflict is at notes.x"
    many = [{f"key{number}": side for number in range(9)} for side in range(3)]
    with pytest.raises(InvalidInputError) as caught:
        merged({"something else": "theirs"}, *many)
    assert caught.value.hint == "the conflicts are at key0, key1, key2, key3, key4 and 4 more"


def test_a_path_of_what_one_side_removed_is_somewhere():
    three: tuple[Any, ...] = ({"a": 1, "gone": 1}, {"a": 2}, {"a": 3})
    assert merged({"gone": "ours", "": "ours"}, *three).value == {"a": 2}


@pytest.mark.parametrize("wrong", ["l[1]", "l[1].deeper", "l[1:2].deeper", "l[0:2].deeper"])
def test_an_item_of_a_stretch_cannot_be_decided_on_alone(wrong):
    with pytest.raises(InvalidInputError, match=r"a part of the conflict at l\[1:2\]") as caught:
        merged({wrong: "ours", "": "theirs"})
    assert caught.value.hint == "resolve l[1:2], or the list that it is in"


ROWS = [{"m": [{"id": row, "x": side} for row in range(3)]} for side in range(3)]


@pytest.mark.parametrize(
    ("pattern", "theirs"),
    [
        ("m[0:1]", [0]),
        ("m[0:2].x", [0, 1]),
        ("m[1:]", [1, 2]),
        ("m[:1]", [0]),
        ("m[:]", [0, 1, 2]),
        ("m[02]", [2]),
        ("m[0:2].*", [0, 1]),
    ],
)
def test_a_slice_stands_for_each_item_in_it(pattern, theirs):
    result = merged({pattern: "theirs", "": "ours"}, *ROWS)
    assert [row["id"] for row in result.value["m"] if row["x"] == 2] == theirs
    assert not result.conflicts


def test_a_slice_that_has_a_part_of_a_stretch_is_refused_whatever_else_it_decides():
    between = (["b", "c"], ["our first", "second", "third"], ["theirs", "too"])
    three = [{"l": [{"id": 1, "x": side}, *between[side], "z"]} for side in range(3)]
    (item, stretch) = (each.path for each in merged(None, *three).conflicts)
    assert (item, stretch) == ("l[0].x", "l[1:4]")
    with pytest.raises(InvalidInputError, match=r"a part of the conflict at l\[1:4\]"):
        merged({"l[0:2]": "theirs", "": "ours"}, *three)
    assert merged({"l[0:4]": "theirs", "": "ours"}, *three).value == three[2]


@pytest.mark.parametrize(
    ("pattern", "decides"),
    [
        ("l[0:1]", False),
        ("l[1:2]", True),
        ("l[0:2]", True),
        ("l[1:1]", True),
        ("l[1:]", True),
        ("l[2:]", False),
    ],
)
def test_a_stretch_with_nothing_in_it_is_decided_with_the_item_that_stands_there(pattern, decides):
    three = [{"l": items} for items in (["a", "b", "c"], ["a", "c"], ["a", "X", "Z", "c"])]
    (conflict,) = merged(None, *three).conflicts
    assert conflict.path == "l[1:1]"
    result = merged({pattern: "theirs", "*": "ours"}, *three)
    assert result.value == three[2 if decides else 1]


@pytest.mark.parametrize("path", ["m[-1]", "m[-1].x", "m[-2:]", "m[:-1]", "m[-2:-1].x"])
@pytest.mark.parametrize("three", [ROWS, [ROWS[0]] * 3], ids=["conflicts", "none"])
def test_a_place_counted_from_the_end_is_refused(path, three):
    with pytest.raises(InvalidInputError, match="counts from the end of a list") as caught:
        merged({path: "theirs", "": "ours"}, *three)
    assert caught.value.code is ErrorCode.BAD_PATH
    assert "counted from the beginning" in caught.value.hint


def test_keys_of_any_type_and_fields_are_looked_for():
    three = [{"a": side, "p": {1: 0}, "o": Opaque("Plan", 1, {"goal": 1})} for side in range(3)]
    assert merged({"p{1}": "ours", "o.goal": "ours", "a": "theirs"}, *three).value["a"] == 2
    with pytest.raises(InvalidInputError, match=r"no conflict at 'o\.gaol'"):
        merged({"o.gaol": "ours", "a": "theirs"}, *three)


def test_the_first_path_that_fits_decides():
    result = merged({"b.x": "theirs", "b": lambda c: 7, "a": None, "": "ours"})
    assert result.value == {**OURS, "b": {"x": 3, "y": 7}}
    assert [each.path for each in result.conflicts] == ["a"]


@pytest.mark.parametrize("wrong", ["mine", 1, ["ours"], {"a": "base"}, {1: "ours"}, b"ours"])
def test_what_is_no_way_to_decide_is_refused(wrong):
    with pytest.raises(InvalidInputError) as caught:
        merged(wrong)
    assert caught.value.code is ErrorCode.BAD_ARGUMENT


@pytest.mark.parametrize("wrong", ["a..b", ".a", "a[", "a]", "['x", "a[]", "a[x]", "a[1:2:3]"])
def test_what_is_no_path_is_refused(wrong):
    with pytest.raises(InvalidInputError) as caught:
        merged({wrong: "ours"})
    assert caught.value.code is ErrorCode.BAD_PATH


@pytest.mark.parametrize(
    ("path", "given", "place"),
    [
        ("a", object(), "a"),
        ("b.x", {"k": [1, object()]}, "b.x['k'][1]"),
        ("l", [object()], "l[1:2][0]"),
        ("odd key", {"k": CYCLE}, "['odd key']['k'][0]"),
    ],
)
def test_a_value_that_cannot_be_kept_is_refused_with_its_place_in_the_state(path, given, place):
    with pytest.raises(InvalidInputError) as caught:
        merged({path: lambda c: given})
    assert str(caught.value).startswith(f"{place}: ")
    assert str(caught.value).endswith(", and resolve returned it")
    assert caught.value.details["path"] == place
    assert "state" not in str(caught.value)


class Asking:
    async def __call__(self, conflict: Any) -> Any:
        return conflict.ours


async def ask(conflict: Any) -> Any:
    return conflict.ours


@pytest.mark.parametrize("wrong", [ask, Asking(), partial(ask), lambda c: ask(c) if c else None])
def test_what_has_to_be_awaited_is_refused(wrong):
    for resolve in (wrong, {"a": wrong}):
        with pytest.raises(InvalidInputError, match="this merge is not awaited") as caught:
            merged(resolve)
        assert caught.value.code is ErrorCode.BAD_ARGUMENT
        assert "AsyncSession" in caught.value.hint


def test_a_stretch_of_a_list_must_become_a_list():
    with pytest.raises(InvalidInputError, match=r"l\[1:2\] is a stretch"):
        merged({"l": lambda c: "x"})


def test_the_whole_state_cannot_be_left_out():
    with pytest.raises(InvalidInputError, match="the whole state cannot be left out"):
        merged(lambda c: ABSENT, 1, 2, 3)


def test_an_error_of_the_function_is_its_own():
    def choose(_: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        merged(choose)


def test_a_conflict_says_what_it_is_about():
    (conflict,) = merged({"": "ours", "a": None} | {}, {"a": 1}, {"a": 2}, {"a": None}).conflicts or [None]
    assert conflict is None
    (conflict,) = merged(None, {"a": 1}, {"a": 2}, {"a": None}).conflicts
    assert repr(conflict) == "<MergeConflict type at a: 2 or None>"
    assert conflict.described() == {
        "path": "a",
        "kind": "type",
        "steps": [["key", "a"]],
        "base": 1,
        "ours": 2,
        "theirs": None,
    }
    (conflict,) = merged(None, {"a": 1}, {"a": 2}, {}).conflicts
    assert "theirs" not in conflict.described()
    assert repr(conflict.theirs) == "<absent>"
