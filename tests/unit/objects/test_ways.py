"""The fast and the slow way beside each other: deep, cyclic, wide and interrupted values."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import ormsgpack
import pytest
from tests.unit.objects.samples import TYPES, Point, Step

from holdfast import ErrorCode, InvalidInputError, StateError, UnsupportedError
from holdfast.objects.codec import msgpack
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import TypeRegistry

Wrap = Callable[[Any], Any]


def nested(levels: int, wrap: Wrap, core: Any = 1) -> Any:
    for _ in range(levels):
        core = wrap(core)
    return core


PLAIN: dict[str, Wrap] = {
    "list": lambda inner: [inner],
    "dict": lambda inner: {"k": inner},
    "list of two": lambda inner: ["before", inner],
}
EXTENSIONS: dict[str, Wrap] = {
    "tuple": lambda inner: (inner,),
    "frozenset": lambda inner: frozenset([inner]),
    "int key": lambda inner: {1: inner},
    "deque": lambda inner: deque([inner]),
    "OrderedDict": lambda inner: OrderedDict(k=inner),
    "object": lambda inner: Point(inner, 0),
}


@pytest.mark.parametrize("levels", [msgpack.MAX_DEPTH + 2, 100_000])
@pytest.mark.parametrize("wrap", [*PLAIN.values(), *EXTENSIONS.values()], ids=[*PLAIN, *EXTENSIONS])
def test_too_deep_is_an_error_with_a_path(wrap, levels):
    if wrap(1) == frozenset([1]):
        levels = min(levels, 20_000)
    with pytest.raises(InvalidInputError) as caught:
        encode_value(nested(levels, wrap), TYPES)
    assert caught.value.code is ErrorCode.VALUE_TOO_DEEP
    assert caught.value.details["path"].startswith("state")
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("levels", [1, 8, 9, 40, 83, 84, 126])
@pytest.mark.parametrize(
    "beside",
    [{"a": 2}, {1: 2}, nested(100, lambda inner: [inner]), "x" * 300_000],
    ids=["dict", "odd", "deep", "long"],
)
def test_what_is_accepted_can_be_loaded(levels, beside):
    for wrap in (lambda inner: Step("s", [inner, beside]), lambda inner: Point(inner, beside)):
        try:
            body = encode_value(nested(levels, wrap), TYPES)
        except InvalidInputError as error:
            assert error.code is ErrorCode.VALUE_TOO_DEEP  # noqa: PT017
        else:
            assert encode_value(decode_value(body, TYPES), TYPES) == body


@pytest.mark.parametrize(("levels", "inside"), [(64, 1_000), (200, 250), (20, 100), (2_000, 1)])
def test_extensions_around_deep_lists_are_an_error_and_no_crash(levels, inside):
    body = b"\xc0"
    for _ in range(levels):
        body = msgpack.extension(msgpack.TUPLE, b"\x91" * inside + body)
    with pytest.raises(StateError):
        decode_value(body, TYPES)


def test_deep_bytes_are_an_error_and_no_crash():
    for body in (b"\x91" * 1_000_000 + b"\xc0", b"\x81\xa1k" * 300_000 + b"\xc0"):
        with pytest.raises(StateError) as caught:
            decode_value(body, TYPES)
        assert caught.value.code is ErrorCode.DECODE_FAILED
    body = b"\xc0"
    for _ in range(3000):
        body = ormsgpack.packb(ormsgpack.Ext(msgpack.TUPLE, msgpack.array_header(1) + body))
    with pytest.raises(StateError):
        decode_value(body, TYPES)


def cycle_of(*wraps: Wrap) -> Any:
    root: list[Any] = []
    inner: Any = root
    for wrap in wraps:
        inner = wrap(inner)
    root.append(inner)
    return root


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (cycle_of(), "state[0]"),
        (cycle_of(lambda inner: {"a": inner}), "state[0]['a']"),
        (cycle_of(lambda inner: (1, inner)), "state[0][1]"),
        (cycle_of(lambda inner: {7: inner}), "state[0][7]"),
        (cycle_of(lambda inner: Step("s", inner)), "state[0].inputs"),
        (cycle_of(lambda inner: deque([inner]), lambda inner: {"b": inner}), "state[0]['b'][0]"),
    ],
)
def test_a_cycle_is_an_error_with_a_path(value, path):
    with pytest.raises(InvalidInputError) as caught:
        encode_value(value, TYPES)
    assert caught.value.code is ErrorCode.VALUE_CYCLE
    assert caught.value.details["path"] == path
    assert "(it is state)" in str(caught.value)


def test_a_function_of_the_program_that_never_returns_is_an_error():
    class Endless:
        pass

    def forever(value: Any) -> Any:
        return forever(value)

    types = TypeRegistry()
    types.register(Endless, encode=forever, decode=forever)
    with pytest.raises(InvalidInputError, match="ran out of stack"):
        encode_value([Endless()], types)
    with pytest.raises(StateError, match="ran out of stack"):
        decode_value(encode_value(Opaque("Endless", 1, None), types), types)


def test_bytes_after_the_end_are_an_error():
    for body in (b"\x01\x01", b"\x90\xc0", encode_value((1, 2), TYPES) + b"\x00"):
        with pytest.raises(StateError):
            decode_value(body, TYPES)
    inside = ormsgpack.packb(ormsgpack.Ext(msgpack.TUPLE, b"\x91\x01\x02"))
    with pytest.raises(StateError):
        decode_value(inside, TYPES)


@pytest.mark.parametrize("code", [0, 28, 63, 127])
def test_an_unknown_extension_asks_for_a_newer_version(code):
    body = ormsgpack.packb({"deep": [1, ormsgpack.Ext(code, b"\x90")]})
    with pytest.raises(UnsupportedError) as caught:
        decode_value(body, TYPES)
    assert caught.value.code is ErrorCode.FORMAT_TOO_NEW
    assert "upgrade holdfast" in caught.value.hint
