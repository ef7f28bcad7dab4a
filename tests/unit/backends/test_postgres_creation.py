"""A schema becomes a store, is recognized, and is brought from one version to the next."""

from __future__ import annotations

import re
import threading
from importlib import resources

import psycopg
import pytest

import holdfast
from holdfast.backends.header import new_header, sealed
from holdfast.backends.postgres import PostgresBackend, creation, locking, tables
from holdfast.backends.postgres.connecting import Connected
from holdfast.backends.postgres.creation import VERSION, Migration, migrations
from holdfast.errors import ConflictError, ErrorCode, HoldfastError
from holdfast.storage.leasing import Holder
from holdfast.testing.rows import save

# Everything about a schema that could have been written differently: columns, defaults, storage, indexes, functions.
# As text: what comes after would be cut to the 63 bytes of a name.
_CATALOG = """
SELECT 'column', c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull::text,
    a.attstorage::text, coalesce(pg_get_expr(d.adbin, d.adrelid), '') || ' ' || a.attcollation::regcollation::text
FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = current_schema()::regnamespace AND a.attnum > 0 AND c.relkind = 'r'
UNION ALL
SELECT 'relation', relname, relkind::text, coalesce(array_to_string(reloptions, ','), ''), '', '', ''
FROM pg_class WHERE relnamespace = current_schema()::regnamespace
UNION ALL
SELECT 'index', indexname, indexdef, '', '', '', '' FROM pg_indexes WHERE schemaname = current_schema()
UNION ALL
SELECT 'function', proname, pg_get_functiondef(oid), '', '', '', ''
FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
UNION ALL
SELECT 'counter', name, value::text, '', '', '', '' FROM counters
ORDER BY 1, 2, 3, 4, 5, 6, 7
"""


def opened(url, *, create=True):
    return PostgresBackend.open(url, durability="power", create=create, timeout=5.0)


def refusal(url, **options):
    with pytest.raises(HoldfastError) as caught:
        opened(url, **options)
    return caught.value


def set_version(url, version):
    with psycopg.connect(url) as connection:
        _, value, seal = sealed("version", str(version))
        connection.execute(
            "UPDATE holdfast.header SET value = %s, seal = %s WHERE key = 'version'", [value, seal]
        )


def described(url, schema):
    with psycopg.connect(url, options=f"-c search_path={schema}") as connection:
        text = [tuple(part.replace(f"{schema}.", "") for part in row) for row in connection.execute(_CATALOG)]
    assert len(text) > 80
    return text


def test_all_migrations_lead_to_what_a_new_store_gets(postgres_url):
    opened(postgres_url).close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA stepwise; SET search_path = stepwise")
        for step in migrations():
            connection.execute(step.text.encode())
    assert described(postgres_url, "stepwise") == described(postgres_url, "holdfast")


def test_a_store_of_the_first_version_is_brought_here_with_what_it_holds(postgres_url):
    first, *later = migrations()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA holdfast; SET search_path = holdfast")
        connection.execute(first.text.encode())
        connection.cursor().executemany(
            "INSERT INTO header VALUES (%s, %s, %s)", [*new_header(), sealed("version", "1")]
        )
        # As that version did it.
        held = connection.execute(
            "SELECT its_epoch FROM claim(1, 'work', 'a', 'a.example', 4711, '77', 1000000000, 0, NULL)"
        ).fetchall()
    assert refusal(postgres_url).code is ErrorCode.NEEDS_MIGRATION

    steps = holdfast.migrate(postgres_url).steps

    assert steps == tuple(f"{step.number:04} {step.name}" for step in later)
    backend = opened(postgres_url)
    backend.commit(save("a"))
    with pytest.raises(ConflictError):
        backend.claim("work", Holder("b", "b.example", 4711, "77"), 1000.0, at=0, ticks=0)
    there = backend.lease("work")
    assert there is not None
    assert held == [(there.epoch,)]
    backend.release(there)
    # Whoever was refused has drawn none: the old form did.
    again = backend.claim("work", Holder("b", "b.example", 4711, "77"), 1000.0, at=0, ticks=0)
    assert again.epoch == there.epoch + 1
    backend.close()


