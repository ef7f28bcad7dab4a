"""Leases: one holder at a time, by the clock that counts for it, and commits that carry the fence of an older claim."""

from __future__ import annotations

import threading
import time

import pytest

from holdfast.backends.lease_rules import boot_ticks, this_process
from holdfast.errors import ConflictError, ErrorCode, InvalidInputError
from holdfast.storage.leases import Fence, Holder, Lease
from holdfast.storage.ports import Backend
from holdfast.storage.records import Guard
from holdfast.testing.conformance.contract import Contract, commit_all
from holdfast.testing.conformance.views import PATIENCE
from holdfast.testing.rows import checkpoint_id, contents, row, save

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


def neighbour(label: str) -> Holder:
    """A holder on one machine that all of them are on, and that is not this one."""
    return Holder(label, f"{label}.example/one-boot/1.1", 4711, "77")


def claim(backend: Backend, label: str, seconds: float = LONG, *, name: str = NAME) -> Lease:
    """Claim a lease by the clocks of this machine."""
    return claim_as(backend, somebody(label), seconds, name=name)


def claim_as(
    backend: Backend,
    holder: Holder,
    seconds: float = LONG,
    *,
    name: str = NAME,
    late: int = 0,
    ticks: int | None = None,
) -> Lease:
    """Claim a lease where the time is so many microseconds later, and with other ticks."""
    at, ticked = time.time_ns() // 1000 + late, boot_ticks() if ticks is None else ticks
    return backend.claim(name, holder, seconds, at=at, ticks=ticked)


