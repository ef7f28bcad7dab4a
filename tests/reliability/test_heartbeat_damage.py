"""Whatever is damaged in its store, a heartbeat starts, says what it lost, and keeps the damaged file aside."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.reliability.heartbeats import SESSION, Clockwork, control, in_child, lines, lived, snapshots

import holdfast
from holdfast.agents import Heartbeat, LifeReport, WakeReport

# Old checkpoints that cannot be removed stay, with a warning.
pytestmark = pytest.mark.filterwarnings("ignore::holdfast.errors.HoldfastWarning")

PLACES = int(os.environ.get("HEARTBEAT_PLACES", "36"))
"""Each a flipped bit, a destroyed page or a cut. 200 is what is promised; that takes some minutes."""

BEATS = range(5, 61, 5)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which a heartbeat has lived for 60 beats, with other sessions beside it."""
    path: Path = tmp_path_factory.mktemp("healthy") / "s.db"
    with holdfast.open(path, durability="process") as store:
        for number in range(3):
            for step in range(20):
                store.session(f"other-{number}").save(
                    {"step": step, "text": random.Random(step).randbytes(900)}
                )
    life(path, Clockwork(), beats=60)
    return path


def life(store: Path, agent: Clockwork, beats: int) -> LifeReport:
    trigger = holdfast.every(beats=5)
    return asyncio.run(
        Heartbeat(agent, store, session=SESSION, trigger=trigger, interval=0).run(max_beats=beats)
    )


def flip(content: bytearray, source: random.Random) -> str:
    at, bit = source.randrange(len(content)), source.randrange(8)
    content[at] ^= 1 << bit
    return f"bit {bit} of byte {at}"


def destroy(content: bytearray, source: random.Random) -> str:
    page = source.randrange(len(content) // 4096)
    content[page * 4096 : (page + 1) * 4096] = source.choice([bytes(4096), source.randbytes(4096)])
    return f"page {page}"


def cut(content: bytearray, source: random.Random) -> str:
    left = source.randrange(1, len(content))
    del content[left:]
    return f"cut to {left}"


def test_it_starts_wherever_its_store_is_damaged(healthy, tmp_path):
    wanted = control(BEATS)
    base = random.randrange(2**32)
    print(f"seed {base}")
    outcomes: list[tuple[str, str, int]] = []
    for number in range(PLACES):
        source = random.Random(base + number)
        path = tmp_path / str(number) / "s.db"
        path.parent.mkdir()
        content = bytearray(healthy.read_bytes())
        what = [flip, destroy, cut][number % 3](content, source)
        path.write_bytes(content)
        print(number, what)
        outcomes.append(check(path, bytes(content), wanted))
        shutil.rmtree(path.parent)
    assert len(outcomes) == PLACES
    # Most places are of other sessions or of older checkpoints: nothing of the agent is lost there.
    assert sum(beat == 60 for _, _, beat in outcomes) > PLACES // 3


def check(path: Path, damaged: bytes, wanted: dict[int, Any]) -> tuple[str, str, int]:
    reports: list[WakeReport] = []

    def told(report: WakeReport) -> None:
        reports.append(report)
        if report.reason == "restored":
            assert lived(snapshots(agent)) == wanted[report.beat]

    agent = Clockwork(told=told)
    first = life(path, agent, beats=6)
    woke = reports[-1]
    assert (first.status, first.beats > 0) == ("paused", True)
    assert woke.reason in ("restored", "damaged", "first")
    if woke.beat < 60:
        # Something was lost, so it says so, and what there was is still there.
        assert not woke.complete, woke
        assert woke.kept_aside or woke.passed_over, woke
    for kept in woke.kept_aside:
        # The log of a store that was repaired was written into its file before.
        assert Path(kept).stat().st_size >= min(len(damaged), 4096) or Path(kept).read_bytes() == damaged
    again = life(path, Clockwork(), beats=1)
    assert (again.woke.reason, again.woke.beat) == ("restored", first.beat)
    with holdfast.open(path) as store:
        saved = store.session(SESSION).load()
    assert saved["runtime"]["beat"] == again.beat
    return woke.reason, str(woke), woke.beat


def test_commits_behind_a_damaged_place_of_the_log_are_not_lost_in_silence(tmp_path):
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    child, pipe = in_child(lambda _pipe: life(crashed / "s.db", Clockwork(die), beats=100))
    lines(pipe)
    os.waitpid(child, 0)
    wanted = control(BEATS)
    for number in range(9):
        source = random.Random(number)
        path = tmp_path / str(number) / "s.db"
        shutil.copytree(crashed, path.parent)
        log = path.with_name("s.db-wal")
        content = bytearray(log.read_bytes())
        [flip, destroy][number % 2](content, source)
        log.write_bytes(content)
        check(path, bytes(content), wanted)


def die(beat: int) -> None:
    if beat == 63:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("content", [b"", b"\0", b"x" * 50_000, b"SQLite format 3\0" + b"\xff" * 80])
def test_a_file_of_which_nothing_is_left_is_a_cold_start(healthy, tmp_path, content):
    path = tmp_path / "store.db"
    path.write_bytes(content)
    first = life(path, Clockwork(), beats=3)
    assert (first.status, first.beat) == ("paused", 3)
    assert first.woke.reason == ("damaged" if content else "first")
    assert [Path(each).read_bytes() for each in first.woke.kept_aside] == ([content] if content else [])


def test_a_file_that_was_never_a_store_is_left_alone(tmp_path):
    path = tmp_path / "photo.db"
    path.write_bytes(b"\x89PNG" * 5000)
    with pytest.raises(holdfast.InvalidInputError) as caught:
        life(path, Clockwork(), beats=1)
    assert caught.value.code == "not-a-store"
    assert [each.name for each in tmp_path.iterdir()] == ["photo.db"]


def test_an_agent_that_is_wrong_is_no_damage(healthy, tmp_path):
    path = tmp_path / "s.db"
    shutil.copy(healthy, path)

    class Wrong(Clockwork):
        def parts(self) -> dict[str, Any]:
            return super().parts() | {"lock": holdfast.functions(threading.Lock, print)}

    with pytest.raises(holdfast.InvalidInputError) as caught:
        life(path, Wrong(), beats=1)
    assert caught.value.code == "value-unsupported"
    assert [each.name for each in tmp_path.iterdir() if "damaged" in each.name] == []


def test_a_store_that_is_damaged_while_it_beats_is_mended_and_the_life_goes_on(healthy, tmp_path):
    path = tmp_path / "s.db"
    shutil.copy(healthy, path)

    def spoil(beat: int) -> None:
        if beat == 63:
            content = bytearray(path.read_bytes())
            for page in range(1, len(content) // 4096):
                content[page * 4096 + 2000] ^= 1
            path.write_bytes(content)

    ended = life(path, Clockwork(spoil), beats=10)
    assert ended.status == "paused"
    assert ended.woke.kept_aside
    with holdfast.open(path) as store:
        assert store.verify().ok
