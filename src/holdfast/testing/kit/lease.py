"""Leases: one holder at a time, by the clock that counts for it, and commits that carry the fence of an older claim."""

from __future__ import annotations

import threading
import time

import pytest

from holdfast.backends.lease_rules import boot_ticks, this_process
from holdfast.errors import ConflictError, ErrorCode, InvalidInputError
from holdfast.storage.leases import Fence, Holder, Lease
from holdfast.storage.ports import Backend
from holdfast.storage.records import Batch, Guard
from holdfast.testing.kit import contract
from holdfast.testing.kit.contract import Contract, commit_all, refused
from holdfast.testing.rows import checkpoint_id, contents, save

NAME = "heartbeat:work"
LONG = 600.0
SHORT = 0.02
"""Seconds; whoever claims for so long has lost it again soon."""
HALF = 0.5
"""Seconds; long enough for a claim to be made meanwhile, on a machine that is busy with other things too."""
HOUR = 3_600_000_000
FAR_AHEAD = 10**15
"""Ticks of thirty years: no clock of a machine gets there while this runs."""


def somebody(label: str) -> Holder:
    """A holder on a machine of which nobody here knows anything."""
    return Holder(label, f"{label}.example/another-boot-{label}/1.1", 4711, "77")


def neighbour(label: str, host: str | None = None) -> Holder:
    """A holder on one machine that all of them are on, and that is not this one."""
    return Holder(label, f"{label}.example/one-boot/1.1" if host is None else host, 4711, "77")


def claim(
    backend: Backend,
    holder: str | Holder,
    seconds: float = LONG,
    *,
    name: str = NAME,
    late: int = 0,
    ticks: int | None = None,
) -> Lease:
    """Claim a lease by the clocks of this machine, or where the time is later, or with other ticks."""
    who = somebody(holder) if isinstance(holder, str) else holder
    at, ticked = time.time_ns() // 1000 + late, boot_ticks() if ticks is None else ticks
    return backend.claim(name, who, seconds, at=at, ticks=ticked)


