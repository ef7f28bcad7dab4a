"""The end of a recorder: what a block saves when it is left, and what closing does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.recording.parts import Part

import holdfast
from holdfast import AsyncRecorder, Interrupted, Recorder, Store


@pytest.fixture
def recorder(store: Store) -> Recorder:
    return Recorder(store.session("s")).connect("part", Part(1))


def test_a_block_that_ends_well_saves_nothing_by_itself(store: Store, recorder: Recorder) -> None:
    with recorder as entered:
        assert entered is recorder
        recorder.step(4)
        recorder.save("done", status="completed")
    assert [(each.step, each.status) for each in store.session("s").log()] == [(4, "completed")]


def test_a_block_that_ends_in_an_error_saves_it_and_raises_it(store: Store, recorder: Recorder) -> None:
    recorder.step(4)
    with pytest.raises(OSError, match="the tool is gone"), recorder:
        raise OSError("the tool is gone")
    (saved,) = store.session("s").log()
    assert (saved.step, saved.status, saved.trigger) == (4, "failed", "error")
    assert saved.message == "OSError: the tool is gone"


def test_a_save_that_fails_does_not_hide_the_error(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    bare = Recorder(store.session("s"))
    with pytest.raises(OSError, match="the first"), bare:
        raise OSError("the first")
    assert "no last checkpoint is saved" in caplog.text


def test_a_program_that_fails_while_it_starts_saves_nothing_over_its_past(
    store: Store, recorder: Recorder
) -> None:
    recorder.save()
    blank = Recorder(store.session("s")).connect("part", Part("blank"))
    with pytest.raises(OSError, match="at once"), blank:
        raise OSError("at once")
    assert len(store.session("s").log()) == 1


def test_an_end_by_signal_is_saved_once(store: Store, recorder: Recorder) -> None:
    recorder.interrupt()
    with pytest.raises(Interrupted), recorder, recorder.interrupts():
        recorder.step()
    assert [each.status for each in store.session("s").log()] == ["interrupted"]


def test_closing_delivers_and_ends_the_subscriptions_of_its_own_bus(recorder: Recorder) -> None:
    seen: list[Any] = []
    recorder.events.subscribe("*", seen.append)
    recorder.save()
    assert recorder.close(60)
    assert [each.type for each in seen] == ["checkpoint.created"]
    assert not recorder.events.wants("checkpoint.created")
    assert recorder.save() is not None


def test_a_block_on_a_loop_does_the_same() -> None:
    async def main() -> list[tuple[str, str]]:
        async with holdfast.aopen("memory:") as store:
            recorder = AsyncRecorder(store.session("s")).connect("part", Part(1))
            seen: list[Any] = []
            recorder.events.subscribe("*", seen.append)
            with pytest.raises(OSError, match="gone"):
                async with recorder:
                    raise OSError("gone")
            assert [each.type for each in seen] == ["checkpoint.created"]
            assert not recorder.events.wants("checkpoint.created")
            blank = AsyncRecorder(store.session("s")).connect("part", Part("blank"))
            with pytest.raises(OSError, match="at once"):
                async with blank:
                    raise OSError("at once")
            return [(each.status, each.trigger) for each in await store.session("s").log()]

    assert asyncio.run(main()) == [("failed", "error")]


def test_closing_on_a_loop_waits_for_saves_that_are_on_their_way() -> None:
    async def main() -> int:
        async with holdfast.aopen("memory:") as store:
            recorder = AsyncRecorder(store.session("s")).connect("part", Part(1))
            pending = recorder.save()
            assert await recorder.close()
            count = len(await store.session("s").log())
            await pending
            return count

    assert asyncio.run(main()) == 1
