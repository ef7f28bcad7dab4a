"""The short way of a plain save into PostgreSQL: it writes what the long way writes, and refuses what that refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from holdfast.backends.postgres import PostgresBackend, backend  # noqa: E402
from holdfast.backends.postgres.appending import append  # noqa: E402
from holdfast.errors import ConflictError, ErrorCode, HoldfastError  # noqa: E402
from holdfast.storage.records import Batch, Chunk, Guard, Receipt  # noqa: E402
from holdfast.testing.rows import START, batch, checkpoint_id, chunk, contents, row, save  # noqa: E402

Run = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresBackend]:
    opened = PostgresBackend.open(postgres_url, durability="process", create=True, timeout=10.0)
    yield opened
    opened.close()


@pytest.fixture
def run(store: PostgresBackend, postgres_url: str) -> Iterator[Run]:
    """Statements past the backend."""
    with psycopg.connect(postgres_url, autocommit=True, options="-c search_path=holdfast") as connection:

        def execute(statement: str, *parameters: object) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

        yield execute


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    """The batches that went the short way."""
    seen: list[Batch] = []
    usual = append

    def noted(connection: Any, given: Batch, *rest: Any) -> Any:
        seen.append(given)
        return usual(connection, given, *rest)

    monkeypatch.setattr(backend, "append", noted)
    return seen


def version(number: int, base: Chunk | None) -> Chunk:
    """A chunk that is much like the one before."""
    text = b"".join(b"line %d of a text that grows\n" % line for line in range(100 + number))
    return chunk(text)._replace(base=base.hash if base else None)


def saves() -> list[Batch]:
    """Saves one after the other, with everything that a row can hold."""
    fields: list[dict[str, Any]] = [
        {},
        {},
        {"step": 7, "tokens": 2**62, "cost_usd": -0.0, "duration_ms": 1e-300},
        {"step": -(2**63), "cost_usd": 0.1 + 0.2, "duration_ms": 1e300, "app_version": "1.2"},
        {"message": "ä \U0001d4b3 'quoted' \\ \n %s", "metadata": '{"k":"ü"}', "key": "k-1"},
        {"trigger": "auto:tool", "status": "failed", "skipped": 3},
        {"edited_message": "edited", "added_metadata": '{"a":1}', "pinned": True},
        {"tags": ("t", "u")},
        {},
    ]
    made: list[Batch] = []
    last: Chunk | None = None
    for number, given in enumerate(fields):
        last = version(number, last)
        each = save(
            f"{number}",
            after=f"{number - 1}" if number else None,
            at=START + number,
            root=last.hash,
            **given,
        )
        made.append(
            each._replace(chunks=(last,), relies_on=checkpoint_id(f"{number - 1}") if number else None)
        )
    return made


def everything(run: Run) -> dict[str, list[tuple[Any, ...]]]:
    names = ("sessions", "branches", "checkpoints", "tags", "chunks")
    return {name: run(f"SELECT * FROM {name} ORDER BY 1, 2") for name in names}


def test_both_ways_write_the_same(
    store: PostgresBackend, run: Run, short: list[Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    receipts = [store.commit(each) for each in saves()]
    # The first one makes the session, and the one with tags has more to write.
    assert len(short) == len(receipts) - 2
    by_short, shown = everything(run), contents(store)
    assert len(run("SELECT * FROM chunks WHERE base IS NOT NULL")) > 3

    names = "sessions, branches, checkpoints, tags, chunks"
    run(f"TRUNCATE {names}")
    for name in ("session_numbers", "positions", "chunk_numbers"):
        run(f"ALTER SEQUENCE {name} RESTART")
    monkeypatch.setattr(backend, "can_append", lambda *_: False)
    store.after_fork_in_child()
    assert [store.commit(each) for each in saves()] == receipts
    assert contents(store) == shown
    assert everything(run) == by_short
    assert [receipt.checkpoints[0] for receipt in receipts] == list(reversed(shown.checkpoints))


@pytest.mark.parametrize(
    "other",
    [
        {"guard": Guard(log_count=0)},
        {"switch_to": "main"},
        {"cuts_log_from": 1},
        {"relies_on": checkpoint_id("0")},
        {"also_relies_on": (checkpoint_id("0"),)},
        {"agent": "scout"},
        {"chunks": ()},
        {"chunks": (chunk(b"one"), chunk(b"two"))},
        {"moves": ()},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_is_no_plain_save_goes_the_long_way(
    store: PostgresBackend, short: list[Batch], other: dict[str, Any]
) -> None:
    first = save("0")
    store.commit(first)
    second = save("1", after="0")
    store.commit(second)
    assert short == [second]
    third = save("2", after="1")
    agent = other.get("agent")
    given = {name: value for name, value in other.items() if name != "agent"}
    if given.get("chunks") == ():
        third = save("2", after="1", root=second.checkpoints[0].root)
    store.commit(third._replace(**given, claim=third.claim._replace(agent=agent)))
    assert short == [second]
    with store.reader() as reader:
        assert reader.checkpoint(checkpoint_id("2")) is not None


def test_a_chunk_that_is_there_already_is_stamped_and_stored_once(
    store: PostgresBackend, run: Run, short: list[Batch]
) -> None:
    same = chunk(b"the same state")
    store.commit(batch(row("other", session="other", root=same.hash), session="other", chunks=(same,)))
    store.commit(save("0"))
    run("UPDATE counters SET value = 5 WHERE name = 'epoch'")
    receipt = store.commit(save("1", after="0", root=same.hash)._replace(chunks=(same,)))
    assert len(short) == 1
    assert receipt.checkpoints[0].stored_bytes == 0
    assert run("SELECT epoch FROM chunks WHERE hash = %s", same.hash) == [(5,)]


def test_what_a_chunk_stands_on_is_stamped_all_the_way_down(
    store: PostgresBackend, run: Run, short: list[Batch]
) -> None:
    made = saves()
    for each in made[:4]:
        store.commit(each)
    run("UPDATE counters SET value = 5 WHERE name = 'epoch'")
    store.commit(made[4])
    assert len(short) == 4
    assert run("SELECT DISTINCT epoch FROM chunks") == [(5,)]
    assert run("SELECT depth FROM chunks ORDER BY number DESC LIMIT 1") == [(4,)]


@pytest.mark.parametrize(
    "damage",
    [
        # What the next one was packed to stand on is gone, stands too deep, or is another row of the same bytes.
        "DELETE FROM chunks WHERE hash = (SELECT root FROM checkpoints ORDER BY position DESC LIMIT 1)",
        "UPDATE chunks SET depth = 32",
        "UPDATE chunks SET data = data || 'x'::bytea",
    ],
)
def test_a_chunk_that_cannot_stand_where_it_was_to_stand_stands_alone(
    store: PostgresBackend, run: Run, short: list[Batch], damage: str
) -> None:
    made = saves()
    for each in made[:3]:
        store.commit(each)
    run(damage)
    store.commit(made[3])
    assert len(short) > 2
    ((base, depth),) = run("SELECT base, depth FROM chunks ORDER BY number DESC LIMIT 1")
    assert (base, depth) == (None, 0)
    with store.reader() as reader:
        wanted = made[3].chunks[0]
        assert reader.chunks([wanted.hash]) == {wanted.hash: wanted.data}


@pytest.mark.parametrize("change", ["UPDATE sessions SET seal = 1", "UPDATE branches SET head = '\\x00'"])
def test_what_is_not_as_the_writer_knew_it_changes_nothing(
    store: PostgresBackend, run: Run, short: list[Batch], change: str
) -> None:
    """Neither way writes over what somebody else did."""
    store.commit(save("0"))
    run(change)
    before = everything(run)
    with pytest.raises(HoldfastError):
        store.commit(save("1", after="0"))
    assert len(short) == 1
    assert everything(run) == before


def test_a_branch_that_another_process_moved_is_a_conflict(
    store: PostgresBackend, postgres_url: str, short: list[Batch]
) -> None:
    store.commit(save("0"))
    other = PostgresBackend.open(postgres_url, durability="process", create=False, timeout=10.0)
    other.commit(save("1", after="0"))
    other.close()
    with pytest.raises(ConflictError) as caught:
        store.commit(save("2", after="0"))
    assert caught.value.code is ErrorCode.BRANCH_MOVED
    assert len(short) == 1


def test_a_session_that_another_process_made_anew_is_not_refused_for_what_it_was(
    store: PostgresBackend, postgres_url: str
) -> None:
    store.commit(save("0", agent="one"))
    other = PostgresBackend.open(postgres_url, durability="process", create=False, timeout=10.0)
    other.erase_session("work")
    other.commit(save("1", agent="two"))
    other.close()
    store.commit(save("2", after="1", agent="two"))
    assert [each.id for each in contents(store).checkpoints] == [checkpoint_id("2"), checkpoint_id("1")]


def test_a_key_that_is_taken_is_a_conflict(store: PostgresBackend, short: list[Batch]) -> None:
    store.commit(save("0", key="k"))
    with pytest.raises(ConflictError) as caught:
        store.commit(save("1", after="0", key="k"))
    assert caught.value.code is ErrorCode.KEY_TAKEN
    assert len(short) == 1


def test_the_same_save_once_more_is_answered_with_what_is_there(
    store: PostgresBackend, short: list[Batch]
) -> None:
    store.commit(save("0"))
    again: list[Receipt] = [store.commit(save("1", after="0")) for _ in range(2)]
    assert again[0] == again[1]
    assert len(short) == 2


def test_statements_are_prepared_once_whatever_the_numbers_are(store: PostgresBackend) -> None:
    """psycopg gives a number the smallest type that holds it; each mixture of types would be a statement of its own."""
    store.commit(save("0"))
    for number in range(1, 40):
        fields: dict[str, Any] = {"step": 2**number, "tokens": None if number % 2 else 1}
        store.commit(save(f"{number}", after=f"{number - 1}", at=START + number, **fields))
    with store._pool.connection() as connection:
        prepared = connection.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%append(%'"
        ).fetchall()
    assert prepared == [(1,)]
