"""Who decides on conflicts, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.merging.conflict import ABSENT
from holdfast.objects.merging.states import MergedValue, merge_values
from holdfast.objects.registry import TypeRegistry

BASE = {"a": 1, "b": {"x": 1, "y": 1}, "l": ["p", "q"], "odd key": 1}
OURS = {"a": 2, "b": {"x": 2, "y": 2}, "l": ["p", "o", "q"], "odd key": 2}
THEIRS = {"a": 3, "b": {"x": 3, "y": 3}, "l": ["p", "t", "q"], "odd key": 3}


def merged(resolve: Any, base: Any = BASE, ours: Any = OURS, theirs: Any = THEIRS) -> MergedValue:
    return merge_values(base, ours, theirs, TypeRegistry(), resolve)


def test_one_side_decides_on_everything():
    assert merged("ours").value == OURS
    assert merged("theirs").value == THEIRS
    assert {each.how for each in merged("theirs").resolved} == {"theirs"}


def test_a_function_decides_with_a_value():
    result = merged(lambda c: c.ours + c.theirs)
    assert result.value == {"a": 5, "b": {"x": 5, "y": 5}, "l": ["p", "o", "t", "q"], "odd key": 5}
    assert {each.how for each in result.resolved} == {"value"}
    assert not result.conflicts


def test_a_function_is_asked_once_for_each_conflict():
    asked: list[str] = []

    def choose(conflict: Any) -> Any:
        asked.append(conflict.path)
        return conflict.base

    merged(choose)
    assert asked == ["a", "b.x", "b.y", "l[1:2]", "['odd key']"]


def test_a_function_may_leave_a_conflict_open():
    result = merged(lambda c: c if c.path == "a" else c.theirs)
    assert [each.path for each in result.conflicts] == ["a"]
    assert result.value == {**THEIRS, "a": 2}


def test_a_function_may_take_something_away():
    result = merged(lambda c: ABSENT)
    assert result.value == {"b": {}, "l": ["p", "q"]}


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
        ("['odd key']", ["['odd key']"]),
        ('["odd key"]', ["['odd key']"]),
        ("odd key", ["['odd key']"]),
        ("", ["a", "b.x", "b.y", "l[1:2]", "['odd key']"]),
        ("*", ["a", "b.x", "b.y", "l[1:2]", "['odd key']"]),
        ("b.x.deeper", []),
        ("x", []),
        ("l[1]", []),
    ],
)
def test_a_path_stands_for_what_is_there_and_in_it(pattern, decided):
    result = merged({pattern: "theirs"})
    assert [each.conflict.path for each in result.resolved] == decided
    assert len(result.conflicts) == 5 - len(decided)


def test_the_first_path_that_fits_decides():
    result = merged({"b.x": "theirs", "b": lambda c: 7, "a": None, "": "ours"})
    assert result.value == {**OURS, "b": {"x": 3, "y": 7}}
    assert [each.path for each in result.conflicts] == ["a"]


def test_keys_that_are_no_text_can_be_named():
    result = merged({"{1}": "theirs"}, {1: 0, 2: 0}, {1: 1, 2: 1}, {1: 2, 2: 2})
    assert result.value == {1: 2, 2: 1}


@pytest.mark.parametrize("wrong", ["mine", 1, ["ours"], {"a": "base"}, {1: "ours"}, b"ours"])
def test_what_is_no_way_to_decide_is_refused(wrong):
    with pytest.raises(InvalidInputError) as caught:
        merged(wrong)
    assert caught.value.code is ErrorCode.BAD_ARGUMENT


@pytest.mark.parametrize("wrong", ["a..b", ".a", "a[", "a]", "['x"])
def test_what_is_no_path_is_refused(wrong):
    with pytest.raises(InvalidInputError) as caught:
        merged({wrong: "ours"})
    assert caught.value.code is ErrorCode.BAD_PATH


def test_a_value_that_cannot_be_kept_is_refused():
    with pytest.raises(InvalidInputError):
        merged(lambda c: object())


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
