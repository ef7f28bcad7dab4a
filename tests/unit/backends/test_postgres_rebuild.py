"""Putting a new store in the place of a damaged one, in one transaction, beside processes that have it open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from holdfast.backends.postgres import PostgresBackend  # noqa: E402
from holdfast.errors import BackendError, ErrorCode  # noqa: E402
from holdfast.storage.inspection import Rebuilt  # noqa: E402
from holdfast.storage.ports import Inspection  # noqa: E402
from holdfast.storage.records import Query  # noqa: E402
from holdfast.testing.conformance.inspecting import everything, filled  # noqa: E402
from holdfast.testing.rows import batch, checkpoint_id, chunk, contents, row, save, state_chunk  # noqa: E402

Run = Callable[..., list[tuple[Any, ...]]]
Open = Callable[..., PostgresBackend]


@pytest.fixture
def open_store(postgres_url: str) -> Iterator[Open]:
    opened: list[PostgresBackend] = []

    def open_one(at: str = postgres_url, **options: Any) -> PostgresBackend:
        settings: dict[str, Any] = {"durability": "process", "create": True, "timeout": 10.0}
        opened.append(PostgresBackend.open(at, **(settings | options)))
        return opened[-1]

    yield open_one
    for backend in opened:
        backend.close()


@pytest.fixture
def run(postgres_url: str) -> Iterator[Run]:
    """Statements past the backend."""
    with psycopg.connect(postgres_url, autocommit=True, options="-c search_path=holdfast") as connection:

        def execute(statement: str, *parameters: object) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

        yield execute


def schemas(run: Run) -> list[str]:
    return [
        name for (name,) in run("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'holdfast%%' ORDER BY 1")
    ]


def test_what_was_there_is_kept_aside_under_the_name_that_is_given_back(open_store: Open, run: Run) -> None:
    store = open_store()
    filled(store)
    run("UPDATE checkpoints SET message = 'harmed' WHERE id = %s", checkpoint_id("x"))
    aside = store.rebuild(everything)
    assert aside is not None
    assert aside.startswith("holdfast_damaged_")
    assert schemas(run) == ["holdfast", aside]
    assert run(f"SELECT count(*) FROM {aside}.checkpoints WHERE message = 'harmed'") == [(1,)]
    with store.inspect() as seen:
        assert list(seen.flaws()) == []
        assert list(seen.lost()) == []
        assert len(list(seen.checkpoints())) == 3
    assert run(f"SELECT count(*) FROM {aside}.checkpoints") == [(4,)]


def test_it_is_the_same_store_afterwards(open_store: Open, run: Run) -> None:
    store = open_store()
    filled(store)
    header: dict[str, str] = dict(run("SELECT key, value FROM header"))
    before = contents(store)
    assert store.rebuild(everything)
    assert dict(run("SELECT key, value FROM header")) == header
    assert contents(store) == before
    with open_store(create=False).reader() as reader:
        reader.check_header()


def test_a_damaged_header_is_made_anew(open_store: Open, run: Run) -> None:
    store = open_store()
    filled(store)
    run("UPDATE header SET value = 'x' WHERE key IN ('hash', 'version')")
    assert open_store(damaged=True).rebuild(everything)
    with open_store(create=False).reader() as reader:
        reader.check_header()
        assert len(reader.checkpoints(Query())) == 3


def test_others_who_have_it_open_go_on(open_store: Open) -> None:
    """With statements that they prepared for the old tables, and with what they remember of sessions and chunks."""
    store, other = open_store(), open_store()
    for number in range(12):
        other.commit(save(f"{number}", after=f"{number - 1}" if number else None))
        with other.reader() as reader:
            reader.checkpoints(Query(session="work", limit=3))
            assert dict(reader.chunks([state_chunk(f"{number}").hash]))

    def without_the_last(seen: Inspection) -> Rebuilt:
        found = everything(seen)
        heads = [each._replace(head=checkpoint_id("10")) for each in found.branches]
        return found._replace(checkpoints=list(found.checkpoints)[:-1], branches=heads)

    assert store.rebuild(without_the_last)
    with other.reader() as reader:
        newest = reader.checkpoints(Query(session="work", limit=3))
        assert [each.id for each in newest] == [checkpoint_id(name) for name in ("10", "9", "8")]
        kept = state_chunk("3")
        assert dict(reader.chunks([kept.hash])) == {kept.hash: kept.data}
    (row,) = other.commit(save("next", after="10")).checkpoints
    assert row.seq == 13
    assert contents(other) == contents(store)
    assert contents(store).checkpoints[0].id == checkpoint_id("next")


def test_somebody_who_reads_is_waited_for(open_store: Open) -> None:
    """The view keeps its moment; who cannot wait longer changes nothing."""
    store, hasty = open_store(), open_store(timeout=0.1)
    filled(store)
    before = contents(store)
    with store.reader() as reader:
        with pytest.raises(BackendError) as caught:
            hasty.rebuild(lambda seen: everything(seen)._replace(checkpoints=[], branches=[]))
        assert caught.value.code is ErrorCode.STORE_LOCKED
        assert len(reader.checkpoints(Query(include_hidden=True))) == 4
    assert contents(store) == before


def test_a_view_that_waits_for_a_rebuild_sees_what_came_of_it(open_store: Open, run: Run) -> None:
    """And not empty tables, which is all that there was of them at its own moment."""
    store, other = open_store(), open_store()
    filled(store)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    seen_by_other: list[int] = []

    def look() -> None:
        with other.reader() as reader:
            seen_by_other.append(len(reader.checkpoints(Query(include_hidden=True))))

    thread = threading.Thread(target=look)

    def plan(seen: Inspection) -> Rebuilt:
        thread.start()
        while run(waiting) == [(0,)]:
            pass
        return everything(seen)

    assert store.rebuild(plan)
    thread.join()
    assert seen_by_other == [4]


def test_a_commit_that_waits_for_a_rebuild_goes_into_the_new_tables(open_store: Open, run: Run) -> None:
    store, other = open_store(), open_store()
    filled(store)
    other.commit(save("before", after="c"))
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    thread = threading.Thread(target=lambda: other.commit(save("meanwhile", after="before")))

    def plan(seen: Inspection) -> Rebuilt:
        thread.start()
        while run(waiting) == [(0,)]:
            pass
        return everything(seen)

    assert store.rebuild(plan)
    thread.join()
    assert contents(store).checkpoints[0].id == checkpoint_id("meanwhile")


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_rebuild_that_fails_leaves_nothing(open_store: Open, run: Run, error: type[BaseException]) -> None:
    store = open_store()
    filled(store)
    before = contents(store)

    def endless(seen: Inspection) -> Rebuilt:
        found = everything(seen)

        def rows() -> Iterator[Any]:
            yield found.checkpoints[0]
            raise error

        class Rows(list[Any]):
            def __iter__(self) -> Iterator[Any]:
                return rows()

        return found._replace(checkpoints=Rows())

    with pytest.raises(error):
        store.rebuild(endless)
    assert contents(store) == before
    assert schemas(run) == ["holdfast"]


def test_a_role_that_may_make_no_schema_is_told_so(
    open_store: Open, run: Run, postgres, postgres_url: str
) -> None:
    store = open_store()
    filled(store)
    before = contents(store)
    role = postgres.create_role()
    # It owns the store, and lacks one right on the database.
    run(f'ALTER SCHEMA holdfast OWNER TO "{role.name}"')
    for (table,) in run("SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast'"):
        run(f'ALTER TABLE {table} OWNER TO "{role.name}"')
    for (sequence,) in run("SELECT sequencename FROM pg_sequences WHERE schemaname = 'holdfast'"):
        run(f'GRANT ALL ON SEQUENCE {sequence} TO "{role.name}"')
    theirs = open_store(postgres.url(postgres_url.rpartition("/")[2], role))
    with pytest.raises(BackendError) as caught:
        theirs.rebuild(everything)
    assert caught.value.code is ErrorCode.PERMISSION_DENIED
    assert "CREATE" in str(caught.value)
    assert contents(theirs) == before
    assert schemas(run) == ["holdfast"]


_RIGHTS = """
SELECT 'schema', '', nspowner::regrole::text, nspacl::text FROM pg_namespace WHERE oid = 'holdfast'::regnamespace
UNION ALL SELECT 'relation', relname, relowner::regrole::text, relacl::text
FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace AND relkind IN ('r', 'S')
UNION ALL SELECT 'function', proname, proowner::regrole::text, proacl::text
FROM pg_proc WHERE pronamespace = 'holdfast'::regnamespace ORDER BY 1, 2
"""


def rights(run: Run) -> list[tuple[Any, ...]]:
    """Who owns what, and who may do what; the order of rights to one thing says nothing."""
    return [(*named, sorted(acl.strip("{}").split(",")) if acl else None) for *named, acl in run(_RIGHTS)]


def test_owners_and_rights_stay_as_they_were(open_store: Open, run: Run, postgres, postgres_url: str) -> None:
    """A superuser repairs; the role that owns the store, and one that reads it, go on."""
    owner, reader, other = postgres.create_role(), postgres.create_role(), postgres.create_role()
    database = postgres_url.rpartition("/")[2]
    run(f'GRANT CREATE ON DATABASE "{database}" TO "{owner.name}"')
    theirs = open_store(postgres.url(database, owner))
    filled(theirs)
    run(f'GRANT USAGE ON SCHEMA holdfast TO "{reader.name}"')
    run(f'GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO "{reader.name}" WITH GRANT OPTION')
    run(f'GRANT SELECT ON SEQUENCE positions TO "{reader.name}"')
    run("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA holdfast FROM PUBLIC")
    run(f'GRANT EXECUTE ON FUNCTION writers_lock TO "{reader.name}"')
    # What the superuser gives to others by default is no part of the store.
    run(f'ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO "{other.name}"')
    before = rights(run)
    kept = contents(theirs)
    assert open_store().rebuild(everything)
    assert rights(run) == before
    assert contents(theirs) == kept
    theirs.commit(save("next", session="another"))
    assert len(contents(open_store(postgres.url(database, reader), create=False)).sessions) == 3
    run(f'DROP OWNED BY "{owner.name}", "{reader.name}", "{other.name}" CASCADE')


def test_who_owns_only_the_schema_repairs_nothing_that_others_own(
    open_store: Open, run: Run, postgres, postgres_url: str
) -> None:
    store = open_store()
    filled(store)
    kept = contents(store)
    role = postgres.create_role()
    database = postgres_url.rpartition("/")[2]
    run(f'GRANT ALL ON DATABASE "{database}" TO "{role.name}"; ALTER SCHEMA holdfast OWNER TO "{role.name}"')
    run(f'GRANT ALL ON ALL TABLES IN SCHEMA holdfast TO "{role.name}"')
    run(f'GRANT ALL ON ALL SEQUENCES IN SCHEMA holdfast TO "{role.name}"')
    before = rights(run)
    theirs = open_store(postgres.url(database, role))
    with pytest.raises(BackendError) as caught:
        theirs.rebuild(everything)
    assert caught.value.code is ErrorCode.PERMISSION_DENIED
    assert "owner" in caught.value.hint
    assert contents(store) == kept
    assert schemas(run) == ["holdfast"]
    assert rights(run) == before
    run(f'ALTER SCHEMA holdfast OWNER TO postgres; DROP OWNED BY "{role.name}" CASCADE')


def test_chunks_that_stand_on_each_other_come_over(open_store: Open, run: Run) -> None:
    """What stood on one that is left behind stands alone; the others stay as they are."""
    store = open_store()
    text = b"".join(b"line %d of a text that changes little\n" % line for line in range(200))
    pieces = [chunk(text)]
    for number in range(1, 8):
        pieces.append(chunk(text + b"%d" % number)._replace(base=pieces[-1].hash))
    for number, piece in enumerate(pieces):
        store.commit(batch(row(f"{number}", root=piece.hash), chunks=(piece,)))
    assert run("SELECT max(depth) FROM chunks")[0][0] >= 3

    def without_one(seen: Inspection) -> Rebuilt:
        found = everything(seen)
        kept = [each for each in found.checkpoints if each.id != checkpoint_id("2")]
        return found._replace(checkpoints=kept, chunks=set(found.chunks) - {pieces[2].hash})

    assert store.rebuild(without_one)
    wanted = {each.hash: each.data for each in pieces if each is not pieces[2]}
    with store.reader() as reader:
        assert reader.chunks([each.hash for each in pieces]) == wanted
    assert run("SELECT max(depth) FROM chunks")[0][0] >= 1
    newer = chunk(text + b"newer")._replace(base=pieces[-1].hash)
    store.commit(batch(row("newer", root=newer.hash), chunks=(newer,)))
    with store.reader() as reader:
        assert reader.chunks([newer.hash]) == {newer.hash: newer.data}


def test_numbers_go_on_where_they_were(open_store: Open, run: Run) -> None:
    store = open_store()
    filled(store)
    run("SELECT setval('positions', 2), setval('session_numbers', 1), setval('chunk_numbers', 1)")
    assert store.rebuild(everything)
    newest = contents(store).checkpoints[0].position
    (made,) = store.commit(save("new", session="third")).checkpoints
    assert made.position > newest
    assert [each.id for each in contents(store).sessions] == ["work", "other", "third"]


def test_an_empty_store_can_be_rebuilt(open_store: Open) -> None:
    store = open_store()
    assert store.rebuild(everything)
    (made,) = store.commit(save("a")).checkpoints
    assert (made.position, made.seq) == (1, 1)


def test_it_lasts_whatever_saves_were_asked_to(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.backends.postgres import rebuilding

    seen: list[str] = []
    rename = rebuilding._rename

    def noting(connection: Any, schema: str, name: str) -> None:
        seen.extend(value for (value,) in connection.execute("SHOW synchronous_commit").fetchall())
        rename(connection, schema, name)

    monkeypatch.setattr(rebuilding, "_rename", noting)
    assert open_store(durability="process").rebuild(everything)
    assert seen == ["on", "on"]
