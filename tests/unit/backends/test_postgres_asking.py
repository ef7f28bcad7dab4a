"""What is sent to PostgreSQL without a cursor: prepared when it is worth it, and answers that are taken later."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from psycopg import generators, pq  # noqa: E402
from tests.services.postgres import cut_connections  # noqa: E402

from holdfast.backends.postgres import PostgresBackend, asking  # noqa: E402
from holdfast.backends.postgres.asking import (  # noqa: E402
    Statement,
    array_of,
    ask_plainly,
    number_in,
    numbers_of,
    received,
)
from holdfast.backends.postgres.chunks import ChunkQuestion  # noqa: E402
from holdfast.backends.postgres.connecting import Connected  # noqa: E402
from holdfast.backends.postgres.errors import is_lost  # noqa: E402
from holdfast.errors import BackendError, HoldfastError, IntegrityError  # noqa: E402
from holdfast.storage.records import ChunkHash, Query  # noqa: E402
from holdfast.testing.rows import START, batch, chunk, row, save  # noqa: E402

_KEPT = "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'holdfast_append%'"


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresBackend]:
    backend = PostgresBackend.open(postgres_url, durability="process", create=True, timeout=10.0)
    yield backend
    backend.close()


@pytest.fixture
def names(store: PostgresBackend) -> list[ChunkHash]:
    """The chunks of a store that has three."""
    some = [chunk(b"chunk %d of some bytes" % number) for number in range(3)]
    store.commit(batch(row("a", root=some[0].hash), chunks=tuple(some)))
    return [each.hash for each in some]


def execute(store: PostgresBackend, sql: str) -> list[tuple[Any, ...]]:
    with store._pool.connection() as connection:
        cursor = connection.execute(sql, prepare=False)
        return cursor.fetchall() if cursor.description else []


def go_on(store: PostgresBackend, first: int, last: int) -> None:
    for number in range(first, last):
        after = str(number - 1) if number else None
        store.commit(save(str(number), after=after, at=START + number))


def test_values_come_as_what_they_are(store: PostgresBackend) -> None:
    statement = Statement(
        "values", "SELECT %s::text, %s::bigint, %s::double precision, %b, %s::text, %s::bigint"
    )
    values = ("tä%s\n", -(2**63), 5e-324, b"\0\xff%b", None, 2**63 - 1)
    with store._pool.connection() as connection:
        for _ in range(8):
            got = statement.execute(connection, values)
            text, least, small, data, nothing, most = (got.get_value(0, at) for at in range(6))
            assert (text, data, nothing) == ("tä%s\n".encode(), b"\0\xff%b", None)
            assert [int.from_bytes(each or b"", "big", signed=True) for each in (least, most)] == [
                -(2**63),
                2**63 - 1,
            ]
            assert small == bytes(7) + b"\x01"


def test_arrays_come_with_each_item_as_it_is(store: PostgresBackend) -> None:
    statement = Statement(
        "arrays",
        "SELECT a[1], a[2], a[3], cardinality(a), n[1], n[2], cardinality(n) "
        "FROM (SELECT %a AS a, %s::bigint[] AS n) AS given",
    )
    values = (array_of([b"\0\xff,{}", None, b""]), numbers_of([-(2**63), 2**63 - 1]))
    with store._pool.connection() as connection:
        for _ in range(8):
            got = statement.execute(connection, values)
            assert [got.get_value(0, at) for at in range(3)] == [b"\0\xff,{}", None, b""]
            assert [number_in(got.get_value(0, at)) for at in range(3, 7)] == [3, -(2**63), 2**63 - 1, 2]


def test_text_that_libpq_would_cut_is_refused(store: PostgresBackend) -> None:
    with store._pool.connection() as connection, pytest.raises(psycopg.DataError, match="NUL"):
        Statement("text", "SELECT %s::text").send(connection, ["whole\0half"])


def test_what_the_server_refuses_is_an_error_with_its_code(store: PostgresBackend) -> None:
    with store._pool.connection() as connection:
        Statement("wrong", "SELECT %s::bigint").send(connection, ["no number"])
        with pytest.raises(psycopg.Error) as caught:
            received(connection)
        assert caught.value.sqlstate == "22P02"
        with pytest.raises(psycopg.Error) as caught:
            ask_plainly(connection, b"SELECT 1; SELECT no_such_column")
        assert caught.value.sqlstate == "42703"
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_a_save_is_prepared_once_it_is_worth_it(store: PostgresBackend) -> None:
    go_on(store, 0, 4)
    assert execute(store, _KEPT) == [(0,)]
    go_on(store, 4, 12)
    assert execute(store, _KEPT) == [(1,)]


def test_a_save_whose_statement_was_dropped_is_made_and_prepared_anew(store: PostgresBackend) -> None:
    """psycopg drops all statements of a connection after a rollback."""
    go_on(store, 0, 12)
    execute(store, "DEALLOCATE ALL")
    go_on(store, 12, 13)
    assert execute(store, _KEPT) == [(1,)]
    go_on(store, 13, 16)
    with store.reader() as reader:
        assert [each.seq for each in reader.checkpoints(Query(oldest_first=True))] == list(range(1, 17))


def test_chunks_can_be_looked_at_when_something_else_was_asked_and_when_the_view_has_ended(
    store: PostgresBackend, names: list[ChunkHash]
) -> None:
    with store.reader() as reader:
        reader.branch("work", "main")
        first = reader.chunks(names[:2])
        second = reader.chunks(names)
        assert reader.session("work") is not None
        third = reader.chunks(names[2:])
    unknown = ChunkHash(b"?" * 32)
    assert [len(each) for each in (first, second, third)] == [2, 3, 1]
    assert unknown not in second
    assert first.get(unknown) is None
    for number, name in enumerate(names):
        plain = b"chunk %d of some bytes" % number
        assert [each[name] for each in (first, second, third) if name in each] == [plain, plain]


def test_what_is_asked_and_not_looked_at_leaves_a_connection_that_can_be_used(
    store: PostgresBackend, names: list[ChunkHash]
) -> None:
    before = execute(store, "SELECT pg_backend_pid()")
    with suppress(ZeroDivisionError), store.reader() as reader:
        reader.branch("work", "main")
        reader.chunks(names)
        raise ZeroDivisionError
    assert execute(store, "SELECT pg_backend_pid()") == before
    assert execute(store, "SHOW transaction_isolation") == [("read committed",)]


def test_an_answer_that_never_came_is_an_error_each_time_it_is_looked_at(
    store: PostgresBackend, names: list[ChunkHash]
) -> None:
    with store.reader() as reader:
        reader.branch("work", "main")
        asked = reader.chunks(names)
        assert reader._connected is not None
        reader._connected.pgconn.finish()
        for _ in range(2):
            with pytest.raises(HoldfastError) as caught:
                asked.get(names[0])
            assert isinstance(caught.value, BackendError)
    with pytest.raises(BackendError):
        len(asked)
    with store.reader() as reader:
        assert len(reader.chunks(names)) == 3


def test_what_was_never_asked_has_no_answer(store: PostgresBackend) -> None:
    with store._pool.connection() as connection, pytest.raises(psycopg.OperationalError):
        received(connection)


def test_one_damaged_chunk_does_not_keep_the_others_from_being_read(
    store: PostgresBackend, names: list[ChunkHash]
) -> None:
    execute(store, f"UPDATE chunks SET size_bytes = 7 WHERE hash = '\\x{names[1].hex()}'")
    with store.reader() as reader:
        reader.branch("work", "main")
        found = reader.chunks(names)
    assert found[names[0]] == b"chunk 0 of some bytes"
    assert found[names[2]] == b"chunk 2 of some bytes"
    with pytest.raises(IntegrityError):
        found.get(names[1])


def test_a_statement_that_another_connection_left_in_the_session_is_not_in_the_way(
    store: PostgresBackend,
) -> None:
    """As behind a pooler that hands sessions of the server on as they are."""
    go_on(store, 0, 8)
    (kept,) = execute(store, "SELECT name FROM pg_prepared_statements WHERE name LIKE 'holdfast_append%'")[0]
    execute(store, "DEALLOCATE ALL")
    with store._pool.connection() as connection:
        before = connection.mark
        # Another connection, as far as holdfast knows; the server has what the one before it has kept.
        connection.execute(f'PREPARE "{kept}" AS SELECT 1', prepare=False)
        connection.execute("PREPARE holdfast_append AS SELECT 1", prepare=False)
        connection.uses.clear()
        with store._pool.dedicated() as other:
            connection.mark = other.mark
        assert connection.mark != before
    go_on(store, 8, 20)
    with store.reader() as reader:
        assert len(reader.checkpoints(Query())) == 20


def test_a_view_that_ctrl_c_ends_waits_for_no_answer(store: PostgresBackend, names: list[ChunkHash]) -> None:
    before = execute(store, "SELECT pg_backend_pid()")
    with suppress(KeyboardInterrupt), store.reader() as reader:
        reader.branch("work", "main")
        raise KeyboardInterrupt
    assert execute(store, "SELECT pg_backend_pid()") == before
    with suppress(KeyboardInterrupt), store.reader() as reader:
        reader.branch("work", "main")
        reader.chunks(names)
        raise KeyboardInterrupt
    assert execute(store, "SELECT pg_backend_pid()") != before


def test_a_view_that_is_interrupted_while_it_is_left_gives_its_connection_back(
    store: PostgresBackend, names: list[ChunkHash], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_question: object, _connection: object) -> Any:
        raise KeyboardInterrupt

    for _ in range(20):
        view = store.reader()
        reader = view.__enter__()
        reader.session("a")
        with monkeypatch.context() as patch:
            patch.setattr(ChunkQuestion, "receive_some", interrupted)
            reader.chunks(names)
            with pytest.raises(KeyboardInterrupt):
                view.__exit__(None, None, None)
        with pytest.raises(HoldfastError, match="has ended"):
            reader.session("a")
    # More often than there are connections: each has come back.
    with store.reader() as reader:
        assert set(reader.chunks(names)) == set(names)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[Connected]:
    """Grows with each wait for an answer that Ctrl-C can end."""
    seen: list[Connected] = []
    usual = Connected.wait

    def noted(connection: Connected, *arguments: Any, **options: Any) -> Any:
        seen.append(connection)
        return usual(connection, *arguments, **options)

    monkeypatch.setattr(Connected, "wait", noted)
    return seen


def test_the_end_of_a_view_is_not_waited_for_and_comes_all_the_same(
    store: PostgresBackend, waits: list[Connected]
) -> None:
    with store._pool.connection():
        waits.clear()
    with store.reader() as reader:
        reader.session("work")
    # The beginning, and the question.
    assert len(waits) == 2
    (connection,) = store._pool._idle
    assert connection.owes
    with store._pool.dedicated() as other:
        state = "SELECT state FROM pg_stat_activity WHERE pid = %s"
        until = time.monotonic() + 30
        while other.execute(state, [connection.info.backend_pid]).fetchall() != [("idle",)]:
            assert time.monotonic() < until
    # Whoever comes next takes the answer, and has the connection as if nothing had been.
    with store._pool.connection() as again:
        assert again is connection
        assert not again.owes
        assert again.execute("SELECT 7").fetchall() == [(7,)]


def test_a_connection_that_is_lost_before_its_last_answer_is_not_handed_out(store: PostgresBackend) -> None:
    with store.reader() as reader:
        reader.session("work")
    (connection,) = store._pool._idle
    with socket.socket(fileno=os.dup(connection.fileno())) as held:
        # What the server has said already is read first, and then there is nothing.
        held.shutdown(socket.SHUT_RDWR)
    with store._pool.connection() as other:
        assert other is not connection
        assert other.execute("SELECT 7").fetchall() == [(7,)]
    assert connection.closed


def test_who_is_interrupted_while_taking_the_last_answer_leaves_the_connection_to_nobody(
    store: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    with store.reader() as reader:
        reader.session("work")
    (connection,) = store._pool._idle
    with monkeypatch.context() as patch:
        patch.setattr(asking, "received", interrupted)
        with pytest.raises(KeyboardInterrupt), store._pool.connection():
            pass
    # It may be the answer to something else.
    assert connection.closed
    with store._pool.connection() as other:
        assert other.execute("SELECT 7").fetchall() == [(7,)]


def test_an_end_that_cannot_be_sent_at_once_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction would be open for as long as nobody takes the connection."""
    waited: list[Any] = []
    monkeypatch.setattr(asking, "received", waited.append)
    for unsent in (0, 1):
        pgconn = SimpleNamespace(send_query=lambda _: None, flush=lambda unsent=unsent: unsent)
        connection: Any = SimpleNamespace(pgconn=pgconn, owes=False)
        asking.leave_commit(connection)
        assert connection.owes == (not unsent)
        assert waited == [connection] * unsent


