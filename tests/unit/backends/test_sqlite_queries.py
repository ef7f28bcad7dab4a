"""Questions are answered through indexes, and no text of a question becomes SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.backends.query import to_sql as sql_of
from holdfast.backends.sqlite import SqliteBackend
from holdfast.backends.sqlite.reader import _DIALECT
from holdfast.storage.records import CheckpointId, Query
from holdfast.testing.rows import batch, row


def value_name(query: Query) -> str:
    return "-".join(name for name in Query._fields if getattr(query, name) not in (None, (), False))


def plan(path: Path, query: Query) -> str:
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    sql, parameters = sql_of(query, _DIALECT)
    steps = [step[3] for step in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]
    connection.close()
    return "; ".join(steps)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (Query(session="s"), "sqlite_autoindex_checkpoints_2 (session=?)"),
        (Query(session="s", seq=3), "sqlite_autoindex_checkpoints_2 (session=? AND seq=?)"),
        (Query(session="s", before_seq=3), "sqlite_autoindex_checkpoints_2 (session=? AND seq<?)"),
        (Query(session="s", before_position=3, limit=9), "sqlite_autoindex_checkpoints_2 (session=?"),
        (
            Query(session="s", branch="main", status="failed", limit=1),
            "sqlite_autoindex_checkpoints_2 (session=?)",
        ),
        (Query(session="s", step=3), "checkpoints_by_step (session=? AND step=?)"),
        (Query(session="s", step=3, limit=1), "checkpoints_by_step (session=? AND step=?)"),
        (Query(session="s", key="k"), "checkpoints_by_key (session=? AND key=?)"),
        (Query(session="s", by_key=True), "checkpoints_by_key (session=? AND key>?)"),
        (Query(session="s", by_key=True, limit=9), "checkpoints_by_key (session=? AND key>?)"),
        (Query(session="s", by_key=True, key_from="k"), "checkpoints_by_key (session=? AND key>?)"),
        (
            Query(session="s", by_key=True, key_from="k", key_below="l", limit=9),
            "checkpoints_by_key (session=? AND key>? AND key<?)",
        ),
        (
            Query(session="s", key_from="k", key_below="l"),
            "checkpoints_by_key (session=? AND key>? AND key<?)",
        ),
        (Query(session="s", key_from="k", limit=9), "checkpoints_by_key (session=? AND key>?)"),
        (Query(session="s", key_below="k", limit=9), "checkpoints_by_key (session=? AND key<?)"),
        (Query(agent="a", by_key=True, key_from="k", limit=9), "checkpoints_by_key (session=? AND key>?)"),
        (Query(session="s", prev=CheckpointId(b"x" * 32)), "checkpoints_by_prev (session=? AND prev=?)"),
        (Query(session="s", prev=CheckpointId(b"")), "checkpoints_by_prev (session=? AND prev=?)"),
        (Query(session="s", prev=CheckpointId(b"x"), limit=9), "checkpoints_by_prev (session=? AND prev=?)"),
        (Query(project="p"), "sessions_by_project (project=?)"),
        (Query(project="p", since=1), "checkpoints_by_time (session=? AND created_at>?)"),
        (
            Query(project="p", since=1, until=2, limit=20),
            "checkpoints_by_time (session=? AND created_at>? AND created_at<?)",
        ),
        (Query(agent="a", until=2), "checkpoints_by_time (session=? AND created_at<?)"),
        (Query(agent="a"), "sessions_by_agent (agent=?)"),
        (Query(since=1), "checkpoints_by_time (session=? AND created_at>?)"),
        (Query(tag="t"), "SEARCH t USING PRIMARY KEY (tag=?)"),
        (Query(tag="t", session="s"), "SEARCH t USING PRIMARY KEY (tag=?)"),
        (Query(id_prefix="abc"), "sqlite_autoindex_checkpoints_1 (id>? AND id<?)"),
        (Query(session="s", id_prefix="abc", limit=11), "sqlite_autoindex_checkpoints_1 (id>? AND id<?)"),
        (Query(before_position=9), "SEARCH c USING INTEGER PRIMARY KEY (rowid<?)"),
    ],
    ids=lambda value: "" if isinstance(value, str) else value_name(value),
)
def test_a_question_uses_its_index(path: Path, store: SqliteBackend, query: Query, index: str) -> None:
    steps = plan(path, query)
    assert index in steps
    assert "SCAN c" not in steps
    assert "AUTOMATIC" not in steps


TEXT = st.text(min_size=1) | st.sampled_from(
    ["'", '"', "?", "--", ";", "' OR 1=1 --", "*", "%", "auto", "\0"]
)
FILTERS = {
    "session": TEXT,
    "branch": TEXT,
    "agent": TEXT,
    "project": TEXT,
    "tag": TEXT,
    "status": TEXT,
    "trigger": TEXT,
    "key": TEXT,
    "key_from": TEXT,
    "key_below": TEXT,
    "by_key": st.booleans(),
    "prev": st.binary(min_size=32, max_size=32),
    "id_prefix": st.text("0123456789abcdef", max_size=64),
    "step": st.integers(0, 2**40),
    "seq": st.integers(0, 9),
    "since": st.integers(0, 2**60),
    "until": st.integers(0, 2**60),
    "before_seq": st.integers(0, 9),
    "before_position": st.integers(0, 9),
    "include_hidden": st.booleans(),
    "limit": st.integers(0, 5),
    "metadata": st.lists(st.tuples(st.lists(TEXT, min_size=1).map(tuple), st.just("1")), max_size=2).map(
        tuple
    ),
}


def other_value(name: str, value: Any) -> Any:
    if name in ("include_hidden", "by_key") or (name, value) in (("trigger", "auto"), ("metadata", ())):
        return value
    if name == "metadata":
        return ((("k",), "0"),)
    return 0 if isinstance(value, int) else "0"


@given(st.fixed_dictionaries({}, optional=FILTERS))
def test_the_text_of_a_query_depends_on_which_filters_it_has_and_never_on_their_values(
    filters: dict[str, Any],
) -> None:
    query = Query(**filters)
    sql, parameters = sql_of(query, _DIALECT)
    plain = {name: other_value(name, value) for name, value in filters.items()}
    assert sql_of(Query(**plain), _DIALECT)[0] == sql
    assert sql.count("?") == len(parameters)


def test_a_search_by_metadata_reads_no_further_than_its_limit(store: SqliteBackend) -> None:
    for number in range(30):
        store.commit(batch(row(f"{number}", metadata=f'{{"k":{number % 2}}}')))
    seen: list[object] = []

    def count(_: apsw.Cursor, found: apsw.SQLiteValues) -> apsw.SQLiteValues:
        seen.append(found)
        return found

    connection = store._connections.take()
    connection.row_trace = count
    store._connections.give(connection)
    with store.reader() as reader:
        seen.clear()
        assert len(reader.checkpoints(Query(metadata=((("k",), "0"),), limit=3))) == 3
    # The one after the last that was wanted tells that there are enough.
    assert len(seen) == 7
