"""Turns: those who lost a round on one session go on one after the other."""

from __future__ import annotations

import threading

import psycopg
import pytest

from holdfast.backends.postgres import PostgresBackend
from holdfast.testing.rows import save


@pytest.fixture
def backend(postgres_url):
    backend = PostgresBackend.open(postgres_url, durability="process", create=True, timeout=30.0)
    yield backend
    backend.close()


def waiting_for_locks(url):
    with psycopg.connect(url) as connection:
        ((waiting,),) = connection.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        ).fetchall()
    return waiting


def test_one_at_a_time_in_any_backend(postgres_url, backend):
    other = PostgresBackend.open(postgres_url, durability="process", create=False, timeout=30.0)
    order = []
    entered = threading.Event()

    def second():
        with other.turn("work"):
            order.append("second")
        entered.set()

    thread = threading.Thread(target=second)
    with backend.turn("work"):
        thread.start()
        while not waiting_for_locks(postgres_url):
            assert not entered.wait(0.01)
        order.append("first")
    thread.join()
    other.close()
    assert order == ["first", "second"]


def test_more_threads_than_connections_all_get_their_turn(backend):
    done = []

    def write(number):
        for attempt in range(5):
            with backend.turn("work"):
                backend.commit(save(f"{number}-{attempt}", session=f"s{number}-{attempt}"))
                done.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 24 * 5


def test_a_turn_whose_connection_is_cut_is_no_error(postgres_url, backend):
    with backend.turn("work"):
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        backend.commit(save("a"))
    with backend.turn("work"):
        backend.commit(save("b", after="a"))
