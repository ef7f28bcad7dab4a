"""Leases as programs use them: one holder, renewed by itself, and sessions that write only as long as they are held."""

from __future__ import annotations

import gc
import os
import re
import threading
import time
from functools import partial

import anyio
import pytest
from tests.unit.store.leasing import NAME, PATIENCE, SHORT, STEADY, Hanging, code_of, often, wait_until

import holdfast
from holdfast.backends.lease_rules import boot_ticks, this_process
from holdfast.backends.memory import MemoryBackend
from holdfast.errors import (
    ConflictError,
    ErrorCode,
    InvalidInputError,
)
from holdfast.history.keep import Keep
from holdfast.storage.leases import Holder
from holdfast.testing.faults import Fault, FaultyBackend

__all__ = ["often"]

STRANGER = Holder("stranger", "far-away/boot/1.1", 12345, "1")
HOUR = 3_600_000_000
needs_proc = pytest.mark.skipif(not this_process("x").started, reason="this system has no /proc like Linux")


@pytest.fixture
def store(backend):
    """With the clock of the machine: leases go by the store's own, and a server has one."""
    made = holdfast.Store(backend)
    yield made
    made.close()


@pytest.fixture
def in_memory():
    """A store for what no backend has a part in."""
    with holdfast.Store(MemoryBackend()) as made:
        yield made


def now():
    return time.time_ns() // 1000


def take_away(backend, name=NAME):
    """Have a stranger hold a lease, whoever has it."""
    backend.release(backend.lease(name))
    return backend.claim(name, STRANGER, 600.0, at=now(), ticks=boot_ticks())


def test_one_holder_at_a_time_and_the_block_gives_it_up(store, backend):
    with store.lease(NAME) as held:
        assert (held.name, held.seconds, held.held, held.lost) == (NAME, 30.0, True, False)
        assert backend.lease(NAME).holder.pid == os.getpid()
        with pytest.raises(ConflictError) as refused:
            store.lease(NAME)
        assert refused.value.code is ErrorCode.LEASE_HELD
        assert str(os.getpid()) in str(refused.value)
        assert f"kill {os.getpid()}" in refused.value.hint
    assert backend.lease(NAME) is None
    assert (held.held, held.lost) == (False, False)
    with store.lease(NAME) as again:
        assert again.epoch > held.epoch
        held.release()
        assert backend.lease(NAME) is not None


def test_closing_the_store_gives_up_its_leases(tmp_path):
    first, second = (holdfast.open(tmp_path / "store.db") for _ in range(2))
    held = first.lease(NAME)
    assert code_of(second.lease, NAME) is ErrorCode.LEASE_HELD
    first.close()
    assert not held.held
    second.lease(NAME).release()
    second.close()


@pytest.mark.parametrize(
    "name",
    ["", "plain", ":s", "heartbeat:", "Heart:s", "heart beat:s", "h:" + "x" * 257, "h:a\nb", "h: s", 7, None],
)
def test_a_name_has_a_prefix_and_a_session_id(in_memory, name):
    with pytest.raises(InvalidInputError) as refused:
        in_memory.lease(name)
    assert refused.value.code is ErrorCode.BAD_NAME


@pytest.mark.parametrize("options", [{"seconds": 0}, {"seconds": "30"}, {"seconds": True}, {"on_lost": 7}])
def test_what_cannot_be_an_option_is_refused_and_nothing_is_claimed(in_memory, options):
    with pytest.raises(InvalidInputError) as refused:
        in_memory.lease(NAME, **options)
    assert refused.value.code is ErrorCode.BAD_ARGUMENT
    in_memory.lease(NAME).release()


@pytest.mark.usefixtures("often")
def test_it_is_renewed_as_long_as_it_is_held(store, backend):
    with store.lease(NAME, seconds=STEADY) as held:
        first = backend.lease(NAME)
        wait_until(lambda: backend.lease(NAME).until > first.until)
        assert backend.lease(NAME).ticks > first.ticks + 100_000
        assert held.held
        assert backend.lease(NAME).epoch == held.epoch
    wait_until(lambda: not any(NAME in each.name for each in threading.enumerate()))


def test_one_that_nobody_has_any_more_is_not_renewed(in_memory):
    held = in_memory.lease(NAME, seconds=SHORT)
    del held
    gc.collect()
    wait_until(lambda: not any(NAME in each.name for each in threading.enumerate()))
    left = in_memory._backend.lease(NAME)
    wait_until(lambda: boot_ticks() >= left.ticks + left.length)
    in_memory.lease(NAME).release()


@pytest.mark.usefixtures("often")
def test_a_lost_lease_says_so_once(backend):
    told: list[holdfast.HeldLease] = []
    # No renewal comes through before the stranger has it: one in between would find that nobody does.
    renewal = Hanging()
    store = holdfast.Store(FaultyBackend(backend, [Fault("renew", nth=None, before=renewal)]))
    held = store.lease(NAME, seconds=STEADY, on_lost=told.append)
    take_away(backend)
    renewal.goes_on.set()
    assert held.wait_lost(PATIENCE)
    wait_until(lambda: told)
    assert (held.lost, held.held, told) == (True, False, [held])
    with pytest.raises(ConflictError) as refused:
        _ = held.fence
    assert refused.value.code is ErrorCode.LEASE_LOST
    assert "far-away" in str(refused.value)
    held.release()
    assert backend.lease(NAME).holder == STRANGER
    assert told == [held]


