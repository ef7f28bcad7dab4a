"""A lease whose renewal fails, hangs or comes too late: its holder knows by its own clock until when it holds it."""

from __future__ import annotations

import threading
import time

import pytest
from tests.unit.store.leasing import NAME, PATIENCE, SHORT, STEADY, Hanging, code_of, often, wait_until

import holdfast
from holdfast.backends.lease_rules import boot_ticks
from holdfast.backends.memory import MemoryBackend
from holdfast.errors import ConflictError, ErrorCode
from holdfast.store import lease as leases
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed

__all__ = ["often"]


class Ticks:
    """The clock that nobody sets, but for tests: it can stand still, and be set forward."""

    def __init__(self):
        self._stands_at = None
        self._ahead = 0

    def __call__(self):
        return self._ahead + (boot_ticks() if self._stands_at is None else self._stands_at)

    def stand_still(self):
        """However long a test is held up, no lease is over before the clock goes on."""
        self._stands_at = boot_ticks()

    def go_on(self, seconds):
        self._ahead += int(seconds * 1_000_000)


@pytest.fixture
def ticks(monkeypatch):
    made = Ticks()
    monkeypatch.setattr(leases, "boot_ticks", made)
    return made


@pytest.mark.usefixtures("often")
def test_an_error_of_the_store_is_no_loss():
    faulty = FaultyBackend(MemoryBackend())
    store = holdfast.Store(faulty)
    faulty.plan(*(Fault("renew", nth=n, before=failing(io_failed())) for n in (1, 2, 3)))
    with store.lease(NAME, seconds=STEADY) as held:
        wait_until(lambda: faulty.calls["renew"] > 3 or held.lost)
        assert held.held
        assert store.session("s", lease=held).save({"n": 1}).seq == 1


@pytest.mark.usefixtures("often")
def test_an_error_that_lasts_longer_than_the_lease_is_a_loss(ticks):
    faulty = FaultyBackend(MemoryBackend())
    store = holdfast.Store(faulty)
    told = threading.Event()
    faulty.plan(Fault("renew", nth=None, before=failing(io_failed())))
    held = store.lease(NAME, seconds=STEADY, on_lost=lambda _: told.set())
    wait_until(lambda: faulty.calls["renew"] > 2 or held.lost)
    assert faulty.calls["renew"] > 2
    ticks.go_on(STEADY)
    assert held.wait_lost(PATIENCE)
    assert told.wait(PATIENCE)
    with pytest.raises(ConflictError, match="in time"):
        store.session("s", lease=held).save({"n": 1})


@pytest.fixture
def hanging():
    """A backend whose renewals hang."""
    faulty, renewal = FaultyBackend(MemoryBackend()), Hanging()
    faulty.plan(Fault("renew", nth=None, before=renewal))
    yield faulty, renewal
    renewal.goes_on.set()


def test_a_lease_whose_renewal_hangs_is_lost_when_its_time_is_over(hanging, ticks):
    ticks.stand_still()
    faulty, renewal = hanging
    store = holdfast.Store(faulty)
    told: list[holdfast.HeldLease] = []
    held = store.lease(NAME, seconds=SHORT, on_lost=told.append)
    session = store.session("s", lease=held)
    assert renewal.asked.wait(PATIENCE)
    ticks.go_on(SHORT)
    # Whoever asks finds it lost, though nobody has told yet.
    assert (held.held, held.lost) == (False, True)
    with pytest.raises(ConflictError, match="in time"):
        _ = held.fence
    assert code_of(session.save, {"n": 1}) is ErrorCode.LEASE_LOST
    assert held.wait_lost(0)
    # The one thread of the lease tells when it is back.
    renewal.goes_on.set()
    wait_until(lambda: told)
    assert told == [held]


def test_a_renewal_that_comes_through_after_the_loss_brings_nothing_back_and_is_given_up(hanging, ticks):
    ticks.stand_still()
    faulty, renewal = hanging
    store = holdfast.Store(faulty)
    told: list[holdfast.HeldLease] = []
    held = store.lease(NAME, seconds=SHORT, on_lost=told.append)
    assert renewal.asked.wait(PATIENCE)
    ticks.go_on(SHORT)
    assert held.wait_lost(PATIENCE)
    assert faulty.lease(NAME).epoch == held.epoch
    renewal.goes_on.set()
    wait_until(lambda: faulty.lease(NAME) is None)
    wait_until(lambda: told)
    assert (held.lost, held.held, told) == (True, False, [held])
    wait_until(lambda: not any(NAME in each.name for each in threading.enumerate()))


def test_a_claim_that_took_long_is_counted_from_its_beginning():
    faulty = FaultyBackend(MemoryBackend())
    faulty.plan(Fault("claim", nth=1, before=lambda: time.sleep(SHORT)))
    held = holdfast.Store(faulty).lease(NAME, seconds=SHORT)
    assert held.lost
