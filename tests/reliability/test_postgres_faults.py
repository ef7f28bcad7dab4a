"""Damage in the rows of a PostgreSQL store, and errors at every statement of a commit.

Bits of files are the server's to watch over. What is ours is that a row that is not what was written is noticed, named
and left out, whatever column it is in; and that a commit which fails at any statement leaves the old store or the new
one.
"""

from __future__ import annotations

import threading
from contextlib import suppress

import psycopg
import pytest
from psycopg import sql
from tests.unit.store.damage import ask, chunk_of, spoil

import holdfast
from holdfast import BackendError, ErrorCode, HoldfastError
from holdfast.backends.postgres import PostgresBackend

SAVES = 6


@pytest.fixture
def saved(postgres_store):
    """A line of checkpoints of which none is stored as a difference to another, with a branch, tags and a log."""
    with holdfast.open(postgres_store, durability="process") as store:
        session = store.session("s", agent="scout")
        made = [
            session.save({"step": n, "own": f"{n} " * 40}, f"step {n}", tags=["t"], step=n, cost_usd=0.5)
            for n in range(SAVES)
        ]
        session.fork("#2", "side")
        session.pin("#1")
        store.session("other").save({"x": 1})
    return made


def columns(place, table):
    """The columns of a table, and what each may be changed to."""
    found = ask(
        place,
        "SELECT array_agg(column_name || ' ' || data_type ORDER BY ordinal_position) "
        "FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = ?",
        table,
    )
    return [each.split(" ", 1) for each in found]


def changed(name, kind):
    """Another value of the same type, whatever it was."""
    if name == "parents":
        return "set_byte(parents || '\\x00'::bytea, 0, 1)"
    column = f'"{name}"'
    return {
        "bigint": f"coalesce({column}, 0) + 1000",
        "double precision": f"coalesce({column}, 0) + 1",
        "text": f"coalesce({column}, '') || ' '",
        "bytea": f"CASE WHEN length(coalesce({column}, '')) = 0 THEN '\\x01'::bytea "
        f"ELSE set_byte({column}, 0, get_byte({column}, 0) # 1) END",
    }[kind]


def alter(place, statements):
    database, _, schema = place.partition("&schema=")
    with psycopg.connect(database, options=f"-c search_path={schema}") as connection:
        connection.execute(statements.encode())


def damaged_ids(store):
    return {each.id for each in store.verify().damaged if each.lost}


# What the server itself gave the row, and no seal can know beforehand.
GIVEN = {"position", "stored_bytes"}


def test_every_column_of_a_checkpoint_is_watched_over(postgres_store, saved):
    """Each is changed in one row of its own time, found, named, and put back."""
    victim = bytes.fromhex(saved[3].id)
    for name, kind in columns(postgres_store, "checkpoints"):
        if name in GIVEN:
            continue
        before = ask(postgres_store, f'SELECT "{name}" FROM checkpoints WHERE id = ?', victim)
        key = ask(postgres_store, "SELECT position FROM checkpoints WHERE id = ?", victim)
        spoil(
            postgres_store,
            f'UPDATE checkpoints SET "{name}" = {changed(name, kind)} WHERE position = ?',
            key,
        )
        with holdfast.open(postgres_store, damaged=True) as store:
            report = store.verify()
            assert not report.ok, name
            lost = [each for each in report.damaged if each.lost]
            assert len(lost) == 1, name
            assert lost[0].id == saved[3].id or name == "id"
            # Those around it are read as ever; this one is not served as if nothing were wrong.
            session = store.session("s")
            assert session.load("#6")["step"] == 5
            if name not in ("session", "seq", "id", "branch"):
                with pytest.raises(HoldfastError):
                    session.checkpoint("#4")
        spoil(postgres_store, f'UPDATE checkpoints SET "{name}" = ? WHERE position = ?', before, key)
    with holdfast.open(postgres_store) as store:
        assert store.verify().ok


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ("header", "key = 'store'"),
        ("sessions", "id = 's'"),
        ("branches", "name = 'side'"),
        ("operations", "number = 1 AND session = 1"),
    ],
)
def test_every_column_of_the_other_tables_is_watched_over(postgres_store, saved, table, where):
    del saved
    alter(postgres_store, f"CREATE TABLE kept AS TABLE {table}")
    for name, kind in columns(postgres_store, table):
        spoil(postgres_store, f'UPDATE {table} SET "{name}" = {changed(name, kind)} WHERE {where}')
        with holdfast.open(postgres_store, damaged=True) as store:
            assert not store.verify().ok, name
        alter(postgres_store, f"DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept")
    with holdfast.open(postgres_store) as store:
        assert store.verify().ok


