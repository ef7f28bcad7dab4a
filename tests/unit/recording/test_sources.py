"""Sources: what can be captured and restored, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field

import pydantic
import pytest

from holdfast import InvalidInputError, StateError, functions
from holdfast.recording.sources import Source, source_of


@dataclass
class Goals:
    open: list[str] = field(default_factory=list)
    done: int = 0


@dataclass(frozen=True)
class Fixed:
    a: int = 1


class Memory(pydantic.BaseModel):
    items: list[str] = []
    limit: int = pydantic.Field(default=3, gt=0)


def test_what_has_snapshot_and_restore_is_a_source_itself():
    class Own:
        def snapshot(self):
            return 1

        def restore(self, value):
            pass

    own = Own()

    assert source_of(own) is own
    assert isinstance(own, Source)


def test_the_fields_of_a_dataclass_are_captured_and_set():
    goals = Goals(["x"], 2)
    source = source_of(goals)

    assert source.snapshot() == {"open": ["x"], "done": 2}
    source.restore({"open": ["y"], "done": 3})
    assert goals == Goals(["y"], 3)


def test_a_stored_field_that_nobody_can_take_is_an_error_and_changes_nothing():
    goals = Goals(["x"], 2)

    with pytest.raises(StateError, match="'gone'"):
        source_of(goals).restore({"open": [], "gone": 1})
    assert goals == Goals(["x"], 2)


def test_a_model_is_restored_with_its_validation():
    memory = Memory(items=["a"], limit=5)
    source = source_of(memory)

    source.restore({"items": ["b"], "limit": 4})
    assert memory == Memory(items=["b"], limit=4)
    with pytest.raises(StateError, match="limit"):
        source.restore({"items": [], "limit": 0})
    assert memory == Memory(items=["b"], limit=4)


def test_two_functions():
    kept = {"n": 1}
    source = source_of(functions(lambda: dict(kept), kept.update))

    assert source.snapshot() == {"n": 1}
    source.restore({"n": 7})
    assert kept == {"n": 7}


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (object(), "attributes"),
        ({"a": 1}, "functions"),
        (Goals, "instance"),
        (Fixed(), "attributes"),
    ],
)
def test_anything_else_is_refused_with_what_fits(thing, said):
    with pytest.raises(InvalidInputError) as refused:
        source_of(thing)
    assert said in refused.value.hint


def test_a_snapshot_that_would_have_to_be_awaited_is_refused():
    class Slow:
        async def snapshot(self):
            return 1

        async def restore(self, value):
            pass

    with pytest.raises(InvalidInputError, match="snapshot"):
        source_of(Slow(), can_await=True)


def test_a_restore_that_is_awaited_needs_an_async_recorder():
    class Slow:
        def snapshot(self):
            return 1

        async def restore(self, value):
            pass

    slow = Slow()

    assert source_of(slow, can_await=True) is slow
    with pytest.raises(InvalidInputError, match="restore"):
        source_of(slow)
