"""Keeping everybody out without holding them up; versions; and tables without what was removed."""

from __future__ import annotations

import math
import threading
import time
from contextlib import contextmanager

import psycopg
import pytest

import holdfast
from holdfast.backends.header import sealed
from holdfast.backends.postgres import locks
from holdfast.backends.postgres.create import VERSION
from holdfast.errors import ErrorCode, HoldfastError

SECRET = "xyzzy-this-must-go"


@contextmanager
def refused(code):
    with pytest.raises(HoldfastError) as caught:
        yield
    assert caught.value.code is code


def connect(url, **options):
    return psycopg.connect(url, options="-c search_path=holdfast", **options)


def upgrade(url):
    """What a migration of a newer version leaves behind."""
    with connect(url) as connection:
        _, value, seal = sealed("schema", str(VERSION + 1))
        connection.execute("UPDATE header SET value = %s, seal = %s WHERE key = 'schema'", [value, seal])
        ((text,),) = connection.execute("SELECT pg_get_functiondef('enter'::regproc)").fetchall()
        connection.execute(text.replace(f"version <> {VERSION}", f"version <> {VERSION + 1}").encode())
        connection.execute("ALTER TABLE checkpoints ADD COLUMN later bigint")


@pytest.fixture
def store(postgres_url):
    with holdfast.open(postgres_url, timeout=2.0) as store:
        store.session("s").save({"a": 1}, SECRET)
        yield store


class Clock:
    """The clock of one who waits for a lock; `is_late` lets all his time be over."""

    def __init__(self):
        self.pauses = 0
        self.is_late = False

    def monotonic(self):
        return math.inf if self.is_late else time.monotonic()

    def sleep(self, seconds):
        # One after each attempt that was in vain.
        self.pauses += 1
        time.sleep(seconds)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(locks, "time", clock)
    return clock


@pytest.fixture
def patient(postgres_url, store):
    """Of one who waits for a lock as long as the others need to get past him."""
    with holdfast.open(postgres_url, timeout=120.0) as patient:
        yield patient


@pytest.fixture
def others(postgres_url, store):
    """Of those who are to get past him: each would fail after ten seconds, if it stood in the queue behind him."""
    with holdfast.open(postgres_url, timeout=10.0) as others:
        yield others


@pytest.mark.parametrize(
    "work",
    [
        lambda store: store.session("s").save({"a": 2}),
        lambda store: store.session("s").load(),
        lambda store: store.session("s").log(),
        lambda store: store.gc(keep_days=0),
        lambda store: store.forget(session="s"),
        lambda store: store.verify(),
    ],
    ids=["save", "load", "log", "gc", "forget", "verify"],
)
def test_a_program_that_was_running_during_an_upgrade_is_refused(postgres_url, store, work):
    upgrade(postgres_url)
    with refused(ErrorCode.FORMAT_TOO_NEW):
        work(store)


def test_a_collection_that_waits_for_a_slow_commit_stops_no_other(postgres_url, patient, others, clock):
    with connect(postgres_url) as slow:
        slow.execute("SELECT enter(%s)", [VERSION])
        failures = []

        def collect():
            try:
                patient.gc(keep_days=0)
            except HoldfastError as error:
                failures.append(error.code)

        collecting = threading.Thread(target=collect)
        collecting.start()
        session = others.session("busy")
        saved = 0
        while collecting.is_alive():
            # Nobody can stand behind the collection before it has begun to try.
            waits = clock.pauses > 0
            session.save({"n": saved})
            saved += waits
            if saved > 3 and clock.pauses > 3:
                slow.rollback()
        collecting.join()
        assert saved > 3
    assert failures == []


def test_forget_says_so_where_somebody_may_still_read_what_was_removed(postgres_url, store):
    with psycopg.connect(postgres_url) as application:
        application.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        application.execute("SELECT 1")
        with refused(ErrorCode.STORE_LOCKED):
            store.forget(session="s")
    with refused(ErrorCode.SESSION_MISSING):
        store.forget(session="s")


def test_forget_says_so_where_the_role_does_not_own_the_tables(postgres, postgres_url, store):
    role = postgres.create_role()
    with connect(postgres_url) as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA holdfast TO {role.name}")
        connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA holdfast TO {role.name}")
        connection.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA holdfast TO {role.name}")
    database = postgres_url.rpartition("/")[2].partition("?")[0]
    with (
        holdfast.open(postgres.url(database, role), create=False) as theirs,
        refused(ErrorCode.PERMISSION_DENIED),
    ):
        theirs.forget(session="s")
    assert store.session("s").load() == {"a": 1}


def test_what_was_forgotten_is_not_in_the_statistics(postgres_url, store):
    for number in range(50):
        store.session("s").save({"a": number}, f"{SECRET} {number % 3}", tags=[SECRET])
    with connect(postgres_url, autocommit=True) as connection:
        connection.execute("ANALYZE")
        store.forget(session="s")
        kept = connection.execute(
            "SELECT tablename, attname FROM pg_stats WHERE schemaname = 'holdfast' "
            "AND (most_common_vals::text LIKE %s OR histogram_bounds::text LIKE %s)",
            [f"%{SECRET}%"] * 2,
        )
        assert kept.fetchall() == []
