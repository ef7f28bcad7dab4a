"""The registry: what can be registered, under which names, and who sees it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
from collections import deque
from typing import Any

import pydantic
import pytest
from tests.unit.objects.samples import SAMPLES, Matrix, Step

from holdfast import ErrorCode, InvalidInputError
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import GLOBAL, TypeRegistry, can_register, register


def refusal(cls: Any, **options: Any) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        TypeRegistry().register(cls, **options)
    assert caught.value.hint
    return caught.value


def new_class(module: str = "app", name: str = "Plan", *, field: str = "a") -> Any:
    made = dataclasses.make_dataclass(name, [(field, int)])
    made.__module__ = module
    return made


def test_the_name_is_the_qualified_name_without_the_functions_around_it():
    @dataclasses.dataclass
    class Outer:
        @dataclasses.dataclass
        class Inner:
            a: int

    types = TypeRegistry()
    types.register(Outer.Inner)
    assert types.by_name("Outer.Inner").cls is Outer.Inner  # type: ignore[union-attr]
    assert types.by_class(Outer.Inner).name == "Outer.Inner"  # type: ignore[union-attr]
    assert types.by_class(Outer) is None
    assert types.by_name("Outer") is None


def test_two_classes_cannot_share_a_name():
    types = TypeRegistry()
    types.register(new_class("one"))
    with pytest.raises(InvalidInputError) as caught:
        types.register(new_class("two"))
    assert caught.value.code is ErrorCode.TYPE_NAME_TAKEN
    assert "one.Plan" in str(caught.value)
    assert "two.Plan" in str(caught.value)
    types.register(new_class("two"), name="other.Plan")


def test_the_same_class_defined_again_replaces_the_old_one():
    types = TypeRegistry()
    old, new = new_class(), new_class()
    types.register(old)
    types.register(new)
    assert type(decode_value(encode_value(new(1), types), types)) is new
    # An instance from before the cell was run again can still be saved; it comes back as the new class.
    assert type(decode_value(encode_value(old(1), types), types)) is new


def test_a_class_under_a_new_name_is_still_found_under_its_old_one():
    types = TypeRegistry()
    types.register(Step, name="old")
    body = encode_value(Step("a", 1), types)
    types.register(Step, name="new")
    assert decode_value(body, types) == Step("a", 1)
    assert types.by_class(Step).name == "new"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "cls",
    [
        int,
        str,
        list,
        dict,
        tuple,
        set,
        bytes,
        bytearray,
        type(None),
        dt.datetime,
        deque,
        decimal.Decimal,
        Opaque,
    ],
)
def test_what_is_saved_as_it_is_cannot_be_registered(cls):
    assert refusal(cls).code is ErrorCode.BAD_ARGUMENT
    assert refusal(cls, encode=repr, decode=str).code is ErrorCode.BAD_ARGUMENT


class Bare:
    pass


@dataclasses.dataclass
class Listed(list):
    a: int = 1


class Failure(Exception):
    pass


@pytest.mark.parametrize("cls", [Bare, Listed, Failure, object, type])
def test_a_class_of_no_known_kind_needs_functions(cls):
    error = refusal(cls)
    assert error.code is ErrorCode.BAD_ARGUMENT
    assert "encode= and decode=" in error.hint
    assert not can_register(cls)


def test_a_class_of_any_kind_can_have_functions():
    types = TypeRegistry()
    types.register(Listed, encode=lambda value: [value.a, *value], decode=lambda data: data)
    types.register(Failure, encode=str, decode=Failure)
    types.register(Step, encode=lambda step: step.name, decode=lambda name: Step(name, None))
    value = Listed(a=2)
    value.append(3)
    assert decode_value(encode_value(value, types), types) == [2, 3]
    assert decode_value(encode_value([Step("x", 1)], types), types) == [Step("x", None)]
    assert str(decode_value(encode_value(Failure("why"), types), types)) == "why"


@pytest.mark.parametrize("options", [{"encode": str}, {"decode": str}])
def test_one_function_without_the_other_is_refused(options):
    assert "pass both" in refusal(Step, **options).hint


@pytest.mark.parametrize(
    "options",
    [{"version": 0}, {"version": -1}, {"version": "2"}, {"version": True}, {"name": ""}, {"name": 3}],
)
def test_a_strange_name_or_version_is_refused(options):
    assert refusal(Step, **options).code is ErrorCode.BAD_ARGUMENT


@pytest.mark.parametrize("thing", [Step("a", 1), "Step", None, print, 3])
def test_only_classes_can_be_registered(thing):
    assert "only a class" in str(refusal(thing))


@pytest.mark.parametrize("cls", SAMPLES)
def test_every_known_kind_can_be_registered_by_itself(cls):
    assert can_register(cls)


class TestChildren:
    def test_a_child_sees_what_its_parent_has_and_learns(self):
        parent = TypeRegistry()
        child = parent.child()
        parent.register(Step)
        assert child.by_class(Step) is parent.by_class(Step)
        assert child.by_name("Step") is parent.by_name("Step")

    def test_a_parent_does_not_see_what_its_child_has(self):
        parent = TypeRegistry()
        child = parent.child([Step])
        assert child.by_class(Step) is not None
        assert parent.by_class(Step) is None

    def test_a_class_that_the_parent_has_keeps_its_name_and_version(self):
        parent = TypeRegistry()
        parent.register(Step, name="step", version=4)
        child = parent.child([Step])
        entry = child.by_class(Step)
        assert entry is not None
        assert (entry.name, entry.version) == ("step", 4)
        assert child.by_name("Step") is None

    def test_a_name_of_the_parent_is_taken(self):
        parent = TypeRegistry()
        parent.register(new_class("one"))
        with pytest.raises(InvalidInputError) as caught:
            parent.child([new_class("two")])
        assert caught.value.code is ErrorCode.TYPE_NAME_TAKEN

    def test_a_name_that_the_parent_takes_later_is_noticed_when_it_would_matter(self):
        parent = TypeRegistry()
        child = parent.child([new_class("one")])
        later = new_class("two")
        parent.register(later)
        with pytest.raises(InvalidInputError) as caught:
            encode_value(later(1), child)
        assert caught.value.code is ErrorCode.TYPE_NAME_TAKEN
        assert type(decode_value(encode_value(later(1), parent), parent)) is later


class TestOtherNames:
    def test_a_class_that_gives_way_is_stored_as_the_parent_has_it_once_it_has(self):
        parent, cls = TypeRegistry(), new_class("one")
        child = parent.child()
        child.register(cls, name="one.met")
        child.give_way(cls)
        before = encode_value(cls(1), child)
        assert decode_value(before, TypeRegistry()).name == "one.met"
        parent.register(cls)
        after = encode_value(cls(1), child)

        assert decode_value(after, TypeRegistry()).name == parent.by_class(cls).name  # type: ignore[union-attr]
        assert decode_value(before, child) == decode_value(after, child) == cls(1)

    def test_a_class_that_does_not_give_way_stays_as_it_is(self):
        parent, cls = TypeRegistry(), new_class("one")
        child = parent.child()
        child.register(cls, name="mine")
        parent.register(cls)

        assert child.by_class(cls).name == "mine"  # type: ignore[union-attr]

    def test_another_name_is_a_class_s_only_until_one_has_it_for_its_own(self):
        parent, one, two = TypeRegistry(), new_class("one"), new_class("two")
        child = parent.child()
        child.register(one, name="first")
        stored = encode_value(Opaque("other", 1, {"a": 1}), child)
        assert child.adopt("other", one)
        assert decode_value(stored, child) == one(1)
        parent.register(two, name="other")

        assert decode_value(stored, child) == two(1)
        assert type(decode_value(encode_value(two(2), child), child)) is two

    def test_nothing_is_adopted_that_is_not_registered(self):
        types, cls = TypeRegistry(), new_class("one")
        assert not types.adopt("other", cls)
        types.replace(cls, repr)
        assert not types.adopt("other", cls)
        assert not types.adopt("one.nothing")


class TestDecorator:
    @pytest.fixture(autouse=True)
    def _forget(self, monkeypatch):
        monkeypatch.setattr(GLOBAL, "_by_name", dict(GLOBAL._by_name))
        monkeypatch.setattr(GLOBAL, "_by_class", dict(GLOBAL._by_class))

    def test_it_works_with_and_without_arguments(self):
        @register
        @dataclasses.dataclass
        class One:
            a: int

        @register()
        @dataclasses.dataclass
        class Two:
            a: int

        @register(name="drei", version=3, upgrade=lambda data, version: data)
        class Three(enum.Enum):
            A = 1

        @register(encode=lambda bare: None, decode=lambda data: Four())
        class Four:
            pass

        for value in (One(1), Two(2), Three.A):
            assert decode_value(encode_value(value, GLOBAL), GLOBAL) == value
        assert isinstance(decode_value(encode_value(Four(), GLOBAL), GLOBAL), Four)
        assert GLOBAL.by_name("drei").version == 3  # type: ignore[union-attr]

    def test_it_registers_the_class_of_somebody_else_as_a_call(self):
        assert register(Matrix, encode=lambda matrix: matrix.rows, decode=Matrix) is Matrix
        assert decode_value(encode_value(Matrix([1]), GLOBAL), GLOBAL) == Matrix([1])

    def test_below_the_dataclass_decorator_it_says_what_is_wrong(self):
        with pytest.raises(InvalidInputError) as caught:

            @dataclasses.dataclass
            @register
            class Wrong:
                a: int

        assert "above @dataclass" in caught.value.hint

    def test_it_sees_a_model_that_is_not_complete_yet(self):
        @register
        class Node(pydantic.BaseModel):
            children: list[Leaf] = []

        class Leaf(pydantic.BaseModel):
            a: int

        Node.model_rebuild(_types_namespace={"Leaf": Leaf})
        register(Leaf)
        value = Node(children=[Leaf(a=1)])
        assert decode_value(encode_value(value, GLOBAL), GLOBAL) == value
