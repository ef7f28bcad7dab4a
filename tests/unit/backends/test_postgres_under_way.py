"""Questions for chunks that are lined up on one connection: answers come in their order, and to who asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from holdfast.backends.postgres import PostgresBackend, asking, chunks, view  # noqa: E402
from holdfast.backends.postgres.asking import Statement, line_up, next_answer, rows_in  # noqa: E402
from holdfast.backends.postgres.chunks import ChunkQuestion  # noqa: E402
from holdfast.backends.postgres.connecting import Connected  # noqa: E402
from holdfast.backends.postgres.read import PostgresReader  # noqa: E402
from holdfast.errors import BackendError, HoldfastError  # noqa: E402
from holdfast.storage.records import ChunkHash  # noqa: E402
from holdfast.testing.rows import batch, chunk, row  # noqa: E402

_ECHO = Statement("echo", "SELECT %s::text")


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresBackend]:
    backend = PostgresBackend.open(postgres_url, durability="process", create=True, timeout=10.0)
    yield backend
    backend.close()


@pytest.fixture
def plain(store: PostgresBackend) -> dict[ChunkHash, bytes]:
    """The chunks of a store. Every second one stands on the one before it."""
    text = b"".join([b"%d, " % (number * 7919) for number in range(400)])
    some = [chunk(b"%d: " % number + text) for number in range(8)]
    below = some[::2]
    above = [each._replace(base=base.hash) for base, each in zip(below, some[1::2], strict=True)]
    store.commit(batch(row("a", root=some[0].hash), chunks=tuple(below)))
    store.commit(batch(row("b", root=some[0].hash), chunks=tuple(above)))
    with store._pool.connection() as connection:
        ((deep,),) = connection.execute("SELECT count(*) FROM chunks WHERE base IS NOT NULL").fetchall()
    assert deep == len(above)
    return {each.hash: each.data for each in some}


@pytest.fixture
def reader(store: PostgresBackend, plain: dict[ChunkHash, bytes]) -> Iterator[PostgresReader]:
    assert plain
    with store.reader() as reader:
        reader.session("work")
        yield reader


def connected(reader: PostgresReader) -> Connected:
    assert reader._connected is not None
    return reader._connected


def interrupted(*_: object) -> Any:
    """Stands for a step in which Ctrl-C comes."""
    raise KeyboardInterrupt


def test_answers_are_those_to_the_questions_in_whatever_order_they_are_looked_at(
    reader: PostgresReader, plain: dict[ChunkHash, bytes]
) -> None:
    names = list(plain)
    for looked_at in ((0, 1), (1, 0)):
        asked = [reader.chunks(names[:3]), reader.chunks(names[3:])]
        assert connected(reader).asked == connected(reader).answered + 2
        for number in looked_at:
            assert all(asked[number][name] == plain[name] for name in asked[number])
        assert sum(map(len, asked)) == len(plain)
        assert reader.session("work") is not None


def test_no_more_than_two_questions_are_under_way(
    reader: PostgresReader, plain: dict[ChunkHash, bytes]
) -> None:
    asked = []
    for name in [*plain, *plain]:
        asked.append((name, reader.chunks([name])))
        assert connected(reader).asked - connected(reader).answered <= 2
    for name, found in asked:
        assert dict(found) == {name: plain[name]}


def test_what_is_under_way_is_there_when_the_view_has_ended(
    store: PostgresBackend, plain: dict[ChunkHash, bytes]
) -> None:
    names = list(plain)
    with store.reader() as reader:
        reader.session("work")
        # Of both, more has to be asked for: what every second one stands on is not among them.
        first, second = reader.chunks(names[1:6:2]), reader.chunks(names[3:8:2])
    assert {**first, **second} == {name: plain[name] for name in names[1::2]}
    with store.reader() as reader:
        reader.session("work")
        assert dict(reader.chunks(names)) == plain


def test_an_answer_that_was_interrupted_is_nobody_elses(
    store: PostgresBackend, plain: dict[ChunkHash, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = list(plain)
    with store.reader() as reader:
        reader.session("work")
        first, second = reader.chunks(names[:2]), reader.chunks(names[2:])
        with monkeypatch.context() as patch:
            patch.setattr(asking, "_answers", interrupted)
            with pytest.raises(KeyboardInterrupt):
                len(first)
        assert connected(reader).closed
        for _ in range(2):
            with pytest.raises(HoldfastError, match="not waited for"):
                len(first)
            with pytest.raises(BackendError):
                len(second)
    with store.reader() as reader:
        assert dict(reader.chunks(names)) == plain


def test_one_who_does_not_get_to_waiting_leaves_the_answer_to_nobody(
    store: PostgresBackend, plain: dict[ChunkHash, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = list(plain)
    with store.reader() as reader:
        reader.session("work")
        first, second = reader.chunks(names[:2]), reader.chunks(names[2:])
        with monkeypatch.context() as patch:
            patch.setattr(ChunkQuestion, "receive", interrupted)
            with pytest.raises(KeyboardInterrupt):
                len(first)
        # The answer that comes next is that to the first one.
        with pytest.raises(BackendError):
            len(second)
        with pytest.raises(HoldfastError):
            reader.session("work")


def test_questions_that_are_refused_are_told_to_who_looks_and_the_connection_goes_on(
    store: PostgresBackend, plain: dict[ChunkHash, bytes]
) -> None:
    names = list(plain)
    with store.reader() as reader:
        reader.session("work")
        pid = connected(reader).info.backend_pid
        with pytest.raises(psycopg.errors.DivisionByZero):
            connected(reader).execute("SELECT 1 / 0")
        first, second = reader.chunks(names[:2]), reader.chunks(names[2:])
        with pytest.raises(HoldfastError):
            reader.session("work")
        for each in (second, first):
            with pytest.raises(HoldfastError, match="aborted"):
                len(each)
    with store.reader() as reader:
        reader.session("work")
        assert connected(reader).info.backend_pid == pid
        assert dict(reader.chunks(names)) == plain


def test_one_who_does_not_get_to_waiting_leaves_the_answer_to_no_other_question(
    store: PostgresBackend, plain: dict[ChunkHash, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.reader() as reader:
        reader.session("work")
        asked = reader.chunks(list(plain))
        with monkeypatch.context() as patch:
            patch.setattr(ChunkQuestion, "receive", interrupted)
            with pytest.raises(KeyboardInterrupt):
                len(asked)
        assert connected(reader).is_behind
        for ask in (reader.stats, reader.newest_position):
            with pytest.raises(BackendError):
                ask()
            assert connected(reader).closed


def test_a_connection_with_an_answer_that_nobody_took_is_not_used_again(
    store: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Connected] = []
    monkeypatch.setattr(view, "leave_commit", ended.append)
    with store._pool.connection() as connection:
        line_up(connection, _ECHO, ["one"])
        assert not view.let_end(connection)
        # Not even asked to end: the first versions of libpq with pipelines would send that, and take the wrong answer.
        assert not ended
        connection.close()


def test_the_reason_why_a_view_ended_is_told_by_all_that_follows(
    store: PostgresBackend, plain: dict[ChunkHash, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Statement("refused", "SELECT 1 / (0 * cardinality(%a::bytea[]))")
    names = list(plain)
    with store.reader() as reader:
        reader.session("work")
        # More has to be asked for of this one, behind the next one, which is refused.
        first = reader.chunks(names[1:6:2])
        with monkeypatch.context() as patch:
            patch.setattr(chunks, "_SELECT_ALONE", refused)
            second = reader.chunks(names[:2])
        for each in (first, second):
            with pytest.raises(HoldfastError, match="division by zero"):
                len(each)
        third = reader.chunks(names[:1])
        with pytest.raises(HoldfastError, match="division by zero"):
            len(third)
        with pytest.raises(HoldfastError, match="division by zero"):
            reader.session("work")


def test_a_server_that_ends_the_connection_says_why(
    store: PostgresBackend, plain: dict[ChunkHash, bytes]
) -> None:
    names = list(plain)
    with store.reader() as reader:
        reader.session("work")
        pid = connected(reader).info.backend_pid
        with store._pool.dedicated() as other:
            other.execute("SELECT pg_terminate_backend(%s)", [pid])
            while other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchall():
                time.sleep(0.01)
        asked = reader.chunks(names)
        with pytest.raises(HoldfastError) as caught:
            len(asked)
    assert isinstance(caught.value.__cause__, psycopg.errors.AdminShutdown)


def test_on_a_connection_each_gets_its_own_answer_and_a_refusal_is_one(store: PostgresBackend) -> None:
    refused = Statement("refused", "SELECT 1 / %s::integer")
    with store._pool.connection() as connection:
        numbers = [
            line_up(connection, _ECHO, ["one"]),
            line_up(connection, refused, [0]),
            line_up(connection, _ECHO, ["three"]),
        ]
        assert rows_in(connection, next_answer(connection, numbers[0])) == [("one",)]
        with pytest.raises(psycopg.errors.DivisionByZero):
            next_answer(connection, numbers[1])
        assert rows_in(connection, next_answer(connection, numbers[2])) == [("three",)]
        # And then it is as it was.
        assert connection.execute("SELECT 4").fetchall() == [(4,)]


def test_an_answer_out_of_turn_is_not_given(store: PostgresBackend) -> None:
    with store._pool.connection() as connection:
        line_up(connection, _ECHO, ["one"])
        number = line_up(connection, _ECHO, ["two"])
        with pytest.raises(psycopg.OperationalError, match="not waited for"):
            next_answer(connection, number)
        assert connection.closed


def test_a_connection_of_which_nobody_knows_what_was_sent_is_closed(
    store: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store._pool.connection() as connection:
        monkeypatch.setattr(Statement, "put", interrupted)
        with pytest.raises(KeyboardInterrupt):
            line_up(connection, _ECHO, ["one"])
        assert connection.closed
