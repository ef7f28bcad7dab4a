"""What a load asks first comes with the view, in one trip: the same answers, of the same moment, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from tests.unit.backends.test_postgres_read import Run, end_others, run, store, trips  # noqa: E402, F401

import holdfast  # noqa: E402
from holdfast.backends.chunk_rows import MAX_DEPTH  # noqa: E402
from holdfast.backends.header import sealed  # noqa: E402
from holdfast.backends.memory import MemoryBackend  # noqa: E402
from holdfast.backends.postgres import PostgresBackend, asking, view  # noqa: E402
from holdfast.backends.postgres.creation import VERSION  # noqa: E402
from holdfast.errors import ErrorCode, HoldfastError, UnsupportedError  # noqa: E402
from holdfast.objects.at_hand import KEPT_BYTES  # noqa: E402
from holdfast.storage.records import ChunkHash  # noqa: E402
from holdfast.testing.rows import checkpoint_id, save  # noqa: E402

KEPT = "SELECT count(*) FROM pg_prepared_statements WHERE name ~ '^holdfast_'"
VIEWS = 5
"""From so many on, what views ask is kept."""


@pytest.fixture
def filled(store: PostgresBackend) -> PostgresBackend:  # noqa: F811
    """Two sessions; one has a branch that is named like an id, and another more branches than are fetched at once."""
    store.commit(save("a"))
    store.commit(save("b", after="a"))
    store.commit(save("c", session="other"))
    store.commit(save("d", session="work", branch=checkpoint_id("a").hex()))
    store.commit(save("e", session="it's", branch="b'; --"))
    for number in range(20):
        store.commit(save(f"many-{number}", session="many", branch=f"branch-{number:02}"))
    return store


NAMES = [
    ("work", "main"),
    ("work", checkpoint_id("b").hex()),
    ("work", checkpoint_id("a").hex()),
    ("work", checkpoint_id("c").hex()),
    ("work", checkpoint_id("nobody").hex()),
    ("work", "nothing"),
    ("many", "branch-00"),
    ("many", "branch-19"),
    ("many", checkpoint_id("many-7").hex()),
    ("it's", "b'; --"),
    ("nobody", "main"),
]


def answers(reader: Any, session: str, name: str) -> list[object]:
    """All that a load of a branch or a checkpoint asks, and some more."""
    branch = reader.branch(session, name)
    found: list[object] = [branch, reader.branch(session, "main"), reader.branches(session)]
    for each in [name] if len(name) == 64 else [branch.head.hex()] if branch else []:
        checkpoint = reader.checkpoint(bytes.fromhex(each))
        found.append(checkpoint)
        if checkpoint is not None:
            found += [dict(reader.chunks([checkpoint.root])), dict(reader.chunks([ChunkHash(bytes(32))]))]
    return [*found, reader.session(session)]


@pytest.mark.parametrize("kept", [False, True], ids=["asked anew", "kept by the server"])
@pytest.mark.parametrize(("session", "name"), NAMES)
def test_the_answers_are_those_of_any_view(
    filled: PostgresBackend, session: str, name: str, kept: bool
) -> None:
    for _ in range(VIEWS + 1 if kept else 0):
        with filled.reader():
            pass
    with filled.reader() as reader:
        expected = answers(reader, session, name)
    with filled.reader_for(session, name) as reader:
        assert answers(reader, session, name) == expected


def test_a_load_of_a_small_state_waits_for_the_server_once(store: PostgresBackend) -> None:  # noqa: F811
    session = holdfast.Store(store).session("work")
    made = [session.save({"n": number}) for number in range(3)]
    for ref in ("@", "main", made[1].id, made[2]):
        with trips(store) as seen:
            holdfast.Store(store).session("work").load(ref)
        # The view with all that there is to ask; and its end, which nobody waits for.
        assert seen == ["Sync", "Query"]
    with trips(store) as seen:
        assert holdfast.Store(store).session("work").load("@~1") == {"n": 1}
    assert len(seen) > 2


def test_a_document_begins_with_the_same_trip(store: PostgresBackend) -> None:  # noqa: F811
    holdfast.Store(store).session("work").save({"n": 0})
    with trips(store) as seen:
        document: Any = holdfast.Store(store).session("work").document()
    assert document == {"n": 0}
    assert seen == ["Sync", "Query"]


def test_the_moment_is_that_of_the_beginning(filled: PostgresBackend) -> None:
    with filled.reader_for("work", "main") as reader:
        filled.commit(save("later", after="b"))
        branch = reader.branch("work", "main")
        assert branch is not None
        assert branch.head == checkpoint_id("b")
        assert [each.head for each in reader.branches("work")].count(checkpoint_id("b")) == 1
        assert reader.checkpoint(checkpoint_id("later")) is None


def test_what_was_asked_first_is_not_mixed_with_another_moment(filled: PostgresBackend, run: Run) -> None:  # noqa: F811
    with filled.reader_for("work", "main") as reader:
        end_others(run)
        # It has come; what is asked now would be of another transaction, so it is refused.
        assert reader.branch("work", "main") is not None
        with pytest.raises(HoldfastError):
            reader.sessions()


def test_a_connection_that_was_lost_before_is_replaced(filled: PostgresBackend, run: Run) -> None:  # noqa: F811
    end_others(run)
    with filled.reader_for("work", "main") as reader:
        assert reader.branch("work", "main") is not None
        assert reader.sessions()


def test_what_views_ask_is_kept_and_kept_again_after_it_was_dropped(filled: PostgresBackend) -> None:
    def kept() -> int:
        with filled._pool.connection() as connection:
            ((count,),) = connection.execute(KEPT).fetchall()
        return int(count)

    def look() -> None:
        with filled.reader_for("work", "main") as reader:
            assert reader.branch("work", "main") is not None
            # All that is kept is asked by its name now.
            root = reader.checkpoint(checkpoint_id("b"))
            assert root is not None
            assert list(reader.chunks([root.root, ChunkHash(bytes(32))])) == [root.root]
            assert dict(reader.chunks([ChunkHash(bytes(32))])) == {}

    with filled._pool.connection() as connection:
        connection.execute("DEALLOCATE ALL")
        connection.forget_kept()
    all_of_them = len(asking._OF_VIEWS)
    for expected in [0, 0, 0, 0, all_of_them, all_of_them]:
        look()
        assert kept() == expected
    with filled._pool.connection() as connection:
        connection.execute("DEALLOCATE ALL")
    for expected in [0, 0, 0, 0, 0, all_of_them, all_of_them]:
        look()
        assert kept() == expected


def test_a_view_that_is_refused_while_it_is_kept_leaves_nothing_half_kept(
    store: PostgresBackend,  # noqa: F811
    run: Run,  # noqa: F811
) -> None:
    session = holdfast.Store(store).session("work")
    session.save({"n": 0})
    with store._pool.connection() as connection:
        connection.views = VIEWS - 1
    run("ALTER TABLE chunks RENAME TO elsewhere")
    with pytest.raises(HoldfastError):
        session.load()
    run("ALTER TABLE elsewhere RENAME TO chunks")
    for _ in range(2 * VIEWS):
        assert holdfast.Store(store).session("work").load() == {"n": 0}
    with store._pool.connection() as connection:
        assert connection.keeps_views


@pytest.mark.parametrize("views", [0, 2 * VIEWS])
@pytest.mark.parametrize(
    "change", ["DROP COLUMN moved_at", "ALTER COLUMN moved_at TYPE text", "ADD COLUMN more text"]
)
def test_tables_of_another_version_are_told_as_such(
    store: PostgresBackend,  # noqa: F811
    run: Run,  # noqa: F811
    change: str,
    views: int,
) -> None:
    session = holdfast.Store(store).session("work")
    session.save({"n": 0})
    for _ in range(views):
        session.load()
    _, value, seal = sealed("version", str(VERSION + 1))
    run("UPDATE header SET value = %s, seal = %s WHERE key = 'version'", value, seal)
    run(f"ALTER TABLE branches {change}")
    with pytest.raises(UnsupportedError) as caught:
        session.load()
    assert caught.value.code is ErrorCode.FORMAT_TOO_NEW


def test_an_interrupt_before_the_last_answer_leaves_the_connection_to_nobody(
    filled: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = asking._answers

    def interrupted(pgconn: Any, count: int) -> Any:
        yield from usual(pgconn, count - 1)
        raise KeyboardInterrupt

    nothing = asking.Statement("nothing", "SELECT 1")
    with monkeypatch.context() as patch:
        patch.setattr(asking, "_answers", interrupted)
        with filled._pool.connection() as connection:
            with pytest.raises(KeyboardInterrupt):
                asking.ask_first(connection, [(nothing, ()), (nothing, ())])
            assert connection.closed
        with pytest.raises(KeyboardInterrupt):
            filled.reader_for("work", "main").__enter__()
    with filled.reader_for("work", "main") as reader:
        assert reader.branch("work", "main") is not None


@pytest.mark.parametrize("reader", ["reader", "reader_for"])
def test_only_a_backend_whose_class_has_it_is_asked(store: PostgresBackend, reader: str) -> None:  # noqa: F811
    """One that hands on whatever it does not know to another wants to be asked itself."""
    asked: list[str] = []

    class Handing:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    def opened(_: object, *args: Any) -> Any:
        asked.append(reader)
        return getattr(store, reader)(*args)

    setattr(Handing, reader, opened)
    made: Any = Handing()
    session = holdfast.Store(made).session("work")
    session.save({"n": 0})
    asked.clear()
    assert session.load() == {"n": 0}
    assert asked == [reader]


def test_a_root_that_is_at_hand_does_not_come_again(
    store: PostgresBackend,  # noqa: F811
    chunks_at_hand: Callable[[int], None],
) -> None:
    chunks_at_hand(KEPT_BYTES)
    session = holdfast.Store(store).session("work")
    state = {"notes": [f"note {number}" for number in range(400)]}
    for number in range(MAX_DEPTH):
        session.save({**state, "n": number})
    came: list[int] = []
    usual = asking.rows_in

    def counted(connection: Any, result: Any) -> Any:
        rows = usual(connection, result)
        came.append(len(rows))
        return rows

    loads = holdfast.Store(store).session("work")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view, "rows_in", counted)
        for _ in range(3):
            assert loads.load() == {**state, "n": MAX_DEPTH - 1}
        first, second, third = came[3::4]
        assert first > 1
        assert (second, third) == (0, 0)
        session.save(state)
        came.clear()
        assert loads.load() == state
        assert came[3] > 0


def test_tables_that_were_changed_by_hand_are_asked_anew(store: PostgresBackend, run: Run) -> None:  # noqa: F811
    session = holdfast.Store(store).session("work")
    session.save({"n": 0})
    for _ in range(2 * VIEWS):
        session.load()
    run("ALTER TABLE chunks ALTER COLUMN size_bytes TYPE integer")
    for _ in range(2 * VIEWS):
        assert holdfast.Store(store).session("work").load() == {"n": 0}
    with store._pool.connection() as connection:
        assert connection.keeps_views


def test_tables_that_were_changed_by_hand_fail_one_view_at_most(filled: PostgresBackend, run: Run) -> None:  # noqa: F811
    def root() -> list[ChunkHash]:
        with filled.reader() as reader:
            found = reader.checkpoint(checkpoint_id("b"))
            assert found is not None
            return list(reader.chunks([found.root, ChunkHash(bytes(32))]))

    before = [root() for _ in range(2 * VIEWS)]
    run("ALTER TABLE chunks ALTER COLUMN size_bytes TYPE integer")
    with pytest.raises(HoldfastError):
        root()
    assert [root() for _ in range(2 * VIEWS)] == before


def test_a_backend_need_not_have_it() -> None:
    session = holdfast.Store(MemoryBackend()).session("work")
    made = session.save({"n": 0})
    assert [session.load(ref) for ref in ("@", made.id, made)] == [{"n": 0}] * 3
