"""What the source documents ask of saving by itself: when, what, and how it comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

import pytest

import holdfast
from holdfast import Checkpoint, Interrupted, Recorder, every, on, when


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    return request.getfixturevalue("postgres_place") if request.param == "postgres" else tmp_path / "s.db"


class Loop:
    """An agent that counts what it does and what it spends."""

    def __init__(self):
        self.done = []
        self.cost = 0.0

    def snapshot(self):
        return {"done": self.done, "cost": self.cost}

    def restore(self, value):
        self.done, self.cost = value["done"], value["cost"]


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.requirement("K2")
def test_every_n_steps_or_every_m_seconds_whichever_comes_first(place):
    clock, loop = Clock(), Loop()
    with holdfast.open(place, durability="process") as store:
        trigger = every(steps=10) | every(seconds=300)
        recorder = Recorder(store.session("s"), trigger=trigger, clock=clock).connect("loop", loop)
        for step in range(31):
            # A slow step: the time is up before the next multiple.
            clock.now += 400 if step == 14 else 1
            loop.done.append(step)
            recorder.step(step)

        log = list(reversed(store.session("s").log()))
        assert [(each.step, each.trigger) for each in log] == [
            (0, "auto:step"),
            (10, "auto:step"),
            (14, "scheduled"),
            (20, "auto:step"),
            (30, "auto:step"),
        ]
        assert store.session("s").load("@~1")["loop"]["done"] == list(range(21))


@pytest.mark.requirement("K2")
def test_without_a_trigger_it_never_saves_by_itself(place):
    clock = Clock()
    with holdfast.open(place, durability="process") as store:
        recorder = Recorder(store.session("s"), clock=clock).connect("loop", Loop())
        for step in range(100):
            clock.now += 1000
            recorder.step(step)
            recorder.beat()
        assert store.session("s").log() == []


@pytest.mark.requirement("K8")
def test_saves_can_be_forced_whatever_the_trigger_says(place):
    loop = Loop()

    def spends_much(state: Mapping[str, Any], last: Checkpoint | None) -> bool:
        before = last.cost_usd if last else 0
        assert before is not None
        return bool(state["loop"]["cost"] > before + 1.0)

    spent = when(spends_much)
    with holdfast.open(place, durability="process") as store:
        trigger = every(steps=1000) | spent | on("specialist.invoked")
        recorder = Recorder(store.session("s"), trigger=trigger).connect("loop", loop)
        for step in range(1, 6):
            loop.cost += 0.6
            recorder.step(step, cost_usd=loop.cost)
        recorder.emit("specialist.invoked", name="lawyer")
        try:
            raise OSError("the tool is gone")
        except OSError as error:
            recorder.save(str(error), trigger="error", status="failed")
        recorder.save("to be sure")

        log = list(reversed(store.session("s").log()))
    assert [(each.trigger, each.status, each.step) for each in log] == [
        ("auto:condition", "running", 2),
        ("auto:condition", "running", 4),
        ("auto:specialist.invoked", "running", 5),
        ("error", "failed", 5),
        ("manual", "running", 5),
    ]


PROGRAM = """
import sys, time
import holdfast
from holdfast import Recorder, every
from tests.requirements.test_recording import Loop

with holdfast.open(sys.argv[1], durability="process") as store:
    loop = Loop()
    recorder = Recorder(store.session("s"), trigger=every(steps=1000)).connect("loop", loop)
    recorder.resume()
    print("from", recorder.next_step, flush=True)
    with recorder.interrupts():
        for step in range(recorder.next_step, 10**9):
            loop.done.append(step)
            recorder.step(step)
            recorder.sleep(0.001)
            if step % 10 == 9:
                print("at", step, flush=True)
