"""Questions for chunks that are lined up on one connection: answers come in their order, and to who asked."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, islice, product
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

psycopg = pytest.importorskip("psycopg")

from psycopg import generators  # noqa: E402

import holdfast  # noqa: E402
from holdfast.backends.postgres import PostgresBackend, chunks, lining_up, view  # noqa: E402
from holdfast.backends.postgres.asking import Statement, rows_in  # noqa: E402
from holdfast.backends.postgres.chunks import ChunkQuestion  # noqa: E402
from holdfast.backends.postgres.connecting import Connected  # noqa: E402
from holdfast.backends.postgres.lining_up import LinedUp, line_up  # noqa: E402
from holdfast.backends.postgres.read import PostgresReader  # noqa: E402
from holdfast.backends.rows import Row  # noqa: E402
from holdfast.errors import BackendError, HoldfastError  # noqa: E402
from holdfast.storage.records import ChunkHash  # noqa: E402
from holdfast.testing.rows import batch, chunk, row  # noqa: E402

in_parts_only = pytest.mark.skipif(
    not lining_up._HAS_PARTS, reason="before its version 17 libpq gives answers whole"
)

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


def rows_of(connection: Connected, answer: LinedUp) -> list[Row]:
    found: list[Row] = []
    while (part := answer.next_part()) is not None:
        found += rows_in(connection, part)
    return found


class CtrlC:
    """Comes after so many steps of Python in the modules that line questions up and take the answers."""

    def __init__(self, steps: int) -> None:
        self._left = steps
        self.came = False

    def __enter__(self) -> Self:
        sys.settrace(self._entered)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _entered(self, frame: FrameType, _event: str, _argument: object) -> Any:
        if Path(frame.f_code.co_filename).stem not in ("lining_up", "under_way", "chunks", "read"):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, _frame: FrameType, event: str, _argument: object) -> Any:
        self._left -= event == "opcode"
        if not self._left:
            sys.settrace(None)
            self.came = True
            raise KeyboardInterrupt
        return self._step


def interrupted(*_: object) -> Any:
    """Stands for a step in which Ctrl-C comes."""
    raise KeyboardInterrupt


def test_answers_are_those_to_the_questions_in_whatever_order_they_are_looked_at(
    reader: PostgresReader, plain: dict[ChunkHash, bytes]
) -> None:
    names = list(plain)
    ways: list[Callable[[Any], object]] = [len, dict, deque]
    for looked_at, how in product(((0, 1), (1, 0)), ways):
        asked = [reader.chunks(names[:3]), reader.chunks(names[3:])]
        assert connected(reader).asked == connected(reader).answered + 2
        for number in looked_at:
            how(asked[number])
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
            patch.setattr(lining_up, "_fetched", interrupted)
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
            patch.setattr(ChunkQuestion, "receive_some", interrupted)
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
            patch.setattr(ChunkQuestion, "receive_some", interrupted)
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
        first, second, third = (
            line_up(connection, _ECHO, ["one"]),
            line_up(connection, refused, [0]),
            line_up(connection, _ECHO, ["three"]),
        )
        assert rows_of(connection, first) == [("one",)]
        with pytest.raises(psycopg.errors.DivisionByZero):
            second.next_part()
        assert second.next_part() is None
        assert rows_of(connection, third) == [("three",)]
        # And then it is as it was.
        assert connection.execute("SELECT 4").fetchall() == [(4,)]


def test_an_answer_out_of_turn_is_not_given(store: PostgresBackend) -> None:
    with store._pool.connection() as connection:
        line_up(connection, _ECHO, ["one"])
        second = line_up(connection, _ECHO, ["two"])
        with pytest.raises(psycopg.OperationalError, match="not waited for"):
            second.next_part()
        assert connection.closed


def test_a_connection_of_which_nobody_knows_what_was_sent_is_closed(
    store: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store._pool.connection() as connection:
        monkeypatch.setattr(Statement, "put", interrupted)
        with pytest.raises(KeyboardInterrupt):
            line_up(connection, _ECHO, ["one"])
        assert connection.closed


@pytest.fixture
def many(store: PostgresBackend) -> dict[ChunkHash, bytes]:
    """Chunks that stand alone, for several parts of an answer."""
    some = [chunk(b"%d " % number * 100) for number in range(3 * lining_up._ROWS + 1)]
    store.commit(batch(row("a", root=some[0].hash), chunks=tuple(some)))
    return {each.hash: each.data for each in some}


@in_parts_only
def test_chunks_can_be_looked_at_while_others_still_come(
    store: PostgresBackend, many: dict[ChunkHash, bytes]
) -> None:
    with store.reader() as reader:
        reader.session("work")
        found = reader.chunks(list(many))
        seen = []
        for name in found:
            assert found[name] == many[name]
            seen.append(name)
            # They come a few at a time.
            assert connected(reader).is_behind or len(seen) > len(many) - lining_up._ROWS
        assert not connected(reader).is_behind
        assert sorted(seen) == sorted(many)
        assert dict(found) == many


@pytest.mark.parametrize("in_parts", [True, False])
@pytest.mark.parametrize("first", [0, 1, 9, 25])
def test_a_part_of_the_answer_and_then_all_of_it(
    store: PostgresBackend,
    many: dict[ChunkHash, bytes],
    monkeypatch: pytest.MonkeyPatch,
    first: int,
    in_parts: bool,
) -> None:
    monkeypatch.setattr(lining_up, "_HAS_PARTS", in_parts and lining_up._HAS_PARTS)
    with store.reader() as reader:
        reader.session("work")
        found, behind = reader.chunks(list(many)), reader.chunks(list(many)[:2])
        begun = iter(found)
        early = [next(begun) for _ in range(first)]
        assert len(found) == len(many)
        assert sorted([*early, *begun]) == sorted(many)
        assert {name: found[name] for name in found} == many
        # Whoever goes through what is there waits for nothing else.
        assert connected(reader).is_behind
        assert dict(behind) == {name: many[name] for name in list(many)[:2]}
        assert reader.session("work") is not None


def test_those_that_stand_on_others_come_last(store: PostgresBackend, plain: dict[ChunkHash, bytes]) -> None:
    names = list(plain)
    with store.reader() as reader:
        reader.session("work")
        found = reader.chunks(names)
        # Not `list`, which asks how many there are, and so for all of them.
        order = deque(iter(found))
        assert set(islice(order, len(names) // 2, None)) == set(names[1::2])
        # What a single one stands on comes with it, and is not what was asked for.
        assert deque(iter(reader.chunks(names[1:2]))) == deque(names[1:2])
        assert dict(found) == plain


@in_parts_only
def test_an_answer_that_is_refused_in_the_middle_is_none(
    store: PostgresBackend, many: dict[ChunkHash, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The rows before are sent: they fill more than the server gathers.
    breaks = Statement(
        "breaks",
        "SELECT c.number, c.hash, c.codec, c.size_bytes / (20 - row_number() OVER ())::int, c.base, c.depth, "
        "repeat('x', 4000)::bytea FROM chunks AS c WHERE c.hash = ANY (%a)",
    )
    with store.reader() as reader:
        reader.session("work")
        with monkeypatch.context() as patch:
            patch.setattr(chunks, "_SELECT_ALONE", breaks)
            found = reader.chunks(list(many))
            begun = iter(found)
            assert next(begun) in many
            with pytest.raises(HoldfastError, match="division by zero"):
                deque(begun)
            with pytest.raises(HoldfastError, match="division by zero"):
                len(found)
        assert not connected(reader).is_behind
        with pytest.raises(HoldfastError, match="division by zero"):
            reader.session("work")
    with store.reader() as reader:
        assert reader.session("work") is not None


def test_who_leaves_in_the_middle_of_an_answer_leaves_nothing_to_others(
    store: PostgresBackend, many: dict[ChunkHash, bytes]
) -> None:
    def look_and_leave(why: type[BaseException]) -> None:
        with store.reader() as reader:
            reader.session("work")
            begun = iter(reader.chunks(list(many)))
            next(begun)
            raise why

    for leaves in (KeyboardInterrupt, ValueError):
        with pytest.raises(leaves):
            look_and_leave(leaves)
        with store.reader() as reader:
            reader.session("work")
            assert dict(reader.chunks(list(many))) == many


def test_an_answer_that_libpq_has_looked_at_comes_whole(store: PostgresBackend) -> None:
    rows = Statement("rows", "SELECT generate_series(1, %s::integer)")
    with store._pool.connection() as connection:
        answer = line_up(connection, rows, [3 * lining_up._ROWS])
        while connection.pgconn.is_busy():
            connection.pgconn.consume_input()
        part = answer.next_part()
        assert part is not None
        assert part.ntuples == 3 * lining_up._ROWS
        assert answer.next_part() is None
        assert connection.execute("SELECT 4").fetchall() == [(4,)]


def test_a_server_that_ends_the_connection_in_the_middle_says_why(store: PostgresBackend) -> None:
    ends = Statement(
        "ends",
        "SELECT number, CASE WHEN number = 40 THEN pg_terminate_backend(pg_backend_pid())::text "
        "ELSE repeat('x', 4000) END FROM generate_series(1, %s::integer) AS number",
    )
    with store._pool.connection() as connection:
        answer = line_up(connection, ends, [60])
        with pytest.raises(psycopg.errors.AdminShutdown):
            rows_of(connection, answer)
        assert connection.closed


@pytest.mark.parametrize("how", ["as they come", "all", "refused"])
def test_ctrl_c_at_any_step_makes_no_short_answer_of_a_whole_one(
    store: PostgresBackend, many: dict[ChunkHash, bytes], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "refused":
        refused = Statement(
            "refused",
            "SELECT c.number, c.hash, c.codec, c.size_bytes / (12 - row_number() OVER ())::int, c.base, c.depth, "
            "repeat('x', 4000)::bytea FROM chunks AS c WHERE c.hash = ANY (%a)",
        )
        monkeypatch.setattr(chunks, "_SELECT_ALONE", refused)
    look: Callable[[Any], object] = dict if how == "all" else (lambda found: deque(iter(found)))
    parts = [list(many)[:15], list(many)[15:]]
    # Steps that repeat for each chunk or part need not all be tried.
    for steps in count(1, 5):
        asked: list[Any] = []
        with store.reader() as reader:
            reader.session("work")
            with CtrlC(steps) as ctrl_c, suppress(KeyboardInterrupt, HoldfastError):
                for names in parts:
                    asked.append(reader.chunks(names))
                for found in asked:
                    look(found)
            for found, names in zip(asked, parts, strict=False):
                try:
                    seen = {name: found[name] for name in found}
                except HoldfastError:
                    continue
                assert how != "refused"
                assert seen == {name: many[name] for name in names}
        if not ctrl_c.came:
            break
        with store.reader() as reader:
            assert reader.session("work") is not None
    assert steps > 300


def test_ctrl_c_at_any_step_of_a_load_is_ctrl_c(postgres_url: str) -> None:
    state = {"messages": [{"number": number, "text": f"{number * 7919} " * 80} for number in range(300)]}
    with holdfast.open(postgres_url, durability="process") as store:
        saved = store.session("work").save(state).id
    for steps in count(1, 17):
        with holdfast.open(postgres_url, durability="process") as store:
            session = store.session("work")
            with CtrlC(steps) as ctrl_c:
                if not is_interrupted(lambda: session.load(saved)):  # noqa: B023 - called at once
                    break
            assert ctrl_c.came
            assert session.load(saved) == state
    assert steps > 300


def is_interrupted(work: Callable[[], object]) -> bool:
    try:
        work()
    except KeyboardInterrupt:
        return True
    return False


def test_a_question_that_was_not_sent_has_no_answer(
    reader: PostgresReader, plain: dict[ChunkHash, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way = reader._under_way
    with monkeypatch.context() as patch:
        patch.setattr(ChunkQuestion, "send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reader.chunks(list(plain))
    with pytest.raises(BackendError, match="not waited for"):
        under_way.receive()
    assert connected(reader).closed


def test_a_question_that_is_not_sent_at_once_is_sent(store: PostgresBackend) -> None:
    long = Statement("long", "SELECT length(%s::text)")
    size = 32 << 20
    with store._pool.connection() as connection:
        first, second = line_up(connection, long, ["x" * size]), line_up(connection, long, ["x"])
        assert rows_of(connection, first) == [(size,)]
        assert rows_of(connection, second) == [(1,)]


def test_a_connection_that_breaks_before_the_end_of_an_answer_is_told(
    store: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Any:
        raise psycopg.OperationalError("broken")

    with store._pool.connection() as connection:
        answer = line_up(connection, _ECHO, ["one"])
        with monkeypatch.context() as patch:
            patch.setattr(generators, "fetch_many", broken)
            with pytest.raises(psycopg.OperationalError, match="broken"):
                rows_of(connection, answer)
        assert connection.closed
