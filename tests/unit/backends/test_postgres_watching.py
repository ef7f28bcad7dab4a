"""Waiting for checkpoints in PostgreSQL: what settles when, who wakes whom, and what happens when the server goes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from tests.unit.backends.postgres_waits import (  # noqa: E402
    Open,
)

from holdfast.backends.postgres import PostgresBackend  # noqa: E402
from holdfast.errors import (  # noqa: E402
    BackendError,
    ErrorCode,
    UnsupportedError,
)
from holdfast.storage.records import Query  # noqa: E402
from holdfast.testing.rows import save  # noqa: E402


@pytest.fixture
def open_store(postgres_url: str) -> Iterator[Open]:
    opened: list[PostgresBackend] = []

    def open_one(at: str = postgres_url, **options: Any) -> PostgresBackend:
        settings: dict[str, Any] = {"durability": "process", "create": True, "timeout": 10.0}
        opened.append(PostgresBackend.open(at, **(settings | options)))
        return opened[-1]

    yield open_one
    for backend in opened:
        backend.close()


@pytest.fixture
def store(open_store: Open) -> PostgresBackend:
    return open_store()


@pytest.fixture
def connect(postgres_url: str) -> Iterator[Callable[[], Any]]:
    made: list[Any] = []

    def one() -> Any:
        made.append(psycopg.connect(postgres_url, options="-c search_path=holdfast"))
        return made[-1]

    yield one
    for connection in made:
        connection.close()


def test_writers_that_overlap_are_all_told_in_the_order_of_their_positions(open_store: Open) -> None:
    """Eight threads write, one follows by what it is told: nothing is skipped."""
    store, other = open_store(), open_store()
    done = threading.Event()
    from holdfast.storage.records import Query

    def write(name: str) -> None:
        for number in range(25):
            other.commit(
                save(f"{name} {number}", session=name, after=f"{name} {number - 1}" if number else None)
            )

    seen: list[int] = []

    def follow() -> None:
        at = 0
        while not (done.is_set() and len(seen) >= 200):
            # Before the wait: what is committed after it was in vain is still to come.
            was_done = done.is_set()
            newest = store.wait_for_checkpoint(at, 0.2)
            if newest <= at:
                if was_done:
                    return
                continue
            with store.reader() as reader:
                page = reader.checkpoints(
                    Query(after_position=at, before_position=newest + 1, oldest_first=True)
                )
            seen.extend(each.position for each in page)
            at = newest

    follower = threading.Thread(target=follow)
    follower.start()
    writers = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(8)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    done.set()
    follower.join()
    with store.reader() as reader:
        all_of_them = [each.position for each in reader.checkpoints(Query(oldest_first=True))]
    assert len(all_of_them) == 200
    assert seen == all_of_them


def test_a_standby_is_refused_until_it_is_the_primary(require: Callable[[str], None]) -> None:
    """There the sequence runs ahead and the writers' locks are not seen: checkpoints would be missed in silence."""
    require("postgres")
    from tests.services.postgres import Server

    with Server(fsync=False) as server:
        url = server.fresh_database()
        options: dict[str, Any] = {"durability": "process", "timeout": 10.0}
        primary = PostgresBackend.open(url, create=True, **options)
        primary.commit(save("a"))
        primary.close()
        server.stop()
        # Without anybody to follow it is a standby all the same.
        (server.folder / "data" / "standby.signal").touch()
        server.start()
        standby = PostgresBackend.open(url, create=False, **options)
        try:
            with pytest.raises(UnsupportedError) as caught:
                standby.wait_for_checkpoint(-1, 0.0)
            assert caught.value.code is ErrorCode.NOT_SUPPORTED
            assert "primary" in caught.value.hint
            with standby.reader() as reader:
                assert len(reader.checkpoints(Query())) == 1
            with pytest.raises(BackendError) as refused:
                standby.commit(save("b", after="a"))
            assert refused.value.code is ErrorCode.PERMISSION_DENIED
            assert "connect to the primary" in refused.value.hint
            assert server.execute("SELECT pg_promote()") == [(True,)]
            assert standby.wait_for_checkpoint(-1, 0.0) >= 1
        finally:
            standby.close()
