"""The rules of leases as plain functions over records, so that all backends take, keep and refuse them alike.

A backend reads the lease as it is, asks here what a claim or a renewal makes of it, and stores the answer; all in one
transaction, or with a condition on the epoch that was read. `holdfast.backends.processes` knows who is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.backends.processes import are_in_one_place, boot_ticks, is_gone
from holdfast.errors import ConflictError, ErrorCode, InvalidInputError
from holdfast.storage.leases import Fence, Holder, Lease

_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_SECONDS: Final = 10 * 365 * 86_400.0
"""Ten years: nobody waits so long for a lease to run out, and all clocks can count so far."""

TOO_FAR: Final = 2
"""A lease that runs out later than so many times its length from now was claimed before the clock was set back. One
length alone would take leases away where a clock is corrected by a moment."""


def microseconds(seconds: float) -> int:
    """The length of a lease.

    Raises:
        InvalidInputError: It is not a number of seconds above 0.
    """
    if type(seconds) not in (int, float) or not 0 < seconds <= _MOST_SECONDS:
        raise InvalidInputError(
            f"a lease cannot be held for {seconds!r} seconds",
            code=ErrorCode.BAD_ARGUMENT,
            hint="give a number of seconds above 0, such as 30",
        )
    return max(1, round(seconds * 1_000_000))


def ticking(at: int) -> Callable[[], int]:
    """A clock that goes on from a time given by the caller, of whichever clock.

    Whoever waits for a lock before it looks at a lease must not look with the time from before: a lease that was
    renewed meanwhile would run out too far in the future, as if the clock had been set back.
    """
    began = boot_ticks()
    return lambda: at + boot_ticks() - began


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
