"""A class has two names in a store, with its module and without, and is found under both, whoever wrote it."""

from __future__ import annotations

import itertools
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.integrations.langgraph import value_samples
from tests.integrations.langgraph.saver_data import config, put
from typing_extensions import TypedDict

import holdfast
from holdfast import HoldfastWarning, Opaque
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.objects.codec.registry import GLOBAL

Plan = value_samples.Plan
FULL = f"{value_samples.__name__}.Plan"


class State(TypedDict):
    plan: Plan


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    monkeypatch.setattr(GLOBAL, "_by_name", dict(GLOBAL._by_name))
    monkeypatch.setattr(GLOBAL, "_by_class", dict(GLOBAL._by_class))


@pytest.fixture
def place(tmp_path):
    return tmp_path / "s.db"


@contextmanager
def program(place, way):
    """A program that knows Plan in one way, and no program before it did anything in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GLOBAL, "_by_name", dict(GLOBAL._by_name))
        patch.setattr(GLOBAL, "_by_class", dict(GLOBAL._by_class))
        if way == "registered":
            holdfast.register(Plan)
        types = [Plan] if way in ("types", "registered late") else [State] if way == "schema" else []
        with HoldfastSaver(place, types=types) as saver:
            if way == "registered late":
                holdfast.register(Plan)
            elif way == "registered in the store":
                saver.store.register(Plan)
            elif way == "allowed":
                saver.with_allowlist({(Plan.__module__, "Plan")})
            yield saver


def latest(saver) -> Any:
    found = saver.get_tuple(config())
    return found.checkpoint["channel_values"]


NAMES = {
    "types": FULL,
    "schema": FULL,
    "allowed": FULL,
    "registered": "Plan",
    "registered late": "Plan",
    "registered in the store": "Plan",
}


def stored_name(place):
    with holdfast.open(place) as store:
        found = store.session("t").load()["channel_values"]["plan"]
    assert type(found) is Opaque
    return found.name


@pytest.mark.parametrize("way", NAMES)
def test_what_the_program_registers_is_written_under_that_name(place, way):
    with program(place, way) as saver:
        put(saver, values={"plan": Plan("win")})

    assert stored_name(place) == NAMES[way]


@pytest.mark.parametrize("ways", list(itertools.product(NAMES, repeat=2)), ids=", ".join)
def test_each_program_reads_what_those_before_it_wrote(place, ways):
    """Two programs, one after the other; the last reads everything, and does nothing but what it is named for."""
    made: Any = None
    for number, way in enumerate(ways):
        with program(place, way) as saver, warnings.catch_warnings():
            warnings.simplefilter("error")
            plans = [each.checkpoint["channel_values"]["plan"] for each in saver.list(config())]
            assert plans == [Plan(str(n)) for n in reversed(range(number))]
            made = put(saver, made, values={"plan": Plan(str(number))})
            saver.put_writes(made, [("plan", Plan("w"))], "task")
            found = saver.get_tuple(made)
            assert found.checkpoint["channel_values"]["plan"] == Plan(str(number))
            assert found.pending_writes == [("task", "plan", Plan("w"))]


def test_a_class_that_was_put_is_found_under_its_bare_name(place):
    with program(place, "registered") as saver:
        made = put(saver, values={"plan": Plan("a")})
    with program(place, "nothing") as saver:
        put(saver, made, values={"plan": Plan("b")})
        assert [each.checkpoint["channel_values"]["plan"] for each in saver.list(config())] == [
            Plan("b"),
            Plan("a"),
        ]


def moved() -> Any:
    @dataclass
    class Plan:
        goal: str
        steps: list[str]

    Plan.__module__, Plan.__qualname__ = "moved", "Plan"
    return Plan


def test_a_class_that_was_moved_is_told_by_its_old_name(place):
    with program(place, "types") as saver:
        put(saver, values={"plan": Plan("a")})
    cls = moved()
    with HoldfastSaver(place, types=[cls]) as saver, pytest.warns(HoldfastWarning) as warned:
        saver.get_tuple(config())
    message = str(warned[0].message)
    assert f"@holdfast.register(name={FULL!r})" in message
    assert "moved.Plan" in message
    assert "types=" not in message

    # What it says helps.
    holdfast.register(cls, name=FULL)
    with HoldfastSaver(place, types=[cls]) as saver:
        assert latest(saver)["plan"] == cls("a", [])
