"""Interrupts inside of each other: what the deadline of an outer block does while an inner one is on its way out."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

import holdfast
from holdfast import AsyncRecorder, Interrupted, Recorder

LONG = 60.0
"""Seconds: more than any machine needs, so that a test that waits in vain ends."""


class Part:
    def snapshot(self):
        return 1

    def restore(self, value):
        del value


def handlers():
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


class Outer:
    """A block of a recorder that is asked to stop only when a test says so, and what its handler did then."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.block = recorder.interrupts(0.001)
        self._late = []
        self._handle = self.block._ours
        self.block._ours = self._noted

    def pass_deadline(self):
        """Come back when the deadline has passed, and the main thread was told."""
        self.recorder.interrupt()
        until = time.monotonic() + LONG
        # In short pieces, and without a lock: the handler comes in between, on this thread.
        while not self._late:
            assert time.monotonic() < until, "nobody was told of the deadline"
            time.sleep(0.001)

    def _noted(self, number, frame):
        self._late.append(number)
        self._handle(number, frame)


@pytest.fixture
def store():
    with holdfast.open("memory:") as opened:
        yield opened


@pytest.fixture
def outer(store):
    return Outer(Recorder(store.session("outer")).connect("part", Part()))


def between_handlers(monkeypatch, outer, inner):
    """Have the deadline of the outer block pass when the inner one has given back one of its two handlers."""
    change = signal.signal
    changed: list[int] = []

    def pause(number, handler):
        before = change(number, handler)
        if inner._before and handler is outer.block._ours and not changed:
            changed.append(number)
            outer.pass_deadline()
        return before

    monkeypatch.setattr(signal, "signal", pause)


def before_the_save(monkeypatch, outer, inner):
    """Have it pass when the inner block has given back its handlers, and has not begun to save."""
    leave = inner._leave

    def pause(error):
        outer.pass_deadline()
        return leave(error)

    monkeypatch.setattr(inner, "_leave", pause)


MOMENTS = pytest.mark.parametrize("moment", [between_handlers, before_the_save])


@MOMENTS
def test_a_deadline_that_passes_while_an_inner_block_leaves_waits_for_its_last_save(
    store, outer, monkeypatch, moment
):
    before = handlers()
    recorder = Recorder(store.session("inner")).connect("part", Part())
    inner = recorder.interrupts(LONG)
    moment(monkeypatch, outer, inner)

    with pytest.raises(Interrupted), outer.block, inner:
        recorder.interrupt()

    assert handlers() == before
    for each in (outer.recorder, recorder):
        assert each.last is not None
        assert each.last.status == "interrupted"


@MOMENTS
def test_a_deadline_that_passes_while_an_inner_block_leaves_in_peace_is_not_lost(
    store, outer, monkeypatch, moment
):
    before = handlers()
    recorder = Recorder(store.session("inner")).connect("part", Part())
    inner = recorder.interrupts(LONG)
    moment(monkeypatch, outer, inner)

    with pytest.raises(Interrupted), outer.block:  # noqa: PT012 - the block is what is tested
        with inner:
            pass
        pytest.fail("the outer block goes on after its deadline")

    assert handlers() == before
    assert recorder.last is None
    assert outer.recorder.last is not None
    assert outer.recorder.last.status == "interrupted"


@MOMENTS
def test_a_deadline_that_passes_while_an_inner_block_of_a_loop_leaves_waits_for_its_last_save(
    outer, monkeypatch, moment
):
    before = handlers()
    saved = []

    async def main():
        async with holdfast.aopen("memory:") as store:
            recorder = AsyncRecorder(store.session("inner")).connect("part", Part())
            inner = recorder.interrupts(LONG)
            moment(monkeypatch, outer, inner)
            try:
                async with inner:
                    recorder.interrupt()
            finally:
                saved.append(recorder.last)

    with pytest.raises(Interrupted), outer.block:
        asyncio.run(main())

    assert handlers() == before
    for each in (outer.recorder.last, *saved):
        assert each is not None
        assert each.status == "interrupted"


@MOMENTS
def test_a_deadline_that_passes_while_an_inner_block_of_a_loop_leaves_in_peace_is_not_lost(
    outer, monkeypatch, moment
):
    before = handlers()

    async def main():
        async with holdfast.aopen("memory:") as store:
            recorder = AsyncRecorder(store.session("inner")).connect("part", Part())
            inner = recorder.interrupts(LONG)
            moment(monkeypatch, outer, inner)
            async with inner:
                pass
            pytest.fail("the outer block goes on after its deadline")

    with pytest.raises(Interrupted), outer.block:
        asyncio.run(main())

    assert handlers() == before
    assert outer.recorder.last is not None
    assert outer.recorder.last.status == "interrupted"