def renew(backend: Backend, lease: Lease, seconds: float = LONG, *, ticks: int | None = None) -> Lease:
    """Renew it, likewise."""
    ticked = boot_ticks() if ticks is None else ticks
    return backend.renew(lease, seconds, at=time.time_ns() // 1000, ticks=ticked)


def is_refused(backend: Backend, holder: Holder, *, late: int = 0, ticks: int | None = None) -> bool:
    """Whether the lease cannot be had; if it can, it is had."""
    try:
        claim_as(backend, holder, late=late, ticks=ticks)
    except ConflictError as held:
        assert held.code is ErrorCode.LEASE_HELD
        return True
    return False


def claim_when_over(backend: Backend, label: str) -> Lease:
    """Claim a lease as soon as it can be had."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return claim(backend, label)
        except ConflictError as held:
            assert held.code is ErrorCode.LEASE_HELD
            assert time.monotonic() < deadline, "it does not run out"
            time.sleep(SHORT / 4)


class LeaseContract(Contract):
    """A lease belongs to one claim at a time, and what an older claim stands for is written by nobody."""

    def test_a_claim_is_held_and_can_be_read(self, backend: Backend) -> None:
        """All that was said about the holder comes back; nobody holds what was never claimed."""
        assert backend.lease(NAME) is None
        ticks = boot_ticks()
        held = claim_as(backend, somebody("a"), ticks=ticks)
        assert (held.name, held.holder) == (NAME, somebody("a"))
        # Where one waits for a lock they go on meanwhile.
        assert ticks <= held.ticks <= boot_ticks()
        assert held.epoch > 0
        assert held.length == LONG * 1_000_000
        # A clock that is asked twice has moved on a little.
        assert 0 <= held.until - held.since - held.length < 1_000_000
        assert backend.lease(NAME) == held
        assert backend.lease("heartbeat:other") is None

    def test_what_somebody_holds_is_refused_and_the_error_says_who(self, backend: Backend) -> None:
        """With the process and the machine, and nothing changes."""
        held = claim(backend, "a")
        with pytest.raises(ConflictError) as refused:
            claim(backend, "b")
        assert refused.value.code is ErrorCode.LEASE_HELD
        for part in (NAME, "4711", "a.example"):
            assert part in str(refused.value)
        # What tells machines apart is for programs.
        assert "another-boot" not in str(refused.value.to_dict())
        assert backend.lease(NAME) == held

    def test_other_names_are_other_leases(self, backend: Backend) -> None:
        """Each with an epoch of its own, higher than any before."""
        names = [NAME, "heartbeat:other", "run:work"]
        epochs = [claim(backend, f"holder {name}", name=name).epoch for name in names]
        assert epochs == sorted(set(epochs))
        assert [backend.lease(name) is not None for name in names] == [True] * 3

    def test_a_lease_that_was_given_up_is_free_and_its_epoch_is_used_up(self, backend: Backend) -> None:
        """However often it is given up and claimed again."""
        epochs = []
        for label in "abc":
            held = claim(backend, label)
            epochs.append(held.epoch)
            backend.release(held)
            assert backend.lease(NAME) is None
        assert epochs == sorted(set(epochs))

    def test_giving_up_what_one_does_not_hold_changes_nothing(self, backend: Backend) -> None:
        """Not that of an older claim, nor that of another holder, nor twice."""
        first = claim(backend, "a")
        backend.release(first)
        second = claim(backend, "b")
        backend.release(first)
        backend.release(second._replace(holder=somebody("c")))
        backend.release(second._replace(epoch=second.epoch + 1))
        assert backend.lease(NAME) == second
        backend.release(second)
        backend.release(second)
        assert backend.lease(NAME) is None

    def test_one_whose_time_is_over_can_be_claimed(self, backend: Backend) -> None:
        """And then the one before has lost it: it cannot renew."""
        first = claim(backend, "a", SHORT)
        second = claim_when_over(backend, "b")
        assert second.epoch > first.epoch
        with pytest.raises(ConflictError) as lost:
            renew(backend, first)
        assert lost.value.code is ErrorCode.LEASE_LOST
        assert "b.example" in str(lost.value)
        assert backend.lease(NAME) == second

    def test_renewing_keeps_the_epoch_and_moves_the_end(self, backend: Backend) -> None:
        """From now on, for as long as it says, longer or shorter than before."""
        held = claim(backend, "a")
        longer = renew(backend, held, 2 * LONG)
        assert (longer.epoch, longer.holder, longer.since) == (held.epoch, held.holder, held.since)
        assert longer.until > held.until
        assert backend.lease(NAME) == longer
        shorter = renew(backend, held, LONG / 2)
        assert shorter.until < held.until
        with pytest.raises(ConflictError):
            claim(backend, "b")

    def test_one_that_is_over_can_be_renewed_while_nobody_has_taken_it(self, backend: Backend) -> None:
        """A holder that was only slow goes on."""
        held = claim(backend, "a", SHORT)
        time.sleep(2 * SHORT)
        renew(backend, held)
        with pytest.raises(ConflictError):
            claim(backend, "b")

    def test_one_that_was_given_up_cannot_be_renewed(self, backend: Backend) -> None:
        """It is nobody's."""
        held = claim(backend, "a")
        backend.release(held)
        with pytest.raises(ConflictError) as lost:
            renew(backend, held)
        assert lost.value.code is ErrorCode.LEASE_LOST
        assert backend.lease(NAME) is None

    def test_who_has_it_already_gets_it_anew(self, backend: Backend) -> None:
        """A claim whose reply was lost is made again."""
        first = claim(backend, "a")
        second = claim(backend, "a")
        assert second.epoch > first.epoch
        assert backend.lease(NAME) == second

    def test_a_process_of_this_machine_that_is_alive_keeps_its_lease(self, backend: Backend) -> None:
        """And one that has ended does not: another process has its number, or none has."""
        mine = this_process("mine")
        if not mine.started:
            pytest.skip("this system does not say when a process was started")
        claim_as(backend, mine)
        for other in (somebody("b"), mine._replace(id="other")):
            assert is_refused(backend, other)
            gone = claim_as(backend, mine._replace(id="old", started="1"), name="run:work")
            taken = claim_as(backend, other, name="run:work")
            assert taken.epoch > gone.epoch
            backend.release(taken)

    def test_on_one_machine_no_clock_that_somebody_sets_takes_a_lease_away(self, backend: Backend) -> None:
        """Nor one that runs ahead of the other: what counts are the ticks, and the lease is not over by them."""
        held = claim_as(backend, neighbour("a"), HALF)
        time.sleep(HALF)
        # By the clock of the store it is over, and by a clock that was set it was over long ago, or never began.
        for late in (0, HOUR, -HOUR):
            assert is_refused(backend, neighbour("b"), late=late, ticks=held.ticks - held.length // 2)
        assert backend.lease(NAME) == held
        assert not is_refused(backend, somebody("c"), ticks=held.ticks)

    def test_on_one_machine_a_lease_is_over_when_its_ticks_say_so(self, backend: Backend) -> None:
        """Though the clock of the store has not moved; and not for somebody elsewhere, whose ticks are others."""
        held = claim_as(backend, neighbour("a"))
        over = held.ticks + held.length
        assert is_refused(backend, somebody("c"), ticks=over)
        assert is_refused(backend, neighbour("b"), ticks=over - HOUR // 60)
        later = claim_as(backend, neighbour("b"), ticks=over)
        assert (later.epoch > held.epoch, later.holder) == (True, neighbour("b"))
        assert later.ticks >= over

    def test_a_renewal_counts_from_its_own_ticks(self, backend: Backend) -> None:
        """They are kept with the lease."""
        first = claim_as(backend, neighbour("a"))
        held = renew(backend, first, ticks=first.ticks + HOUR)
        assert held.ticks >= first.ticks + HOUR
        assert backend.lease(NAME) == held
        assert is_refused(backend, neighbour("b"), ticks=first.ticks + first.length)
        assert not is_refused(backend, neighbour("b"), ticks=held.ticks + held.length)

    @pytest.mark.parametrize("host", ["one.example", "one.example/", ""])
    def test_a_machine_that_is_not_known_has_no_ticks(self, backend: Backend, host: str) -> None:
        """The same name may be that of another one."""
        held = claim_as(backend, neighbour("a")._replace(host=host))
        assert is_refused(backend, neighbour("b")._replace(host=host), ticks=held.ticks + FAR_AHEAD)
        backend.release(held)
        claim_as(backend, neighbour("a")._replace(host=host), SHORT)
        time.sleep(2 * SHORT)
        assert not is_refused(backend, neighbour("b")._replace(host=host), ticks=0)

    def test_ticks_that_cannot_be_of_the_same_boot_are_not_believed(self, backend: Backend) -> None:
        """A machine that was brought back as it once was has them: nobody waits until they come again."""
        ahead = claim_as(backend, neighbour("a"), HALF, ticks=FAR_AHEAD)
        time.sleep(HALF)
        assert is_refused(backend, neighbour("b"), ticks=ahead.ticks - ahead.length // 2)
        assert not is_refused(backend, neighbour("b"), ticks=0)
        # And one whose time is not over by the store's clock is not taken away either.
        backend.release(claim_as(backend, neighbour("b")))
        claim_as(backend, neighbour("a"), ticks=FAR_AHEAD)
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
        refused: list[str] = []
        ready = threading.Barrier(crew, timeout=PATIENCE)

        def take_part(label: str) -> None:
            for number in range(rounds):
                ready.wait()
                try:
                    won.append(claim(backend, f"{label}{number}"))
                except ConflictError as held:
                    refused.append(str(held.code))
                if ready.wait() == 0:
                    backend.release(won[-1])

        threads = [threading.Thread(target=take_part, args=(label,)) for label in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(won) == rounds
        assert refused == ["lease-held"] * (rounds * (crew - 1))
        assert [each.epoch for each in won] == sorted({each.epoch for each in won})

    def test_a_commit_with_the_fence_of_the_holder_is_written(self, backend: Backend) -> None:
        """Renewed or over, as long as nobody else has it; each kind of commit."""
        fence = claim(backend, "a", SHORT).fence
        rows = commit_all(
            backend, save("a")._replace(fence=fence), save("b", after="a")._replace(fence=fence)
        )
        time.sleep(2 * SHORT)
        rows += commit_all(backend, save("c", after="b", tags=("t",))._replace(fence=fence))
        assert [each.seq for each in rows] == [1, 2, 3]

    def test_a_commit_of_somebody_who_has_lost_it_writes_nothing(self, backend: Backend) -> None:
        """Whether another has it or nobody; a save like the one before it, and one that has more to write."""
        held = claim(backend, "a", SHORT)
        commit_all(backend, save("a")._replace(fence=held.fence), save("b", after="a"))
        other = claim_when_over(backend, "b")
        before = contents(backend)
        for late in (save("c", after="b"), save("c", after="b", tags=("t",)), save("x", session="new")):
            with pytest.raises(ConflictError) as lost:
                backend.commit(late._replace(fence=held.fence))
            assert lost.value.code is ErrorCode.LEASE_LOST
        assert contents(backend) == before
        commit_all(backend, save("d", after="b")._replace(fence=other.fence))
        backend.release(other)
        with pytest.raises(ConflictError) as gone:
            backend.commit(save("e", after="d")._replace(fence=other.fence))
        assert gone.value.code is ErrorCode.LEASE_LOST

    def test_a_fence_of_a_lease_that_never_was_is_refused(self, backend: Backend) -> None:
        """Nobody holds it."""
        with pytest.raises(ConflictError) as lost:
            backend.commit(save("a")._replace(fence=Fence("run:nothing", 1)))
        assert lost.value.code is ErrorCode.LEASE_LOST

    def test_the_fence_is_the_first_thing_that_is_checked(self, backend: Backend) -> None:
        """The guard does not hold either, nor the move, nor the claim; what matters is that it is over."""
        commit_all(backend, save("a", agent="scout"))
        late = save("b", agent="somebody else")._replace(
            fence=Fence(NAME, 1), guard=Guard(log_count=7), relies_on=checkpoint_id("nothing")
        )
        with pytest.raises(ConflictError) as lost:
            backend.commit(late)
        assert lost.value.code is ErrorCode.LEASE_LOST

    def test_a_lost_reply_is_settled_though_the_lease_is_lost(self, backend: Backend) -> None:
        """What was written while it was held is written."""
        held = claim(backend, "a")
        batch = save("a")._replace(fence=held.fence)
        first = backend.commit(batch)
        backend.release(held)
        assert backend.commit(batch) == first

    def test_commits_without_a_fence_take_no_notice(self, backend: Backend) -> None:
        """A lease binds those who hold to it."""
        claim(backend, "a")
        assert commit_all(backend, save("a"))[0].id == row("a").id

    def test_leases_of_a_session_go_with_it(self, backend: Backend) -> None:
        """Those of others stay, and so does the count of epochs."""
        commit_all(backend, save("a"))
        mine = claim(backend, "a")
        other = claim(backend, "b", name="heartbeat:work:2")
        backend.erase_session("work")
        assert backend.lease(NAME) is None
        assert backend.lease("heartbeat:work:2") == other
        with pytest.raises(ConflictError):
            backend.commit(save("a")._replace(fence=mine.fence))
        assert claim(backend, "c").epoch > other.epoch

    def test_leases_outlive_the_process(self, backend: Backend) -> None:
        """In a store that does."""
        held = claim(backend, "a")
        again = self.reopen(backend)
        try:
            assert again.lease(NAME) == held
            with pytest.raises(ConflictError):
                claim(again, "b")
            again.release(held)
            assert claim(again, "b").epoch > held.epoch
        finally:
            again.close()