def in_a_thread(work: Callable[[], Any]) -> Any:
    """What some work gives, or raises, where no signal comes."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result(60)


def test_a_save_is_waited_for_in_one_call_where_no_signal_comes(
    store: PostgresBackend, waits: list[Connected]
) -> None:
    go_on(store, 0, 8)
    waits.clear()
    in_a_thread(lambda: go_on(store, 8, 12))
    assert waits == []
    # Ctrl-C comes to this thread, and has to be seen while it waits.
    go_on(store, 12, 14)
    assert len(waits) == 2
    with store.reader() as reader:
        assert len(reader.checkpoints(Query())) == 14


def test_in_a_thread_a_refusal_is_what_the_server_says(store: PostgresBackend) -> None:
    failing = Statement("failing", "SELECT 1 / (%s::int - 7)")
    with store._pool.connection() as connection:
        for number in range(7):
            failing.execute(connection, [number])
        with pytest.raises(psycopg.errors.DivisionByZero):
            in_a_thread(lambda: failing.execute(connection, [7]))
        assert number_in(in_a_thread(lambda: failing.execute(connection, [8])).get_value(0, 0)) == 1


def test_in_a_thread_a_statement_that_the_server_does_not_keep_any_more_is_kept_again(
    store: PostgresBackend,
) -> None:
    go_on(store, 0, 8)
    execute(store, "DEALLOCATE ALL")
    in_a_thread(lambda: go_on(store, 8, 12))
    assert execute(store, _KEPT) == [(1,)]


def test_in_a_thread_a_broken_connection_is_told_from_a_refusal(store: PostgresBackend) -> None:
    asked = Statement("asked", "SELECT %s::int")
    with store._pool.connection() as connection:
        for number in range(7):
            asked.execute(connection, [number])
        with socket.socket(fileno=os.dup(connection.fileno())) as held:
            held.shutdown(socket.SHUT_RDWR)
        with pytest.raises(psycopg.OperationalError) as caught:
            in_a_thread(lambda: asked.execute(connection, [7]))
    assert is_lost(caught.value)
    # And a save goes on with another one.
    go_on(store, 0, 8)
    cut_connections(store)
    in_a_thread(lambda: go_on(store, 8, 12))
    with store.reader() as reader:
        assert len(reader.checkpoints(Query())) == 12


def test_answers_without_the_end_of_their_transaction_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    fine, end, failed = pq.ExecStatus.TUPLES_OK, pq.ExecStatus.PIPELINE_SYNC, pq.ExecStatus.FATAL_ERROR

    def taken(*statuses: pq.ExecStatus) -> list[Any]:
        """What is made of answers that come one by one, and then no more."""
        left = [[SimpleNamespace(status=each)] for each in statuses]

        def next_ones(_: Any) -> Any:
            yield from ()
            return left.pop(0) if left else []

        monkeypatch.setattr(generators, "send", lambda _: iter(()))
        monkeypatch.setattr(generators, "fetch_many", next_ones)
        waiting = asking._until_committed(None, 2)  # type: ignore[arg-type]
        with pytest.raises(StopIteration) as ended:
            next(waiting)
        return list(ended.value.value)

    assert len(taken(fine, fine, end)) == 2
    assert len(taken(fine, fine, failed, end)) == 3
    for cut in ((), (fine,), (fine, fine), (fine, failed)):
        with pytest.raises(psycopg.OperationalError, match="has ended"):
            taken(*cut)


def test_a_name_is_noted_before_the_server_is_asked_to_keep_it(
    store: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked to keep it once more, the server would say that it is there, which looks like damage."""
    usual, statement = asking.received, asking.Statement("noted", "SELECT %s::bigint")

    def interrupted(connection: Any) -> Any:
        usual(connection)
        raise KeyboardInterrupt

    with store._pool.connection() as connection:
        with monkeypatch.context() as patched:
            patched.setattr(asking, "received", interrupted)
            with pytest.raises(KeyboardInterrupt):
                statement._keep(connection)
        for number in range(7):
            assert statement.execute(connection, [number]).get_value(0, 0) == number.to_bytes(8, "big")