def test_migrations_are_numbered_without_gaps_up_to_the_version():
    assert [step.number for step in migrations()] == list(range(1, VERSION + 1))


def test_the_functions_ask_for_the_version_of_this_code():
    text = resources.files("holdfast.backends.postgres").joinpath("schema.sql").read_text()
    assert re.findall(r"version <> (\d+)", text) == [str(VERSION)]


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


@pytest.mark.parametrize(
    "leftover",
    [
        "CREATE SEQUENCE holdfast.positions",
        "CREATE FUNCTION holdfast.apply() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        "CREATE TYPE holdfast.mood AS ENUM ('calm')",
    ],
)
def test_a_schema_without_tables_that_is_not_empty_is_left_alone(postgres_url, leftover):
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"CREATE SCHEMA holdfast; {leftover}")
    assert refusal(postgres_url).code is ErrorCode.NOT_A_STORE
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'holdfast'").fetchone()
        assert tables == (0,)


def test_a_store_without_its_header_is_damaged_and_still_a_store(postgres_url):
    opened(postgres_url).close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DELETE FROM holdfast.header")
    assert refusal(postgres_url).code is ErrorCode.STORE_DAMAGED


def test_the_list_of_tables_is_complete(postgres_url):
    opened(postgres_url).close()
    with psycopg.connect(postgres_url) as connection:
        there = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast'").fetchall()
    assert sorted(locking.TABLES) == sorted(tables.KEYS) == sorted(name for (name,) in there)


def test_a_store_lives_beside_the_tables_of_an_application(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE sessions (mine text); INSERT INTO sessions VALUES ('hers')")
    with holdfast.open(postgres_url) as store:
        store.session("s").save({"a": 1})
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT * FROM public.sessions").fetchall() == [("hers",)]


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


def test_a_store_that_another_makes_between_two_looks_is_found(postgres_url, monkeypatch):
    usual = Connected.execute
    looked: list[object] = []

    def slow(self, query, *args, **options):
        answer = usual(self, query, *args, **options)
        if "pg_class" in str(query) and not looked:
            looked.append(query)
            opened(postgres_url).close()
        return answer

    monkeypatch.setattr(Connected, "execute", slow)
    with holdfast.open(postgres_url) as store:
        store.session("s").save({"n": 1})
    assert looked


def test_a_newer_version_is_refused(postgres_url):
    opened(postgres_url).close()
    set_version(postgres_url, VERSION + 1)
    error = refusal(postgres_url)
    assert error.code is ErrorCode.FORMAT_TOO_NEW
    with pytest.raises(HoldfastError) as caught:
        holdfast.migrate(postgres_url)
    assert caught.value.code is ErrorCode.FORMAT_TOO_NEW


def test_an_older_version_asks_for_a_migration(postgres_url):
    opened(postgres_url).close()
    set_version(postgres_url, 0)
    error = refusal(postgres_url)
    assert error.code is ErrorCode.NEEDS_MIGRATION
    assert "holdfast migrate" in error.hint


def test_a_damaged_header_is_damage(postgres_url):
    opened(postgres_url).close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE holdfast.header SET value = value || '0' WHERE key = 'created_at'")
    assert refusal(postgres_url).code is ErrorCode.ROW_DAMAGED


@pytest.fixture
def with_one_step_more(monkeypatch):
    """As if this code were one version further than the store."""
    step = Migration(VERSION + 1, "an example", "ALTER TABLE tags ADD COLUMN example bigint")
    steps = [*migrations(), step]

    def apply():
        monkeypatch.setattr(creation, "migrations", lambda: steps)
        monkeypatch.setattr(creation, "VERSION", VERSION + 1)

    return apply


def columns(url):
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'holdfast.tags'::regclass AND attnum > 0"
        ).fetchall()


def test_a_dry_run_says_what_a_migration_would_do(postgres_url, with_one_step_more):
    opened(postgres_url).close()
    before = columns(postgres_url)
    with_one_step_more()
    report = holdfast.migrate(postgres_url, dry_run=True)
    assert (report.steps, report.dry_run) == ((f"{VERSION + 1:04} an example",), True)
    assert columns(postgres_url) == before


