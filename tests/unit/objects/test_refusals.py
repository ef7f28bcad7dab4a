"""Values that cannot be saved: the error has the path, the code and a hint, whatever the value is."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import functools
import sys
import threading
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple

import attrs
import pydantic
import pytest
from tests.unit.objects.samples import TYPES, Colour, Counted, Loose, Message, Pair, Point, Step, Tool
from tests.values import identical

from holdfast import ErrorCode, InvalidInputError
from holdfast.objects.codec import msgpack
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import TypeRegistry

NOBODY = TypeRegistry()


def refused(value: Any, types: TypeRegistry = TYPES) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        encode_value(value, types)
    assert caught.value.hint
    return caught.value


class Client:
    pass


BAD = Client()


def loose_with(private: Any) -> Loose:
    value = Loose()
    value._cache["c"] = private
    return value


PATHS: dict[str, Any] = {
    "state": BAD,
    "state['tools'][3].inputs": {"tools": [1, 2, 3, Step("s", BAD)]},
    "state[0][1]": [(1, BAD)],
    "state['a']['b']": {"a": {"b": BAD}},
    "state[7]": {7: BAD},
    "state[True]": {True: BAD},
    "state[None]": {None: BAD},
    "state[-1.5]": {-1.5: BAD},
    "state[b'x']": {b"x": BAD},
    "state[<tuple>]": {(1, 2): BAD},
    "state[<big int>]": {1 << 200: BAD},
    "state<key <tuple>>[1]": {(1, BAD): 2},
    "state<key <Point>>.x": {Point(BAD, 1): 2},
    "state<member>": {BAD},
    "state<member>[0]": frozenset([(BAD,)]),
    "state[2]": deque([1, 2, BAD], 5),
    "state['x']": defaultdict(None, {"x": BAD}),
    "state['y']": OrderedDict(x=1, y=BAD),
    "state['z']": Counter({"y": 1, "z": BAD}),
    "state.left": Pair(BAD, 1),
    "state.options": Tool("t", BAD),
    "state.content[0]": Message(role="r", content=[BAD]),
    "state.more": Loose.model_validate({"more": BAD}),
    "state.stop": slice(1, BAD, 2),
    "state.y.x.inputs[0]": Point(1, Point(Step("a", [BAD]), 2)),
    "state['\\ud800']": {"\ud800": BAD},
    "state['" + "k" * 40 + "...']": {"k" * 100: BAD},
    "state['it\\'s \"x\"']": {'it\'s "x"': BAD},
    "state['unknown'].client": {"unknown": Opaque("X", 1, {"client": BAD})},
    # What an unknown type keeps is no field: it has no step of its own.
    "state['unknown']": {"unknown": Opaque("X", 1, BAD)},
    "state._cache['c']": loose_with(BAD),
}


@pytest.mark.parametrize("path", PATHS)
def test_the_error_names_the_path(path):
    error = refused(PATHS[path])
    assert error.details["path"] == path
    assert str(error).startswith(f"{path}: a value of type Client cannot be saved")
    assert error.code is ErrorCode.VALUE_UNSUPPORTED


def test_a_long_path_keeps_its_two_ends():
    value: Any = BAD
    for number in range(40):
        value = {f"k{number}": value}
    path = refused(value).details["path"]
    assert path.startswith("state['k39']['k38']")
    assert path.endswith("['k1']['k0']")
    assert "...(24 more)..." in path
    assert len(path) < 250


class MyDict(dict):
    pass


class MyList(list):
    pass


class MyStr(str):
    __slots__ = ()


class MyInt(int):
    pass


class MyFloat(float):
    pass


class MyBytes(bytes):
    pass


class MyTuple(tuple):
    __slots__ = ()


class MySet(set):
    pass


class MyCounter(Counter):
    pass


class MyDatetime(dt.datetime):
    pass


class MyPath(type(Path())):  # type: ignore[misc]
    pass


@pytest.mark.parametrize(
    "value",
    [
        MyDict(a=1), MyList([1]), MyStr("x"), MyInt(1), MyFloat(1.5), MyBytes(b"x"), MyTuple((1,)), MySet({1}),
        MyCounter("aa"), MyDatetime(2026, 1, 1), MyPath("/x"),
    ],
)  # fmt: skip
def test_a_subclass_of_a_builtin_is_refused_and_never_flattened(value):
    for state in (value, [value], {"k": value}, (value,)):
        error = refused(state)
        assert error.code is ErrorCode.TYPE_NOT_REGISTERED
        assert type(value).__name__ in str(error)
        assert "encode=" in error.hint


@pytest.mark.parametrize("key", [MyStr("x"), MyInt(1), MyTuple((1,))])
def test_a_subclass_of_a_builtin_is_refused_as_a_key(key):
    assert refused({key: 1}).code is ErrorCode.TYPE_NOT_REGISTERED


@dataclasses.dataclass
class Plain:
    x: int


@attrs.define
class Attrs:
    x: int


class Model(pydantic.BaseModel):
    x: int


class Number(enum.IntEnum):
    ONE = 1


class Name(enum.StrEnum):
    ONE = "one"


class Named(NamedTuple):
    x: int


@pytest.mark.parametrize(
    "value", [Plain(1), Attrs(1), Model(x=1), Number.ONE, Name.ONE, Named(1), Colour.RED]
)
def test_a_class_that_only_needs_registering_says_so(value):
    error = refused([value], NOBODY)
    assert error.code is ErrorCode.TYPE_NOT_REGISTERED
    name = type(value).__name__
    assert f"holdfast.open(types=[{name}])" in error.hint
    assert "@holdfast.register" in error.hint
    assert error.details["path"] == "state[0]"


def test_an_enum_member_is_refused_as_a_key_too():
    assert refused({Name.ONE: 1}, NOBODY).details["path"] == "state<key <Name>>"


@pytest.mark.parametrize(
    "value",
    [
        object(), print, lambda: None, iter(()), threading.Lock(), sys, int, ValueError("x"), iter([]),
        {}.keys(), {}.values(), functools.partial(int), NotImplemented, collections.ChainMap(), sys.stdin, Plain,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_live_things_are_refused(value):
    error = refused({"x": value})
    assert error.code is ErrorCode.VALUE_UNSUPPORTED
    assert error.details["path"] == "state['x']"


def test_a_memoryview_is_refused_wherever_it_hides():
    view = memoryview(b"abc")
    for state in (view, [view], {"a": [1, {"b": view}]}, (view,), {"k": (1, [view])}, Point(view, 1)):
        error = refused(state)
        assert error.code is ErrorCode.VALUE_UNSUPPORTED
        assert "bytes(view)" in error.hint


@pytest.mark.parametrize("factory", [lambda: 1, Plain, functools.partial(list), type("list", (), {})])
def test_a_default_factory_that_is_code_is_refused(factory):
    error = refused({"d": defaultdict(factory)})
    assert error.details["path"] == "state['d'].default_factory"


@pytest.mark.parametrize("cls", [OrderedDict, Counter])
def test_an_attribute_set_on_a_container_is_refused(cls):
    value = cls()
    value.note = "lost?"
    assert refused([value]).details["path"] == "state[0].note"


def test_a_zone_from_a_file_is_refused():
    with (Path(zoneinfo.TZPATH[0]) / "UTC").open("rb") if zoneinfo.TZPATH else pytest.skip() as file:
        zone = zoneinfo.ZoneInfo.from_file(file)
    error = refused({"at": dt.datetime(2026, 1, 1, tzinfo=zone)})
    assert error.details["path"] == "state['at'].tzinfo"


def test_a_path_that_python_itself_reads_back_as_another_is_refused():
    odd = [PureWindowsPath(text) for text in ("//a/", "//C:/", "//a/b/", "C:/a")]
    unstable = [path for path in odd if PureWindowsPath(str(path)) != path]
    for path in unstable:
        assert refused({"p": path}).details["path"] == "state['p']"
    for path in set(odd) - set(unstable):
        assert identical(decode_value(encode_value(path, TYPES), TYPES), path)


class Odd(dt.tzinfo):
    def utcoffset(self, _moment: Any) -> None:
        return None

    tzname = dst = utcoffset


def test_a_zone_of_an_unknown_class_is_refused():
    assert refused([dt.time(1, tzinfo=Odd())]).details["path"] == "state[0].tzinfo"


def test_an_attribute_that_is_no_field_is_refused():
    step = Step("a", 1)
    step.later = 2  # type: ignore[attr-defined]
    error = refused({"s": step})
    assert error.details["path"] == "state['s'].later"
    assert "declare it as a field" in error.hint


def test_a_value_that_a_cached_property_keeps_is_none():
    counted = Counted([1, 2])
    assert counted.doubled == 4
    tool = Tool("hammer")
    assert tool.shout == "HAMMER"
    back = decode_value(encode_value([counted, tool], TYPES), TYPES)
    assert "doubled" not in vars(back[0])
    assert (back[0].doubled, back[1].shout) == (4, "HAMMER")


def test_a_field_without_a_value_is_refused():
    step = Step("a", 1)
    del step.inputs
    assert refused([step]).details["path"] == "state[0].inputs"
    assert refused(Message.model_construct(content=1)).details["path"] == "state.role"


def test_an_encode_function_that_fails_is_named_with_its_path():
    types = TypeRegistry()
    types.register(Client, encode=lambda client: client.missing, decode=lambda data: Client())
    error = refused({"c": [Client()]}, types)
    assert error.details["path"] == "state['c'][0]"
    assert "AttributeError" in str(error)
    assert isinstance(error.__cause__, AttributeError)


def test_an_encode_function_that_gives_something_unsavable_is_found_under_its_object():
    types = TypeRegistry()
    types.register(Client, encode=lambda client: {"n": [1, object()]}, decode=lambda data: Client())
    assert refused([BAD], types).details["path"] == "state[0].n[1]"


def test_an_encode_function_that_never_ends_is_refused():
    types = TypeRegistry()
    types.register(Client, encode=lambda client: Client(), decode=lambda data: Client())
    assert refused([BAD], types).code is ErrorCode.VALUE_TOO_DEEP
    again = TypeRegistry()
    again.register(Client, encode=lambda client: [client], decode=lambda data: Client())
    assert refused([BAD], again).code is ErrorCode.VALUE_CYCLE


def test_sets_and_dicts_with_too_many_equal_hashes_are_refused_rather_than_unloadable():
    clashing = [Clash(number) for number in range(msgpack.MAX_COLLISIONS + 2)]
    types = TypeRegistry()
    types.register(Clash, encode=lambda clash: clash.number, decode=Clash)
    # One fewer is fine, both ways; comparing them takes a second, so the bound is what is shown here.
    with pytest.raises(InvalidInputError, match="equal hashes"):
        encode_value({"s": dict.fromkeys(clashing)}, types)


class Clash:
    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return self is other
