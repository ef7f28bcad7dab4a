"""`load(as_=T)`: a plain value made into the type the caller asks for, or a clear error."""

from __future__ import annotations

import dataclasses
import enum
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Protocol,
    TypedDict,
    Union,
)

import attrs
import pydantic
import pytest

from holdfast import ErrorCode, StateError
from holdfast.objects.codec.convert import build
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import TypeRegistry

TYPES = TypeRegistry()


class Status(enum.Enum):
    OPEN = "open"
    DONE = "done"


@dataclasses.dataclass
class Step:
    name: str
    status: Status = Status.OPEN
    cost: float = 0.0
    count: int = dataclasses.field(default=0, init=False)


@dataclasses.dataclass
class Plan:
    goal: str
    steps: list[Step] = dataclasses.field(default_factory=list)
    by_name: dict[str, Step] = dataclasses.field(default_factory=dict)
    parent: Plan | None = None
    pair: tuple[int, Step] | None = None
    many: tuple[Step, ...] = ()
    tags: set[str] = dataclasses.field(default_factory=set)
    anything: Any = None
    mode: Literal["fast", "slow"] = "fast"


@attrs.define
class Tool:
    _name: str
    steps: list[Step] = attrs.field(factory=list)
    made: int = attrs.field(default=0, init=False)


class Pair(NamedTuple):
    left: Step
    right: Step | None = None


class Message(pydantic.BaseModel):
    role: str
    n: int = 0


UserId = NewType("UserId", str)


def mismatch(value: Any, as_: Any) -> StateError:
    with pytest.raises(StateError) as caught:
        build(value, as_, TYPES)
    assert caught.value.code is ErrorCode.TYPE_MISMATCH
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    "value", [Plan("x"), Tool("x"), Pair(Step("a")), Message(role="r"), Status.OPEN, {"a": 1}]
)
def test_what_is_one_already_stays_the_same_object(value):
    assert build(value, type(value), TYPES) is value


def test_a_dict_becomes_a_dataclass_with_everything_in_it():
    plain = {
        "goal": "win",
        "steps": [{"name": "a", "status": "done", "cost": 1}, {"name": "b", "count": 4}],
        "by_name": {"c": {"name": "c", "status": "OPEN"}},
        "parent": {"goal": "outer"},
        "pair": (1, {"name": "p"}),
        "many": ({"name": "m"}, {"name": "n"}),
        "tags": {"x"},
        "anything": {"goal": 3},
        "mode": "slow",
    }
    built = build(plain, Plan, TYPES)
    four = Step("b")
    four.count = 4
    assert built == Plan(
        "win",
        steps=[Step("a", Status.DONE, 1), four],
        by_name={"c": Step("c")},
        parent=Plan("outer"),
        pair=(1, Step("p")),
        many=(Step("m"), Step("n")),
        tags={"x"},
        anything={"goal": 3},
        mode="slow",
    )
    assert built.steps[1].count == 4


def test_other_kinds_of_classes_are_built_too():
    tool = build({"_name": "t", "steps": [{"name": "a"}], "made": 3}, Tool, TYPES)
    assert (tool._name, tool.steps, tool.made) == ("t", [Step("a")], 3)
    assert build({"left": {"name": "l"}}, Pair, TYPES) == Pair(Step("l"))
    assert build({"role": "r", "n": "3"}, Message, TYPES) == Message(role="r", n=3)
    assert build("done", Status, TYPES) is Status.DONE
    assert build("DONE", Status, TYPES) is Status.DONE


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        ([{"name": "a"}], list[Step], [Step("a")]),
        ({"k": {"name": "a"}}, dict[str, Step], {"k": Step("a")}),
        ({1: "x"}, dict[int, str], {1: "x"}),
        (None, Step | None, None),
        (None, None, None),
        ({"name": "a"}, Optional[Step], Step("a")),  # noqa: UP045 - both spellings are meant
        ({"name": "a"}, Union[int, Step], Step("a")),  # noqa: UP007 - the same
        (3, Step | int, 3),
        (3, float, 3),
        (3, Annotated[int, "positive"], 3),
        ("u", UserId, "u"),
        ([1], Any, [1]),
        ([1], object, [1]),
        ([1], list, [1]),
        (frozenset([1]), frozenset[int], frozenset([1])),
    ],
)
def test_hints_of_all_kinds_are_followed(value, hint, expected):
    built = build(value, hint, TYPES)
    assert built == expected
    assert type(built) is type(expected)


@pytest.mark.parametrize(
    ("value", "hint", "path"),
    [
        ([], Plan, "state"),
        (3, Plan, "state"),
        ({"goal": 3}, Plan, "state['goal']"),
        ({}, Plan, "state"),
        ({"goal": "x", "more": 1}, Plan, "state"),
        ({"goal": "x", "steps": [{"name": "a"}, {"name": 2}]}, Plan, "state['steps'][1]['name']"),
        ({"goal": "x", "steps": {"a": 1}}, Plan, "state['steps']"),
        (
            {"goal": "x", "by_name": {"c": {"name": "c", "status": "lost"}}},
            Plan,
            "state['by_name']['c']['status']",
        ),
        ({"goal": "x", "pair": (1, {"name": "p"}, 3)}, Plan, "state['pair']"),
        ({"goal": "x", "mode": "other"}, Plan, "state['mode']"),
        ({"role": "r", "n": "many"}, Message, "state"),
        ("lost", Status, "state"),
        ("3", int, "state"),
        (True, int, "state"),
        ((1, 2), list[int], "state"),
        ({1: 2}, dict[str, int], "state<key 1>"),
        (["x"], tuple[str, ...], "state"),
        (Opaque("Plan", 9, {}), Plan, "state"),
    ],
)
def test_what_does_not_fit_is_an_error_with_a_path(value, hint, path):
    error = mismatch(value, hint)
    assert error.details["path"] == path


def test_an_opaque_record_says_which_type_it_is_of():
    assert "'Plan' (version 9)" in str(mismatch(Opaque("Plan", 9, {}), Plan))


def test_the_class_s_own_checks_run_for_a_plain_value():
    @dataclasses.dataclass
    class Checked:
        a: int

        def __post_init__(self) -> None:
            if self.a < 0:
                raise KeyError("a must not be negative")

    assert build({"a": 1}, Checked, TYPES) == Checked(1)
    error = mismatch({"a": -1}, Checked)
    assert "must not be negative" in str(error)


def test_hints_that_cannot_be_resolved_are_no_obstacle():
    @dataclasses.dataclass
    class Loose:
        a: Nowhere  # type: ignore[name-defined]  # noqa: F821

    assert build({"a": 1}, Loose, TYPES) == Loose(1)


class Movie(TypedDict):
    name: str
    steps: NotRequired[list[Step]]


class Named(Protocol):
    name: str


def test_the_values_of_a_typed_dict_are_built():
    assert build({"name": "x", "steps": [{"name": "a"}]}, Movie, TYPES) == {"name": "x", "steps": [Step("a")]}
    assert mismatch({"name": 3}, Movie).details["path"] == "state['name']"
    assert "no key 'name'" in str(mismatch({}, Movie))


def test_what_cannot_be_checked_is_taken_as_it_is():
    as_: Any = Named
    assert build({"name": "x"}, as_, TYPES) == {"name": "x"}


def test_a_value_that_is_too_deep_is_an_error():
    value: Any = {"goal": "x"}
    for _ in range(3000):
        value = {"goal": "x", "parent": value}
    mismatch(value, Plan)
