"""Leases in SQLite: each claim, renewal and release is one short transaction that has the write lock.

Time is that of whoever asks, by both of their clocks, because a file has none. Epochs come from a counter and not from
the rows, so that a lease that is given up leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable

import apsw

from holdfast.backends import lease_rules
from holdfast.backends.rows import Row
from holdfast.backends.sqlite.connection import fetch
from holdfast.storage.leases import Fence, Holder, Lease

_SELECT = (
    "SELECT name, holder, host, pid, started, epoch, since, until, length, ticks FROM leases WHERE name = ?"
)
_NEXT_EPOCH = "UPDATE counters SET value = value + 1 WHERE name = 'lease' RETURNING value"
_PUT = "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_RENEW = "UPDATE leases SET until = ?, length = ?, ticks = ? WHERE name = ?"
_DELETE = "DELETE FROM leases WHERE name = ? AND epoch = ? AND holder = ?"
_HAS_EPOCH = "SELECT 1 FROM leases WHERE name = ? AND epoch = ?"
_DELETE_NAMED_AFTER = "DELETE FROM leases WHERE substr(name, instr(name, ':') + 1) = ?"


def read_lease(connection: apsw.Connection, name: str) -> Lease | None:
    """The lease of that name as it is."""
    found = fetch(connection, _SELECT, (name,))
    return _lease(found[0]) if found else None


def claim(
    connection: apsw.Connection, name: str, holder: Holder, length: int, now: Callable[[], tuple[int, int]]
) -> Lease:
    """Take a lease inside a transaction that has the write lock, or raise where somebody holds it."""
    at, ticks = now()
    lease_rules.check_free(read_lease(connection, name), holder, at=at, ticks=ticks)
    ((epoch,),) = fetch(connection, _NEXT_EPOCH)
    made = lease_rules.taken(name, holder, length, epoch=epoch, at=at, ticks=ticks)
    put_lease(connection, made)
    return made


def put_lease(connection: apsw.Connection, lease: Lease) -> None:
    """Put a lease in the place of what there was, likewise."""
    connection.execute(_PUT, (lease.name, *lease.holder, *lease[2:]))


def renew(
    connection: apsw.Connection, lease: Lease, length: int, now: Callable[[], tuple[int, int]]
) -> Lease:
    """Hold a lease for longer, likewise, or raise where it is lost."""
    at, ticks = now()
    made = lease_rules.renewed(read_lease(connection, lease.name), lease, length, at=at, ticks=ticks)
    connection.execute(_RENEW, (made.until, made.length, made.ticks, made.name))
    return made


def release(connection: apsw.Connection, lease: Lease) -> None:
    """Give a lease up, likewise, if that claim still holds it."""
    connection.execute(_DELETE, (lease.name, lease.epoch, lease.holder.id))


def check_fence(connection: apsw.Connection, fence: Fence) -> None:
    """Raise where a lease is not held by that claim; inside a transaction that has the write lock."""
    if not fetch(connection, _HAS_EPOCH, fence):
        raise lease_rules.lease_lost(fence, read_lease(connection, fence.name))


def remove_named_after(connection: apsw.Connection, session: str) -> None:
    """Remove the leases of a session that is erased."""
    connection.execute(_DELETE_NAMED_AFTER, (session,))


def _lease(row: Row) -> Lease:
    name, holder, host, pid, started, *rest = row
    return Lease(name, Holder(holder, host, pid, started), *rest)
