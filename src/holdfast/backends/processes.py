"""Which process this is, and whether another one is still there: what leases go by on one machine.

A process number says nothing by itself: the same number means another process after a restart of the machine, in
another container, and once the first one has ended. So a holder also says under which boot and in which namespaces it
runs, and when it was started. Only where all of that can be compared is a process ever called gone; everywhere else,
as on systems without `/proc`, others wait until its lease has run out.

The same place has one clock that counts from its boot, also while the machine sleeps, and that nobody sets: processes
there can compare what it said.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Final

from holdfast.storage.leases import Holder

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
