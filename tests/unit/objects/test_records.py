"""Objects of registered classes: what is stored of them, and how they come back without running their code."""

from __future__ import annotations

import dataclasses
import enum
import functools
import typing
from collections import namedtuple
from typing import Any, ClassVar, NamedTuple, TypeVar

import attrs
import ormsgpack
import pydantic
import pydantic.dataclasses
import pytest
from tests.unit.objects.samples import (
    TYPES,
    Access,
    Bits,
    Colour,
    Counted,
    Loose,
    Matrix,
    Message,
    Point,
    Ref,
    Step,
)
from tests.values import identical

from holdfast import ErrorCode, StateError
from holdfast.objects.codec import msgpack
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import TypeRegistry

T = TypeVar("T")


def knowing(*classes: type, **options: Any) -> TypeRegistry:
    types = TypeRegistry()
    for cls in classes:
        types.register(cls, **options)
    return types


def round_trip(value: Any, *classes: type) -> Any:
    types = knowing(*classes)
    body = encode_value(value, types)
    back = decode_value(body, types)
    assert identical(back, value)
    assert encode_value(back, types) == body
    return back


def record(name: str, data: Any, *, version: int = 1, extra: Any = None) -> bytes:
    """A state that is one record, as some program may have stored it."""
    return encode_value(Opaque(name, version, data, extra), TypeRegistry())


def failure(body: bytes, types: TypeRegistry) -> StateError:
    with pytest.raises(StateError) as caught:
        decode_value(body, types)
    assert caught.value.hint
    return caught.value


class Loud:
    """Whoever calls its code to load it is heard."""

    calls: ClassVar[list[str]] = []


@dataclasses.dataclass
class LoudData(Loud):
    x: int
    y: int = 5

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Any:
        cls.calls.append("new")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        self.calls.append("post_init")

    def __setattr__(self, name: str, value: Any) -> None:
        self.calls.append("setattr")
        object.__setattr__(self, name, value)


@attrs.define(slots=False)
class LoudAttrs(Loud):
    x: int = attrs.field(converter=int, validator=attrs.validators.instance_of(int))

    def __attrs_post_init__(self) -> None:
        self.calls.append("post_init")


class LoudModel(pydantic.BaseModel):
    x: int
    calls: ClassVar[list[str]] = Loud.calls

    @pydantic.field_validator("x")
    @classmethod
    def check(cls, value: int) -> int:
        cls.calls.append("validator")
        return value

    def model_post_init(self, _context: Any) -> None:
        self.calls.append("post_init")


class LoudTuple(namedtuple("LoudTuple", "x")):  # noqa: PYI024 - the old kind is meant
    __slots__ = ()

    def __new__(cls, x: int) -> Any:
        Loud.calls.append("new")
        return super().__new__(cls, x)


@pytest.mark.parametrize("cls", [LoudData, LoudAttrs, LoudModel, LoudTuple])
def test_loading_runs_none_of_the_class_s_code(cls):
    value = cls(x=3)
    types = knowing(cls)
    body = encode_value([value], types)
    Loud.calls.clear()
    (back,) = decode_value(body, types)
    assert Loud.calls == []
    assert type(back) is cls
    assert back.x == 3


class TestDataclasses:
    def test_fields_that_init_does_not_take_come_back_as_they_were(self):
        counted = Counted([1, 2])
        counted.total = 99
        assert round_trip(counted, Counted).total == 99

    def test_frozen_slotted_inherited_and_keyword_only_ones_come_back(self):
        @dataclasses.dataclass(slots=True)
        class Parent:
            a: int

        @dataclasses.dataclass(slots=True, kw_only=True)
        class Child(Parent):
            b: list[int] = dataclasses.field(default_factory=list)
            c: ClassVar[int] = 1
            d: dataclasses.InitVar[int] = 0

        round_trip([Child(1, b=[2]), Point((), {3})], Child, Point)

    def test_a_slot_that_is_no_field_is_not_lost_in_silence(self):
        class Slotted:
            __slots__ = ("hidden",)

        @dataclasses.dataclass
        class Child(Slotted):
            a: int

        types = knowing(Child)
        value = Child(1)
        round_trip(value, Child)
        value.hidden = 1  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match=r"state\.hidden"):
            encode_value(value, types)

    def test_a_property_over_a_field_runs_no_code(self):
        seen = []

        @dataclasses.dataclass
        class Watched:
            a: int

        def setter(self: Any, value: Any) -> None:
            seen.append(value)
            vars(self)["a"] = value

        value = Watched(1)
        types = knowing(Watched)
        body = encode_value(value, types)
        Watched.a = property(lambda self: vars(self)["a"], setter)  # type: ignore[assignment]
        assert decode_value(body, types).a == 1
        assert seen == []

    def test_a_class_default_stands_for_a_deleted_attribute(self):
        step = Step("a", 1)
        del step.done
        assert decode_value(encode_value(step, TYPES), TYPES).done is False

    def test_one_made_by_pydantic_comes_back(self):
        @pydantic.dataclasses.dataclass
        class Checked:
            a: int
            b: list[int] = dataclasses.field(default_factory=list)

        round_trip(Checked(1, [2]), Checked)


