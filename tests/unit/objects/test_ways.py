"""The fast and the slow way beside each other: deep, cyclic, wide and interrupted values."""

from __future__ import annotations

import gc
import random
import signal
import sys
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import ormsgpack
import pytest
from tests.unit.objects.samples import TYPES, Point, Step

from holdfast import ErrorCode, HoldfastError, InvalidInputError, StateError, UnsupportedError
from holdfast.objects import packing, unpacking, wire
from holdfast.objects.codec import decode_value, encode_value
from holdfast.objects.framing import frame
from holdfast.objects.opaque import Opaque
from holdfast.objects.packing import Packer
from holdfast.objects.reading import Reader
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.unpacking import Unpacker
from holdfast.objects.walking import Walker
from holdfast.testing.values import identical

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


@pytest.mark.parametrize("wrap", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("levels", [1, 253, 254, 255, 256, 500, 1021, 1022, 1023, 1024, 5000, wire.MAX_DEPTH])
def test_plain_containers_may_lie_ten_thousand_deep(wrap, levels):
    value = nested(levels, wrap)
    body = encode_value(value, TYPES)
    assert body == Walker(TYPES, fast=False).encode(value)
    assert identical(decode_value(body, TYPES), value)
    assert identical(Reader(body, TYPES, fast=False).decode(), value)


@pytest.mark.parametrize("wrap", EXTENSIONS.values(), ids=EXTENSIONS)
@pytest.mark.parametrize("levels", [1, 63, 64, 65, 66, 130, wire.MAX_EXTENSION_DEPTH])
def test_extensions_may_lie_two_hundred_deep(wrap, levels):
    value = nested(levels, wrap)
    body = encode_value(value, TYPES)
    assert body == Walker(TYPES, fast=False).encode(value)
    assert encode_value(decode_value(body, TYPES), TYPES) == body
    assert encode_value(Reader(body, TYPES, fast=False).decode(), TYPES) == body


def test_what_lies_deepest_counts_wherever_it_is_tried_the_fast_way():
    """Whatever mixture of containers is at the limit is saved and loads, and one more is refused."""
    source = random.Random(5)
    for _ in range(12):
        core: Any = 1
        plain = extensions = 0
        while plain + extensions < wire.MAX_DEPTH and extensions < wire.MAX_EXTENSION_DEPTH:
            if source.random() < 0.5 and extensions < wire.MAX_EXTENSION_DEPTH:
                core = source.choice([(core,), {1: core}, deque([core])])
                extensions += 1
            else:
                run = min(source.choice([1, 3, 250, 300, 2000]), wire.MAX_DEPTH - plain - extensions)
                core = nested(run, PLAIN["list"], core)
                plain += run
        body = encode_value(core, TYPES)
        assert encode_value(decode_value(body, TYPES), TYPES) == body
        one_more = (core,) if extensions == wire.MAX_EXTENSION_DEPTH else [core]
        with pytest.raises(InvalidInputError) as caught:
            encode_value(one_more, TYPES)
        assert caught.value.code is ErrorCode.VALUE_TOO_DEEP


@pytest.mark.parametrize("levels", [wire.MAX_DEPTH + 1, 100_000])
@pytest.mark.parametrize("wrap", [*PLAIN.values(), *EXTENSIONS.values()], ids=[*PLAIN, *EXTENSIONS])
def test_too_deep_is_an_error_with_a_path(wrap, levels):
    if wrap(1) == frozenset([1]):
        levels = min(levels, 20_000)
    with pytest.raises(InvalidInputError) as caught:
        encode_value(nested(levels, wrap), TYPES)
    assert caught.value.code is ErrorCode.VALUE_TOO_DEEP
    assert caught.value.details["path"].startswith("state")
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("wrap", EXTENSIONS.values(), ids=EXTENSIONS)
@pytest.mark.parametrize("levels", [1, 5, 150, wire.MAX_EXTENSION_DEPTH])
def test_one_extension_too_many_is_an_error(wrap, levels):
    core = nested(wire.MAX_EXTENSION_DEPTH + 1 - levels, EXTENSIONS["tuple"])
    with pytest.raises(InvalidInputError) as caught:
        encode_value(nested(levels, wrap, core), TYPES)
    assert caught.value.code is ErrorCode.VALUE_TOO_DEEP


def test_deep_bytes_are_an_error_and_no_crash():
    for body in (b"\x91" * 1_000_000 + b"\xc0", b"\x81\xa1k" * 300_000 + b"\xc0"):
        with pytest.raises(StateError) as caught:
            decode_value(body, TYPES)
        assert caught.value.code is ErrorCode.DECODE_FAILED
    body = b"\xc0"
    for _ in range(3000):
        body = ormsgpack.packb(ormsgpack.Ext(wire.TUPLE, wire.array_header(1) + body))
    with pytest.raises(StateError, match="200 extensions"):
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
    for state in (value, Walker):
        if state is Walker:
            with pytest.raises(InvalidInputError) as caught:
                Walker(TYPES, fast=False).encode(value)
        else:
            with pytest.raises(InvalidInputError) as caught:
                encode_value(value, TYPES)
        assert caught.value.code is ErrorCode.VALUE_CYCLE
        assert caught.value.details["path"] == path
        assert "(it is state)" in str(caught.value)


def test_an_object_that_holds_itself_is_a_cycle():
    step = Step("s", None)
    step.inputs = {"again": [step]}
    with pytest.raises(InvalidInputError) as caught:
        encode_value({"root": step}, TYPES)
    assert caught.value.details["path"] == "state['root'].inputs['again'][0]"
    assert "(it is state['root'])" in str(caught.value)


def test_a_long_cycle_is_found_too():
    root: list[Any] = []
    root.append(nested(3000, PLAIN["list"], root))
    with pytest.raises(InvalidInputError) as caught:
        encode_value(root, TYPES)
    assert caught.value.code is ErrorCode.VALUE_CYCLE


def test_what_is_shared_but_no_cycle_is_written_each_time():
    shared = [1, {"x": (2,)}]
    value = {"a": shared, "b": [shared, shared], "c": {1: shared, 2: shared}}
    back = decode_value(encode_value(value, TYPES), TYPES)
    assert identical(back, value)
    assert back["a"] is not back["b"][0]


def calls_of_packb(monkeypatch, value: Any) -> tuple[int, bytes]:
    """How many bytes and failed attempts the fast way makes while a value is encoded."""
    attempts = []
    pack = Packer._pack

    def counted(self, item, level):
        attempts.append(level)
        return pack(self, item, level)

    with monkeypatch.context() as patch:
        patch.setattr(Packer, "_pack", counted)
        body = encode_value(value, TYPES)
    return len(attempts), body


def test_one_odd_key_does_not_send_the_rest_the_slow_way(monkeypatch):
    messages = [{"role": "user", "content": "x" * 50, "n": number} for number in range(1000)]
    attempts, body = calls_of_packb(monkeypatch, {"messages": messages, "odd": {1: 2}})
    # The whole, the two values under it, and the pairs of the odd one.
    assert attempts == 4
    assert identical(decode_value(body, TYPES), {"messages": messages, "odd": {1: 2}})


def test_a_deep_value_is_not_tried_again_at_every_level(monkeypatch):
    attempts, _ = calls_of_packb(monkeypatch, nested(8000, lambda inner: [1, inner, 2]))
    assert attempts < 20


def test_both_ways_agree_on_random_mixtures():
    source = random.Random(7)

    def any_value(depth: int) -> Any:
        if depth == 0 or source.random() < 0.2:
            return source.choice(
                [None, 1, "x", 2.5, "\ud800", 1 << 70, b"\xc4", bytearray(b"y"), (), Point(1, "z")]
            )
        items = [any_value(depth - 1) for _ in range(source.randrange(4))]
        keys: list[Any] = source.sample(["a", "b", "c", 1, (2,), "\udfff"], len(items))
        return source.choice([items, tuple(items), dict(zip(keys, items, strict=True)), Step("n", items)])

    for _ in range(300):
        value = any_value(source.randrange(12))
        body = encode_value(value, TYPES)
        assert body == Walker(TYPES, fast=False).encode(value)
        assert identical(decode_value(body, TYPES), value)


LITTLE_STACK: list[Any] = [
    [1, (2, 3)],
    {"a": Point(1, Point(2, (3,)))},
    {1: {2: 3}},
    {frozenset([(1, (2,))]): "\ud800"},
    nested(150, EXTENSIONS["tuple"]),
    nested(3000, PLAIN["list"]),
]


@pytest.mark.parametrize("value", LITTLE_STACK, ids=range(len(LITTLE_STACK)))
def test_with_little_stack_left_it_works_or_says_so(value):
    body = encode_value(value, TYPES)
    outcomes: set[str] = set()

    def at_depth(left: int, action: Callable[[], Any]) -> Any:
        return action() if left == 0 else at_depth(left - 1, action)

    def attempt(left: int, action: Callable[[], Any]) -> None:
        try:
            at_depth(left, action)
        except HoldfastError as error:
            outcomes.add(error.code)
        else:
            outcomes.add("fine")

    # The last frames are not enough to make any error at all; a dozen are.
    here = len(list(iter_frames()))
    for left in range(sys.getrecursionlimit() - here - 120, sys.getrecursionlimit() - here - 20):
        attempt(left, lambda: encode_value(value, TYPES))
        attempt(left, lambda: decode_value(body, TYPES))
    assert "fine" in outcomes
    assert outcomes <= {"fine", ErrorCode.VALUE_TOO_DEEP, ErrorCode.DECODE_FAILED}


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


def iter_frames() -> Any:
    frame = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back  # type: ignore[assignment]


class Stop(BaseException):
    pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_what_a_signal_handler_raises_is_never_swallowed():
    value = [Point(number, (number, number)) for number in range(3000)]
    body = encode_value(value, TYPES)
    arrived: list[int] = []

    def stop(number: int, _frame: Any) -> None:
        arrived.append(number)
        raise Stop

    def until_it_arrives(action: Callable[[], Any], seconds: float) -> None:
        arrived.clear()
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while not arrived:
            action()

    before = signal.signal(signal.SIGALRM, stop)
    # Hypothesis has a callback in the garbage collector, and Python ignores what is raised in those.
    gc.disable()
    source = random.Random(3)
    try:
        for action in (lambda: encode_value(value, TYPES), lambda: decode_value(body, TYPES)) * 40:
            # Where it arrives while a callback is entered, what it raised is lost; that it arrived is not.
            with pytest.raises((Stop, KeyboardInterrupt)):
                until_it_arrives(action, source.uniform(0.0005, 0.01))
    finally:
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_dict_that_changes_while_it_is_written_does_not_tear_the_encoding():
    types = TypeRegistry()
    state: dict[str, Any] = {"a": 1}

    class Meddler:
        pass

    def encode(_meddler: Any) -> int:
        state[f"new {len(state)}"] = len(state)
        return 7

    types.register(Meddler, encode=encode, decode=lambda data: data)
    state["meddler"] = Meddler()
    state["after"] = 2
    back = decode_value(encode_value(state, types), types)
    assert (back["a"], back["meddler"], back["after"]) == (1, 7, 2)


@pytest.mark.parametrize(
    "around",
    [
        lambda step: [(step, {1, 2}, Point(1, (step,)))],
        lambda step: {1: (step,), "x": [(step, bytearray(b"y"))]},
        lambda step: [Point((step, "\ud800"), nested(300, PLAIN["list"], step))],
    ],
    ids=["fast", "slow", "deep"],
)
def test_nothing_of_a_state_is_kept_alive_until_the_garbage_collector_comes_by(around):
    step = Step("a", (1,))
    alive = weakref.ref(step)
    gc.collect()
    gc.disable()
    try:
        state = around(step)
        body = encode_value(state, TYPES)
        back = decode_value(body, TYPES)
        del step, state, back
        assert alive() is None
        assert not [kept for kept in gc.get_objects() if type(kept) in (Packer, Unpacker, Walker, Reader)]
    finally:
        gc.enable()


def test_threads_encode_and_decode_beside_each_other():
    value = {"points": [Point(number, (number,)) for number in range(300)], 1: {2: "\ud800"}}
    body = encode_value(value, TYPES)
    wrong = []

    def work() -> None:
        for _ in range(20):
            if encode_value(value, TYPES) != body or not identical(decode_value(body, TYPES), value):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_bytes_after_the_end_are_an_error():
    for body in (b"\x01\x01", b"\x90\xc0", encode_value((1, 2), TYPES) + b"\x00"):
        with pytest.raises(StateError, match="bytes after the end"):
            decode_value(body, TYPES)
    inside = ormsgpack.packb(ormsgpack.Ext(wire.TUPLE, b"\x91\x01\x02"))
    with pytest.raises(StateError, match="longer than its items"):
        decode_value(inside, TYPES)


@pytest.mark.parametrize("code", [0, 28, 63, 127])
def test_an_unknown_extension_asks_for_a_newer_version(code):
    body = ormsgpack.packb({"deep": [1, ormsgpack.Ext(code, b"\x90")]})
    with pytest.raises(UnsupportedError) as caught:
        decode_value(body, TYPES)
    assert caught.value.code is ErrorCode.FORMAT_TOO_NEW
    assert caught.value.details["path"] == "state['deep'][1]"
    assert "upgrade holdfast" in caught.value.hint


def test_a_negative_extension_code_is_unknown_too():
    with pytest.raises(UnsupportedError):
        decode_value(b"\xd6\xff\x00\x00\x00\x00", TYPES)


def test_the_fast_ways_are_really_taken(monkeypatch):
    def never(*_arguments):
        raise AssertionError("the slow way was taken")

    value = {"a": [1, (2, {3}), Point(1, None)], "b": {"c": b"\xc4" * 10}}
    body = encode_value(value, TYPES)
    monkeypatch.setattr(Walker, "_open_dict", never)
    monkeypatch.setattr(Walker, "_open_extension", never)
    monkeypatch.setattr(Reader, "decode", never)
    assert encode_value(value, TYPES) == body
    assert identical(decode_value(body, TYPES), value)


def test_the_limits_of_the_fast_ways_lie_within_those_of_the_slow_ways():
    assert packing._MAX_LEVELS < wire.MAX_EXTENSION_DEPTH
    assert unpacking._MAX_LEVELS < wire.MAX_EXTENSION_DEPTH
    assert Unpacker(TYPES).unpack(frame([b"\x01"])) == 1
