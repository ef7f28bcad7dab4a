"""Real signals to a heartbeat: in a save, in a beat, in a hook that takes for ever, in a pause; and two in a row."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
from tests.reliability.heartbeats import SESSION, Clockwork, control, in_child, life, lined_up, lines, lived

import holdfast
from holdfast.agents import Heartbeat
from holdfast.backends.sqlite import SqliteBackend
from holdfast.recording import signals

SIGNALS = [signal.SIGTERM, signal.SIGINT]


def hit(number):
    os.kill(os.getpid(), number)


def run(path, agent, *, every=50, interval=0, deadline=5.0, clock=None):
    """A life until a signal comes, in a process of its own; what it was saved with goes to the pipe."""

    async def scenario(pipe):
        backend = SqliteBackend.open(path, durability="process", create=True, timeout=10.0)
        async with holdfast.AsyncStore(backend, **({} if clock is None else {"clock": clock})) as store:
            heartbeat = Heartbeat(
                agent,
                store,
                session=SESSION,
                trigger=holdfast.every(beats=every),
                interval=interval,
                deadline=deadline,
            )
            try:
                await heartbeat.run()
            finally:
                ended = heartbeat.life
                assert ended is not None
                os.write(pipe, f"ended {ended.status} {ended.beat}\n".encode())

    def work(pipe):
        try:
            asyncio.run(scenario(pipe))
        except SystemExit as end:
            os._exit(int(end.code or 0))

    return in_child(work)


def end_of(child, read):
    said = lines(read)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said[-1] if said else None


def newest(path):
    with holdfast.open(path) as store:
        session = store.session(SESSION)
        log = session.log()
        return [(each.metadata["beats"], each.status) for each in log], session.load()


class Hit(Clockwork):
    """Gets a signal in the middle of beat 7."""

    def __init__(self, number):
        super().__init__()
        self._number = number

    async def act(self, beat):
        if beat.number == 7:
            hit(self._number)


@pytest.mark.parametrize("number", SIGNALS)
def test_in_a_beat_that_beat_is_lived_to_its_end_and_saved(memory_folder, number):
    path = memory_folder / "store.db"
    code, said = end_of(*run(path, Hit(number)))

    assert (code, said) == (128 + number, ["ended", "interrupted", "7"])
    log, state = newest(path)
    assert log == [(7, "interrupted")]
    assert lived(state) == control([7])[7]
    woken = life(path, Clockwork(), every=50, beats=1)
    assert (woken.woke.beat, woken.woke.at_most_lost, woken.woke.complete) == (7, 0, True)


@pytest.fixture
def soon(monkeypatch):
    """A deadline of which the time for a step is over soon, and the time for the last save is long on any machine."""
    monkeypatch.setattr(signals, "_FOR_STEPS", 0.001)
    return 60.0


class Stuck(Clockwork):
    """Waits for an answer that never comes."""

    async def act(self, beat):
        if beat.number == 7:
            hit(signal.SIGTERM)
            await asyncio.sleep(3600)


def test_in_a_hook_that_takes_for_ever_it_is_saved_when_the_deadline_is_over(memory_folder, soon):
    path = memory_folder / "store.db"
    code, said = end_of(*run(path, Stuck(), deadline=soon))

    assert (code, said) == (128 + signal.SIGTERM, ["ended", "interrupted", "7"])
    # Beat 7 was not over: it is lived again.
    assert newest(path)[0] == [(6, "interrupted")]
    assert life(path, Clockwork(), every=50, beats=1).woke.beat == 6


def test_a_second_signal_ends_it_at_once(memory_folder):
    class Deaf(Clockwork):
        async def act(self, beat):
            if beat.number == 7:
                hit(signal.SIGTERM)
                await asyncio.sleep(0)  # the handler of the first has run
                hit(signal.SIGTERM)
                await asyncio.sleep(3600)

    path = memory_folder / "store.db"
    code, said = end_of(*run(path, Deaf(), every=5, deadline=600))

    assert (code, said) == (-signal.SIGTERM, None)
    assert newest(path)[0] == [(5, "running")]
    assert life(path, Clockwork(), every=50, beats=1).woke.beat == 5


@pytest.mark.parametrize("number", SIGNALS)
def test_in_a_pause_it_wakes_up_saves_and_ends(memory_folder, number):
    path = memory_folder / "store.db"
    read, write = os.pipe()
    agent = Clockwork(lambda beat: os.write(write, f"beat {beat}\n".encode()))
    child, said = run(path, agent, interval=3600)
    os.close(write)
    assert lined_up(read, 1) == [["beat", "1"]]
    os.close(read)
    # Whether the pause has begun by now or not, the next thing that would happen is an hour away.
    os.kill(child, number)

    assert end_of(child, said) == (128 + number, ["ended", "interrupted", "1"])
    assert newest(path)[0] == [(1, "interrupted")]


class HitWhileCaptured(Clockwork):
    """Gets a signal in the middle of its own snapshot."""

    def parts(self):
        return {**super().parts(), "late": holdfast.functions(self.capture, lambda _value: None)}

    def sense(self, beat):
        self.is_awake = True

    def capture(self):
        if self.is_awake and not self.hit:
            self.hit = True
            hit(signal.SIGTERM)
        return

    is_awake = hit = False


def test_while_all_parts_are_captured_that_save_is_whole_and_another_one_follows(memory_folder):
    path = memory_folder / "store.db"
    code, said = end_of(*run(path, HitWhileCaptured(), every=5))

    assert code == 128 + signal.SIGTERM
    assert said == ["ended", "interrupted", "6"]
    log, state = newest(path)
    assert log == [(6, "interrupted"), (5, "running")]
    del state["late"]
    assert lived(state) == control([6])[6]


def test_while_it_is_written_that_save_is_whole_and_another_one_follows(memory_folder):
    path = memory_folder / "store.db"
    asked: list[int] = []

    def clock():
        # The store asks for the time in the middle of a save, in the thread that writes.
        import threading

        if threading.current_thread() is not threading.main_thread() and not asked and agent.beats >= 5:
            asked.append(1)
            hit(signal.SIGTERM)
        return time.time_ns() // 1000

    class Known(Clockwork):
        beats = 0

        def integrate(self, beat):
            self.beats = beat.number

    agent = Known()
    code, said = end_of(*run(path, agent, every=5, clock=clock))

    assert code == 128 + signal.SIGTERM
    assert said is not None
    assert said[1] == "interrupted"
    log, state = newest(path)
    beats = int(said[2])
    assert log == [(beats, "interrupted"), (5, "running")]
    assert lived(state) == control([beats])[beats]