class TestAttrs:
    def test_private_names_factories_and_old_style_come_back(self):
        import attr

        @attr.s
        class Old:
            _a = attr.ib()
            b = attr.ib(factory=list)

        @attrs.define
        class New:
            _a: int
            b: list[int] = attrs.Factory(lambda self: [self._a], takes_self=True)

        types = knowing(Old, New)
        for value in (Old(1), New(2)):
            back = decode_value(encode_value(value, types), types)
            assert back == value
        # The default is made from the object itself, and only for a field that was not stored.
        assert decode_value(record("TestAttrs.x", {"_a": 7}), knowing(New, name="TestAttrs.x")) == New(7)

    def test_a_cached_hash_is_made_again(self):
        value = Ref(5)
        hash(value)
        back = round_trip({value: 1}, Ref)
        assert hash(next(iter(back))) == hash(Ref(5))

        @attrs.frozen(cache_hash=True)
        class Slotted:
            a: int

        hash(Slotted(1))
        back = round_trip(Slotted(1), Slotted)
        assert hash(back) == hash(Slotted(1))


class TestNamedTuples:
    def test_both_kinds_come_back(self):
        class Typed(NamedTuple):
            a: Any
            b: Any = 2

        Plain = namedtuple("Plain", "a b", defaults=[3])  # noqa: PYI024 - the old kind is meant
        Empty = namedtuple("Empty", "")  # noqa: PYI024 - the same
        round_trip([Typed(1), Plain((), 2), Empty()], Typed, Plain, Empty)

    def test_an_attribute_on_one_is_refused(self):
        class Open(namedtuple("Open", "a")):  # noqa: PYI024, SLOT002 - room for attributes is the point
            pass

        value = Open(1)
        value.more = 2  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match=r"state\.more"):
            encode_value(value, knowing(Open))


class TestEnums:
    def test_members_come_back_as_themselves(self):
        for member in (*Colour, *Access, *Bits):
            assert decode_value(encode_value([member], TYPES), TYPES)[0] is member

    def test_combinations_of_flags_come_back(self):
        for value in (
            Access.READ | Access.WRITE,
            Access(0),
            ~Access.READ,
            Bits(1 << 40),
            Bits.ONE | Bits(64),
        ):
            back = decode_value(encode_value(value, TYPES), TYPES)
            assert (type(back), back) == (type(value), value)

    def test_members_are_stored_by_name_so_that_values_may_change(self):
        assert decode_value(record("Colour", "GREEN"), TYPES) is Colour.GREEN

    @pytest.mark.parametrize("data", ["BLUE", 7, None, [], {}, "red", 1.5, (1,)])
    def test_an_unknown_member_is_a_mismatch(self, data):
        error = failure(record("Colour", data), TYPES)
        assert error.code is ErrorCode.TYPE_MISMATCH
        assert "version=" in error.hint

    def test_a_flag_value_that_no_longer_exists_is_a_mismatch(self):
        assert failure(record("Access", 1024), TYPES).code is ErrorCode.TYPE_MISMATCH

    def test_a_member_that_the_class_does_not_declare_is_refused(self):
        class Open(enum.Enum):
            A = 1

            @classmethod
            def _missing_(cls, value: object) -> Any:
                made = object.__new__(cls)
                made._name_, made._value_ = f"M{value}", value
                return made

        with pytest.raises(ValueError, match="none of the members"):
            encode_value(Open(5), knowing(Open))


