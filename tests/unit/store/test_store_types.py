"""Classes of one store: `store.register`, and a function that is asked about those that nobody registered."""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter
from typing import Any

import attrs
import pytest

import holdfast
from holdfast import ErrorCode, InvalidInputError, Opaque
from holdfast.backends.memory import MemoryBackend


@dataclasses.dataclass
class Plan:
    goal: str = ""
    steps: list[Any] = dataclasses.field(default_factory=list)


@attrs.define(frozen=True)
class Point:
    x: int
    y: int


class Mood(enum.Enum):
    CALM = 1


class Ledger:
    """A class that is kept by functions of its own."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines


class Asked:
    """A function for `on_unknown` that remembers what it was asked, and takes what it is told to."""

    def __init__(self, store: Any, *takes: type) -> None:
        self._store = store
        self._takes = takes
        self.asked: Counter[type] = Counter()

    def __call__(self, cls: type) -> bool:
        self.asked[cls] += 1
        if cls not in self._takes:
            return False
        self._store.register(cls, name=f"app.{cls.__qualname__}")
        return True


@pytest.fixture
def memory():
    return holdfast.Store(MemoryBackend())


def refused(store: Any, state: Any) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        store.session("s").save(state)
    assert caught.value.code is ErrorCode.TYPE_NOT_REGISTERED
    return caught.value


def test_a_class_that_a_store_registers_is_known_in_that_store_alone(store, memory):
    assert store.register(Plan) is Plan
    s = store.session("s")
    s.save({"plan": Plan("sail", [1])})
    assert s.load() == {"plan": Plan("sail", [1])}
    refused(memory, {"plan": Plan()})
    other = holdfast.Store(store._backend)
    assert other.session("s").load() == {"plan": Opaque("Plan", 1, {"goal": "sail", "steps": [1]}, None)}


def test_a_store_registers_with_everything_that_register_takes(memory):
    memory.register(Ledger, name="ledger", version=2, encode=lambda each: each.lines, decode=Ledger)
    s = memory.session("s")
    s.save([Ledger(["a"])])
    (loaded,) = s.load()
    assert (type(loaded), loaded.lines) == (Ledger, ["a"])
    later = holdfast.Store(memory._backend)
    later.register(
        Ledger,
        name="ledger",
        version=3,
        upgrade=lambda data, version: [*data, f"was {version}"],
        encode=lambda each: each.lines,
        decode=Ledger,
    )
    assert later.session("s").load()[0].lines == ["a", "was 2"]
    with pytest.raises(InvalidInputError) as caught:
        memory.register(Plan, name="ledger")
    assert caught.value.code is ErrorCode.TYPE_NAME_TAKEN


@pytest.mark.parametrize(
    "state",
    [
        Plan("root"),
        {"plan": Plan("a"), "again": Plan("b")},
        [[Plan("deep", [Plan("deeper")])]],
        {("a", 1): {"odd": Plan("under a key that is no text")}},
        {frozenset({Point(1, 2)}): Point(3, 4)},
        {"mood": Mood.CALM},
        {"long": [Plan(str(n)) for n in range(20_000)]},
        {"large": [{"plan": Plan("x" * 500)} for _ in range(1000)]},
        {"lone": "\ud800", "plan": Plan("beside a surrogate")},
        {"bytes": [b"\xc4" * 10, bytearray(b"\xc4")], "plan": Plan()},
    ],
    ids=lambda each: str(each)[:30],
)
def test_a_class_that_is_taken_when_asked_about_is_saved_wherever_it_lies(store, state):
    asked = Asked(store, Plan, Point, Mood)
    store.on_unknown(asked)
    s = store.session("s")
    s.save(state)
    assert s.load() == state
    assert asked.asked
    assert set(asked.asked.values()) == {1}
    s.save([state])
    assert set(asked.asked.values()) == {1}


def test_what_is_known_or_kept_as_it_is_is_never_asked_about(memory):
    import datetime as dt
    import decimal
    import fractions
    import pathlib
    import uuid

    memory.register(Plan)
    asked = Asked(memory)
    memory.on_unknown(asked)
    state = {
        "plan": Plan("known"),
        "kept": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), decimal.Decimal("1.5"), fractions.Fraction(1, 3)],
        "more": (1, {2}, b"3", pathlib.PurePosixPath("/x"), uuid.UUID(int=1), 1 + 2j, None, 2**80),
    }
    memory.session("s").save(state)
    assert asked.asked == {}


def test_a_class_that_is_declined_is_asked_about_once_for_each_save_and_refused_as_always(memory):
    before = refused(memory, {"a": [[[[[[[[Plan()]]]]]]]]})
    asked = Asked(memory)
    memory.on_unknown(asked)
    for count in (1, 2):
        error = refused(memory, {"a": [[[[[[[[Plan()]]]]]]]]})
        assert asked.asked == {Plan: count}
    assert (str(error), error.hint, error.details) == (str(before), before.hint, before.details)
    refused(memory, {"long": [{"n": n} for n in range(5000)] + [Plan()]})
    assert asked.asked == {Plan: 3}


def test_saying_yes_without_registering_is_a_no(memory):
    memory.on_unknown(lambda cls: True)
    refused(memory, [Plan()])


def test_what_the_function_raises_is_named_with_the_path(memory):
    def take(cls: type) -> bool:
        raise OSError(f"no word about {cls.__name__}")

    memory.on_unknown(take)
    error = refused(memory, {"plans": [Plan()]})
    assert "state['plans'][0]" in str(error)
    assert "OSError: no word about Plan" in str(error)
    assert "on_unknown" in error.hint
    assert isinstance(error.__cause__, OSError)


def test_version_0_is_somebody_elses_form_and_waits_for_an_upgrade(tmp_path):
    foreign = holdfast.Opaque("Plan", 0, {"goal": "x"})
    with holdfast.open(tmp_path / "store") as store:
        store.session("s").save({"plan": foreign})
        store.register(Plan)
        assert store.session("s").load() == {"plan": foreign}
    with holdfast.open(tmp_path / "store") as store:
        store.register(Plan, upgrade=lambda data, version: {"goal": data["goal"], "steps": [version]})
        assert store.session("s").load() == {"plan": Plan("x", [0])}
