"""Leases in PostgreSQL: one trip to the server for each claim and renewal, by the server's clock.

Except on the holder's own machine, where both go by the clock of that machine, as everywhere: the server gets what it
said before the trip, so that a lease never seems to last longer than it does.

What only this machine can tell is whether a holder is a process of ours that has ended. So a claim that is refused
comes back with the holder, and where that one is gone it is made again, for the very claim that was looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from holdfast.backends import lease_rules
from holdfast.backends.lease_rules import is_gone
from holdfast.backends.postgres.create import VERSION
from holdfast.backends.rows import Row
from holdfast.storage.leases import Fence, Holder, Lease

Connection = psycopg.Connection[Row]

_COLUMNS = "name, holder, host, pid, started, epoch, since, until, length, ticks"
_CLAIM = "SELECT * FROM claim(%s, %s, %s, %s, %s::bigint, %s, %s::bigint, %s::bigint, %s::bigint)"
_RENEW = (
    "UPDATE leases SET until = now_us() + %s::bigint, length = %s::bigint, ticks = %s::bigint "  # noqa: S608 - constants
    f"WHERE name = %s AND epoch = %s::bigint AND holder = %s RETURNING {_COLUMNS}"
)
_RELEASE = "DELETE FROM leases WHERE name = %s AND epoch = %s::bigint AND holder = %s"
_SELECT = f"SELECT {_COLUMNS} FROM leases WHERE name = %s"  # noqa: S608 - constants
# Held until the transaction ends: who claims the lease meanwhile waits, who renews it does not.
_HOLD = "SELECT 1 FROM leases WHERE name = %s AND epoch = %s::bigint FOR KEY SHARE"
_DELETE_NAMED_AFTER = "DELETE FROM leases WHERE substr(name, strpos(name, ':') + 1) = %s"


def claim(connection: Connection, name: str, holder: Holder, length: int, ticks: int) -> Lease:
    """Take a lease, or raise where somebody holds it."""
    dead: int | None = None
    while True:
        # Numbers as text: psycopg would prepare another statement for each size of them.
        given = [VERSION, name, *holder[:2], str(holder.pid), holder.started]
        given += [str(length), str(ticks), dead and str(dead)]
        ((is_taken, now, *row),) = connection.execute(_CLAIM, given).fetchall()
        made = _lease(row)
        if is_taken:
            return made
        if made.epoch == dead or not is_gone(made.holder):
            raise lease_rules.lease_held(made, lease_rules.time_left(made, holder, at=now, ticks=ticks))
        dead = made.epoch


def renew(connection: Connection, lease: Lease, length: int, ticks: int) -> Lease:
    """Hold a lease for longer, or raise where it is lost."""
    given = [str(length), str(length), str(ticks), lease.name, str(lease.epoch), lease.holder.id]
    found = connection.execute(_RENEW, given).fetchall()
    if not found:
        raise lease_rules.lease_lost(lease.fence, read_lease(connection, lease.name))
    return _lease(found[0])


def release(connection: Connection, lease: Lease) -> None:
    """Give a lease up, if that claim still holds it."""
    connection.execute(_RELEASE, [lease.name, str(lease.epoch), lease.holder.id])


def read_lease(connection: Connection, name: str) -> Lease | None:
    """The lease of that name as it is."""
    found = connection.execute(_SELECT, [name]).fetchall()
    return _lease(found[0]) if found else None


def check_fence(connection: Connection, fence: Fence) -> None:
    """Raise where a lease is not held by that claim; inside of a transaction, until whose end it stays held."""
    if not connection.execute(_HOLD, [fence.name, str(fence.epoch)]).fetchall():
        raise lease_rules.lease_lost(fence, read_lease(connection, fence.name))


def remove_named_after(connection: Connection, session: str) -> None:
    """Remove the leases of a session that is erased."""
    connection.execute(_DELETE_NAMED_AFTER, [session])


def _lease(row: Sequence[Any]) -> Lease:
    name, holder, host, pid, started, *rest = row
    return Lease(name, Holder(holder, host, pid, started), *rest)