class TestPydanticModels:
    def test_which_fields_were_set_comes_back(self):
        for value in (
            Message(role="a"),
            Message(role="a", content=1),
            Message(role="a", content=None, at=None),
        ):
            back = decode_value(encode_value(value, TYPES), TYPES)
            assert back == value
            assert back.model_fields_set == value.model_fields_set
            assert back.model_dump(exclude_unset=True) == value.model_dump(exclude_unset=True)

    def test_extra_and_private_attributes_come_back(self):
        value = Loose.model_validate({"kind": "k", "more": [1, (2,)], "role": "x"})
        value._cache["deep"] = {"a": {1}}
        back = decode_value(encode_value(value, TYPES), TYPES)
        assert back == value
        assert back.model_extra == {"more": [1, (2,)], "role": "x"}
        assert back._cache == {"deep": {"a": {1}}}
        back._unset = 3
        again = decode_value(encode_value(back, TYPES), TYPES)
        assert again._unset == 3

    def test_a_slot_that_is_no_field_is_not_lost_in_silence(self):
        class Slotted(pydantic.BaseModel):
            __slots__ = ("note",)
            a: int = 1

        class Child(Slotted):
            b: int = 2

        for cls in (Slotted, Child):
            value = cls()
            round_trip(value, cls)
            object.__setattr__(value, "note", {"k": 1})
            with pytest.raises(ValueError, match=r"state\.note"):
                encode_value(value, knowing(cls))

    def test_models_in_models_root_models_and_generic_ones_come_back(self):
        class Inner(pydantic.BaseModel):
            model_config = pydantic.ConfigDict(frozen=True)
            a: Any

        class Outer(pydantic.BaseModel):
            inner: Inner
            several: list[Inner]

            @functools.cached_property
            def size(self) -> int:
                return len(self.several)

            @pydantic.computed_field
            def double(self) -> int:
                return 2 * len(self.several)

        class Names(pydantic.RootModel[list[str]]):
            pass

        class Box(pydantic.BaseModel, typing.Generic[T]):
            content: T

        value = Outer(inner=Inner(a=1), several=[Inner(a=(2,))])
        assert value.size == 1
        types = knowing(Inner, Outer, Names, Box[int])
        back = decode_value(encode_value([value, Names(["x"]), Box[int](content=4)], types), types)
        assert back == [value, Names(["x"]), Box[int](content=4)]
        assert "size" not in vars(back[0])
        assert back[0].size == 1
        assert {Inner(a=1): 2} == decode_value(encode_value({Inner(a=1): 2}, types), types)

    def test_fields_and_private_attributes_that_were_added_get_their_defaults(self):
        class Grown(pydantic.BaseModel):
            a: int
            b: list[int] = pydantic.Field(default_factory=lambda: [1])
            c: int = pydantic.Field(default_factory=lambda data: data["a"] + 1)
            _d: int = pydantic.PrivateAttr(default=4)

        back = decode_value(record("g", {"a": 1}), knowing(Grown, name="g"))
        assert (back.a, back.b, back.c, back._d) == (1, [1], 2, 4)
        assert back.model_fields_set == {"a"}

    @pytest.mark.parametrize(
        ("data", "extra"),
        [
            ({}, None), ({"role": "a", "gone": 1}, None), ([], None), ("x", None), (None, None),
            ({"role": "a"}, 1), ({"role": "a"}, {"set": 1}), ({"role": "a"}, {"set": [1]}), ({"role": "a"}, {"x": {}}),
            ({"role": "a"}, {"private": {"_no": 1}}),
        ],
    )  # fmt: skip
    def test_what_does_not_fit_is_a_mismatch(self, data, extra):
        assert failure(record("Message", data, extra=extra), TYPES).code is ErrorCode.TYPE_MISMATCH


class TestVersions:
    @dataclasses.dataclass
    class Plan:
        goal: str
        steps: list[str]

    def upgrade(self, data: Any, version: int) -> Any:
        if version == 1:
            data = {"goal": data["aim"], "steps": []}
        if version <= 2:
            data["steps"] = [*data["steps"], "check"]
        return data

    def types(self, **options: Any) -> TypeRegistry:
        return knowing(self.Plan, name="Plan", **{"version": 3, "upgrade": self.upgrade, **options})

    def test_older_data_is_upgraded_from_the_version_it_was_saved_with(self):
        one = decode_value(record("Plan", {"aim": "win"}), self.types())
        two = decode_value(record("Plan", {"goal": "win", "steps": ["try"]}, version=2), self.types())
        assert one == self.Plan("win", ["check"])
        assert two == self.Plan("win", ["try", "check"])

    def test_newer_data_is_opaque_and_saves_again_unchanged(self):
        body = record("Plan", {"goal": "win", "more": (1, 2)}, version=4)
        value = decode_value(body, self.types())
        assert value == Opaque("Plan", 4, {"goal": "win", "more": (1, 2)})
        assert encode_value(value, self.types()) == body

    def test_older_data_without_an_upgrade_function_is_an_error(self):
        error = failure(record("Plan", {}), self.types(upgrade=None))
        assert error.code is ErrorCode.UPGRADE_FAILED
        assert "upgrade=" in error.hint

    def test_an_upgrade_that_raises_is_an_error_with_its_cause(self):
        body = encode_value({"plans": [1, Opaque("Plan", 1, {})]}, TypeRegistry())
        error = failure(body, self.types())
        assert error.code is ErrorCode.UPGRADE_FAILED
        assert isinstance(error.__cause__, KeyError)

    def test_an_upgrade_that_leaves_the_wrong_fields_is_a_mismatch(self):
        error = failure(record("Plan", {"aim": 1}), self.types(upgrade=lambda data, version: data))
        assert error.code is ErrorCode.TYPE_MISMATCH