def test_a_session_writes_while_the_lease_is_held_and_nothing_afterwards(store, backend):
    held = store.lease(NAME)
    session = store.session("s", lease=held)
    session.save({"n": 1})
    session.save({"n": 2}, tags=["t"])
    session.tag("@", "golden")
    take_away(backend)
    before = [each.id for each in store.session("s").log()]
    assert code_of(session.save, {"n": 3}) is ErrorCode.LEASE_LOST
    assert held.lost
    for call, arguments in (
        (session.save, ({"n": 4},)),
        (session.tag, ("@", "late")),
        (session.restore, ("@~1",)),
        (session.undo, ()),
        (session.fork, ("@", "side")),
        (session.delete, ("@",)),
        (session.clear, ()),
        (partial(session.prune, only=True), (Keep(last=1),)),
    ):
        assert code_of(call, *arguments) is ErrorCode.LEASE_LOST
    assert [each.id for each in store.session("s").log()] == before
    # Looking is allowed to everybody.
    assert session.load() == {"n": 2}
    assert [each.name for each in session.branches()] == ["main"]
    assert len(session.operations()) == 1


@pytest.mark.parametrize("on_conflict", ["raise", "fork"])
def test_the_loss_is_what_counts_though_the_branch_moved_too(store, backend, on_conflict):
    held = store.lease(NAME)
    session = store.session("s", lease=held)
    store.session("s").save({"n": 1})
    session.load()
    take_away(backend)
    store.session("s").save({"n": 2})
    assert code_of(session.save, {"n": 3}, on_conflict=on_conflict) is ErrorCode.LEASE_LOST
    assert held.lost
    assert store.session("s").load() == {"n": 2}
    assert len(store.session("s").branches()) == 1


def test_documents_and_forks_of_a_session_are_under_its_lease(store, backend):
    held = store.lease(NAME)
    session = store.session("s", lease=held)
    session.save({"n": 1})
    document, fork = session.document(), session.fork("@", "side")
    document["n"] = 2
    document.save()
    take_away(backend)
    document["n"] = 3
    assert code_of(document.save) is ErrorCode.LEASE_LOST
    assert code_of(fork.save, {"n": 3}) is ErrorCode.LEASE_LOST
    assert document.plain() == {"n": 3}


def test_forgetting_a_session_takes_its_lease(store, backend):
    held = store.lease(NAME)
    session = store.session("s", lease=held)
    session.save({"n": 1})
    store.forget("s", clean=False)
    assert backend.lease(NAME) is None
    assert code_of(session.save, {"n": 2}) is ErrorCode.LEASE_LOST
    assert store.sessions() == []


def test_the_child_of_a_fork_does_not_hold_it(store, backend):
    if backend.url == "memory:":
        pytest.skip("a store in memory is not shared with a child")
    held = store.lease(NAME)
    session = store.session("s", lease=held)
    session.save({"n": 1})
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert held.lost
            assert held.wait_lost(PATIENCE)
            assert code_of(session.save, {"n": 2}) is ErrorCode.LEASE_LOST
            assert code_of(session.tag, "@", "late") is ErrorCode.LEASE_LOST
            held.release()
            with held:
                pass
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert held.held
    assert backend.lease(NAME).epoch == held.epoch
    assert session.save({"n": 3}).seq == 2
    held.release()


@needs_proc
@pytest.mark.parametrize("jump", [-HOUR, -1_000_000, 40_000_000, HOUR])
def test_a_clock_that_jumps_takes_no_lease_from_a_process_of_this_machine_that_is_alive(store, backend, jump):
    with store.lease(NAME) as held:
        other = holdfast.Store(backend, clock=lambda: now() + jump)
        with pytest.raises(ConflictError) as refused:
            other.lease(NAME)
        assert refused.value.code is ErrorCode.LEASE_HELD
        # How long to wait is counted by the clock that nobody sets.
        assert re.search(r"try again in (30|[12]?\d) s", refused.value.hint)
        assert held.held
        assert backend.lease(NAME).epoch == held.epoch


@pytest.mark.usefixtures("often")
def test_the_async_twin_does_the_same(backend):
    async def main():
        store = holdfast.AsyncStore(backend)
        async with store.lease(NAME, seconds=STEADY) as held:
            assert (held.name, held.seconds, held.held) == (NAME, STEADY, True)
            session = store.session("s", lease=held)
            await session.save({"n": 1})
            with pytest.raises(ConflictError):
                await store.lease(NAME)
            assert not await held.wait_lost(0.01)
            take_away(backend)
            assert await held.wait_lost(PATIENCE)
            with pytest.raises(ConflictError) as refused:
                await session.save({"n": 2})
            assert refused.value.code is ErrorCode.LEASE_LOST
            with pytest.raises(ConflictError):
                _ = held.fence
        assert backend.lease(NAME).holder == STRANGER
        backend.release(backend.lease(NAME))
        held = await store.lease(NAME)
        assert held.epoch == backend.lease(NAME).epoch
        await held.release()
        assert backend.lease(NAME) is None

    anyio.run(main)


def test_a_cancelled_task_gives_its_lease_up(backend):
    async def main():
        store = holdfast.AsyncStore(backend)
        with anyio.move_on_after(0.05):
            async with store.lease(NAME):
                await anyio.sleep_forever()
        assert backend.lease(NAME) is None

    anyio.run(main)
