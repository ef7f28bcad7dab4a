"""Which changes are told, where, and as what: the pairs of values that people argue about."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from enum import Enum

import pytest
from pydantic import BaseModel

from holdfast import Opaque
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diff.diff import diff_values


class Mood(Enum):
    GOOD = 1
    BAD = 2


@dataclass
class Plan:
    goal: str
    steps: list = field(default_factory=list)


class Note(BaseModel):
    text: str = ""
    stars: int = 0


TYPES = TypeRegistry()
for each in (Mood, Plan, Note):
    TYPES.register(each)


def told(old, new):
    """Each change as (op, path, old, new)."""
    return [(c.op, c.path, c.old, c.new) for c in diff_values(old, new, TYPES)]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ({"a": 1}, {"a": 2}, [("replace", "a", 1, 2)]),
        ({"a": 1}, {"a": 1, "b": 2}, [("add", "b", None, 2)]),
        ({"a": 1, "b": 2}, {"a": 1}, [("remove", "b", 2, None)]),
        (1, 2, [("replace", "", 1, 2)]),
        ([1, 2, 3], [1, 3], [("remove", "[1]", 2, None)]),
        ([1, 3], [1, 2, 3], [("add", "[1]", None, 2)]),
        ([1, 2, 3], [1, 5, 3], [("replace", "[1]", 2, 5)]),
        ((1, 2), (1, 3), [("replace", "[1]", 2, 3)]),
        ({1, 2}, {2, 3}, [("remove", "{1}", 1, None), ("add", "{3}", None, 3)]),
        ({1: "a"}, {1: "b"}, [("replace", "{1}", "a", "b")]),
        ({(1, "x"): 0}, {(1, "x"): 1}, [("replace", "{(1, 'x')}", 0, 1)]),
        ({"a b": {"c.d": 0}}, {"a b": {"c.d": 1}}, [("replace", "['a b']['c.d']", 0, 1)]),
        ({"it's": 0}, {"it's": 1}, [("replace", "['it's']", 0, 1)]),
        ({"x']": 0}, {"x']": 1}, [("replace", '["x\']"]', 0, 1)]),
        ([1], (1,), [("replace", "", [1], (1,))]),
        (b"ab", b"ac", [("replace", "", b"ab", b"ac")]),
        (deque([1], 3), deque([1], 4), [("replace", "", deque([1], 3), deque([1], 4))]),
        (Counter("ab"), Counter("abb"), [("replace", "b", 1, 2)]),
        (Mood.GOOD, Mood.BAD, [("replace", "", Mood.GOOD, Mood.BAD)]),
        (Plan("a"), Plan("b"), [("replace", "goal", "a", "b")]),
        ([Plan("a", [1])], [Plan("a", [1, 2])], [("add", "[0].steps[1]", None, 2)]),
        (Plan("a"), {"goal": "a", "steps": []}, [("replace", "", Plan("a"), {"goal": "a", "steps": []})]),
        (Opaque("X", 1, {"n": 1}), Opaque("X", 1, {"n": 2}), [("replace", "n", 1, 2)]),
    ],
)
def test_a_change_is_told_where_and_as_what_it_is(old, new, wanted):
    assert told(old, new) == wanted


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ("", b""),
        ([], ()),
        (None, False),
        (bytearray(b"a"), b"a"),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(list), defaultdict(int)),
        ({1}, frozenset({1})),
    ],
)
def test_what_is_equal_to_python_but_of_another_kind_has_changed(one, other):
    assert [op for op, *_ in told({"x": one}, {"x": other})] == ["replace"]


def test_another_order_of_keys_is_told_as_a_move_and_leaves_the_patch_empty():
    old, new = {"a": 1, "b": 2, "c": 3}, {"c": 3, "a": 1, "b": 2}
    changes = diff_values(old, new, TYPES)
    assert [(c.op, c.path, c.old, c.new) for c in changes] == [("move", "c", 2, 0)]
    assert changes.json_patch() == []


def test_an_item_with_an_id_is_the_same_item_wherever_it_stands():
    old = [{"id": "a", "n": 1}, {"id": "b", "n": 1}, {"id": "c", "n": 1}]
    new = [{"id": "c", "n": 9}, {"id": "a", "n": 1}, {"id": "b", "n": 2}]
    assert told(old, new) == [
        ("move", "[0]", 2, 0),
        ("replace", "[0].n", 1, 9),
        ("replace", "[2].n", 1, 2),
    ]


def test_objects_have_an_identity_too():
    @dataclass
    class Message:
        id: str
        text: str

    types = TYPES.child([Message])
    old, new = [Message("a", "x"), Message("b", "y")], [Message("b", "z")]
    changes = diff_values(old, new, types)
    assert [(c.op, c.path, c.old_path) for c in changes] == [
        ("remove", "[0]", "[0]"),
        ("replace", "[0].text", "[1].text"),
    ]


def test_what_a_model_keeps_beside_its_fields_is_told_and_patched():
    changes = diff_values(Note(text="a"), Note(text="a", stars=0), TYPES)
    assert [(c.op, c.path) for c in changes] == [("remove", "{extra}")]
    (operation,) = changes.json_patch()
    assert operation == {"op": "remove", "path": "/$extra"}


def test_paths_say_where_it_was_and_where_it_is():
    old = {"log": [{"id": 1, "n": [0]}, {"id": 2, "n": [0]}]}
    new = {"log": [{"id": 2, "n": [0, 5]}]}
    removed, added = diff_values(old, new, TYPES)
    assert (removed.path, removed.old_path) == ("log[0]", "log[0]")
    assert (added.path, added.old_path) == ("log[0].n[1]", None)
    assert [tuple(step) for step in added.steps] == [
        ("key", "log"),
        ("index", 0),
        ("key", "n"),
        ("index", 1),
    ]


def test_values_come_back_as_their_class_and_as_data_without_it():
    (change,) = diff_values({"p": None}, {"p": Plan("x")}, TYPES)
    assert change.new == Plan("x")
    assert change.plain("new") == Opaque("Plan", 1, {"goal": "x", "steps": []})
