"""Leases in memory: claimed and given up under the lock of the backend, by the clock of whoever asks."""

from __future__ import annotations

from holdfast.backends import leasing
from holdfast.backends.memory.moment import Moment
from holdfast.storage.leases import Holder, Lease


def claim(moment: Moment, name: str, holder: Holder, length: int, *, at: int, ticks: int) -> Lease:
    """Take a lease, or raise where somebody holds it."""
    leasing.check_free(moment.leases.get(name), holder, at=at, ticks=ticks)
    moment.lease_epoch += 1
    made = leasing.taken(name, holder, length, epoch=moment.lease_epoch, at=at, ticks=ticks)
    moment.leases[name] = made
    return made


def renew(moment: Moment, lease: Lease, length: int, *, at: int, ticks: int) -> Lease:
    """Hold a lease for longer, or raise where it is lost."""
    made = leasing.renewed(moment.leases.get(lease.name), lease, length, at=at, ticks=ticks)
    moment.leases[lease.name] = made
    return made


def release(moment: Moment, lease: Lease) -> None:
    """Give a lease up, if that claim still holds it."""
    current = moment.leases.get(lease.name)
    if current is not None and leasing.is_same(current, lease):
        del moment.leases[lease.name]
