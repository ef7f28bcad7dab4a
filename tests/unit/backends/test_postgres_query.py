"""Questions to PostgreSQL read a page, whatever the store has grown to, and no text of a question becomes SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

psycopg = pytest.importorskip("psycopg")

from holdfast.backends import query as queries  # noqa: E402
from holdfast.backends.postgres import PostgresBackend  # noqa: E402
from holdfast.backends.postgres.connection import PLANS  # noqa: E402
from holdfast.backends.postgres.reader import DIALECT  # noqa: E402
from holdfast.storage.records import Query  # noqa: E402

PAGE = 20

# Rows as plain SQL: a hundred thousand commits would take minutes, and plans do not look at seals.
FILL = """
SET search_path = holdfast;
INSERT INTO sessions SELECT n, 's' || n, 'agent ' || n % 10, 'project ' || n % 3, 0, 1, 0, '', 'main', 0
    FROM generate_series(1, {sessions}) AS n;
INSERT INTO checkpoints SELECT n, 1 + n % {sessions}, n, sha256(n::text::bytea), 'main', '', '', n, 'manual',
    CASE WHEN n % 1000 = 1 THEN 'failed' ELSE 'running' END, n, 'message', '{{}}', NULL, NULL, NULL, NULL, '', 'k' || n,
    1, n, 1, NULL, 0, 0, '[]', 0, NULL, NULL, 0 FROM generate_series(1, {checkpoints}) AS n;
INSERT INTO tags SELECT 'often', n FROM generate_series(1, {checkpoints}, 2) AS n;
INSERT INTO tags SELECT 'once', 5;
SELECT setval('positions', {checkpoints}), setval('session_numbers', {sessions});
"""


class Grown(NamedTuple):
    """A store of so many checkpoints, in ten sessions."""

    checkpoints: int
    url: str


Make = Callable[[int], Grown]


@pytest.fixture(scope="module")
def make(postgres) -> Iterator[Make]:
    made: list[str] = []

    def grown(checkpoints: int) -> Grown:
        url = postgres.fresh_database()
        made.append(url)
        PostgresBackend.open(url, durability="process", create=True, timeout=10.0).close()
        with psycopg.connect(url, autocommit=True) as connection:
            # Statistics come when the test says so.
            for table in ("sessions", "checkpoints", "tags"):
                connection.execute(f"ALTER TABLE holdfast.{table} SET (autovacuum_enabled = off)")
            connection.execute(FILL.format(sessions=10, checkpoints=checkpoints))
        return Grown(checkpoints, url)

    yield grown
    for url in made:
        postgres.drop_database(url)


@pytest.fixture(scope="module", params=["statistics", "no statistics"])
def both(request, make: Make) -> tuple[Grown, Grown]:
    stores = make(1_000), make(100_000)
    if request.param == "statistics":
        for store in stores:
            with psycopg.connect(store.url, autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")
    return stores


def pages_read(store: Grown, query: Query, *, generic: bool) -> tuple[int, int]:
    """How many pages of tables and indexes the server touches for a question, and how many rows it gives.

    `generic` takes the plan that is made without knowing the values, which the server may choose for a statement that
    comes often.
    """
    sql, parameters = queries.to_sql(query, DIALECT)
    for number in range(len(parameters)):
        sql = sql.replace("%s", f"${number + 1}", 1)
    with psycopg.connect(store.url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("SET search_path = holdfast")
        for name, value in PLANS.items():
            connection.execute(f"SET {name} = {value}")
        connection.execute(f"SET plan_cache_mode = force_{'generic' if generic else 'custom'}_plan")
        connection.execute(f"PREPARE asked AS {sql}")
        values = ", ".join(["%s"] * len(parameters))
        run = f"EXECUTE asked({values})" if parameters else "EXECUTE asked"
        ((plan,),) = connection.execute(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {run}", parameters
        ).fetchall()
    node = plan[0]["Plan"]
    return node["Shared Hit Blocks"] + node["Shared Read Blocks"], node["Actual Rows"]


EVERYWHERE = [
    Query(),
    Query(session="s3"),
    Query(session="s3", oldest_first=True),
    Query(session="s3", status="running", branch="main"),
    Query(agent="agent 3"),
    Query(project="project 1"),
    Query(agent="agent 3", oldest_first=True),
    Query(tag="often"),
    Query(tag="often", session="s2"),
    Query(session="s3", by_key=True),
    Query(session="s3", by_key=True, oldest_first=True),
    Query(session="s3", by_key=True, key_from="k", key_below="l"),
    Query(session="s3", by_key=True, key_from="k2", oldest_first=True),
]
"""Questions that most of a store fits: a page is a page."""
"""Questions that one checkpoint fits, or none: found, not searched for."""


def names(value: object) -> str:
    if not isinstance(value, Query):
        return str(value)
    return "-".join(name for name in Query._fields if getattr(value, name) not in (None, (), False)) or "all"


@pytest.mark.parametrize("generic", [False, True], ids=["known values", "any values"])
@pytest.mark.parametrize("query", EVERYWHERE, ids=names)
def test_a_page_costs_no_more_in_a_large_store(
    both: tuple[Grown, Grown], query: Query, generic: bool
) -> None:
    small, large = both
    query = query._replace(limit=PAGE)
    few, rows = pages_read(small, query, generic=generic)
    many, same_rows = pages_read(large, query, generic=generic)
    assert rows == same_rows == PAGE
    assert many <= 3 * max(few, PAGE)


TEXT = st.text(min_size=1) | st.sampled_from(
    ["'", '"', "%s", "--", ";", "' OR 1=1 --", "%", "?", "auto", "\0"]
)
FILTERS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("session", "branch", "agent", "project", "tag", "status", "trigger"), TEXT),
    **dict.fromkeys(("key", "key_from", "key_below"), TEXT),
    "by_key": st.booleans(),
    **dict.fromkeys(("step", "seq", "since", "until", "before_seq", "after_position"), st.integers(0, 2**60)),
    "id_prefix": st.text("0123456789abcdef", max_size=64),
    "include_hidden": st.booleans(),
    "limit": st.integers(0, 5),
}


@given(st.fixed_dictionaries({}, optional=FILTERS))
def test_the_text_depends_on_which_filters_there_are_and_never_on_their_values(
    filters: dict[str, Any],
) -> None:
    sql, parameters = queries.to_sql(Query(**filters), DIALECT)
    kept = ["include_hidden", "by_key"] + ["trigger"] * (filters.get("trigger") == "auto")
    plain: dict[str, Any] = {
        name: value if name in kept else 0 if isinstance(value, int) else "0"
        for name, value in filters.items()
    }
    assert queries.to_sql(Query()._replace(**plain), DIALECT)[0] == sql
    assert sql.count("%") == sql.count("%s") == len(parameters)
    assert "?" not in sql