STATES = [
    "UPDATE chunks SET data = '\\x00'::bytea WHERE number = ?",
    "UPDATE chunks SET data = set_byte(data, length(data) - 1, get_byte(data, length(data) - 1) # 1) WHERE number = ?",
    "UPDATE chunks SET hash = set_byte(hash, 0, get_byte(hash, 0) # 1) WHERE number = ?",
    "UPDATE chunks SET codec = codec + 1 WHERE number = ?",
    "UPDATE chunks SET size_bytes = size_bytes - 1 WHERE number = ?",
    "DELETE FROM chunks WHERE number = ?",
]


@pytest.mark.parametrize("statement", STATES)
def test_a_damaged_state_costs_its_checkpoint_and_no_other(postgres_store, saved, statement):
    """Verify names it, recover serves the newest that is whole, repair keeps the rest and puts the old tables aside."""
    for each in (saved[5], saved[4]):
        spoil(postgres_store, statement, chunk_of(postgres_store, each.id))
    lost = {saved[5].id, saved[4].id}
    with holdfast.open(postgres_store, damaged=True) as store:
        session = store.session("s")
        assert damaged_ids(store) == lost
        with pytest.raises(HoldfastError):
            session.load()
        found = session.recover()
        assert (found.checkpoint.id, found.state["step"]) == (saved[3].id, 3)
        assert {each.id for each in found.damaged} == lost

        report = store.repair()

        assert {each.id for each in report.lost} == lost
        assert store.verify().ok
        assert [each.id for each in session.log()] == [each.id for each in reversed(saved[:4])]
        assert [session.load(each)["step"] for each in session.log()] == [3, 2, 1, 0]
        assert store.session("other").load() == {"x": 1}
        assert session.save({"goes": "on"}).parent == saved[3].id
    database, _, schema = postgres_store.partition("&schema=")
    assert report.kept_aside is not None
    assert report.kept_aside.startswith(f"{schema}_damaged_")
    aside = f"{database}&schema={report.kept_aside}"
    # All that was there: the damage, and what is around it.
    assert ask(aside, "SELECT count(*) FROM checkpoints") == SAVES + 2


def test_a_head_that_is_damaged_is_found_by_recover_and_brought_back_by_repair(postgres_store, saved):
    spoil(postgres_store, "UPDATE branches SET head = zeroblob(32) WHERE name = 'main' AND session = 1")
    with holdfast.open(postgres_store, damaged=True) as store:
        assert not store.verify().ok
        assert store.session("s").recover().checkpoint.id == saved[5].id
        assert [each.after for each in store.repair().moved] == [saved[5].id]
        assert store.session("s").load()["step"] == 5
        assert store.verify().ok


def test_a_damaged_log_is_cut_and_the_checkpoints_stay(postgres_store, saved):
    spoil(postgres_store, "UPDATE operations SET data = '{}' WHERE number = 1 AND session = 1")
    with holdfast.open(postgres_store, damaged=True) as store:
        assert not store.verify().ok
        report = store.repair()
        assert (report.logs_cut, report.lost) == (("s",), ())
        assert [each.id for each in store.session("s").log()] == [each.id for each in reversed(saved)]
        assert store.verify().ok


def contents(connection, schema):
    """Every row, as text."""
    tables = ("sessions", "branches", "checkpoints", "tags", "operations", "chunks")
    return [
        sorted(
            map(repr, connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(schema, each))))
        )
        for each in tables
    ]


class CutError(BaseException):
    """The program is gone: nothing after this is done by it."""


class Statements:
    """Counts what a connection is told to do, and ends its session before or after the chosen one."""

    def __init__(self, monkeypatch, how):
        self.count = 0
        self.at: int | None = None
        self._how = how
        real = psycopg.Connection.execute

        def execute(connection, *args, **options):
            self.count += 1
            if self.count != self.at:
                return real(connection, *args, **options)
            if how == "after":
                real(connection, *args, **options)
            self._end(connection)
            if how == "client":
                raise CutError
            # Told by the driver that the session is gone, as it would be by the next statement.
            return real(connection, *args, **options)

        monkeypatch.setattr(psycopg.Connection, "execute", execute)

    def _end(self, connection):
        if self._how == "client":
            connection.close()
            return
        with psycopg.connect(self.place, autocommit=True) as admin:
            # It returns when the session is gone.
            admin.execute("SELECT pg_terminate_backend(%s, 10000)", [connection.info.backend_pid])

    place = ""


