"""Questions in SQL: what is answered, and what is refused or stopped."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.agents import Run


@pytest.fixture
def store(tmp_path):
    with holdfast.open(tmp_path / "store", durability="process") as store:
        with Run(store.session("x", agent="scout"), task="t", sql=True) as run:
            run.think("one", confidence=0.5, tokens=7)
            for name in ("ls", "ls", "cat"):
                with run.tool(name) as call:
                    call.result = name
        store.session("other").save({"n": 1}, tags=["golden"])
        yield store


def test_published_views_answer(store):
    [row] = store.sql(
        "select count(*) as n, max(tokens) as tokens from checkpoints where execution_id is not null"
    )
    assert row == {"n": 8, "tokens": 7}
    assert store.sql("select tool_id, count(*) from tool_calls group by 1 order by 1").rows == [
        ("cat", 1),
        ("ls", 2),
    ]
    joined = store.sql(
        "select t.content, e.task from thoughts t join executions e on e.id = t.execution_id where t.type = ?",
        ["reasoning"],
    )
    assert joined.rows == [("one", "t")]
    assert [row["agent"] for row in store.sql("select * from sessions order by id")] == [None, "scout"]
    assert store.sql("select value from json_each('[1, 2]')").rows == [(1,), (2,)]
    assert store.sql("with n(i) as (select 1) select i, (select count(*) from thoughts) from n").rows == [
        (1, 1)
    ]
    assert store.sql("select tag from tags").rows == [("golden",)]
    found = store.sql(
        "select id, checkpoint_id from checkpoints where status = :status", {"status": "completed"}
    )
    assert store.session("x").checkpoint(f"key:{found.rows[0][0]}").id == found.rows[0][1]


def test_views_of_runs_are_there_before_the_first_run(tmp_path):
    with holdfast.open(tmp_path / "new") as store:
        store.session("x").save({})
        assert len(store.sql("select id, tool_id, success from tool_calls")) == 0


def test_there_is_a_limit_of_rows(store):
    answer = store.sql("select id from checkpoints", limit=3)
    assert (len(answer), answer.truncated) == (3, True)
    assert not store.sql("select id from checkpoints", limit=9).truncated


REFUSED = [
    "delete from thoughts",
    "insert into executions (id) values ('x')",
    "update main.sessions set agent = 'x'",
    "drop view thoughts",
    "create table mine (x)",
    "create temp table mine (x)",
    "attach database '/tmp/other.db' as other",
    "pragma journal_mode = delete",
    "vacuum into '/tmp/stolen.db'",
    "select * from chunks",
    "select * from main.chunks",
    "select * from main.checkpoints",
    "select * from main.sqlite_schema",
    "with checkpoints as (select hash from main.chunks) select * from checkpoints",
    "with thoughts as (select nonce from main.checkpoints) select * from thoughts",
    "select count(*) from main.chunks",
    "select * from temp.sqlite_schema",
    "select count(*) from header",
    "select * from sqlite_schema",
    "select * from pragma_table_info('chunks')",
    "select load_extension('evil')",
    "select readfile('/etc/passwd')",
    "select writefile('/tmp/x', 'y')",
    "select 1; delete from thoughts",
    "begin; select 1",
    "with x as (select 1) delete from thoughts",
    "explain delete from thoughts",
    "not sql at all",
    "",
    "select ?",
    "select zeroblob(1000000000)",
]


@pytest.mark.parametrize("query", REFUSED)
def test_what_is_more_than_a_question_is_refused(store, query, tmp_path):
    before = (tmp_path / "store").stat().st_mtime_ns
    with pytest.raises(holdfast.InvalidInputError) as refused:
        store.sql(query)
    assert refused.value.code == "sql-refused"
    assert len(store.sql("select * from thoughts")) == 1
    assert (tmp_path / "store").stat().st_mtime_ns == before


def test_a_question_without_end_is_stopped(store):
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    with pytest.raises(holdfast.BackendError) as stopped:
        store.sql(endless, seconds=0.2)
    assert stopped.value.code == "sql-stopped"
    store.session("x").save({"goes": "on"})


def test_a_store_that_answers_no_sql_says_so():
    with holdfast.open("memory:") as store, pytest.raises(holdfast.UnsupportedError) as refused:
        store.sql("select 1")
    assert "holdfast ask" in refused.value.hint


def test_a_tool_is_found_by_index(store):
    [plan] = [
        row["detail"]
        for row in store.sql("explain query plan select checkpoint_id from tool_calls where tool_id = 'ls'")
    ]
    assert "INDEX" in plan
    assert "tool_id=?" in plan


@pytest.fixture
def served(postgres, postgres_url, monkeypatch):
    """A store on a server, and a role that may log in and nothing else."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS asker")
        admin.execute("CREATE ROLE asker LOGIN PASSWORD 'ask'")
        with holdfast.open(postgres_url, durability="process") as store:
            with Run(store.session("x", agent="scout"), task="t", sql=True) as run:
                run.think("one", tokens=7)
                with run.tool("ls") as call:
                    call.result = 1
            monkeypatch.setenv("HOLDFAST_SQL_URL", "postgresql://asker:ask@")
            yield store, admin
        admin.execute("DROP OWNED BY asker")
        admin.execute("DROP ROLE asker")


def test_a_server_answers_as_a_role_that_reads_the_views_alone(served, monkeypatch):
    store, admin = served
    assert store.sql("select tool_id, success from tool_calls where tool_id = $1", ["ls"]).rows == [("ls", 1)]
    [row] = store.sql(
        "select count(*) as n, max(tokens) as tokens from checkpoints where execution_id is not null"
    )
    assert row == {"n": 4, "tokens": 7}
    assert store.sql("select agent from sessions").rows == [("scout",)]
    assert store.sql("select id from checkpoints", limit=2).truncated
    for query in (
        "delete from thoughts",
        "create temp table mine (x int)",
        "select * from holdfast.chunks",
        "select pg_read_file('/etc/passwd')",
        "select lo_import('/etc/passwd')",
        "copy (select 1) to program 'true'",
        "copy (select 1) to '/tmp/stolen'",
        "select 1; select 2",
        "select set_config('role', 'postgres', true)",
        "select query_to_xml('select * from holdfast.chunks', true, false, '')",
        "not sql",
    ):
        with pytest.raises(holdfast.InvalidInputError) as refused:
            store.sql(query)
        assert refused.value.code == "sql-refused", query
    with pytest.raises(holdfast.BackendError) as stopped:
        store.sql("select pg_sleep(60)", seconds=0.2)
    assert stopped.value.code == "sql-stopped"

    for grant in (
        "ALTER ROLE asker SUPERUSER",
        "ALTER ROLE asker NOSUPERUSER; GRANT pg_read_server_files TO asker",
    ):
        admin.execute(grant)
        with pytest.raises(holdfast.UnsupportedError):
            store.sql("select 1")
    admin.execute("REVOKE pg_read_server_files FROM asker")
    assert store.sql("select 1 as one").rows == [(1,)]
    monkeypatch.delenv("HOLDFAST_SQL_URL")
    with pytest.raises(holdfast.UnsupportedError) as unfit:
        store.sql("select 1")
    assert "HOLDFAST_SQL_URL" in unfit.value.hint
