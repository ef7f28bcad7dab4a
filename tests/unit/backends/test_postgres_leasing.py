"""Leases in PostgreSQL: one trip for each, by the server's clock, and nobody waits for a lease of somebody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

import holdfast  # noqa: E402
from holdfast.backends.lease_rules import boot_ticks, this_process  # noqa: E402
from holdfast.backends.postgres import PostgresBackend, lease  # noqa: E402
from holdfast.errors import ConflictError, ErrorCode  # noqa: E402
from holdfast.storage.leases import Holder, Lease  # noqa: E402
from holdfast.testing.rows import save  # noqa: E402

NAME = "heartbeat:work"
LONG = 600.0
PATIENCE = 60.0


@pytest.fixture
def store(postgres_place: str) -> Iterator[PostgresBackend]:
    opened = PostgresBackend.open(postgres_place, durability="process", create=True, timeout=10.0)
    yield opened
    opened.close()


@pytest.fixture
def other(store: PostgresBackend, postgres_place: str) -> Iterator[Any]:
    """A connection past the backend, in a transaction that stays open until the test ends it."""
    database, _, schema = postgres_place.partition("&schema=")
    with psycopg.connect(database, options=f"-c search_path={schema}") as connection:
        yield connection


def somebody(label: str) -> Holder:
    return Holder(label, f"{label}.example/boot-{label}/1.1", 4711, "77")


def claim(store: PostgresBackend, label: str, seconds: float = LONG, *, name: str = NAME) -> Lease:
    # A clock that nobody may believe.
    return store.claim(name, somebody(label), seconds, at=0, ticks=0)


def done_in_time(work: Callable[[], object]) -> bool:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return not thread.is_alive()


def test_the_clock_is_the_servers(store: PostgresBackend, other: Any) -> None:
    before = other.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000000").fetchone()[0]
    held = claim(store, "a")
    after = other.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000000").fetchone()[0]
    assert int(before) <= held.since <= int(after) + 1
    assert 0 <= held.until - held.since - LONG * 1_000_000 < 1_000_000


@pytest.mark.parametrize("jump", [-3600, -40, 40, 3600])
def test_a_server_whose_clock_jumps_takes_no_lease_from_a_process_of_the_same_machine(
    store: PostgresBackend, other: Any, jump: int
) -> None:
    mine = this_process("mine")
    if not mine.started:
        pytest.skip("this system does not say when a process was started")
    held = store.claim(NAME, mine, 30.0, at=0, ticks=boot_ticks())
    # What a jump of the clock of the server is to those who look at the row.
    other.execute(
        "UPDATE leases SET since = since - %s::bigint, until = until - %s::bigint", [jump * 10**6] * 2
    )
    other.commit()
    neighbour = mine._replace(id="neighbour")
    with pytest.raises(ConflictError) as refused:
        store.claim(NAME, neighbour, 30.0, at=0, ticks=boot_ticks())
    assert refused.value.code is ErrorCode.LEASE_HELD
    assert store.claim(NAME, neighbour, 30.0, at=0, ticks=held.ticks + held.length).epoch > held.epoch


def test_a_commit_under_way_is_waited_for_by_who_claims_and_by_nobody_else(
    store: PostgresBackend, other: Any
) -> None:
    held = claim(store, "a", 0.05)
    claim(store, "c", name="run:other")
    # What a commit with a fence does before it writes.
    other.execute("SELECT 1 FROM leases WHERE name = %s AND epoch = %s FOR KEY SHARE", [NAME, held.epoch])
    time.sleep(0.1)
    won: list[Lease] = []
    claimant = threading.Thread(target=lambda: won.append(claim(store, "b")))
    assert done_in_time(lambda: store.commit(save("a")._replace(fence=held.fence)))
    assert done_in_time(lambda: store.commit(save("x", session="other")))
    assert done_in_time(lambda: store.renew(held, 0.01, at=0, ticks=0))
    assert done_in_time(lambda: claim(store, "d", name="run:third"))
    time.sleep(0.05)
    claimant.start()
    claimant.join(0.3)
    assert won == []
    other.commit()
    claimant.join(PATIENCE)
    assert [each.holder.id for each in won] == ["b"]
    with pytest.raises(ConflictError):
        store.commit(save("b", after="a")._replace(fence=held.fence))


def claim_and_wait(store: PostgresBackend, other: Any) -> tuple[threading.Thread, list[Lease]]:
    """Claim the lease in a thread, and return when the server has it waiting for what `other` holds."""
    won: list[Lease] = []
    claimant = threading.Thread(target=lambda: won.append(claim(store, "late")), daemon=True)
    claimant.start()
    deadline = time.monotonic() + PATIENCE
    while not other.execute(
        "SELECT 1 FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))", [other.info.backend_pid]
    ).fetchall():
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.01)
    return claimant, won


def test_who_waited_for_a_lease_that_ran_out_gets_the_higher_epoch(
    store: PostgresBackend, other: Any
) -> None:
    claim(store, "a")
    other.execute("SELECT 1 FROM leases FOR UPDATE")
    claimant, won = claim_and_wait(store, other)
    before = lease.claim(other, NAME, somebody("a"), 1000, 0)
    other.execute("UPDATE leases SET until = 0")
    other.commit()
    claimant.join(PATIENCE)
    assert [each.epoch > before.epoch for each in won] == [True]


def test_epochs_go_on_after_a_repair(store: PostgresBackend, other: Any) -> None:
    store.commit(save("a"))
    epoch = max(claim(store, f"{n}", name=f"run:{n}").epoch for n in range(3))
    other.execute("UPDATE header SET seal = seal + 1 WHERE key = 'created_at'")
    other.commit()
    report = holdfast.Store(store).repair()
    assert report.kept_aside is not None
    assert store.lease("run:0") is None
    assert claim(store, "a").epoch == epoch + 1