OPERATIONS = {
    "a save": lambda session: session.save({"new": "n" * 500}, "new"),
    "the first save of a session": lambda session: session.fork("@", session="brand-new"),
    "a fork": lambda session: session.fork("#2", "idea"),
    "a deletion": lambda session: session.delete("#4"),
    "a tag": lambda session: session.tag("#2", "new"),
    "an undo": lambda session: session.undo(),
    "a clearance": lambda session: session.clear(force=True),
}


@pytest.mark.parametrize("how", ["before", "after", "client"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_error_at_every_statement_leaves_old_or_new(postgres_store, saved, monkeypatch, operation, how):
    del saved
    database, _, schema = postgres_store.partition("&schema=")
    act = OPERATIONS[operation]
    statements = Statements(monkeypatch, how)
    statements.place = database
    number, done = 0, False
    with (
        psycopg.connect(database, autocommit=True) as looking,
        # Another machine, to which nothing happens.
        holdfast.open(postgres_store, durability="process") as other,
    ):
        while not done:
            number += 1
            # From the same beginning each time, with a writer that has seen nothing.
            with holdfast.open(postgres_store, durability="process", timeout=10) as store:
                session = store.session("s")
                session.load()
                old = contents(looking, schema)
                statements.count, statements.at, answered = 0, number, False
                with suppress(HoldfastError, CutError):
                    act(session)
                    # Or an error that has nothing to do with it would count as one.
                    answered = True
                done = statements.count < number
                statements.at = None
            now = contents(looking, schema)
            report = other.verify()
            assert report.ok, (number, report.problems)
            if now != old:
                check_new(other, operation)
                # Back to where it was, for the next statement.
                back(other, operation)
            assert not answered or now != old
    assert answered
    assert number > 2


def check_new(store, operation):
    """All of it took place, and once."""
    session = store.session("s")
    log = [each.message for each in session.log()]
    branches = {each.name for each in session.branches()}
    assert {
        "a save": log.count("new") == 1,
        "the first save of a session": [each.id for each in store.sessions()].count("brand-new") == 1,
        "a fork": "idea" in branches,
        "a deletion": "step 3" not in log,
        "a tag": "new" in session.checkpoint("#2").tags if operation == "a tag" else True,
        "an undo": not session.checkpoint("#1").pinned if operation == "an undo" else True,
        "a clearance": log == [],
    }[operation], operation


def back(store, operation):
    session = store.session("s")
    if operation == "a save":
        store.forget("s", "@")
    elif operation == "the first save of a session":
        store.forget("brand-new")
    elif operation == "an undo":
        session.redo()
    else:
        session.undo()


def saved_at_last(session, state):
    """What was told to have failed is saved again by the same Session: it is there once."""
    while True:
        try:
            return session.save(state)
        except BackendError as error:
            if error.code is not ErrorCode.SERVER_GONE:
                raise


def test_commits_of_many_threads_whose_sessions_end_at_any_time_leave_whole_checkpoints(postgres_store):
    """Not at a statement that was chosen, but wherever it happens to be."""
    database, _, _ = postgres_store.partition("&schema=")
    made: list[str] = []
    # One session ends for each save that returned: whoever is slow is not ended more often than others get on.
    saved = threading.Semaphore(1)
    over = threading.Event()

    def write(number):
        with holdfast.open(postgres_store, durability="process", timeout=30) as store:
            session = store.session(f"s{number}")
            for n in range(25):
                made.append(saved_at_last(session, {"n": n, "own": f"{number} {n} " * 20}).id)
                saved.release()

    def harass():
        with psycopg.connect(database, autocommit=True) as admin:
            while saved.acquire() and not over.is_set():
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                    "AND application_name = 'holdfast' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
                )

    PostgresBackend.open(postgres_store, durability="process", create=True, timeout=10).close()
    troublemaker = threading.Thread(target=harass)
    troublemaker.start()
    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    over.set()
    saved.release()
    troublemaker.join()
    with holdfast.open(postgres_store) as store:
        assert store.verify().ok
        assert sorted(each.id for each in store.find()) == sorted(made)
        assert len(made) == 75
