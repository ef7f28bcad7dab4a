"""Leases: who may write under a name, one holder at a time, and the fence that keeps all earlier ones out.

A lease runs out unless it is renewed, so that a holder that died does not keep its place. A holder that was only slow
may still believe that it has the lease: each claim gets a higher epoch than any before, and a commit that carries the
epoch of an older claim as its fence is refused. So at most one holder's commits get through, whatever clocks say.

Between machines time is the store's. On one machine it is that of a clock which nobody sets (`Lease.ticks`): setting
the other one takes no lease from a process that is alive.
"""

from __future__ import annotations

from holdfast.record import Record


class Holder(Record):
    """Who claims a lease: one claim of one process."""

    id: str
    """Made for this claim, and used by no other."""
    host: str
    """The machine for people, then what tells whether its process numbers can be compared with ours:
    `name/boot/namespaces`. Where that is not known, the name alone."""
    pid: int
    started: str
    """When the process began, in the machine's own terms: the same number at another time is another process."""


class Lease(Record):
    """A lease as the store has it."""

    name: str
    holder: Holder
    epoch: int
    """Higher than that of any claim before, under whatever name."""
    since: int
    """When it was claimed, by the store's clock."""
    until: int
    """When it runs out unless it is renewed, by the store's clock."""
    length: int
    """For how long it was last claimed or renewed, in microseconds."""
    ticks: int
    """When it was last claimed or renewed, by the clock of the holder's machine that nobody sets: microseconds of its
    boot. Who claims from the same place counts by this clock, and by no other."""

    @property
    def fence(self) -> Fence:
        """What a commit carries to be refused once somebody else has the lease."""
        return Fence(self.name, self.epoch)


class Fence(Record):
    """The claim that a commit counts on; see `Batch.fence`."""

    name: str
    epoch: int