def renew(backend: Backend, lease: Lease, seconds: float = LONG, *, ticks: int | None = None) -> Lease:
    """Renew it, likewise."""
    ticked = boot_ticks() if ticks is None else ticks
    return backend.renew(lease, seconds, at=time.time_ns() // 1000, ticks=ticked)


def is_refused(backend: Backend, holder: str | Holder, *, late: int = 0, ticks: int | None = None) -> bool:
    """Whether the lease cannot be had; if it can, it is had."""
    try:
        claim(backend, holder, late=late, ticks=ticks)
    except ConflictError as held:
        assert held.code is ErrorCode.LEASE_HELD
        return True
    return False


def claim_when_over(backend: Backend, label: str) -> Lease:
    """Claim a lease as soon as it can be had."""
    deadline = time.monotonic() + contract.PATIENCE
    while is_refused(backend, label):
        assert time.monotonic() < deadline, "it does not run out"
        time.sleep(SHORT / 4)
    held = backend.lease(NAME)
    assert held is not None
    return held


def is_lost(backend: Backend, lease: Lease) -> bool:
    """Whether a holder that renews is told that it has lost the lease."""
    with pytest.raises(ConflictError) as lost:
        renew(backend, lease)
    return lost.value.code is ErrorCode.LEASE_LOST


class LeaseContract(Contract):
    """A lease belongs to one claim at a time, and what an older claim stands for is written by nobody."""

    def test_a_claim_is_held_and_the_others_are_told_by_whom(self, backend: Backend) -> None:
        """All that was said about the holder comes back; other names are other leases, with higher epochs."""
        assert backend.lease(NAME) is None
        ticks = boot_ticks()
        held = claim(backend, "a", ticks=ticks)
        assert (held.name, held.holder, held.length) == (NAME, somebody("a"), LONG * 1_000_000)
        # Where one waits for a lock they go on meanwhile, and a clock that is asked twice has moved on a little.
        assert ticks <= held.ticks <= boot_ticks()
        assert 0 <= held.until - held.since - held.length < 1_000_000
        with pytest.raises(ConflictError) as taken:
            claim(backend, "b")
        assert taken.value.code is ErrorCode.LEASE_HELD
        assert all(part in str(taken.value) for part in (NAME, "4711", "a.example"))
        # What tells machines apart is for programs.
        assert "another-boot" not in str(taken.value.to_dict())
        assert backend.lease(NAME) == held
        other = claim(backend, "b", name="run:work")
        # A claim whose reply was lost is made again.
        again = claim(backend, "a")
        assert 0 < held.epoch < other.epoch < again.epoch

    def test_a_lease_that_was_given_up_is_free_and_its_epoch_is_used_up(self, backend: Backend) -> None:
        """Giving up what one does not hold changes nothing: not twice, nor that of an older claim or another holder."""
        first = claim(backend, "a")
        backend.release(first)
        assert backend.lease(NAME) is None
        assert is_lost(backend, first)
        second = claim(backend, "b")
        assert second.epoch > first.epoch
        for other in (first, second._replace(holder=somebody("c")), second._replace(epoch=second.epoch + 1)):
            backend.release(other)
        assert backend.lease(NAME) == second
        backend.release(second)
        backend.release(second)
        assert backend.lease(NAME) is None

    def test_renewing_keeps_the_epoch_and_moves_the_end(self, backend: Backend) -> None:
        """From now on, longer or shorter; one that is over too, while nobody has taken it."""
        held = claim(backend, "a", SHORT)
        time.sleep(2 * SHORT)
        longer = renew(backend, held, 2 * LONG)
        assert (longer.epoch, longer.holder, longer.since) == (held.epoch, held.holder, held.since)
        assert longer.until > held.until
        assert backend.lease(NAME) == longer
        assert renew(backend, held, LONG / 2).until < longer.until
        assert is_refused(backend, "b")

    def test_one_whose_time_is_over_can_be_claimed(self, backend: Backend) -> None:
        """And then the one before has lost it."""
        first = claim(backend, "a", SHORT)
        second = claim_when_over(backend, "b")
        assert second.epoch > first.epoch
        assert is_lost(backend, first)
        assert backend.lease(NAME) == second

    def test_a_process_of_this_machine_that_is_alive_keeps_its_lease(self, backend: Backend) -> None:
        """And one that has ended does not: another process has its number, or none has."""
        mine = this_process("mine")
        if not mine.started:
            pytest.skip("this system does not say when a process was started")
        claim(backend, mine)
        for other in (somebody("b"), mine._replace(id="other")):
            assert is_refused(backend, other)
            gone = claim(backend, mine._replace(id="old", started="1"), name="run:work")
            taken = claim(backend, other, name="run:work")
            assert taken.epoch > gone.epoch
            backend.release(taken)

    def test_on_one_machine_only_ticks_count(self, backend: Backend) -> None:
        """No clock that somebody sets takes a lease away or gives it; and elsewhere ticks say nothing."""
        held = claim(backend, neighbour("a"), HALF)
        time.sleep(HALF)
        # By the clock of the store it is over, and by a clock that was set it was over long ago, or never began.
        for late in (0, HOUR, -HOUR):
            assert is_refused(backend, neighbour("b"), late=late, ticks=held.ticks - held.length // 2)
        assert backend.lease(NAME) == held
        assert not is_refused(backend, "c", ticks=held.ticks)
        backend.release(backend.lease(NAME) or held)
        held = claim(backend, neighbour("a"))
        over = held.ticks + held.length
        assert is_refused(backend, "c", ticks=over)
        assert is_refused(backend, neighbour("b"), ticks=over - HOUR // 60)
        # A renewal counts from its own ticks, which are kept with the lease.
        renewed = renew(backend, held, ticks=held.ticks + HOUR)
        assert renewed.ticks >= held.ticks + HOUR
        assert backend.lease(NAME) == renewed
        assert is_refused(backend, neighbour("b"), ticks=over)
        assert not is_refused(backend, neighbour("b"), ticks=renewed.ticks + renewed.length)

    @pytest.mark.parametrize("host", ["one.example", "one.example/", ""])
    def test_a_machine_that_is_not_known_has_no_ticks(self, backend: Backend, host: str) -> None:
        """The same name may be that of another one."""
        held = claim(backend, neighbour("a", host))
        assert is_refused(backend, neighbour("b", host), ticks=held.ticks + FAR_AHEAD)
        backend.release(held)
        claim(backend, neighbour("a", host), SHORT)
        time.sleep(2 * SHORT)
        assert not is_refused(backend, neighbour("b", host), ticks=0)

    def test_ticks_that_cannot_be_of_the_same_boot_are_not_believed(self, backend: Backend) -> None:
        """A machine that was brought back as it once was has them: nobody waits until they come again."""
        ahead = claim(backend, neighbour("a"), HALF, ticks=FAR_AHEAD)
        time.sleep(HALF)
        assert is_refused(backend, neighbour("b"), ticks=ahead.ticks - ahead.length // 2)
        assert not is_refused(backend, neighbour("b"), ticks=0)
        # And one whose time is not over by the store's clock is not taken away either.
        backend.release(claim(backend, neighbour("b")))
        claim(backend, neighbour("a"), ticks=FAR_AHEAD)
        assert is_refused(backend, neighbour("b"), ticks=0)

    @pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf"), True])
    def test_a_length_that_is_none_is_refused(self, backend: Backend, seconds: float) -> None:
        """By a claim and by a renewal, which change nothing."""
        held = claim(backend, "a")
        with pytest.raises(InvalidInputError):
            claim(backend, "b", seconds, name="run:work")
        with pytest.raises(InvalidInputError):
            renew(backend, held, seconds)
        assert (backend.lease("run:work"), backend.lease(NAME)) == (None, held)

    def test_of_many_who_claim_at_once_one_gets_it(self, backend: Backend) -> None:
        """Round after round; each winner has a higher epoch than the one before."""
        rounds, crew = 5, 4
        won: list[Lease] = []
        lost: list[str] = []
        ready = threading.Barrier(crew, timeout=contract.PATIENCE)

        def take_part(label: str) -> None:
            for number in range(rounds):
                ready.wait()
                try:
                    won.append(claim(backend, f"{label}{number}"))
                except ConflictError as held:
                    lost.append(str(held.code))
                if ready.wait() == 0:
                    backend.release(won[-1])

        threads = [threading.Thread(target=take_part, args=(label,)) for label in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(contract.PATIENCE)
        assert lost == ["lease-held"] * (rounds * (crew - 1))
        assert len(won) == rounds
        assert [each.epoch for each in won] == sorted({each.epoch for each in won})

    def test_a_commit_with_the_fence_of_the_holder_is_written(self, backend: Backend) -> None:
        """Over, as long as nobody else has it; after that nothing is, though a lost reply is settled still."""
        held = claim(backend, "a", SHORT)
        first = save("a")._replace(fence=held.fence)
        receipt = backend.commit(first)
        time.sleep(2 * SHORT)
        commit_all(backend, save("b", after="a", tags=("t",))._replace(fence=held.fence))
        other = claim_when_over(backend, "b")
        before = contents(backend)
        for late in (save("c", after="b"), save("c", after="b", tags=("t",)), save("x", session="new")):
            assert refused(backend, late._replace(fence=held.fence)).code is ErrorCode.LEASE_LOST
        assert backend.commit(first) == receipt
        assert contents(backend) == before
        # A lease binds those who hold to it.
        commit_all(backend, save("d", after="b")._replace(fence=other.fence), save("e", after="d"))
        backend.release(other)
        assert refused(backend, save("f", after="e")._replace(fence=other.fence)).code is ErrorCode.LEASE_LOST

    def test_the_fence_is_the_first_thing_that_is_checked(self, backend: Backend) -> None:
        """The guard does not hold either, nor the move, nor the claim; what matters is that it is over."""
        commit_all(backend, save("a", agent="scout"))
        late = save("b", agent="somebody else")._replace(fence=Fence(NAME, 1), guard=Guard(log_count=7))
        bad: Batch = late._replace(relies_on=checkpoint_id("nothing"))
        assert refused(backend, bad).code is ErrorCode.LEASE_LOST

    def test_leases_of_a_session_go_with_it(self, backend: Backend) -> None:
        """Those of others stay, and so does the count of epochs."""
        commit_all(backend, save("a"))
        mine = claim(backend, "a")
        other = claim(backend, "b", name="heartbeat:work:2")
        backend.erase_session("work")
        assert (backend.lease(NAME), backend.lease("heartbeat:work:2")) == (None, other)
        assert refused(backend, save("a")._replace(fence=mine.fence)).code is ErrorCode.LEASE_LOST
        assert claim(backend, "c").epoch > other.epoch

    def test_leases_outlive_the_process(self, backend: Backend) -> None:
        """In a store that does."""
        held = claim(backend, "a")
        again = self.reopen(backend)
        try:
            assert again.lease(NAME) == held
            assert is_refused(again, "b")
            again.release(held)
            assert claim(again, "b").epoch > held.epoch
        finally:
            again.close()