def test_a_migration_is_taken_once(postgres_url, with_one_step_more):
    opened(postgres_url).close()
    with_one_step_more()
    assert holdfast.migrate(postgres_url).steps == (f"{VERSION + 1:04} an example",)
    assert holdfast.migrate(postgres_url).steps == ()
    assert ("example",) in columns(postgres_url)


def test_a_migration_that_fails_leaves_the_store_as_it_was(postgres_url, monkeypatch):
    opened(postgres_url).close()
    before = columns(postgres_url)
    bad = Migration(VERSION + 1, "half", "ALTER TABLE tags ADD COLUMN half bigint; SELECT 1 / 0")
    monkeypatch.setattr(creation, "migrations", lambda: [*migrations(), bad])
    monkeypatch.setattr(creation, "VERSION", VERSION + 1)
    with pytest.raises(HoldfastError):
        holdfast.migrate(postgres_url)
    assert columns(postgres_url) == before


def test_a_migration_waits_for_commits_and_refuses_the_old_version_from_then_on(
    postgres_url, with_one_step_more
):
    old = opened(postgres_url)
    old.commit(save("a"))
    with psycopg.connect(postgres_url, options="-c search_path=holdfast") as writer:
        writer.execute("SELECT enter(%s)", [VERSION])
        with_one_step_more()
        done = threading.Event()

        def migrate():
            holdfast.migrate(postgres_url)
            done.set()

        thread = threading.Thread(target=migrate)
        thread.start()
        assert not done.wait(0.3)
        writer.rollback()
        thread.join()
        assert done.is_set()
    # What the step itself does to the functions: they know the new version from then on.
    with psycopg.connect(postgres_url, options="-c search_path=holdfast") as connection:
        ((text,),) = connection.execute("SELECT pg_get_functiondef('enter'::regproc)").fetchall()
        connection.execute(text.replace(f"version <> {VERSION}", f"version <> {VERSION + 1}").encode())
    with pytest.raises(HoldfastError) as caught:
        old.commit(save("b", after="a"))
    assert caught.value.code is ErrorCode.FORMAT_TOO_NEW
    old.close()


def test_a_sqlite_store_needs_no_migration(tmp_path):
    with holdfast.open(tmp_path / "store.db") as store:
        store.session("s").save({"a": 1})
    report = holdfast.migrate(tmp_path / "store.db")
    assert report.steps == ()
    with pytest.raises(HoldfastError) as caught:
        holdfast.migrate(tmp_path / "none.db")
    assert caught.value.code is ErrorCode.STORE_MISSING


def as_reader(postgres, url):
    """The URL of somebody who may only read that store."""
    role = postgres.create_role()
    with psycopg.connect(url, autocommit=True) as connection:
        for grant in ("USAGE ON SCHEMA holdfast", "SELECT ON ALL TABLES IN SCHEMA holdfast"):
            connection.execute(f'GRANT {grant} TO "{role.name}"')
    return postgres.url(url.rpartition("/")[2], role)


def test_a_store_that_is_up_to_date_asks_for_no_right_but_to_read(postgres, postgres_url):
    opened(postgres_url).close()

    assert holdfast.migrate(as_reader(postgres, postgres_url)).steps == ()


def test_a_store_that_is_up_to_date_is_not_locked(postgres_url):
    opened(postgres_url).close()
    with psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE holdfast.tags IN ACCESS SHARE MODE")

        assert PostgresBackend.migrate(postgres_url, dry_run=False, timeout=0.5)[1] == []


def test_a_migration_needs_the_rights_all_the_same(postgres, postgres_url, with_one_step_more):
    opened(postgres_url).close()
    reader = as_reader(postgres, postgres_url)
    with_one_step_more()
    with pytest.raises(HoldfastError) as caught:
        holdfast.migrate(reader)
    assert caught.value.code is ErrorCode.PERMISSION_DENIED
    assert ("example",) not in columns(postgres_url)
