"""Roles with few rights, and databases with settings of their own: what works, and what the refusal says to do."""

from __future__ import annotations

import pytest

psycopg = pytest.importorskip("psycopg")

from psycopg import sql  # noqa: E402

import holdfast  # noqa: E402
from holdfast.errors import ErrorCode, HoldfastError  # noqa: E402


def database_of(url):
    return url.rpartition("/")[2]


@pytest.fixture
def as_role(postgres, postgres_url):
    """Makes a role, runs statements of the superuser that name it as {role} and the database as {database}; its URL."""
    made = []

    def make(statement, *, url=postgres_url):
        role = postgres.create_role()
        made.append((url, role))
        with psycopg.connect(url, autocommit=True) as connection:
            names = {"role": sql.Identifier(role.name), "database": sql.Identifier(database_of(url))}
            connection.execute(sql.SQL(statement).format(**names))
        return postgres.url(database_of(url), role)

    yield make
    for url, role in made:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                sql.SQL("SET client_min_messages = error; DROP OWNED BY {} CASCADE").format(
                    sql.Identifier(role.name)
                )
            )


def refusal(work):
    with pytest.raises(HoldfastError) as caught:
        work()
    return caught.value


def fill(url, states=3):
    with holdfast.open(url) as store:
        for number in range(states):
            store.session("s").save({"a": number}, f"state {number}")


def test_an_empty_schema_that_the_role_owns_is_enough(as_role):
    url = as_role(
        "REVOKE CREATE ON DATABASE {database} FROM PUBLIC; CREATE SCHEMA holdfast AUTHORIZATION {role}"
    )
    with holdfast.open(url) as store:
        store.session("s").save({"a": 1})
        assert store.session("s").load() == {"a": 1}
        assert store.verify().ok


def test_who_may_read_tables_and_sequences_can_do_all_that_reads(as_role, postgres_url, tmp_path):
    fill(postgres_url)
    url = as_role(
        "GRANT USAGE ON SCHEMA holdfast TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO {role}; "
        "GRANT SELECT ON ALL SEQUENCES IN SCHEMA holdfast TO {role}"
    )
    with holdfast.open(url, create=False) as store:
        assert store.session("s").load() == {"a": 2}
        assert len(list(store.session("s").log())) == 3
        assert store.verify().ok
        assert list(store.watch(timeout=0.01)) == []
        store.copy_to(tmp_path / "copy.db")
        error = refusal(lambda: store.session("s").save({"b": 1}))
    assert error.code is ErrorCode.PERMISSION_DENIED
    assert "INSERT, UPDATE, DELETE" in error.hint


def test_a_role_that_writes_without_owning_can_save_and_collect(as_role, postgres_url):
    fill(postgres_url)
    url = as_role(
        "GRANT USAGE ON SCHEMA holdfast TO {role}; "
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA holdfast TO {role}; "
        "GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA holdfast TO {role}"
    )
    with holdfast.open(url, create=False) as store:
        store.session("t").save({"b": 1})
        store.gc(keep_days=0)
        assert store.verify().ok


def test_a_setting_that_forbids_writing_is_named(as_role, postgres_url):
    fill(postgres_url)
    url = as_role(
        "ALTER ROLE {role} SET default_transaction_read_only = on; GRANT USAGE ON SCHEMA holdfast TO {role}; "
        "GRANT ALL ON ALL TABLES IN SCHEMA holdfast TO {role}; GRANT ALL ON ALL SEQUENCES IN SCHEMA holdfast TO {role}"
    )
    with holdfast.open(url, create=False) as store:
        assert store.session("s").load() == {"a": 2}
        error = refusal(lambda: store.session("s").save({"b": 1}))
    assert error.code is ErrorCode.PERMISSION_DENIED
    assert "default_transaction_read_only" in error.hint


@pytest.mark.parametrize("encoding", ["LATIN1", "EUC_JP", "SQL_ASCII"])
def test_a_database_that_cannot_hold_all_text_is_refused(postgres, encoding):
    name = f"encoded_{encoding.lower()}"
    make = "CREATE DATABASE {} TEMPLATE template0 ENCODING {} LC_COLLATE 'C' LC_CTYPE 'C'"
    postgres.execute(sql.SQL(make).format(sql.Identifier(name), sql.Literal(encoding)))
    try:
        error = refusal(lambda: holdfast.open(postgres.url(name)))
        assert error.code is ErrorCode.NOT_SUPPORTED
        assert encoding in str(error)
        assert "UTF8" in error.hint
        with psycopg.connect(postgres.url(name)) as connection:
            assert connection.execute("SELECT to_regnamespace('holdfast')").fetchone() == (None,)
    finally:
        postgres.drop_database(name)
