"""A schema becomes a store, is recognized, and is brought from one version to the next."""

from __future__ import annotations

import threading

import psycopg
import pytest

import holdfast
from holdfast.backends.header import sealed
from holdfast.backends.postgres import PostgresBackend
from holdfast.backends.postgres.create import VERSION
from holdfast.errors import ErrorCode, HoldfastError


def opened(url, *, create=True):
    return PostgresBackend.open(url, durability="power", create=create, timeout=5.0)


def refusal(url, **options):
    with pytest.raises(HoldfastError) as caught:
        opened(url, **options)
    return caught.value


def set_version(url, version):
    with psycopg.connect(url) as connection:
        _, value, seal = sealed("schema", str(version))
        connection.execute(
            "UPDATE holdfast.header SET value = %s, seal = %s WHERE key = 'schema'", [value, seal]
        )


def test_nothing_is_made_where_nothing_is_asked_for(postgres_url):
    error = refusal(postgres_url, create=False)
    assert error.code is ErrorCode.STORE_MISSING
    assert "holdfast init" in error.hint
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT to_regnamespace('holdfast')").fetchone() == (None,)


def test_a_schema_of_somebody_else_is_left_alone(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE SCHEMA holdfast; CREATE TABLE holdfast.sessions (id text)")
    error = refusal(postgres_url)
    assert error.code is ErrorCode.NOT_A_STORE
    assert "?schema=" in error.hint
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'holdfast'"
        ).fetchone() == (1,)


def test_tables_of_the_same_names_that_are_not_ours_are_left_alone(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE SCHEMA holdfast")
        for table in ("header", "sessions", "chunks"):
            connection.execute(f"CREATE TABLE holdfast.{table} (note text)")
    assert refusal(postgres_url).code is ErrorCode.NOT_A_STORE


@pytest.mark.parametrize(
    ("types", "row"),
    [
        ("key integer, value integer, seal integer", "1, 2, 3"),
        ("key text, value text, seal bigint", "'version', '1', 3"),
    ],
)
def test_a_header_of_somebody_else_is_not_called_damaged(postgres_url, types, row):
    with psycopg.connect(postgres_url) as connection:
        connection.execute(
            f"CREATE SCHEMA holdfast; CREATE TABLE holdfast.header ({types}); "
            f"INSERT INTO holdfast.header VALUES ({row}); "
            "CREATE TABLE holdfast.sessions (note text); CREATE TABLE holdfast.chunks (note text)"
        )
    assert refusal(postgres_url).code is ErrorCode.NOT_A_STORE


def test_a_store_without_its_header_is_damaged_and_still_a_store(postgres_url):
    opened(postgres_url).close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DELETE FROM holdfast.header")
    assert refusal(postgres_url).code is ErrorCode.STORE_DAMAGED


def test_two_stores_in_one_database_share_nothing(postgres_url):
    with (
        holdfast.open(f"{postgres_url}?schema=one") as one,
        holdfast.open(f"{postgres_url}?schema=two") as two,
    ):
        one.session("s").save({"a": 1})
        assert [info.id for info in two.sessions()] == []
        two.session("s").save({"a": 2})
        assert one.session("s").load() == {"a": 1}


def test_many_who_make_a_store_at_once_make_one(postgres_url):
    opens = threading.Barrier(8)
    failures: list[Exception] = []

    def make(number):
        try:
            opens.wait()
            with holdfast.open(postgres_url) as store:
                store.session(f"s{number}").save({"n": number})
        except Exception as error:  # shown below
            failures.append(error)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with holdfast.open(postgres_url, create=False) as store:
        assert len(store.sessions()) == 8


def test_a_newer_version_is_refused(postgres_url):
    opened(postgres_url).close()
    set_version(postgres_url, VERSION + 1)
    error = refusal(postgres_url)
    assert error.code is ErrorCode.FORMAT_TOO_NEW


def test_a_damaged_header_is_damage(postgres_url):
    opened(postgres_url).close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE holdfast.header SET value = value || '0' WHERE key = 'created_at'")
    assert refusal(postgres_url).code is ErrorCode.ROW_DAMAGED
