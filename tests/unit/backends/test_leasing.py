"""Who is gone and what a lease comes to: the rules that all backends share, and the processes they go by."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.backends import lease_rules
from holdfast.backends.lease_rules import is_gone, this_process
from holdfast.storage.leases import Holder

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
    stat = lease_rules._stat(pid)
    assert stat is not None
    return this_process("x")._replace(pid=pid, started=stat[lease_rules._STARTED])


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
def test_processes_elsewhere_are_never_called_gone() -> None:
    mine = this_process("x")._replace(started="1")
    assert is_gone(mine)
    name, boot, spaces = mine.host.split("/")
    for host in (name, f"{name}/other-boot/{spaces}", f"{name}/{boot}/1.1", f"{name}/", ""):
        assert not is_gone(mine._replace(host=host))
    # What the machine is called says nothing: containers of one machine have names of their own.
    assert is_gone(mine._replace(host=f"other/{boot}/{spaces}"))


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
            stat = lease_rules._stat(process.pid)
            if stat is not None and stat[0] == "Z":
                break
        else:
            process.kill()
            pytest.skip("the first thread does not end by itself here")
        assert not is_gone(holder)
        process.kill()


@given(at=TIMES, length=LENGTHS, later=st.integers(0, 2**61), ticks=TIMES)
def test_a_lease_lasts_its_time_and_no_clock_makes_it_last_for_ever(
    at: int, length: int, later: int, ticks: int
) -> None:
    made = lease_rules.taken("h:s", Holder("a", "far", 1, ""), length, epoch=1, at=at, ticks=0)
    left = lease_rules.time_left(made, Holder("b", "far", 2, ""), at=later, ticks=ticks)
    assert left == (at + length - later if at - length <= later < at + length else 0)


@given(at=TIMES, length=LENGTHS, later=TIMES, ticks=TIMES, after=st.integers(0, 2**61))
def test_in_one_place_the_ticks_count_and_no_other_clock(
    at: int, length: int, later: int, ticks: int, after: int
) -> None:
    made = lease_rules.taken("h:s", Holder("a", "far/boot/1.1", 1, ""), length, epoch=1, at=at, ticks=ticks)
    beside = Holder("b", "another-name/boot/1.1", 2, "")
    assert lease_rules.time_left(made, beside, at=later, ticks=ticks + after) == max(0, length - after)
    # A claim that looked at its clock a moment before the holder did waits that moment longer.
    before = min(after, length)
    assert lease_rules.time_left(made, beside, at=later, ticks=ticks - before) == length + before


@given(at=TIMES, length=LENGTHS, later=TIMES, ahead=st.integers(1, 2**60))
def test_ticks_that_the_boot_has_not_reached_are_those_of_another(
    at: int, length: int, later: int, ahead: int
) -> None:
    holder, beside = Holder("a", "far/boot/1.1", 1, ""), Holder("b", "far/boot/1.1", 2, "")
    made = lease_rules.taken("h:s", holder, length, epoch=1, at=at, ticks=length + ahead)
    elsewhere = Holder("b", "far/other/1.1", 2, "")
    assert lease_rules.time_left(made, beside, at=later, ticks=0) == lease_rules.time_left(
        made, elsewhere, at=later, ticks=0
    )
