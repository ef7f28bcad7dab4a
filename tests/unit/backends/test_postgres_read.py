"""Views of a PostgreSQL store: what they cost, what they show, and what happens when the server goes away."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

import holdfast  # noqa: E402
from holdfast.backends.chunk_rows import MAX_DEPTH  # noqa: E402
from holdfast.backends.postgres import PostgresBackend  # noqa: E402
from holdfast.errors import BackendError, ErrorCode, HoldfastError, IntegrityError, StateError  # noqa: E402
from holdfast.storage.records import BranchRow, Chunk, ChunkHash, Query  # noqa: E402
from holdfast.testing.rows import batch, checkpoint_id, chunk, row, save  # noqa: E402


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresBackend]:
    backend = PostgresBackend.open(postgres_url, durability="process", create=True, timeout=10.0)
    yield backend
    backend.close()


Run = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def run(postgres_url: str) -> Iterator[Run]:
    """Statements past the backend."""
    with psycopg.connect(postgres_url, autocommit=True, options="-c search_path=holdfast") as connection:

        def execute(statement: str, *parameters: object) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

        yield execute


def end_others(run: Run) -> None:
    """End every other session of the database, as an administrator or a failover does."""
    run(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def until_nobody_is_at_work(run: Run) -> None:
    """Wait until all other sessions of the database are in no transaction: the end of a view is not waited for."""
    active = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle'"
    until = time.monotonic() + 30
    while run(active) != [(1,)]:
        assert time.monotonic() < until


@contextmanager
def idle_connections(backend: PostgresBackend) -> Iterator[list[Any]]:
    """All connections of a backend, which nobody else uses meanwhile."""
    with backend._pool.connection():
        pass
    with ExitStack() as taken:
        yield [taken.enter_context(backend._pool.connection()) for _ in backend._pool._idle[:]]


@contextmanager
def messages(backend: PostgresBackend) -> Iterator[list[str]]:
    """The kinds of all messages from and to the server."""
    seen: list[str] = []
    with tempfile.TemporaryFile("w+") as file:
        with idle_connections(backend) as connections:
            for each in connections:
                each.pgconn.trace(file.fileno())
        yield seen
        with idle_connections(backend) as again:
            assert {id(each) for each in again} == {id(each) for each in connections}
            for each in again:
                each.pgconn.untrace()
        file.seek(0)
        seen += [line.rstrip().split("\t")[3] for line in file if line.startswith("20")]


@contextmanager
def trips(backend: PostgresBackend) -> Iterator[list[str]]:
    """What is sent to the server, one entry for each time that an answer is waited for."""
    waited: list[str] = []
    with messages(backend) as seen:
        yield waited
    is_waiting = False
    for kind in seen:
        if kind in ("Query", "Sync") and not is_waiting:
            waited.append(kind)
        is_waiting = kind != "ReadyForQuery" and (is_waiting or kind in ("Query", "Sync"))


def test_a_view_costs_one_trip_to_open_one_for_each_question_and_one_to_leave(store: PostgresBackend) -> None:
    store.commit(save("a"))
    with trips(store) as seen, store.reader():
        pass
    assert len(seen) == 2
    questions: list[Callable[[Any], object]] = [
        lambda reader: reader.session("work"),
        lambda reader: reader.sessions(agent="nobody"),
        lambda reader: reader.branch("work", "main"),
        lambda reader: reader.branches("work"),
        lambda reader: reader.checkpoint(checkpoint_id("a")),
        lambda reader: reader.checkpoints(Query(limit=5)),
        lambda reader: reader.operations("work"),
        lambda reader: reader.stats(),
    ]
    for ask in questions:
        with trips(store) as seen, store.reader() as reader:
            ask(reader)
        assert len(seen) == 3


def test_a_save_under_a_new_key_that_follows_the_last_one_is_one_trip(store: PostgresBackend) -> None:
    session = holdfast.Store(store).session("work")
    session.save({"n": 0}, key="k0")
    for n in range(1, 4):
        with trips(store) as seen:
            session.save({"n": n}, key=f"k{n}")
        assert len(seen) == 1


def test_looking_by_key_is_one_question_and_one_for_the_session(store: PostgresBackend) -> None:
    session = holdfast.Store(store).session("work")
    for n in range(9):
        session.save({"n": n}, key=f"k{n}")
    with trips(store) as seen:
        assert [each.key for each in session.keyed("k3", "k6")] == ["k3", "k4", "k5"]
    assert len(seen) == 4
    with trips(store) as seen:
        assert session.keyed("l") == []
    assert len(seen) == 3


def test_a_view_makes_one_trip_for_all_branches_of_a_session(store: PostgresBackend) -> None:
    store.commit(save("a"))
    with trips(store) as seen, store.reader() as reader:
        assert reader.branch("work", "none") is None
        head = reader.branch("work", "main")
        assert head is not None
        assert head.head == checkpoint_id("a")
        assert reader.branch("work", "main") == head
    assert len(seen) == 3
    with pytest.raises(StateError):
        reader.branch("work", "main")


def test_a_view_knows_the_head_of_a_branch_that_was_asked_for(store: PostgresBackend) -> None:
    store.commit(save("a"))
    store.commit(save("b", branch="side"))
    with trips(store) as seen, store.reader() as reader:
        head = reader.branch("work", "side")
        assert head is not None
        found = reader.checkpoint(head.head)
        assert found is not None
        assert (found.id, found.branch) == (checkpoint_id("b"), "side")
    assert len(seen) == 3
    with pytest.raises(StateError):
        reader.checkpoint(head.head)


def test_a_view_knows_the_checkpoint_whose_id_could_have_been_a_branch(store: PostgresBackend) -> None:
    """That is the order in which a ref is looked up, and a whole id is what programs use."""
    store.commit(save("a"))
    store.commit(save("b", branch="side"))
    store.commit(save("c", session="other"))
    for name in ("a", "b"):
        with trips(store) as seen, store.reader() as reader:
            assert reader.branch("work", checkpoint_id(name).hex()) is None
            found = reader.checkpoint(checkpoint_id(name))
            assert found is not None
            assert found.id == checkpoint_id(name)
        assert len(seen) == 3
    with store.reader() as reader:
        assert reader.branch("work", checkpoint_id("c").hex()) is None
        elsewhere = reader.checkpoint(checkpoint_id("c"))
        assert elsewhere is not None
        assert elsewhere.session == "other"


@pytest.mark.parametrize("name", ["main", checkpoint_id("a").hex()])
def test_a_row_that_came_with_a_branch_is_checked(store: PostgresBackend, run: Run, name: str) -> None:
    store.commit(save("a"))
    run("UPDATE checkpoints SET status = 'changed'")
    with store.reader() as reader:
        reader.branch("work", name)
        with pytest.raises(IntegrityError) as caught:
            reader.checkpoint(checkpoint_id("a"))
    assert caught.value.code is ErrorCode.ROW_DAMAGED


def test_a_load_of_a_large_state_is_a_trip_for_each_level_of_its_tree(store: PostgresBackend) -> None:
    session = holdfast.Store(store).session("work")
    state = {"messages": [f"{number} " * 300 for number in range(2_000)]}
    name = session.save(state).id
    for ref in ("@", name):
        with trips(store) as seen:
            assert holdfast.Store(store).session("work").load(ref) == state
        # The view opens with the branches, the checkpoint and the root, and ends; indexes with some runs, all others.
        assert len(seen) == 4


def test_a_branch_is_found_among_many(store: PostgresBackend) -> None:
    names = [f"branch-{number:02}" for number in range(40)]
    for name in names:
        store.commit(save(name, branch=name))
    with store.reader() as reader:
        found = [reader.branch("work", name) for name in names]
        assert [each and each.head for each in found] == [checkpoint_id(name) for name in names]
        assert reader.branch("work", "branch-40") is None


def versions(count: int) -> list[Chunk]:
    """Chunks of which each is the next version of the one before."""
    made: list[Chunk] = []
    for number in range(count):
        plain = chunk(b"".join(b"line %d of a text that grows\n" % line for line in range(100 + number)))
        made.append(plain._replace(base=made[-1].hash if made else None))
    return made


def test_chunks_come_in_one_trip_with_all_that_they_stand_on(store: PostgresBackend, run: Run) -> None:
    pieces = versions(MAX_DEPTH + 5)
    for number, piece in enumerate(pieces):
        store.commit(batch(row(f"{number}", root=piece.hash), chunks=(piece,)))
    assert run("SELECT max(depth) FROM chunks")[0][0] > 10
    with trips(store) as seen, store.reader() as reader:
        assert reader.chunks([pieces[-1].hash]) == {pieces[-1].hash: pieces[-1].data}
    assert len(seen) == 3
    with trips(store) as seen, store.reader() as reader:
        assert reader.chunks([each.hash for each in pieces]) == {each.hash: each.data for each in pieces}
    assert len(seen) == 3


def test_chunks_of_which_some_stand_on_others_come_whole(store: PostgresBackend, run: Run) -> None:
    pieces = versions(9)
    alone = [chunk(b"stands alone %d" % number) for number in range(3)]
    for number, piece in enumerate([*pieces, *alone]):
        store.commit(batch(row(f"{number}", root=piece.hash), chunks=(piece,)))
    wanted = [alone[0], pieces[8], alone[1], pieces[4], pieces[0], alone[2]]
    assert run("SELECT count(*) FROM chunks WHERE base IS NOT NULL")[0][0] == len(pieces) - 1
    absent = ChunkHash(b"n" * 32)
    with trips(store) as seen, store.reader() as reader:
        found = reader.chunks([*[each.hash for each in wanted], absent])
    assert found == {each.hash: each.data for each in wanted}
    # One for the chunks, and one more for what is below those that stand on others.
    assert len(seen) == 4


def test_no_chunks_are_no_trip(store: PostgresBackend) -> None:
    with trips(store) as seen, store.reader() as reader:
        assert reader.chunks([]) == {}
        assert reader.present([]) == set()
    assert len(seen) == 2


def test_a_chunk_that_stands_on_one_that_is_gone_is_damaged(store: PostgresBackend, run: Run) -> None:
    pieces = versions(3)
    for number, piece in enumerate(pieces):
        store.commit(batch(row(f"{number}", root=piece.hash), chunks=(piece,)))
    run("UPDATE chunks SET base = 999999 WHERE hash = %s", pieces[2].hash)
    with store.reader() as reader, pytest.raises(IntegrityError) as caught:
        reader.chunks([pieces[2].hash])[pieces[2].hash]
    assert caught.value.code is ErrorCode.CHUNK_DAMAGED


def test_a_chunk_that_stands_on_itself_is_damaged(store: PostgresBackend, run: Run) -> None:
    piece = versions(1)[0]
    store.commit(batch(row("a", root=piece.hash), chunks=(piece,)))
    run("UPDATE chunks SET base = number, depth = 1")
    with store.reader() as reader, pytest.raises(IntegrityError):
        reader.chunks([piece.hash])[piece.hash]


def test_a_connection_that_is_lost_before_the_first_answer_is_replaced(
    store: PostgresBackend, run: Run
) -> None:
    store.commit(save("a"))
    with store.reader() as reader:
        end_others(run)
        assert [each.id for each in reader.checkpoints(Query())] == [checkpoint_id("a")]
        assert reader.session("work") is not None


def test_a_connection_that_is_lost_after_an_answer_is_an_error(store: PostgresBackend, run: Run) -> None:
    """Another transaction would be another moment."""
    store.commit(save("a"))
    with store.reader() as reader:
        assert reader.session("work") is not None
        end_others(run)
        with pytest.raises(BackendError) as caught:
            reader.session("work")
        assert caught.value.code is ErrorCode.SERVER_GONE
        with pytest.raises(BackendError):
            reader.session("work")
    with store.reader() as reader:
        assert reader.session("work") is not None


def test_views_go_on_after_the_server_ended_every_idle_connection(store: PostgresBackend, run: Run) -> None:
    store.commit(save("a"))
    together = threading.Barrier(5, timeout=60)

    def view() -> None:
        with store.reader():
            together.wait()

    threads = [threading.Thread(target=view) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end_others(run)
    for _ in range(5):
        with store.reader() as reader:
            assert reader.session("work") is not None


def test_a_view_that_has_ended_answers_no_more(store: PostgresBackend) -> None:
    with store.reader() as reader:
        pass
    with pytest.raises(StateError) as caught:
        reader.session("work")
    assert caught.value.code is ErrorCode.STORE_CLOSED


def test_a_view_leaves_no_transaction_behind(store: PostgresBackend, run: Run) -> None:
    with store.reader() as reader:
        reader.stats()
    with pytest.raises(HoldfastError), store.reader() as reader:
        reader._ask(lambda connection: connection.execute("SELECT 1 / 0"))
    until_nobody_is_at_work(run)


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_no_row_can_hold_is_not_found(store: PostgresBackend, text: str) -> None:
    store.commit(save("a"))
    with store.reader() as reader:
        assert reader.session(text) is None
        assert reader.branch(text, "main") is None
        assert reader.branch("work", text) is None
        assert reader.branch("work", "main") is not None
        assert list(reader.branches(text)) == []
        assert list(reader.sessions(agent=text)) == []
        for name in ("session", "branch", "agent", "project", "tag", "status", "trigger", "key"):
            asked: dict[str, Any] = {name: text}
            assert list(reader.checkpoints(Query(**asked))) == []
        assert list(reader.checkpoints(Query(metadata=(((text,), "1"),)))) == []
        assert reader.session("work") is not None


def test_numbers_beyond_any_column_are_not_found(store: PostgresBackend) -> None:
    store.commit(save("a", step=1))
    with store.reader() as reader:
        assert list(reader.checkpoints(Query(session="work", step=2**70))) == []
        assert len(reader.checkpoints(Query(before_position=2**70))) == 1


def test_branches_come_in_the_order_of_their_bytes(store: PostgresBackend) -> None:
    names = ["b", "B", "a", "ä", "a/b", "a b", "Z", "_", "zz", "é", "\U0001d4b3", "~"]
    for name in names:
        store.commit(save(name, branch=name))
    with store.reader() as reader:
        assert [each.name for each in reader.branches("work")] == sorted(names)
        assert isinstance(reader.branch("work", "\U0001d4b3"), BranchRow)


def test_a_limit_of_nothing_finds_nothing(store: PostgresBackend) -> None:
    store.commit(save("a", metadata='{"k":1}'))
    with store.reader() as reader:
        for limit in (0, -1):
            assert reader.checkpoints(Query(metadata=((("k",), "1"),), limit=limit)) == []
            assert reader.checkpoints(Query(limit=limit)) == []


WAYS: list[dict[str, Any]] = [
    {},
    {"session": "work"},
    {"session": "work", "tag": "t"},
    {"tag": "t"},
    {"agent": "scout"},
    {"since": 0},
    {"id_prefix": ""},
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way) or "all")
@pytest.mark.parametrize("oldest_first", [False, True])
def test_a_search_by_metadata_covers_everything_once_a_page_at_a_time(
    store: PostgresBackend, run: Run, way: dict[str, Any], oldest_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.backends.postgres.read._FIRST_PAGE", 2)
    monkeypatch.setattr("holdfast.backends.postgres.read._LARGEST_PAGE", 4)
    rows = [row(f"{n}", metadata=f'{{"k":{n % 3}}}', tags=("t",)) for n in range(23)]
    store.commit(batch(*rows, agent="scout"))
    query = Query(**way, metadata=((("k",), "0"),), oldest_first=oldest_first)
    wanted = [each.id for each in rows if each.metadata == '{"k":0}']
    wanted = wanted if oldest_first else wanted[::-1]
    with store.reader() as reader:
        assert [each.id for each in reader.checkpoints(query)] == wanted
        assert [each.id for each in reader.checkpoints(query._replace(limit=5))] == wanted[:5]
    # One who has found enough reads no further: a page of two, and the answer to BEGIN.
    with messages(store) as seen, store.reader() as reader:
        assert len(reader.checkpoints(query._replace(limit=1))) == 1
    assert seen.count("DataRow") == 3
    # What is damaged further on does not trouble him.
    last = rows[-1] if oldest_first else rows[0]
    run("UPDATE checkpoints SET status = 'changed' WHERE id = %s", last.id)
    with store.reader() as reader:
        assert len(reader.checkpoints(query._replace(limit=2))) == 2
    with store.reader() as reader, pytest.raises(IntegrityError):
        reader.checkpoints(query)


@pytest.mark.parametrize(
    ("change", "ask"),
    [
        ("UPDATE sessions SET agent = 'other'", lambda reader: reader.session("work")),
        ("UPDATE sessions SET last_seq = last_seq + 1", lambda reader: reader.sessions()),
        ("UPDATE branches SET moved_at = 1", lambda reader: reader.branch("work", "main")),
        ("UPDATE branches SET moved_at = 1", lambda reader: reader.branches("work")),
        ("UPDATE checkpoints SET seq = 9", lambda reader: reader.checkpoint(checkpoint_id("a"))),
        ("UPDATE checkpoints SET cost_usd = 9", lambda reader: reader.checkpoints(Query())),
        ("UPDATE header SET value = 'x' WHERE key = 'store'", lambda reader: reader.check_header()),
    ],
)
def test_a_row_that_somebody_changed_is_an_error(
    store: PostgresBackend, run: Run, change: str, ask: Callable[[Any], object]
) -> None:
    store.commit(save("a", agent="scout"))
    with store.reader() as reader:
        ask(reader)
    run(change)
    with store.reader() as reader, pytest.raises(IntegrityError) as caught:
        ask(reader)
    assert caught.value.code is ErrorCode.ROW_DAMAGED


def test_numbers_come_back_as_they_were(store: PostgresBackend) -> None:
    figures: dict[str, Any] = {"cost_usd": -0.0, "duration_ms": 1e-300, "tokens": 2**62, "step": 0}
    store.commit(save("a", **figures))
    with store.reader() as reader:
        found = reader.checkpoint(checkpoint_id("a"))
    assert found is not None
    assert repr([getattr(found, name) for name in figures]) == repr(list(figures.values()))


def test_the_size_on_disk_counts_tables_indexes_and_large_chunks(store: PostgresBackend, run: Run) -> None:
    with store.reader() as reader:
        empty = reader.stats()
    import random

    piece = chunk(random.Random(0).randbytes(1_000_000))
    store.commit(batch(row("a", root=piece.hash), chunks=(piece,)))
    with store.reader() as reader:
        full = reader.stats()
    assert empty.file_bytes is not None
    assert full.file_bytes is not None
    assert full.file_bytes - empty.file_bytes >= 1_000_000
    assert (full.chunks, full.chunk_bytes) == (1, 1_000_000)


def test_what_is_present_is_known_without_reading_it(store: PostgresBackend) -> None:
    piece = chunk(b"x")
    store.commit(batch(row("a", root=piece.hash), chunks=(piece,)))
    with store.reader() as reader:
        assert reader.present([piece.hash, ChunkHash(b"n" * 32)]) == {piece.hash}


def test_a_view_shows_one_moment_though_the_statistics_of_a_server_move(
    store: PostgresBackend, run: Run
) -> None:
    store.commit(save("a"))
    with store.reader() as reader:
        before = reader.stats()._replace(file_bytes=None)
        run("DELETE FROM checkpoints")
        assert reader.stats()._replace(file_bytes=None) == before
        assert len(reader.checkpoints(Query())) == 1


def test_statements_are_prepared_once(store: PostgresBackend) -> None:
    """A view that ended with a ROLLBACK would make the driver forget all of them."""
    store.commit(save("a"))
    for _ in range(20):
        with store.reader() as reader:
            reader.branch("work", "main")
    with store._pool.connection() as connection:
        prepared = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchall()
    assert prepared[0][0] > 0
