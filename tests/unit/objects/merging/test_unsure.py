"""What follows from several ancestors together, and what from one that is not the last."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from holdfast.objects.merging.conflict import ABSENT
from holdfast.objects.merging.states import merge_unsurely
from holdfast.objects.registry import TypeRegistry


@dataclass
class Plan:
    goal: str
    steps: int


class Model(BaseModel):
    a: int = 0
    b: int = 0


TYPES = TypeRegistry()
TYPES.register(Plan)
TYPES.register(Model)


def merged(bases, ours, theirs, *, exact=True, resolve=None):
    return merge_unsurely(bases, ours, theirs, TYPES, resolve, exact=exact)


def told(result):
    return {each.path: (each.kind, each.base, each.ours, each.theirs) for each in result.conflicts}


def test_what_the_ancestors_agree_on_is_merged_as_always():
    result = merged(
        [{"a": 1, "b": 1, "k": 0}, {"a": 1, "b": 1, "k": 9}],
        {"a": 2, "b": 1, "k": 5},
        {"a": 1, "b": 2, "k": 5},
    )
    assert (result.value, result.conflicts) == ({"a": 2, "b": 2, "k": 5}, ())


def test_what_one_of_them_says_and_another_does_not_is_a_conflict():
    result = merged([{"x": 1}, {"x": 2}], {"x": 1}, {"x": 2})
    assert told(result) == {"x": ("edit/edit", 1, 1, 2)}
    assert merged([{"x": 1}, {"x": 2}], {"x": 1}, {"x": 2}, resolve="theirs").value == {"x": 2}
    assert merged([{"x": 1}, {"x": 2}], {"x": 1}, {"x": 2}, resolve=lambda c: c.ours).value == {"x": 1}


@pytest.mark.parametrize(
    ("bases", "ours", "theirs", "expected"),
    [
        ([{"x": 1}, {}], {}, {"x": 1}, ("remove/edit", 1, ABSENT, 1)),
        ([{}, {"x": 1}], {}, {"x": 1}, ("remove/edit", ABSENT, ABSENT, 1)),
        ([{"x": 1}, {}], {"x": 1}, {}, ("edit/remove", 1, 1, ABSENT)),
        ([{"x": 1}, {}], {"x": 2}, {"x": 3}, ("edit/edit", 1, 2, 3)),
        ([{"x": 1}, {"x": "1"}], {"x": 1}, {"x": "1"}, ("type", 1, 1, "1")),
        ([{"x": (1, 2)}, {"x": (1,)}], {"x": (1, 2)}, {"x": (1,)}, ("edit/edit", (1, 2), (1, 2), (1,))),
        ([{"x": {1}}, {"x": {2}}], {"x": {1}}, {"x": {2}}, ("edit/edit", {1}, {1}, {2})),
        ([{"x": [1]}, {"x": [2]}], {"x": [1]}, {"x": [2]}, ("edit/edit", [1], [1], [2])),
    ],
    ids=str,
)
def test_a_conflict_says_what_it_is(bases, ours, theirs, expected):
    assert told(merged(bases, ours, theirs)) == {"x": expected}


@pytest.mark.parametrize(
    ("bases", "ours", "theirs", "path"),
    [
        ([Plan("a", 1), Plan("b", 1)], Plan("a", 1), Plan("b", 2), "goal"),
        ([(1, 5), (2, 5)], (1, 5), (2, 6), "[0]"),
        ([{1: 1, 2: 5}, {1: 2, 2: 5}], {1: 1, 2: 5}, {1: 2, 2: 6}, "{1}"),
        ([Counter(a=1, b=5), Counter(a=2, b=5)], Counter(a=1, b=5), Counter(a=2, b=6), "a"),
        (
            [{"p": {"q": 1, "r": 5}}, {"p": {"q": 2, "r": 5}}],
            {"p": {"q": 1, "r": 5}},
            {"p": {"q": 2, "r": 6}},
            "p.q",
        ),
        (
            [[{"id": 7, "t": 1}, {"id": 8, "t": 5}], [{"id": 7, "t": 2}, {"id": 8, "t": 5}]],
            [{"id": 7, "t": 1}, {"id": 8, "t": 5}],
            [{"id": 7, "t": 2}, {"id": 8, "t": 6}],
            "[0].t",
        ),
    ],
    ids=str,
)
def test_containers_are_taken_apart_and_the_rest_of_them_is_merged(bases, ours, theirs, path):
    result = merged(bases, ours, theirs)
    assert [each.path for each in result.conflicts] == [path]
    # Ours stands in the place of the conflict, and everything else is there.
    whole = merged(bases, ours, theirs, resolve="theirs")
    assert whole.value == theirs
    assert type(whole.value) is type(theirs)


def test_lists_and_texts_are_merged_where_all_ancestors_say_the_same():
    assert merged([[1, 2], [1]], [1, 2], [1, 2, 3]).value == [1, 2, 3]
    assert merged([{1, 2}, {1}], {1, 2}, {1, 2, 3}).value == {1, 2, 3}
    text = merged(["a\nb\nc", "a\nb\nC"], "A\nb\nc", "A\nb\nC")
    assert [each.kind for each in text.conflicts] == ["edit/edit"]


def test_items_in_another_order_are_a_conflict_if_the_ancestors_do_not_agree():
    one, two = [{"id": 1}, {"id": 2}], [{"id": 2}, {"id": 1}]
    assert told(merged([one, two], one, two)) == {"": ("edit/edit", one, one, two)}
    assert told(merged([one], one, two, exact=False)) == {"": ("edit/edit", one, one, two)}


def test_keys_that_would_become_one_are_not_merged():
    result = merged([{1: "a", "k": 0}, {2: "a", "k": 0}], {1: "a", "k": 0}, {True: "b", "k": 0})
    assert [each.path for each in result.conflicts] == [""]


def test_which_fields_of_a_model_were_set_follows_along():
    result = merged([Model(a=1), Model(a=3)], Model(a=5), Model(a=5, b=2))
    assert (result.value, result.value.model_fields_set) == (Model(a=5, b=2), {"a", "b"})
    old = merged([Model()], Model(a=1), Model(b=2), exact=False, resolve={"a": "ours", "b": "theirs"})
    assert (old.value, old.value.model_fields_set) == (Model(a=1, b=2), {"a", "b"})


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_with_an_ancestor_that_is_too_old_nothing_is_taken_for_unchanged(kind):
    base, ours, theirs = kind(a=1, b=1, c=1), kind(a=1, b=2, c=3), kind(a=2, b=1, c=3, d=4)
    result = merged([base], ours, theirs, exact=False)
    assert told(result) == {
        "a": ("edit/edit", 1, 1, 2),
        "b": ("edit/edit", 1, 2, 1),
        "d": ("remove/edit", ABSENT, ABSENT, 4),
    }
    assert merged([base], ours, theirs, exact=False, resolve="theirs").value == theirs


def test_an_old_ancestor_that_has_something_else_there_is_no_hindrance():
    result = merged([5], {"a": 1, "b": 1}, {"a": 1, "b": 2}, exact=False)
    assert told(result) == {"b": ("add/add", ABSENT, 1, 2)}
    # Of several that count, all must be able to say something.
    assert [each.path for each in merged([5, {"a": 1}], {"a": 1, "b": 1}, {"a": 1, "b": 2}).conflicts] == [""]


def test_items_with_an_id_keep_the_place_that_each_side_gave_them():
    ours = [{"id": 1}, {"id": 5}, {"id": 2}]
    theirs = [{"id": 1}, {"id": 2}, {"id": 6}]
    result = merged([[{"id": 1}, {"id": 2}]], ours, theirs, exact=False)
    assert {path: kind for path, (kind, *_) in told(result).items()} == {
        "[1]": "edit/remove",
        "[2]": "remove/edit",
    }
    kept = merged(
        [[{"id": 1}, {"id": 2}]],
        ours,
        theirs,
        exact=False,
        resolve=lambda c: c.theirs if c.ours is ABSENT else c.ours,
    )
    assert kept.value == [{"id": 1}, {"id": 5}, {"id": 2}, {"id": 6}]


@pytest.mark.parametrize(
    ("bases", "exact"),
    [
        ([[{"id": 1}], [{"id": 1}, {"id": 3}]], True),
        # One of them has it as it is on our side: to that one it is an edit of theirs.
        ([[{"id": 1}], [{"id": 1}, {"id": 2, "a": 1}]], True),
        ([[{"id": 1}]], False),
    ],
)
def test_an_id_that_is_new_to_an_ancestor_and_that_both_gave_is_a_conflict_of_the_items(bases, exact):
    ours, theirs = [{"id": 1}, {"id": 2, "a": 1}], [{"id": 1}, {"id": 2, "a": 1, "b": 1}]
    result = merged(bases, ours, theirs, exact=exact)
    assert told(result) == {"[1]": ("add/add", ABSENT, ours[1], theirs[1])}
    for side, wanted in (("ours", ours), ("theirs", theirs)):
        assert merged(bases, ours, theirs, exact=exact, resolve=side).value == wanted
    assert merged(bases, ours, ours, exact=exact).value == ours
