"""Lease rules: who may claim, renew and use a lease, the same for all backends.

A backend reads the lease, asks here what a claim or a renewal makes of it, and stores the answer, all in one
transaction.

A process id says nothing by itself: the same number means another process after a reboot, in another container, or once
the first one has ended. So a holder also records its boot, its namespaces and its start time. Only where all of that
can be compared is a process called gone; elsewhere, as without `/proc`, others wait until its lease has run out.
Processes of one boot share a clock that nobody can set, and count by that.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from holdfast.errors import ConflictError, ErrorCode, bad_argument
from holdfast.storage.leases import Fence, Holder, Lease

_PROC: Final = Path("/proc")
_STATE: Final = 0
_STARTED: Final = 19
"""Where they stand after the name of the program; the manual counts from 1, and two fields come before."""
_ENDED: Final = ("Z", "X", "x")
"""Of a process that has ended, and that its parent has not asked about yet."""
_BOOT_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def boot_ticks() -> int:
    """The clock of this machine that nobody sets, in microseconds."""
    if _BOOT_CLOCK is None:
        return time.monotonic_ns() // 1000
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1000


def this_process(claim: str) -> Holder:
    """This process as the holder of a lease, under the id of one claim."""
    pid = os.getpid()
    place = _place()
    stat = _stat(pid) if place else None
    host = socket.gethostname().replace("/", "-") or "unknown"
    if stat is None:
        return Holder(claim, host, pid, "")
    return Holder(claim, f"{host}/{place}", pid, stat[_STARTED])


def are_in_one_place(holder: Holder, other: Holder) -> bool:
    """Whether two holders certainly have the same boot clock: the same boot of one machine, in the same namespaces."""
    place = _place_of(holder)
    return bool(place) and place == _place_of(other)


def is_gone(holder: Holder) -> bool:
    """Whether a holder is a process of this machine, in our own namespaces, that has certainly ended."""
    place = _place_of(holder)
    if not place or not holder.started or not 0 < holder.pid < 1 << 31 or place != _place():
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        # It is there, and another user's.
        pass
    stat = _stat(holder.pid)
    if stat is None:
        # It ended this moment, or we may not look at it (`hidepid`): the next look tells.
        return False
    if stat[_STARTED] != holder.started:
        return True
    return stat[_STATE] in _ENDED and not _has_threads(holder.pid)


def _place_of(holder: Holder) -> str:
    # What the machine is called says nothing: containers of one machine have names of their own.
    return holder.host.partition("/")[2]


def _place() -> str:
    """The boot of this machine and the namespaces that process numbers and clocks count in; empty if unknown."""
    try:
        # In a container that sees the host's /proc the numbers there are not ours.
        if str((_PROC / "self").readlink()) != str(os.getpid()):
            return ""
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        numbers = (_PROC / "self/ns/pid").stat().st_ino
    except (OSError, ValueError):
        return ""
    try:
        clock = (_PROC / "self/ns/time").stat().st_ino
    except OSError:
        # Before Linux 5.6 there is one clock for all.
        clock = 0
    return f"{boot}/{numbers}.{clock}" if boot else ""


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name of the program, which may itself hold spaces and parentheses."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = text.rpartition(b")")[2].decode("ascii", "replace").split()
    return fields if len(fields) > _STARTED else None


def _has_threads(pid: int) -> bool:
    """Whether threads of a process are left whose first one has ended."""
    try:
        return len(list((_PROC / str(pid) / "task").iterdir())) > 1
    except OSError:
        return False


_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_SECONDS: Final = 10 * 365 * 86_400.0
"""Ten years: nobody waits so long for a lease to run out, and all clocks can count so far."""

GC: Final = "gc"
"""The lease of the collection that is under way."""
_GC_SECONDS: Final = 60

TOO_FAR: Final = 2
"""A lease that runs out later than so many times its length from now was claimed before the clock was set back. One
length alone would take leases away where a clock is corrected by a moment."""


def microseconds(seconds: float) -> int:
    """The length of a lease.

    Raises:
        InvalidInputError: It is not a number of seconds above 0.
    """
    if type(seconds) not in (int, float) or not 0 < seconds <= _MOST_SECONDS:
        raise bad_argument(
            f"a lease cannot be held for {seconds!r} seconds", "give a number of seconds above 0, such as 30"
        )
    return max(1, round(seconds * 1_000_000))


def ticking(at: int, ticks: int) -> Callable[[], tuple[int, int]]:
    """Both clocks, going on from the times given by the caller.

    Whoever waits for a lock before it looks at a lease must not look with the time from before: a lease that was
    renewed meanwhile would run out too far in the future, as if the clock had been set back.
    """
    began = boot_ticks()

    def now() -> tuple[int, int]:
        passed = boot_ticks() - began
        return at + passed, ticks + passed

    return now


def check_free(current: Lease | None, holder: Holder, *, at: int, ticks: int) -> None:
    """Refuse a claim of a lease that somebody holds.

    Raises:
        ConflictError: Somebody does (`lease-held`).
    """
    if current is None or current.holder.id == holder.id:
        return
    left = time_left(current, holder, at=at, ticks=ticks)
    if left and not is_gone(current.holder):
        raise lease_held(current, left)


def time_left(lease: Lease, claimant: Holder, *, at: int, ticks: int) -> int:
    """For how many microseconds more others have to wait for a lease; 0 where its time is over, or cannot be believed.

    Who is on the holder's own machine counts by the clock that both have and that nobody sets: a live process does not
    lose its lease because the time was corrected. Everybody else counts by the store's clock.
    """
    if are_in_one_place(lease.holder, claimant):
        left = lease.ticks + lease.length - ticks
        if left <= TOO_FAR * lease.length:
            return max(0, left)
        # Not of this boot, whatever its id says: a machine that was brought back as it was once has the same again.
    left = lease.until - at
    return max(0, left) if left <= TOO_FAR * lease.length else 0


def taken(name: str, holder: Holder, length: int, *, epoch: int, at: int, ticks: int) -> Lease:
    """The lease that a claim makes."""
    return Lease(name, holder, epoch, since=at, until=at + length, length=length, ticks=ticks)


def renewed(current: Lease | None, lease: Lease, length: int, *, at: int, ticks: int) -> Lease:
    """The lease that a renewal makes.

    Raises:
        ConflictError: That claim does not hold it any more (`lease-lost`).
    """
    if current is None or not is_same(current, lease):
        raise lease_lost(lease.fence, current)
    return current._replace(until=at + length, length=length, ticks=ticks)


def is_same(current: Lease, lease: Lease) -> bool:
    """Whether a lease as it is belongs to the claim that this one came from."""
    return (current.name, current.epoch, current.holder.id) == (lease.name, lease.epoch, lease.holder.id)


def check_fence(current: Lease | None, fence: Fence) -> None:
    """Refuse a commit whose writer does not hold the lease any more.

    Raises:
        ConflictError: Somebody else does, or nobody (`lease-lost`).
    """
    if current is None or current.epoch != fence.epoch:
        raise lease_lost(fence, current)


def is_named_after(name: str, session: str) -> bool:
    """Whether a lease is one of a session: `prefix:session`."""
    return name.partition(":")[2] == session


def gc_lease(holder: Holder, epoch: int) -> Lease:
    """The lease of a collection of chunks, claimed or renewed now; it goes by the epoch that it opened."""
    length = _GC_SECONDS * 1_000_000
    return taken(GC, holder, length, epoch=epoch, at=time.time_ns() // 1000, ticks=boot_ticks())


def check_no_collection(current: Lease | None, mine: Lease, stale_after: float | None) -> None:
    """Refuse a collection while another one has renewed its lease within so many seconds; None asks nothing.

    Raises:
        ConflictError: Another one has (`collection-running`).
    """
    if current is None or stale_after is None:
        return
    length = round(stale_after * 1_000_000)
    asked = current._replace(length=length, until=current.until - current.length + length)
    if time_left(asked, mine.holder, at=mine.since, ticks=mine.ticks) and not is_gone(current.holder):
        raise ConflictError.collection_running()


def lease_held(current: Lease, left: int) -> ConflictError:
    """Somebody holds the lease that was to be claimed, for so many microseconds more."""
    pid, host = current.holder.pid, _shown_host(current.holder)
    return ConflictError(
        f"{current.name!r} is held by process {pid} on {host}, since {_shown(current.since)} and until "
        f"{_shown(current.until)} unless it goes on",
        code=ErrorCode.LEASE_HELD,
        hint=f"stop that process (on {host}: kill {pid}), or try again in {left / 1_000_000:.0f} s: if it has died, "
        "its lease has run out by then",
        **_described(current),
    )


def lease_lost(fence: Fence, current: Lease | None, why: str = "it was given up") -> ConflictError:
    """A writer does not hold its lease any more: somebody else does, or nobody, and `why` says how that came."""
    if current is None:
        now = why
    else:
        holder = current.holder
        now = f"process {holder.pid} on {_shown_host(holder)} has it since {_shown(current.since)}"
    return ConflictError(
        f"the lease {fence.name!r} is lost, and nothing was written: {now}",
        code=ErrorCode.LEASE_LOST,
        hint="stop, or claim the lease again and load what the other one saved before going on",
        **({"name": fence.name} if current is None else _described(current)),
        lost_epoch=fence.epoch,
    )


def _described(lease: Lease) -> dict[str, object]:
    return {
        "name": lease.name,
        "pid": lease.holder.pid,
        "host": _shown_host(lease.holder),
        "since": _shown(lease.since),
        "until": _shown(lease.until),
        "epoch": lease.epoch,
    }


def _shown_host(holder: Holder) -> str:
    return holder.host.partition("/")[0]


def _shown(at: int) -> str:
    try:
        when = _EARLIEST + timedelta(microseconds=at)
    except OverflowError:
        return "a time that no calendar has"
    return when.isoformat(timespec="seconds").replace("+00:00", "Z")
