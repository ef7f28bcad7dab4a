"""What the source documents ask of heartbeat snapshots; public API and command line only."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.store.damage import chunk_of, spoil

import holdfast
from holdfast.agents import Heartbeat, HeartbeatAgent
from holdfast.recording.sources import source_of

TEN = (
    "affect",
    "goals",
    "metacognition",
    "theory_of_mind",
    "interagent",
    "sensory",
    "ethics",
    "inner_life",
    "identity",
    "working_memory",
)
ROOT = Path(__file__).resolve().parents[2]

SCOUT = '''
import os, signal
from holdfast.agents import HeartbeatAgent

class Scout(HeartbeatAgent):
    """Feels a little, remembers a little, gets on with its goal, and dies where it is told to."""

    def sense(self, beat):
        if beat.number == int(os.environ.get("DIE_AT", "0")):
            os.kill(os.getpid(), signal.SIGKILL)

    def think(self, beat):
        self.affect.feel("valence", 0.1 if beat.number % 3 else -0.25)
        self.working_memory.hold({"beat": beat.number}, (beat.number * 7 % 10) / 10)
        if self.goals.current is None:
            self.goals.add(f"goal of beat {beat.number}")
        self.goals.advance(self.goals.current["id"], 0.03)
'''

CLOCK = """
import os, time
usual = time.time_ns
time.time_ns = lambda: usual() + int(os.environ["CLOCK_SET_BY"]) * 10**9
"""


class Scout(HeartbeatAgent):
    """A short life with something in every part."""

    version: str | None = "3.2"

    def wake(self, report):
        self.report = report
        if report.reason == "first":
            self.goals.add("see the world", priority=0.8)
            self.metacognition.predict("it is round", 0.9)
            self.theory_of_mind.believes("ann", "it is flat", 0.6)
            self.interagent.send("ann", {"text": "look"})
            self.ethics.principle("care", "leave no trace")
            self.inner_life.wonder("what is behind the hill?")

    def sense(self, beat):
        self.sensory.sense("eye", beat.number % 2, 0.9)

    def think(self, beat):
        self.affect.feel("valence", 0.1)
        self.working_memory.hold({"beat": beat.number}, 0.5)
        for goal in self.goals.active():
            self.goals.advance(goal["id"], 0.001)


@pytest.fixture
def live(place):
    """Live so many beats in the place of this test; the heartbeat that did."""

    def call(beats, agent=None, seen=None, **given):
        async def run():
            async with holdfast.aopen(place, durability="process", app_version="3.2") as store:
                heartbeat = Heartbeat(agent or Scout(), store, **{"session": "scout", "interval": 0, **given})
                if seen is not None:
                    heartbeat.events.subscribe("checkpoint.*", seen.append)
                await heartbeat.run(max_beats=beats)
                await heartbeat.events.aflush()
                return heartbeat

        return asyncio.run(run())

    return call


@pytest.fixture
def command(place, tmp_path):
    """Run the program in a folder with scout.py."""
    (tmp_path / "scout.py").write_text(SCOUT, encoding="utf-8")

    def call(*words, **env):
        return subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            env={**os.environ, "HOLDFAST_STORE": place, **env},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def clock_set_by(folder, seconds):
    """The environment of a process that begins after the clock was set by so many seconds."""
    (folder / "clock").mkdir(exist_ok=True)
    (folder / "clock" / "sitecustomize.py").write_text(CLOCK, encoding="utf-8")
    return {"PYTHONPATH": str(folder / "clock"), "CLOCK_SET_BY": str(seconds)}


def log_of(place):
    with holdfast.open(place, create=False) as store:
        return store.session("scout").log()


@pytest.mark.requirement("H1")
def test_after_fifty_beats_there_is_one_checkpoint_and_another_when_it_sleeps(live, place):
    live(50)
    first = log_of(place)
    assert [(each.trigger, each.metadata["beats"]) for each in reversed(first)] == [
        ("auto:beat", 50),
        ("auto:sleep", 50),
    ]
    live(149)
    assert [each.metadata["beats"] for each in log_of(place)][:3] == [199, 150, 100]


@pytest.mark.requirement("H1")
def test_a_second_heartbeat_on_the_same_session_is_refused_while_the_first_lives(place, command, tmp_path):
    command("init")
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", "heartbeat", "run", "scout:Scout", "--session", "scout"],
        env={**os.environ, "HOLDFAST_STORE": place},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline().startswith("woke: first life")
        second = command("heartbeat", "--once", "--session", "scout")
        jumped = [
            command("heartbeat", "--once", "--session", "scout", **clock_set_by(tmp_path, seconds))
            # Elsewhere there is no telling what is another process of this machine.
            for seconds in ((-3600, 40) if sys.platform == "linux" else ())
        ]
        other = command("heartbeat", "--once", "--session", "another")
        first.send_signal(signal.SIGTERM)
        rest = first.stdout.read()
        first.wait()
    third = command("heartbeat", "--once", "--session", "scout")

    assert (second.returncode, other.returncode, third.returncode) == (5, 0, 0), third.stderr
    for refused in (second, *jumped):
        assert refused.returncode == 5
        assert "code: lease-held" in refused.stderr
        assert str(first.pid) in refused.stderr
    assert first.returncode == 128 + signal.SIGTERM
    assert "interrupted at beat" in rest


@pytest.mark.requirement("H2")
def test_a_snapshot_has_ten_subsystems_the_runtime_and_both_versions(live, place):
    live(50)
    with holdfast.open(place) as store:
        session = store.session("scout")
        state, record = session.load("#1"), session.checkpoint("#1")
    assert tuple(state) == (*TEN, "runtime")
    assert state["affect"].keys() == {"dimensions", "baseline", "decay"}
    assert state["identity"]["counters"]["total_heartbeats"] == 50
    assert [item["content"]["beat"] for item in state["working_memory"]["items"]][-1] == 50
    assert state["runtime"].keys() >= {
        "interval",
        "phase",
        "active_swarms",
        "active_subagents",
        "channel_sessions",
        "app_version",
        "format_version",
    }
    assert (state["runtime"]["app_version"], state["runtime"]["format_version"]) == ("3.2", 1)
    assert (state["runtime"]["phase"], record.app_version) == ("integrate", "3.2")


@pytest.mark.requirement("H3")
def test_gathering_goes_on_while_a_response_holds_the_agents_lock_and_is_of_one_moment(live, place):
    class Responding(Scout):
        """A response that takes for ever holds the lock, and changes two parts with no await between them."""

        def __init__(self):
            super().__init__()
            self.lock = asyncio.Lock()
            self.count = 0

        def parts(self):
            first, last = holdfast.attributes(self, "count"), holdfast.attributes(self, "count")
            return {"first": first, **super().parts(), "last": last}

        async def respond(self):
            async with self.lock:
                while True:
                    self.count += 1
                    await asyncio.sleep(0)

        async def sense(self, beat):
            if beat.number == 1:
                self.response = asyncio.create_task(self.respond())
            await asyncio.sleep(0)
            assert self.lock.locked()

        def sleep(self, reason):
            self.response.cancel()

    live(20, Responding(), trigger=holdfast.every(beats=2), keep=holdfast.Keep(at_most=100))
    with holdfast.open(place) as store:
        session = store.session("scout")
        saved = [session.load(each) for each in session.log()]
    assert len(saved) == 11
    assert all(state["first"] == state["last"] for state in saved)
    assert len({state["first"]["count"] for state in saved}) > 5


@pytest.mark.requirement("H4")
def test_saves_are_compressed_and_there_are_never_more_than_the_maximum(live, place):
    class Wordy(Scout):
        def wake(self, report):
            super().wake(report)
            self.inner_life.reflect("the same again and again " * 2000)

    counts = []

    class Counted(Wordy):
        store: holdfast.AsyncStore

        async def integrate(self, beat):
            counts.append(len(await self.store.session("scout").log()))

    async def run():
        async with holdfast.aopen(place, durability="process") as store:
            agent = Counted()
            agent.store = store
            await Heartbeat(agent, store, session="scout", interval=0, trigger=holdfast.every(beats=1)).run(
                max_beats=30
            )

    asyncio.run(run())
    assert max(counts) == 10
    log = log_of(place)
    assert len(log) == 10
    assert [each.metadata["beats"] for each in log] == [30, *range(30, 21, -1)]
    with holdfast.open(place) as store:
        first = store.session("new").save(store.session("scout").load())
        other = store.session("new").save({"text": "x" * 50_000})
    assert first.size_bytes > 50_000
    assert other.stored_bytes < other.size_bytes / 10


@pytest.mark.requirement("H5")
def test_checkpoints_are_listed_and_one_is_chosen_by_id_or_as_the_latest(live, place):
    assert live(1, session="fresh").woke.reason == "first"
    live(6, trigger=holdfast.every(beats=2))
    listed = log_of(place)
    assert [(each.metadata["beats"], each.status) for each in listed] == [
        (6, "paused"),
        (6, "running"),
        (4, "running"),
        (2, "running"),
    ]
    assert all(each.size_bytes > 0 and each.created_at and each.id for each in listed)
    assert live(1, resume=listed[-1].id).woke.beat == 2
    assert live(1).woke.beat == 3


def damage(place, checkpoints):
    with holdfast.open(place) as store:
        target = Path(store.url.removeprefix("sqlite:///")) if store.url.startswith("sqlite") else place
    for each in checkpoints:
        spoil(target, "UPDATE chunks SET data = x'00' WHERE number = ?", chunk_of(target, each.id))


@pytest.mark.requirement("H5")
def test_a_damaged_newest_falls_back_and_with_none_intact_it_starts_from_its_own_database(live, place):
    live(6, trigger=holdfast.every(beats=2))
    log = log_of(place)
    damage(place, log[:2])
    woke = live(1).woke
    assert (woke.reason, woke.beat, len(woke.passed_over)) == ("restored", 4, 2)
    assert "restored beat 4" in str(woke)

    class WithDatabase(Scout):
        def __init__(self):
            super().__init__()
            self.identity.count("total_thoughts", 7)  # what its own database says

    damage(place, [each for each in log_of(place) if each not in log[:2]])
    agent = WithDatabase()
    cold = live(1, agent).woke
    assert (cold.reason, cold.beat, cold.complete) == ("damaged", 0, False)
    assert "none of them can be read" in str(cold)
    assert agent.identity.total("total_thoughts") == 7
    assert live(1).woke.reason == "restored"


@pytest.mark.requirement("H5")
def test_damage_never_keeps_it_from_starting_from_the_command_line_either(command, place):
    run = ("heartbeat", "run", "scout:Scout", "--session", "scout", "--interval", "0", "--max-beats", "60")
    assert command(*run).returncode == 0
    if "://" in str(place):
        pytest.skip("a server looks after its own pages")
    file = Path(place) / "store.db"
    whole = file.read_bytes()
    for damaged in (bytes(4096) + whole[4096:], whole[: len(whole) // 2], b"scrap"):
        file.write_bytes(damaged)
        again = command(*run)
        assert again.returncode == 0, again.stderr
        assert f"kept in {file}.damaged-" in again.stdout
        kept = [each for each in file.parent.iterdir() if ".damaged-" in each.name]
        assert damaged in [each.read_bytes() for each in kept]


@pytest.mark.requirement("H6")
def test_everything_comes_back_in_its_order_and_what_ran_beside_it_is_handed_over(live):
    class Busy(Scout):
        def act(self, beat):
            beat.runtime.swarms = [{"id": "swarm-1", "members": 3}]
            beat.runtime.subagents = [{"id": "sub-1", "progress": 0.5}]
            beat.runtime.channels = {"chat": {"user": "ann"}}

    class Woken(Scout):
        left = None

        def reevaluate(self, left):
            self.left = left

    first = live(7, Busy(), interval=holdfast.agents.Interval(0, 0.001))
    agent = Woken()
    second = live(1, agent, interval=holdfast.agents.Interval(0, 0.001))

    assert second.woke.order == (*TEN, "runtime")
    assert (second.woke.beat, second.beat) == (7, 8)
    assert first.runtime.interval.seconds > 0
    assert second.runtime.interval.seconds >= first.runtime.interval.seconds
    assert second.runtime.last_life == "sleep"
    assert agent.left == (
        [{"id": "swarm-1", "members": 3}],
        [{"id": "sub-1", "progress": 0.5}],
        {"chat": {"user": "ann"}},
    )
    assert (second.runtime.swarms, second.runtime.subagents, second.runtime.channels) == ([], [], {})
    assert second.agent.identity.total("total_awakenings") == 2


@pytest.mark.requirement("H7")
@pytest.mark.parametrize(
    ("hours", "reason"), [(-1, "restored"), (1, "database"), (None, "restored"), (0, "database")]
)
def test_a_checkpoint_is_restored_only_where_it_is_newer_than_the_agents_own_database(
    live, place, hours, reason
):
    live(3)
    newest = log_of(place)[0]

    class WithDatabase(Scout):
        async def database_time(self):
            return None if hours is None else newest.created_at + timedelta(hours=hours)

    agent = WithDatabase()
    woke = live(1, agent).woke
    assert (woke.reason, woke.beat) == (reason, 3)
    restored = ("working_memory" in woke.order, len(agent.working_memory) > 1)
    assert restored == ((True, True) if reason == "restored" else (False, False))
    assert woke.newer == (() if reason == "restored" else TEN)
    # Whichever it was, the next checkpoint has everything.
    with holdfast.open(place) as store:
        assert set(store.session("scout").load()) == {*TEN, "runtime"}


@pytest.mark.requirement("H7")
def test_a_database_that_holds_a_part_of_the_agent_keeps_that_part(live, place):
    live(3)
    newest = log_of(place)[0]

    class WithDatabase(Scout):
        def database_time(self):
            return {
                "goals": newest.created_at + timedelta(hours=1),
                "affect": newest.created_at - timedelta(hours=1),
            }

        def wake(self, report):
            self.report = report
            self.goals.add("from the database")

    agent = WithDatabase()
    woke = live(1, agent).woke
    assert (woke.reason, woke.newer, woke.complete) == ("restored", ("goals",), True)
    assert [goal["title"] for goal in agent.goals.active()] == ["from the database"]
    assert agent.affect.dimensions["valence"] > 0.2


@pytest.mark.requirement("H8")
def test_events_say_what_was_created_and_what_was_restored(live, place):
    first: list[Any] = []
    live(50, seen=first)
    created, slept = first
    log = log_of(place)
    assert (created.type, created.checkpoint_id, created.beat_count) == ("checkpoint.created", log[1].id, 50)
    assert created.size_bytes == log[1].size_bytes > 0
    assert slept.checkpoint_id == log[0].id
    second: list[Any] = []
    live(1, seen=second)
    restored = second[0]
    assert (restored.type, restored.checkpoint_id) == ("checkpoint.restored", log[0].id)
    assert restored.beats_recovered == 50
    assert restored.age_seconds >= 0


@pytest.mark.requirement("H10")
def test_after_sigkill_and_a_restart_affect_memory_goals_and_the_counter_are_back(command, place):
    run = ("heartbeat", "run", "scout:Scout", "--session", "scout", "--interval", "0")
    whole = command(*run[:-3], "control", *run[-2:], "--max-beats", "50")
    assert whole.returncode == 0, whole.stderr

    killed = command(*run, DIE_AT="73")
    assert killed.returncode == -signal.SIGKILL
    again = command(*run, "--max-beats", "1")

    assert again.returncode == 0, again.stderr
    (saved,) = re.findall(r"saved: beat 50 as (\w+)", killed.stdout)
    assert f"woke: restored beat 50 from {saved}" in again.stdout
    assert "at most 49 beats lost" in again.stdout
    assert "slept: paused at beat 51 after 1 beat" in again.stdout
    with holdfast.open(place) as store:
        control, scout = store.session("control"), store.session("scout")
        for part in ("affect", "working_memory", "goals", "sensory"):
            assert scout.load("#1")[part] == control.load("#1")[part], part
        assert scout.load("#1")["runtime"]["beat"] == 50
        assert scout.load()["identity"]["counters"]["total_awakenings"] == 2


@pytest.mark.requirement("H11")
def test_enabled_interval_and_maximum_come_from_the_environment(command, place):
    run = ("heartbeat", "run", "scout:Scout", "--session", "scout", "--interval", "0", "--max-beats", "20")
    every = {"HOLDFAST_CHECKPOINT_INTERVAL_BEATS": "3", "HOLDFAST_CHECKPOINT_MAX_COUNT": "4"}
    assert command(*run, **every).returncode == 0
    assert [each.metadata["beats"] for each in log_of(place)] == [20, 18, 15, 12]
    off = command(*run, HOLDFAST_CHECKPOINT_ENABLED="false")
    assert (off.returncode, len(log_of(place))) == (0, 4)
    assert "checkpoints are switched off" in off.stdout


@pytest.mark.requirement("H11")
def test_they_come_from_a_settings_file_and_have_their_defaults_and_an_example_ships(
    command, place, tmp_path
):
    (tmp_path / "agent.yaml").write_text("checkpoint:\n  interval_beats: 7\n", encoding="utf-8")
    run = (
        "heartbeat",
        "run",
        "scout:Scout",
        "--session",
        "scout",
        "--interval",
        "0",
        "--max-beats",
        "8",
        "--json",
    )
    done = command(*run, "--config", "agent.yaml")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["beat_count"] for line in lines if line["type"] == "checkpoint.created"] == [7, 8]
    settings = holdfast.Settings.load(environ={}).checkpoint
    assert (settings.enabled, settings.interval_beats, settings.max_count) == (True, 50, 10)
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    for name, value in (("ENABLED", "true"), ("INTERVAL_BEATS", "50"), ("MAX_COUNT", "10")):
        assert re.search(rf"^#? ?HOLDFAST_CHECKPOINT_{name}={value}$", example, re.MULTILINE)


@pytest.mark.requirement("H9")
def test_the_live_agent_is_saved_and_restored_from_another_thread(place):
    order: list[str] = []
    enough = threading.Event()

    class Ordered(Scout):
        """Says in which order its parts come back."""

        def parts(self):
            def part(name, own):
                source = source_of(own)

                def take(value):
                    order.append(name)
                    source.restore(value)

                return holdfast.functions(source.snapshot, take)

            return {name: part(name, own) for name, own in super().parts().items()}

        def act(self, beat):
            if enough.is_set():
                beat.sleep()

    def until(beat):
        while heartbeat.beat < beat:
            time.sleep(0.001)

    with holdfast.open(place, durability="process") as store:
        heartbeat = Heartbeat(
            Ordered(), store, session="scout", interval=0.001, trigger=holdfast.every(beats=10**6)
        )
        seen: list[Any] = []
        heartbeat.events.subscribe("checkpoint.*", lambda event: seen.append(event.type))
        thread = threading.Thread(target=lambda: asyncio.run(heartbeat.run()))
        thread.start()
        until(5)
        saved = heartbeat.save_now("by hand")
        until(saved.metadata["beats"] + 20)
        with pytest.raises(holdfast.NotFoundError):
            heartbeat.restore_now("#99")
        assert not order, "nothing has changed"
        report = heartbeat.restore_now(saved.id)
        enough.set()
        thread.join()
        slept, restored, first = store.session("scout").log()
    assert report.checkpoint == saved == first
    assert order == list(TEN)
    assert [each.trigger for each in (first, restored, slept)] == ["manual", "restore", "auto:sleep"]
    assert restored.metadata["beats"] == first.metadata["beats"] < slept.metadata["beats"]
    assert restored.root == first.root
    assert heartbeat.events.flush(5)
    assert seen == [f"checkpoint.{what}" for what in ("created", "restored", "created", "created")]
    for late in (heartbeat.save_now, lambda: heartbeat.restore_now("#1")):
        with pytest.raises(holdfast.StateError) as refused:
            late()
        assert refused.value.code == "not-awake"


@pytest.mark.requirement("H12")
@pytest.mark.parametrize("said_by", ["argument", "environment", "file"])
def test_a_portable_file_is_written_with_each_save_and_pruned_with_its_checkpoint(
    place, tmp_path, monkeypatch, said_by
):
    folder = tmp_path / "backups"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    if said_by == "environment":
        monkeypatch.setenv("HOLDFAST_CHECKPOINTS_EXPORT_DIR", str(folder))
    elif said_by == "file":
        (tmp_path / "pyproject.toml").write_text(f'[tool.holdfast.checkpoints]\nexport_dir = "{folder}"\n')
    given = {"export_dir": folder} if said_by == "argument" else {}
    with holdfast.open(place, durability="process") as store:

        def live(beats, **more):
            asyncio.run(
                Heartbeat(Scout(), store, session="scout", interval=0, **given, **more).run(max_beats=beats)
            )

        def files():
            return sorted(each.name for each in folder.iterdir())

        live(50)
        assert len(files()) == 2
        assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4,}\.json\.gz", name) for name in files())
        live(40, trigger=holdfast.every(beats=1))
        log = store.session("scout").log()
        assert (len(files()), len(log)) == (10, 10)
        assert {name.split("-")[2][:4] for name in files()} == {each.id[:4] for each in log}
        written = [json.loads(gzip.decompress((folder / name).read_bytes())) for name in files()]
        assert {each["id"] for each in written} == {each.id for each in log}
        if said_by != "argument":
            recorder = holdfast.Recorder(store.session("loop")).connect(
                "part", holdfast.attributes(Scout(), "version")
            )
            recorder.save()
            store.session("plain").save({"n": 1})
            assert len(files()) == 12
            store.session("none", export_dir=False).save({"n": 1})
            assert len(files()) == 12
