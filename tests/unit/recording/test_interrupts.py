"""Interrupts: a signal ends in a checkpoint with status `interrupted` and a clean stop, in real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import holdfast

ROOT = Path(__file__).parents[3]

BEGINNING = """
import asyncio, os, signal, sys, threading, time
import holdfast
from holdfast import AsyncRecorder, Interrupted, Recorder, every

class Part:
    value = 0
    def snapshot(self):
        return {"value": self.value}
    def restore(self, value):
        self.value = value["value"]

part = Part()

def say(*words):
    print(*words, flush=True)

def asked():
    # In a handler, which may come in the middle of a print: that cannot be entered twice.
    os.write(1, b"asked\\n")

def until_asked(recorder):
    # What a signal is to come in the middle of lasts until it has come.
    until = time.monotonic() + 60
    while recorder._stop is None and time.monotonic() < until:
        time.sleep(0.01)

def stay():
    # In short pieces: a signal that comes right before a sleep begins does not end it.
    until = time.monotonic() + 1000
    while time.monotonic() < until:
        time.sleep(0.05)

def opened():
    return holdfast.open(sys.argv[1], durability="process")

def aopened():
    return holdfast.aopen(sys.argv[1], durability="process")
"""


class Program:
    """A process that says what it does, line by line."""

    def __init__(self, path, text):
        self.path = path
        source = textwrap.dedent(BEGINNING) + textwrap.dedent(text)
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", source, path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def until(self, word):
        """Read on until a line begins with this; return that line."""
        said, errors = self.process.stdout, self.process.stderr
        assert said is not None
        assert errors is not None
        for line in said:
            if line.startswith(word):
                return line.strip()
        raise AssertionError(f"it never said {word}: {errors.read()}")

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        """Its exit code, and what it said from here on."""
        said, errors = self.process.communicate(timeout=60)
        assert "Traceback" not in errors, errors
        return self.process.returncode, said.split("\n")[:-1]

    def log(self):
        with holdfast.open(self.path, durability="process") as store:
            session = store.session("s")
            return [
                (each.status, each.trigger, session.load(each)["part"]["value"]) for each in session.log()
            ]


@pytest.fixture
def run(tmp_path):
    started = []

    def start(text):
        started.append(Program(tmp_path / "s.db", text))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate()


LOOP = """
with opened() as store:
    recorder = Recorder(store.session("s")).connect("part", part)
    with recorder.interrupts({deadline}):
        for part.value in range(10**9):
            {body}
            recorder.step(part.value)
            if part.value == 3:
                say("going")
say("not reached")
"""


def test_a_signal_during_a_save_lets_it_finish_and_saves_once_more(run):
    program = run(
        """
        class Slow(Part):
            def snapshot(self):
                say("saving")
                until_asked(recorder)
                return super().snapshot()

        part = Slow()
        with opened() as store:
            recorder = Recorder(store.session("s"), trigger=every(steps=1)).connect("part", part)
            with recorder.interrupts(30):
                for part.value in range(100):
                    recorder.step(part.value)
        """
    )
    program.until("saving")
    program.send(signal.SIGTERM)
    code, _ = program.end()

    assert code == 143
    assert program.log() == [("interrupted", "auto:interrupt", 1), ("running", "auto:step", 0)]


def test_a_step_that_takes_too_long_is_saved_where_it_is(run):
    program = run(LOOP.format(deadline=0.2, body="time.sleep(100 if part.value == 4 else 0)"))
    program.until("going")
    program.send(signal.SIGTERM)

    assert program.end() == (143, [])
    assert program.log() == [("interrupted", "auto:interrupt", 4)]


@pytest.mark.parametrize("does", ["time.sleep(100)", "recorder.resume()"])
def test_a_signal_while_it_starts_saves_nothing_over_what_is_stored(run, does):
    program = run(
        f"""
        part.value = 7
        class Slow(Part):
            def restore(self, value):
                say("starting")
                time.sleep(100)

        with opened() as store:
            Recorder(store.session("s")).connect("part", part).save()
            recorder = Recorder(store.session("s")).connect("part", Slow())
            try:
                with recorder.interrupts(0.2):
                    say("starting")
                    {does}
            except Interrupted as end:
                say("ended", end)
                raise
        """
    )
    program.until("starting")
    program.send(signal.SIGTERM)

    assert "nothing was saved: " in program.until("ended")
    assert program.end()[0] == 143
    assert program.log() == [("running", "manual", 7)]


def test_the_sleep_of_a_recorder_ends_at_once(run):
    program = run(LOOP.format(deadline=1000, body="recorder.sleep(1000 if part.value == 4 else 0.001)"))
    program.until("going")
    program.send(signal.SIGTERM)

    assert program.end() == (143, [])
    assert program.log() == [("interrupted", "auto:interrupt", 4)]


def test_a_second_signal_stops_at_once(run):
    program = run(
        LOOP.format(
            deadline=1000,
            body="""
            if part.value == 4:
                recorder._wakers += (asked,)
                say("stuck")
                while True:
                    try:
                        stay()
                    except Exception:
                        pass
            """.strip(),
        )
    )
    program.until("stuck")
    program.send(signal.SIGTERM)
    program.until("asked")
    program.send(signal.SIGTERM)

    assert program.end()[0] == -signal.SIGTERM
    assert program.log() == []


ASYNC = """
async def main():
    async with aopened() as store:
        recorder = AsyncRecorder(store.session("s"), trigger=every(steps=1000)).connect("part", part)
        async with recorder.interrupts({deadline}):
            for part.value in range(1, 10**9):
                {body}
                await recorder.step(part.value)
                if part.value == 3:
                    say("going")
    say("not reached")

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_on_a_loop_a_signal_saves_at_the_next_step(run, number):
    program = run(ASYNC.format(deadline=30, body="await asyncio.sleep(0.001)"))
    program.until("going")
    program.send(number)

    assert program.end() == (128 + number, [])
    ((status, _, value),) = program.log()
    assert status == "interrupted"
    assert value >= 3


def test_on_a_loop_a_step_that_takes_too_long_is_cancelled_and_saved(run):
    # The time for the step is over soon; what is left for the last save is long on any machine.
    soon = "from holdfast.recording import signals\nsignals._FOR_STEPS = 0.002\n"
    body = "await asyncio.sleep(1000 if part.value == 4 else 0.001)"
    program = run(soon + ASYNC.format(deadline=60, body=body))
    program.until("going")
    program.send(signal.SIGTERM)

    assert program.end() == (143, [])
    assert program.log() == [("interrupted", "auto:interrupt", 4)]