"""


@pytest.mark.requirement("K8")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_ends_in_a_checkpoint_from_which_the_next_run_goes_on(place, number):
    for run in range(2):
        program = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), place],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert program.stdout is not None
        started = int(program.stdout.readline().split()[1])
        assert "at" in program.stdout.readline()
        program.send_signal(number)
        program.communicate(timeout=60)
        assert program.returncode == 128 + number
        with holdfast.open(place, durability="process") as store:
            last = store.session("s").checkpoint()
            done = store.session("s").load()["loop"]["done"]
        assert last.status == "interrupted"
        assert last.step is not None
        assert done == list(range(last.step + 1))
        assert started == 0 if run == 0 else started > 9


@pytest.mark.requirement("K8")
def test_an_interrupt_by_hand_is_one_too():
    with holdfast.open("memory:") as store:
        recorder = Recorder(store.session("s")).connect("loop", Loop())
        recorder.interrupt()
        with pytest.raises(Interrupted) as end:
            recorder.step(1)
    assert end.value.checkpoint is not None
    assert end.value.checkpoint.status == "interrupted"


@pytest.mark.requirement("T3")
def test_systems_connect_one_by_one_and_the_report_says_to_what_and_whether_it_is_complete(place):
    beliefs, gaps = Loop(), Loop()
    beliefs.done, gaps.done = ["the cache is stale"], ["who writes it?"]
    with holdfast.open(place, durability="process") as store:
        recorder = Recorder(store.session("debug")).connect("beliefs", beliefs)
        assert recorder.save("only beliefs").message == "only beliefs"
        assert list(store.session("debug").load()) == ["beliefs"]
        recorder.connect("gaps", gaps)
        saved = recorder.save("before the risky part")
        assert list(store.session("debug").load()) == ["beliefs", "gaps"]

    with holdfast.open(place, durability="process") as store:
        again, code = Loop(), Loop()
        recorder = Recorder(store.session("debug")).connect("beliefs", again)
        report = recorder.resume()
        assert again.done == ["the cache is stale"]
        assert report is not None
        assert report.checkpoint is not None
        assert (report.checkpoint.id, report.checkpoint.message) == (saved.id, "before the risky part")
        assert report.checkpoint.created_at == saved.created_at
        assert report.complete
        assert report.unclaimed == ("gaps",)

        recorder.connect("code", code, optional=True).connect("gaps", None, optional=True)
        report = recorder.resume()
        assert report is not None
        assert not report.complete
        assert {name: each.outcome for name, each in report.sources.items()} == {
            "beliefs": "restored",
            "code": "missing",
            "gaps": "absent",
        }
        recorder.save()
        assert store.session("debug").load()["gaps"]["done"] == ["who writes it?"]

    with holdfast.open(place, durability="process") as store:
        recorder = Recorder(store.session("debug")).connect("gaps", gaps)
        report = recorder.resume(saved)
        assert report is not None
        assert report.complete
        assert report.checkpoint is not None
        assert report.checkpoint.id == saved.id


RESUMING = """
import os, sys
import holdfast
from holdfast import Recorder, every
from tests.requirements.test_recording import Loop

with holdfast.open(sys.argv[1], durability="process") as store:
    loop = Loop()
    keep = holdfast.Keep(last=4) if os.environ.get("HOLDFAST_RESUME", "").startswith("s@") else None
    recorder = Recorder(store.session("s"), trigger=every(steps=1), keep=keep).connect("loop", loop)
    recorder.resume()
    first = recorder.next_step
    for step in range(first, first + 3):
        loop.done.append(step)
        recorder.step(step)
    print(first, loop.done)
"""


def test_a_variable_has_an_unchanged_program_start_from_a_checkpoint_once(place):
    def run(**variables):
        done = subprocess.run(
            [sys.executable, "-c", RESUMING, place],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
        )
        return done.stdout.split(" ", 1)[0]

    assert [run(), run(), run(HOLDFAST_RESUME="other@#1")] == ["0", "3", "6"]
    # From step 2, and on from there when a supervisor starts it again.
    assert [run(HOLDFAST_RESUME="s@#3") for _ in range(3)] == ["3", "6", "9"]
    assert run() == "12"
    with holdfast.open(place, durability="process") as store:
        session = store.session("s")
        assert session.load()["loop"]["done"] == list(range(15))
        assert session.branch == "main-1"
        assert session.load("main")["loop"]["done"] == list(range(9))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        run(HOLDFAST_RESUME="s@#999")
    assert "bad-config" in refused.value.stderr or "HOLDFAST_RESUME" in refused.value.stderr


@pytest.mark.requirement("P5")
def test_with_auto_checkpoint_a_recorder_from_settings_saves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.yaml").write_text(
        "agent: {checkpoints: {autoCheckpoint: true, maxCheckpointsPerSession: 3}}"
    )
    settings = holdfast.Settings.load("agent.yaml", environ={})
    with holdfast.open("memory:") as store:
        recorder = Recorder.from_settings(store.session("s"), settings).connect("loop", Loop())
        assert all(recorder.step() is not None for _ in range(7))
        assert [each.step for each in store.session("s").log()] == [6, 5, 4]


def test_a_person_beside_a_live_recorder_never_stops_it(place):
    loop = Loop()
    told: list[Any] = []
    with holdfast.open(place, durability="process") as store:
        recorder = Recorder(store.session("s"), trigger=every(steps=1)).connect("loop", loop)
        recorder.events.subscribe("recorder.*", told.append)
        person = store.session("s")
        recorder.step()
        person.tag("@", "good")
        person.pin("@")
        person.annotate("@", message="a note")
        person.save(person.load(), "the same state, with a note")
        recorder.step()
        assert recorder.session.branch == "main"
        person.save({"loop": {"done": ["edited"], "cost": 0.0}}, "changed by hand")
        loop.done.append("mine")
        recorder.step()
        assert recorder.events.flush(5)
        assert [(each.type, each.branch) for each in told] == [("recorder.forked", "main-1")]
        # The current branch came along: the next start goes on where the agent is.
        assert store.current_branch("s") == "main-1"
        again = Loop()
        Recorder(store.session("s")).connect("loop", again).resume()
        assert again.done == ["mine"]
