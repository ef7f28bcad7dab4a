"""Leases between real processes: one winner of many, a dead holder followed at once, a late one that writes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.reliability.crews import Crew

import holdfast
from holdfast.backends.lease_rules import this_process
from holdfast.errors import ConflictError, ErrorCode

NAME = "heartbeat:s"
PATIENCE = 60.0
LONG = 600.0
SHORT = 0.5
CLAIMANTS = 8
WINS = 6

HOLDER = """
import sys
import holdfast

store = holdfast.open(sys.argv[1])
held = store.lease("heartbeat:s", seconds=float(sys.argv[2]))
session = store.session("s", lease=held)
print("held", held.epoch, flush=True)
for line in sys.stdin:
    try:
        print("saved", session.save({"n": int(line)}).seq, flush=True)
    except holdfast.ConflictError as error:
        print(error.code, flush=True)
"""


class Process:
    """Another process that has the lease and saves when it is told to."""

    def __init__(self, target: str, seconds: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, target, str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        assert self.hear().startswith("held")

    def hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def tell(self, number: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()

    def save(self, number: int) -> str:
        self.tell(number)
        return self.hear()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    place: str = request.getfixturevalue("postgres_place")
    return place


@pytest.fixture
def store(target: str) -> Iterator[holdfast.Store]:
    with holdfast.open(target) as opened:
        yield opened


@pytest.fixture
def start(store: holdfast.Store, target: str) -> Iterator[Callable[[float], Process]]:
    """Starts processes that hold the lease."""
    started: list[Process] = []

    def begin(seconds: float) -> Process:
        started.append(Process(target, seconds))
        return started[-1]

    yield begin
    for each in started:
        each.end()


def is_held(store: holdfast.Store) -> bool:
    try:
        store.lease(NAME).release()
    except ConflictError as error:
        if error.code is not ErrorCode.LEASE_HELD:
            raise
        return True
    return False


def stop(store: holdfast.Store, holder: Process) -> None:
    """Stop a process, but not in the middle of a write: in SQLite all others would wait for it."""
    with holdfast.open(store.url if store.url.startswith("sqlite") else "memory:", timeout=0.2) as impatient:
        while True:
            os.kill(holder.pid, signal.SIGSTOP)
            try:
                impatient.session("probe").save({})
            except holdfast.BackendError:
                os.kill(holder.pid, signal.SIGCONT)
            else:
                return


def claim_when_over(store: holdfast.Store) -> holdfast.HeldLease:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return store.lease(NAME)
        except ConflictError:
            assert time.monotonic() < deadline, "it does not run out"
            time.sleep(0.01)


def start_and_save(start: Callable[[float], Process]) -> Process:
    """A holder for a short time that has saved once."""
    deadline = time.monotonic() + PATIENCE
    while True:
        holder = start(SHORT)
        said = holder.save(1)
        if said == "saved 1":
            return holder
        # On a busy machine its time may be over before it comes to that; it has written nothing then.
        assert said == "lease-lost"
        assert time.monotonic() < deadline, "none of them saves in time"
        holder.end()


def test_of_many_processes_one_at_a_time_has_it(target: str, tmp_path: Path) -> None:
    holdfast.open(target).close()
    alone = tmp_path / "alone"

    def work(say: Callable[[str], None], _: Callable[[], bool]) -> None:
        with holdfast.open(target) as store:
            won = 0
            while won < WINS:
                try:
                    held = store.lease(NAME)
                except ConflictError as error:
                    if error.code is not ErrorCode.LEASE_HELD:
                        raise
                    time.sleep(0.001)
                    continue
                with held:
                    # Fails where another one is in here.
                    os.close(os.open(alone, os.O_CREAT | os.O_EXCL))
                    store.session("s", lease=held).save({"epoch": held.epoch})
                    won += 1
                    alone.unlink()
                say(f"win {held.epoch}")

    crew = Crew()
    for _ in range(CLAIMANTS):
        crew.start(work)
    crew.listen()
    crew.stop()
    epochs = [int(line.split()[1]) for line in crew.said]
    assert len(set(epochs)) == len(epochs) == CLAIMANTS * WINS
    with holdfast.open(target) as store:
        saved = [each["epoch"] for each in store.load_each(reversed(store.session("s").log()))]
    assert saved == sorted(epochs)


def test_a_holder_that_was_killed_is_followed_at_once(
    store: holdfast.Store, start: Callable[[float], Process]
) -> None:
    holder = start(LONG)
    assert holder.save(1) == "saved 1"
    assert is_held(store)
    holder.end()
    with store.lease(NAME, seconds=LONG) as held:
        assert store.session("s", lease=held).save({"n": 2}).seq == 2


def test_a_killed_holder_is_followed_though_nobody_has_asked_about_its_end(
    store: holdfast.Store, start: Callable[[float], Process]
) -> None:
    holder = start(LONG)
    os.kill(holder.pid, signal.SIGKILL)
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    assert not is_held(store)


def test_a_holder_that_is_slow_keeps_it(store: holdfast.Store, start: Callable[[float], Process]) -> None:
    holder = start(LONG)
    os.kill(holder.pid, signal.SIGSTOP)
    assert is_held(store)
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.save(1) == "saved 1"
    assert is_held(store)


def test_a_holder_that_was_stopped_for_too_long_writes_nothing_more(
    store: holdfast.Store, start: Callable[[float], Process]
) -> None:
    holder = start_and_save(start)
    stop(store, holder)
    with claim_when_over(store) as held:
        mine = store.session("s", lease=held)
        mine.load()
        # It is waiting in the pipe when the other one wakes up, and may come before the thread that renews.
        holder.tell(2)
        os.kill(holder.pid, signal.SIGCONT)
        assert holder.hear() == "lease-lost"
        assert [each.seq for each in mine.log()] == [1]
        assert mine.save({"n": 3}).seq == 2
        assert holder.save(4) == "lease-lost"
        assert mine.load() == {"n": 3}


def test_a_holder_that_was_stopped_for_longer_than_its_time_has_lost_it_though_nobody_took_its_place(
    store: holdfast.Store, start: Callable[[float], Process]
) -> None:
    holder = start(SHORT)
    stop(store, holder)
    time.sleep(1.5 * SHORT)
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.save(1) == "lease-lost"
    with claim_when_over(store) as held:
        assert store.session("s", lease=held).save({"n": 2}).seq == 1


@pytest.mark.parametrize("jump", [-3600, 40, 3600])
def test_a_clock_that_jumps_gives_no_second_holder_beside_one_that_is_alive(
    store: holdfast.Store, start: Callable[[float], Process], jump: int
) -> None:
    if not this_process("x").started:
        pytest.skip("this system has no /proc like Linux")
    holder = start(LONG)
    jumped = holdfast.Store(store._backend, clock=lambda: time.time_ns() // 1000 + jump * 1_000_000)
    assert is_held(jumped)
    assert holder.save(1) == "saved 1"
    os.kill(holder.pid, signal.SIGKILL)
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    # Of a process that has ended no clock has to be asked.
    assert not is_held(jumped)


def test_stores_with_leases_are_verified_repaired_copied_and_backed_up(tmp_path: Path, target: str) -> None:
    with holdfast.open(target) as store, store.lease(NAME) as held:
        session = store.session("s", lease=held)
        session.save({"n": 1})
        assert store.verify().ok
        with holdfast.open(tmp_path / "copy.db") as copy:
            store.copy_to(copy)
            assert copy.session("s").load() == {"n": 1}
            copy.lease(NAME).release()
        if store.url.startswith("sqlite"):
            store.backup(tmp_path / "backup.db")
            with holdfast.open(tmp_path / "backup.db") as backup:
                assert backup.verify().ok
                assert backup.session("s").load() == {"n": 1}
        assert store.gc().chunks == 0
        assert session.save({"n": 2}).seq == 2
