"""Who is gone and what a lease comes to: the rules that all backends share, and the processes they go by."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.backends import leasing, processes
from holdfast.backends.processes import are_in_one_place, boot_ticks, is_gone, this_process
from holdfast.errors import ConflictError, ErrorCode
from holdfast.storage.leasing import Fence, Holder, Lease

needs_proc = pytest.mark.skipif(not this_process("x").started, reason="this system has no /proc like Linux")

TIMES = st.integers(0, 2**60)
LENGTHS = st.integers(1, 10**15)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing until it is killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def holder_of(pid: int) -> Holder:
    """That process as the holder of a lease."""
    stat = processes._stat(pid)
    assert stat is not None
    return this_process("x")._replace(pid=pid, started=stat[processes._STARTED])


@needs_proc
def test_this_process_is_not_gone() -> None:
    mine = this_process("x")
    assert (mine.id, mine.pid) == ("x", os.getpid())
    assert not is_gone(mine)


@needs_proc
def test_a_process_that_was_killed_is_gone_before_its_parent_has_asked(
    child: subprocess.Popen[bytes],
) -> None:
    holder = holder_of(child.pid)
    assert not is_gone(holder)
    os.kill(child.pid, signal.SIGSTOP)
    assert not is_gone(holder)
    os.kill(child.pid, signal.SIGKILL)
    # Waits until it has ended, and leaves it there as what is called a zombie.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(holder)
    child.wait()
    assert is_gone(holder)


@needs_proc
def test_another_process_under_the_same_number_is_another(child: subprocess.Popen[bytes]) -> None:
    holder = holder_of(child.pid)
    assert is_gone(holder._replace(started=str(int(holder.started) - 1)))


@needs_proc
def test_the_start_of_a_process_is_when_it_was_started() -> None:
    def uptime() -> float:
        return float(Path("/proc/uptime").read_text().split()[0])

    before = uptime()
    with subprocess.Popen(["sleep", "600"]) as process:
        after = uptime()
        started = int(holder_of(process.pid).started) / os.sysconf("SC_CLK_TCK")
        process.kill()
    # The clock of the kernel ticks a hundred times a second.
    assert before - 0.02 <= started <= after + 0.02


@needs_proc
def test_processes_elsewhere_are_never_called_gone() -> None:
    mine = this_process("x")._replace(started="1")
    assert is_gone(mine)
    name, boot, spaces = mine.host.split("/")
    for host in (name, f"{name}/other-boot/{spaces}", f"{name}/{boot}/1.1", f"{name}/", ""):
        assert not is_gone(mine._replace(host=host))
    # What the machine is called says nothing: containers of one machine have names of their own.
    assert is_gone(mine._replace(host=f"other/{boot}/{spaces}"))


@needs_proc
@pytest.mark.parametrize("pid", [0, -1, 2**31, 2**70])
def test_a_number_that_no_process_can_have_is_not_looked_for(pid: int) -> None:
    assert not is_gone(this_process("x")._replace(pid=pid))


@needs_proc
def test_a_start_that_is_not_known_is_waited_for() -> None:
    assert not is_gone(this_process("x")._replace(started="", pid=2**31 - 1))


@needs_proc
def test_a_process_that_may_not_be_looked_at_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = this_process("x")
    monkeypatch.setattr(processes, "_stat", lambda _: None)
    assert not is_gone(mine)


def test_without_proc_nobody_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = this_process("x")
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    mine = this_process("x")
    assert (mine.started, "/" in mine.host) == ("", False)
    assert not is_gone(mine._replace(pid=2**31 - 1))
    assert not is_gone(known._replace(pid=2**31 - 1))


def test_a_proc_of_another_namespace_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to(str(os.getpid() + 1))
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    assert this_process("x").started == ""


@needs_proc
def test_a_program_may_be_called_anything(tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1 (b c"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "600"]) as process:
        assert not is_gone(holder_of(process.pid))
        process.kill()


@needs_proc
def test_a_process_whose_first_thread_has_ended_is_there_while_others_run() -> None:
    program = (
        "import ctypes, threading, time, sys\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "print('ready', flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        holder = holder_of(process.pid)
        for _ in range(20_000):
            stat = processes._stat(process.pid)
            if stat is not None and stat[0] == "Z":
                break
        else:
            process.kill()
            pytest.skip("the first thread does not end by itself here")
        assert not is_gone(holder)
        process.kill()


@needs_proc
def test_places_are_compared_only_where_they_are_known() -> None:
    mine = this_process("x")
    name, boot, spaces = mine.host.split("/")
    assert are_in_one_place(mine, mine._replace(host=f"other/{boot}/{spaces}"))
    for host in (name, f"{name}/other-boot/{spaces}", f"{name}/{boot}/1.1", f"{name}/", ""):
        assert not are_in_one_place(mine, mine._replace(host=host))
        assert not are_in_one_place(mine._replace(host=host), mine)
    for host in (name, f"{name}/", ""):
        assert not are_in_one_place(mine._replace(host=host), mine._replace(host=host))


@needs_proc
def test_a_namespace_of_clocks_is_a_place_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to(str(os.getpid()))
    mine = tmp_path / str(os.getpid())
    (mine / "ns").mkdir(parents=True)
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("boot")
    for name in ("pid", "time", "other"):
        (mine / "ns" / name).touch()
    (mine / "stat").write_bytes(Path("/proc/self/stat").read_bytes())
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    first = this_process("x")
    assert are_in_one_place(first, this_process("y"))
    (mine / "ns/other").replace(mine / "ns/time")
    assert not are_in_one_place(first, this_process("y"))


@needs_proc
def test_processes_of_this_machine_have_the_same_ticks() -> None:
    program = "from holdfast.backends.processes import boot_ticks; print(boot_ticks())"
    before = boot_ticks()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert before <= int(done.stdout) <= boot_ticks()


def test_where_there_is_no_clock_of_the_boot_another_goes_on_just_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_BOOT_CLOCK", None)
    first = boot_ticks()
    threading.Event().wait(0.01)
    assert boot_ticks() >= first + 9_000


@given(at=TIMES, length=LENGTHS, later=st.integers(0, 2**61), ticks=TIMES)
def test_a_lease_lasts_its_time_and_no_clock_makes_it_last_for_ever(
    at: int, length: int, later: int, ticks: int
) -> None:
    made = leasing.taken("h:s", Holder("a", "far", 1, ""), length, epoch=1, at=at, ticks=0)
    left = leasing.time_left(made, Holder("b", "far", 2, ""), at=later, ticks=ticks)
    assert left == (at + length - later if at - length <= later < at + length else 0)


@given(at=TIMES, length=LENGTHS, later=TIMES, ticks=TIMES, after=st.integers(0, 2**61))
def test_in_one_place_the_ticks_count_and_no_other_clock(
    at: int, length: int, later: int, ticks: int, after: int
) -> None:
    made = leasing.taken("h:s", Holder("a", "far/boot/1.1", 1, ""), length, epoch=1, at=at, ticks=ticks)
    beside = Holder("b", "another-name/boot/1.1", 2, "")
    assert leasing.time_left(made, beside, at=later, ticks=ticks + after) == max(0, length - after)
    # A claim that looked at its clock a moment before the holder did waits that moment longer.
    before = min(after, length)
    assert leasing.time_left(made, beside, at=later, ticks=ticks - before) == length + before


@given(at=TIMES, length=LENGTHS, later=TIMES, ahead=st.integers(1, 2**60))
def test_ticks_that_the_boot_has_not_reached_are_those_of_another(
    at: int, length: int, later: int, ahead: int
) -> None:
    holder, beside = Holder("a", "far/boot/1.1", 1, ""), Holder("b", "far/boot/1.1", 2, "")
    made = leasing.taken("h:s", holder, length, epoch=1, at=at, ticks=length + ahead)
    elsewhere = Holder("b", "far/other/1.1", 2, "")
    assert leasing.time_left(made, beside, at=later, ticks=0) == leasing.time_left(
        made, elsewhere, at=later, ticks=0
    )


@given(at=TIMES, length=LENGTHS, after=LENGTHS, longer=LENGTHS)
def test_a_renewal_counts_from_its_own_time(at: int, length: int, after: int, longer: int) -> None:
    made = leasing.taken("h:s", Holder("a", "far", 1, ""), length, epoch=1, at=at, ticks=7)
    again = leasing.renewed(made, made, longer, at=at + after, ticks=7 + after)
    assert (again.until, again.length, again.since, again.epoch) == (at + after + longer, longer, at, 1)
    assert (made.ticks, again.ticks) == (7, 7 + after)
    for current in (None, made._replace(epoch=2), made._replace(holder=Holder("b", "far", 1, ""))):
        with pytest.raises(ConflictError) as lost:
            leasing.renewed(current, made, longer, at=at, ticks=7)
        assert lost.value.code is ErrorCode.LEASE_LOST


@given(since=st.integers(-(2**63), 2**63 - 1), until=st.integers(-(2**63), 2**63 - 1), host=st.text())
def test_every_lease_can_be_told_of(since: int, until: int, host: str) -> None:
    lease = Lease("h:s", Holder("secret-id", host, 7, "9"), 3, since, until, 1, 0)
    for error in (leasing.lease_held(lease, 5), leasing.lease_lost(Fence("h:s", 1), lease)):
        assert "secret-id" not in str(error.to_dict())
        assert "process 7" in str(error)


def test_a_clock_goes_on_while_one_waits_for_a_lock() -> None:
    now = leasing.ticking(1_000)
    waited = threading.Event()
    waited.wait(0.01)
    assert now() >= 1_000 + 9_000