class TestMismatches:
    def test_a_field_without_default_that_was_not_stored(self):
        error = failure(record("Step", {"name": "x"}), TYPES)
        assert error.code is ErrorCode.TYPE_MISMATCH
        assert "'inputs'" in str(error)
        assert "version=" in error.hint

    def test_a_stored_field_that_the_class_does_not_have_is_never_dropped(self):
        error = failure(record("Step", {"name": "x", "inputs": 1, "gone": 2}), TYPES)
        assert error.code is ErrorCode.TYPE_MISMATCH
        assert "gone" in str(error)

    def test_members_of_a_set_that_are_equal_now_are_never_merged(self):
        @dataclasses.dataclass(frozen=True, eq=False)
        class Token:
            name: str

        types = knowing(Token)
        body = encode_value({Token("a"), Token("a")}, types)
        assert len(decode_value(body, types)) == 2
        error = failure(body, TypeRegistry())
        assert error.code is ErrorCode.TYPE_MISMATCH
        assert "register" in error.hint

    def test_a_decode_function_that_raises_is_an_error_with_its_cause(self):
        types = knowing(Matrix, encode=list, decode=lambda data: 1 / 0)
        error = failure(record("Matrix", []), types)
        assert error.code is ErrorCode.DECODE_FAILED
        assert isinstance(error.__cause__, ZeroDivisionError)

    def test_a_class_that_lost_its_hash_is_an_error(self):
        types = TypeRegistry()
        types.register(Step, name="Point")
        body = encode_value({Opaque("Point", 1, {"name": 1, "inputs": 2}): 3}, TypeRegistry())
        assert failure(body, types).code is ErrorCode.DECODE_FAILED


class TestOpaque:
    def test_nothing_of_it_is_lost(self):
        value = {
            "m": Loose.model_validate({"more": 1}),
            "s": {Point(1, (2,)), Colour.RED},
            Access.READ: [Matrix([[1.5]])],
        }
        body = encode_value(value, TYPES)
        opaque = decode_value(body, TypeRegistry())
        assert type(opaque["m"]) is Opaque
        assert encode_value(opaque, TypeRegistry()) == body
        assert identical(decode_value(encode_value(opaque, TypeRegistry()), TYPES)["m"], value["m"])

    def test_many_in_a_set_do_not_collide(self):
        points = {Point(number, (number,)) for number in range(msgpack.MAX_COLLISIONS * 2)}
        body = encode_value(points, TYPES)
        opaque = decode_value(body, TypeRegistry())
        assert len({hash(member) for member in opaque}) > len(points) / 2
        assert encode_value(opaque, TypeRegistry()) == body

    def test_equal_ones_have_equal_hashes(self):
        one = Opaque("X", 1, {"a": 1, "b": 2})
        assert hash(one) == hash(Opaque("X", 1, {"b": 2, "a": 1.0}))
        assert hash(Opaque("X", 1, {"a": []})) == hash(Opaque("X", 1, {"a": []}))
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.name = "Y"  # type: ignore[misc]

    @pytest.mark.parametrize("wrong", [Opaque(1, 1, None), Opaque("X", "1", None), Opaque("X", True, None)])  # type: ignore[arg-type]
    def test_one_that_could_not_be_loaded_is_refused(self, wrong):
        with pytest.raises(ValueError, match="Opaque"):
            encode_value([wrong], TYPES)


@pytest.mark.parametrize("items", [[], ["a"], ["a", 1], [1, 1, 1, 1], ["a", "1", 1, 1], ["a", 1, 1, 1, 1]])
def test_a_record_of_another_form_is_no_value(items):
    body = ormsgpack.packb(ormsgpack.Ext(msgpack.RECORD, ormsgpack.packb(items)))
    assert failure(body, TYPES).code is ErrorCode.DECODE_FAILED
