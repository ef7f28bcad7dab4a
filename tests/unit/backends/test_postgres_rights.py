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


def test_without_such_a_schema_the_right_to_make_one_is_asked_for(as_role):
    error = refusal(lambda: holdfast.open(as_role("SELECT 1")))
    assert error.code is ErrorCode.PERMISSION_DENIED
    assert "CREATE on the database" in error.hint


@pytest.mark.parametrize("granted", ["", "GRANT CREATE ON SCHEMA holdfast TO {role}"])
def test_in_an_empty_schema_that_the_role_may_not_use_nothing_is_made(as_role, granted):
    error = refusal(lambda: holdfast.open(as_role("CREATE SCHEMA holdfast; " + granted)))
    assert error.code is ErrorCode.PERMISSION_DENIED
    assert "USAGE on the schema" in error.hint


RIGHTS = "GRANT USAGE ON SCHEMA holdfast TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO {role}; "


def test_rows_that_a_role_may_not_see_are_not_damage(as_role, postgres_url):
    fill(postgres_url)
    url = as_role(RIGHTS + "ALTER TABLE holdfast.header ENABLE ROW LEVEL SECURITY")
    error = refusal(lambda: holdfast.open(url, create=False))
    assert error.code is ErrorCode.PERMISSION_DENIED
    assert "USING (true)" in error.hint
    # As the hint says.
    url = as_role(RIGHTS + "CREATE POLICY all_of_them ON holdfast.header TO {role} USING (true)")
    with holdfast.open(url, create=False) as store:
        assert store.session("s").load() == {"a": 2}


def test_a_collection_without_temporary_tables_says_which_right_it_needs(as_role):
    url = as_role(
        "REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC; CREATE SCHEMA holdfast AUTHORIZATION {role}"
    )
    fill(url)
    with holdfast.open(url) as store:
        error = refusal(lambda: store.gc(keep_days=0))
    assert error.code is ErrorCode.PERMISSION_DENIED
    assert "GRANT TEMPORARY" in error.hint
    assert "CREATE" not in error.hint


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


@pytest.mark.parametrize("missing", ["schema", "tables", "sequences"])
def test_who_lacks_a_right_to_read_is_told_which(as_role, postgres_url, missing):
    fill(postgres_url)
    granted = {
        "schema": "GRANT USAGE ON SCHEMA holdfast TO {role}",
        "tables": "GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO {role}",
        "sequences": "GRANT SELECT ON ALL SEQUENCES IN SCHEMA holdfast TO {role}",
    }
    url = as_role("; ".join(each for what, each in granted.items() if what != missing))

    def read():
        with holdfast.open(url, create=False) as store:
            store.verify()

    error = refusal(read)
    assert error.code is ErrorCode.PERMISSION_DENIED
    assert "SELECT on all its tables and sequences" in error.hint
    assert "CREATE" not in error.hint


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


def test_nulls_in_arrays_are_nulls_whatever_the_database_says(postgres, postgres_url):
    database = sql.Identifier(database_of(postgres_url))
    postgres.execute(sql.SQL("ALTER DATABASE {} SET array_nulls = off").format(database))
    fill(postgres_url)
    with holdfast.open(postgres_url) as store:
        assert store.session("s").load() == {"a": 2}


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


def test_who_may_write_but_not_scrub_can_forget_without_cleaning(as_role, postgres_url):
    fill(postgres_url)
    url = as_role(
        "GRANT USAGE ON SCHEMA holdfast TO {role}; "
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA holdfast TO {role}; "
        "GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA holdfast TO {role}"
    )
    with holdfast.open(url, create=False) as store:
        error = refusal(lambda: store.forget("s", "#1"))
        assert error.code is ErrorCode.PERMISSION_DENIED
        assert store.session("s").exists("#1")
        assert store.forget("s", "#1", clean=False).checkpoints == 1
        assert store.copy_session("s", "again") == 2
        assert store.forget("s", clean=False).checkpoints == 2
        assert [each.id for each in store.sessions()] == ["again"]
        assert store.gc(keep_days=0).chunks == 1
        assert store.session("again").load() == {"a": 2}
