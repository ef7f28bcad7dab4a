"""Comparing checkpoints through sessions and stores, on every backend."""

from __future__ import annotations

from dataclasses import dataclass

import jsonpatch
import pytest

import holdfast
from holdfast import InvalidInputError, NotFoundError
from holdfast.reports import Diff


@dataclass
class Plan:
    goal: str
    done: bool = False


def told(diff):
    return [(change.op, change.path) for change in diff]


def test_the_newest_checkpoint_is_compared_with_the_one_before(session):
    session.save({"score": 0.41, "messages": ["a"]})
    session.save({"score": 0.63, "messages": ["a", "b"]})
    diff = session.diff()
    assert isinstance(diff, Diff)
    assert told(diff) == [("replace", "score"), ("add", "messages[1]")]
    assert diff.summary() == "+1 message, score 0.41 to 0.63"
    assert not session.diff("@", "@")


def test_refs_and_checkpoints_of_any_session_can_be_compared(store, session):
    one = session.save({"n": 1})
    session.save({"n": 2})
    other = store.session("other").save({"n": 3})
    assert told(session.diff("#1", "#2")) == [("replace", "n")]
    assert session.diff(one, other).changes[0].new == 3
    assert store.diff(other, one).changes[0].new == 1
    assert store.diff(one, one).changes == ()


def test_a_part_can_be_compared_alone(session):
    session.save({"a": {"x": 1}, "b": 1})
    session.save({"a": {"x": 2, "y": 3}, "b": 2})
    assert told(session.diff(path="a")) == [("replace", "a.x"), ("add", "a.y")]
    assert told(session.diff(path="a.y")) == [("add", "a.y")]
    assert session.diff(path="a.x").json_patch() == [{"op": "replace", "path": "", "value": 2}]
    with pytest.raises(NotFoundError):
        session.diff(path="a.z")
    with pytest.raises(InvalidInputError):
        session.diff(path="a[")


def test_a_store_compares_checkpoints_only(store, session):
    made = session.save({"n": 1})
    with pytest.raises(InvalidInputError):
        store.diff("@", made)


def test_registered_classes_come_back_and_unknown_ones_are_no_obstacle(store, session):
    store.register(Plan)
    session.save({"plan": Plan("a")})
    session.save({"plan": Plan("b", done=True)})
    assert told(session.diff()) == [("replace", "plan.goal"), ("replace", "plan.done")]
    unknowing = holdfast.Store(store._backend).session("s")
    assert told(unknowing.diff()) == [("replace", "plan.goal"), ("replace", "plan.done")]
    old, new = store.json_form(session.load("@-")), store.json_form(session.load())
    assert old["plan"]["$name"] == "Plan"
    assert jsonpatch.apply_patch(old, session.diff().json_patch()) == new


def test_looking_at_a_difference_does_not_move_what_the_next_save_expects(store, session):
    session.save({"n": 1})
    session.save({"n": 2})
    looking = store.session("s")
    looking.diff()
    session.save({"n": 3})
    assert looking.seen is None


def test_a_label_is_the_message_or_what_changed(session):
    session.save({"n": 1})
    session.save({"n": 2}, "two at last")
    session.save({"n": 3, "list": [1]})
    session.save({"n": 3, "list": [1]})
    assert [session.label(f"#{number}") for number in (1, 2, 3, 4)] == [
        "first state",
        "two at last",
        "n 2 to 3, +list",
        "no change",
    ]
    session.annotate("#3", message="named since")
    assert session.label("#3") == "named since"
    session.save({"n": 3, "list": [1]}, trigger="scheduled")
    assert session.label() == "scheduled"
