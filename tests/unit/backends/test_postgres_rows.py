"""Extension tables in a schema of PostgreSQL: what the kit cannot see."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

psycopg = pytest.importorskip("psycopg")

import holdfast  # noqa: E402
from holdfast import Table  # noqa: E402

RUNS = Table("runs", columns={"session": str, "run": str, "note": str | None}, key=("run",))
STEPS = Table(
    "steps",
    columns={"run": str, "step": int, "status": str},
    key=("run", "step"),
    indexes=[("status",)],
    foreign_keys={("run",): RUNS},
)


@pytest.fixture
def store(postgres_url):
    with holdfast.open(postgres_url) as store:
        yield store


@pytest.fixture
def run(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True, options="-c search_path=holdfast") as connection:
        yield connection.execute


def begun(run="r1", step=1):
    return [
        RUNS.upsert({"session": "work", "run": run, "note": "xyzzy-note"}),
        STEPS.insert({"run": run, "step": step, "status": "running"}),
    ]


def test_many_who_write_the_first_row_make_one_table(postgres_url):
    def work(number):
        with holdfast.open(postgres_url) as store:
            store.session(f"s{number}").save({"n": number}, rows=begun(f"r{number}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    with holdfast.open(postgres_url) as store:
        assert store.rows(STEPS).count() == 8


def test_a_repair_keeps_the_rows_and_their_references(store, run):
    session = store.session("work")
    for step in range(3):
        session.save({"n": step}, rows=begun(step=step))
    run("UPDATE checkpoints SET message = 'x' WHERE seq = 2")
    assert store.repair().to_dict()["dry_run"] is False
    assert store.rows(STEPS).count() == 3
    store.write([RUNS.delete(("r1",))])
    assert store.rows(STEPS).count() == 0


def test_what_was_forgotten_is_in_no_page_of_the_table_and_no_statistics(store, run):
    store.session("work").save({"n": 1}, rows=begun())
    store.session("rest").save({"n": 1}, rows=[RUNS.insert({"session": "rest", "run": "r9"})])
    run("ANALYZE runs")
    before = run("SELECT pg_relation_filenode('runs')").fetchall()
    store.forget("work")
    # Written anew, without what was removed.
    assert run("SELECT pg_relation_filenode('runs')").fetchall() != before
    assert run("SELECT * FROM pg_stats WHERE schemaname = 'holdfast' AND tablename = 'runs'").fetchall() == []
    assert [row["run"] for row in store.rows(RUNS).find()] == ["r9"]
