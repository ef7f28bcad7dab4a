"""What a recorder says by itself, without anybody who subscribed: warnings, the report, and refusals with hints."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pydantic
import pytest

from holdfast import InvalidInputError, Recorder, Store, every, on, when


class Part:
    def __init__(self, value: Any = None) -> None:
        self.value = value
        self.error: str | None = None

    def snapshot(self) -> Any:
        if self.error:
            raise OSError(self.error)
        return {"value": self.value}

    def restore(self, value: Any) -> None:
        if self.error:
            raise OSError(self.error)
        self.value = value["value"]


@pytest.fixture
def recorder(store: Store) -> Recorder:
    return Recorder(store.session("s"), trigger=every(steps=1)).connect("part", Part(1))


async def _says_no(state: Any, last: Any) -> bool:
    return False


def test_a_predicate_that_returns_a_coroutine_is_refused_when_it_is_asked(store: Store) -> None:
    trigger = when(lambda state, last: _says_no(dict(state), last))
    recorder = Recorder(store.session("s"), trigger=trigger).connect("part", Part(1))
    with pytest.raises(InvalidInputError, match="awaited") as refused:
        recorder.step()
    assert refused.value.code == "predicate-failed"
    assert store.session("s").log() == []


@pytest.mark.parametrize(
    "call",
    [
        lambda recorder: recorder.resume(on_damage="x"),
        lambda recorder: recorder.disconnect("zz"),
        lambda recorder: recorder.step(-1),
        lambda recorder: recorder.save(step=-1),
        lambda recorder: recorder.emit("a.b", session="x"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(
    store: Store, recorder: Recorder, call: Callable[[Recorder], object]
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        call(recorder)
    assert refused.value.hint
    assert recorder.steps is None
    assert store.session("s").log() == []


def test_a_frozen_model_cannot_be_a_source(recorder: Recorder) -> None:
    class Frozen(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(frozen=True)
        n: int = 0

    with pytest.raises(InvalidInputError, match="frozen pydantic model"):
        recorder.connect("frozen", Frozen())


def test_times_may_be_timedeltas() -> None:
    assert every(seconds=timedelta(minutes=5)) == every(seconds=300)
    assert on("a.b").throttle(timedelta(minutes=5)) == on("a.b").throttle(300)
    with pytest.raises(InvalidInputError):
        every(seconds=timedelta(0))
