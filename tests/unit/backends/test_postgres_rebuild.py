"""Putting a new store in the place of a damaged one, in one transaction, beside processes that have it open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from holdfast.backends.postgres import PostgresBackend  # noqa: E402
from holdfast.storage.inspection import Rebuilt  # noqa: E402
from holdfast.storage.ports import Inspection  # noqa: E402
from holdfast.storage.records import Query  # noqa: E402
from holdfast.testing.kit.repair import everything, filled  # noqa: E402
from holdfast.testing.rows import checkpoint_id, contents, save  # noqa: E402

Run = Callable[..., list[tuple[Any, ...]]]
Open = Callable[..., PostgresBackend]


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
def run(postgres_url: str) -> Iterator[Run]:
    """Statements past the backend."""
    with psycopg.connect(postgres_url, autocommit=True, options="-c search_path=holdfast") as connection:

        def execute(statement: str, *parameters: object) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

        yield execute


def schemas(run: Run) -> list[str]:
    return [
        name for (name,) in run("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'holdfast%%' ORDER BY 1")
    ]


def test_what_was_there_is_kept_aside_under_the_name_that_is_given_back(open_store: Open, run: Run) -> None:
    store = open_store()
    filled(store)
    run("UPDATE checkpoints SET message = 'harmed' WHERE id = %s", checkpoint_id("x"))
    aside = store.rebuild(everything)
    assert aside is not None
    assert aside.startswith("holdfast_damaged_")
    assert schemas(run) == ["holdfast", aside]
    assert run(f"SELECT count(*) FROM {aside}.checkpoints WHERE message = 'harmed'") == [(1,)]
    with store.inspect() as seen:
        assert list(seen.flaws()) == []
        assert list(seen.lost()) == []
        assert len(list(seen.checkpoints())) == 3
    assert run(f"SELECT count(*) FROM {aside}.checkpoints") == [(4,)]


def test_it_is_the_same_store_afterwards(open_store: Open, run: Run) -> None:
    store = open_store()
    filled(store)
    header: dict[str, str] = dict(run("SELECT key, value FROM header"))
    before = contents(store)
    assert store.rebuild(everything)
    assert dict(run("SELECT key, value FROM header")) == header
    assert contents(store) == before
    open_store(create=False)


def test_a_damaged_header_is_made_anew(open_store: Open, run: Run) -> None:
    store = open_store()
    filled(store)
    run("UPDATE header SET value = 'x' WHERE key IN ('hash', 'schema')")
    assert open_store(damaged=True).rebuild(everything)
    with open_store(create=False).reader() as reader:
        assert len(reader.checkpoints(Query())) == 3


def test_a_commit_that_waits_for_a_rebuild_goes_into_the_new_tables(open_store: Open, run: Run) -> None:
    store, other = open_store(), open_store()
    filled(store)
    other.commit(save("before", after="c"))
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    thread = threading.Thread(target=lambda: other.commit(save("meanwhile", after="before")))

    def plan(seen: Inspection) -> Rebuilt:
        thread.start()
        while run(waiting) == [(0,)]:
            pass
        return everything(seen)

    assert store.rebuild(plan)
    thread.join()
    assert contents(store).checkpoints[0].id == checkpoint_id("meanwhile")


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_rebuild_that_fails_leaves_nothing(open_store: Open, run: Run, error: type[BaseException]) -> None:
    store = open_store()
    filled(store)
    before = contents(store)

    def endless(seen: Inspection) -> Rebuilt:
        found = everything(seen)

        def rows() -> Iterator[Any]:
            yield found.checkpoints[0]
            raise error

        class Rows(list[Any]):
            def __iter__(self) -> Iterator[Any]:
                return rows()

        return found._replace(checkpoints=Rows())

    with pytest.raises(error):
        store.rebuild(endless)
    assert contents(store) == before
    assert schemas(run) == ["holdfast"]


def test_numbers_go_on_where_they_were(open_store: Open, run: Run) -> None:
    store = open_store()
    filled(store)
    run("SELECT setval('positions', 2), setval('session_numbers', 1), setval('chunk_numbers', 1)")
    assert store.rebuild(everything)
    newest = contents(store).checkpoints[0].position
    (made,) = store.commit(save("new", session="third")).checkpoints
    assert made.position > newest
    assert [each.id for each in contents(store).sessions] == ["work", "other", "third"]
