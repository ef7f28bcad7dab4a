"""verify: what is whole is said to be, and each kind of damage is found, named, and no end of the search."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager

import pytest

import holdfast
from holdfast.backends import rows
from holdfast.backends.memory import MemoryBackend
from holdfast.storage.records import CheckpointId, ChunkHash
from holdfast.store import Store

from .damage import PAGE, chunk_of, flip, root_page, spoil, write_with_plain_sqlite


def fill(store):
    """Two sessions with some of everything."""
    session = store.session("s", agent="scout", project="acme")
    saved = [
        session.save({"step": step, "notes": [f"note {n}" for n in range(step * 30)]}, f"m{step}", tags=["t"])
        for step in range(6)
    ]
    session.annotate("@~1", message="said better")
    session.delete("@~3")
    session.fork("@~2", "try").save({"other": 1})
    store.session("other").save({"x": 1}, key="k")
    return saved


on_sqlite = pytest.mark.parametrize("path", ["sqlite"], indirect=True)


@pytest.fixture(params=["sqlite", "postgres"])
def path(request, tmp_path):
    return request.getfixturevalue("postgres_store") if request.param == "postgres" else tmp_path / "store.db"


@pytest.fixture
def saved(path):
    with holdfast.open(path, durability="process") as store:
        return fill(store)


def verify(path, **options):
    with holdfast.open(path, damaged=True) as store:
        return store.verify(**options)


def kinds(report):
    return {each.kind for each in report.problems}


def test_a_whole_store_is_whole(backend, clock):
    store = Store(backend, clock=clock)
    assert store.verify().ok
    fill(store)
    report = store.verify()
    assert report.ok, report
    assert (report.sessions, report.branches, report.checkpoints, report.operations) == (2, 3, 9, 3)
    assert report.chunks == store.stats().chunks
    assert report.to_dict()["ok"] is True


def test_each_checkpoint_that_needs_a_damaged_chunk_is_named(path):
    with holdfast.open(path, durability="process") as store:
        session = store.session("s")
        first = session.save({"same": 1})
        session.save({"other": 2})
        again = session.save({"same": 1})
    spoil(path, "UPDATE chunks SET data = x'00' WHERE number = ?", chunk_of(path, first.id))
    report = verify(path)
    assert [(each.id, each.session, each.seq, each.lost) for each in report.damaged] == [
        (first.id, "s", 1, True),
        (again.id, "s", 3, True),
    ]
    assert [(each.kind, each.checkpoints) for each in report.problems] == [("chunk", (first.id, again.id))]


def test_a_chunk_that_is_gone_and_one_that_nobody_needs_are_both_found(path, saved):
    spoil(path, "DELETE FROM chunks WHERE number = ?", chunk_of(path, saved[0].id))
    spoil(
        path,
        "INSERT INTO chunks (hash, codec, size_bytes, base, depth, epoch, refers, data) "
        "VALUES (zeroblob(32), 0, 1, NULL, 0, 0, 0, x'00')",
    )
    report = verify(path)
    assert saved[0].id in {each.id for each in report.damaged}
    assert any("00" * 32 in each.what and not each.checkpoints for each in report.problems)


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        ("header", "UPDATE header SET value = 'x' WHERE key = 'store'"),
        ("header", "DELETE FROM header WHERE key = 'store'"),
        ("counter", "DELETE FROM counters WHERE name = 'epoch'"),
        ("session", "UPDATE sessions SET last_seq = 99 WHERE id = 's'"),
        ("branch", "UPDATE branches SET moved_at = 1 WHERE name = 'try'"),
        ("operation", "UPDATE operations SET at = 1 WHERE number = 1"),
        ("log", "DELETE FROM operations WHERE number = 1"),
        ("tag", "DELETE FROM tags WHERE position = 1"),
        ("tag", "INSERT INTO tags VALUES ('new', 1)"),
    ],
)
def test_each_kind_of_row_is_checked(path, saved, kind, sql):
    check_that_it_is_found(path, kind, sql)


@on_sqlite
def test_the_counter_of_positions_is_checked(path, saved):
    check_that_it_is_found(path, "counter", "DELETE FROM counters WHERE name = 'position'")


def check_that_it_is_found(path, kind, sql):
    spoil(path, sql)
    report = verify(path, quick=True)
    assert kind in kinds(report), report.problems
    assert not [each for each in report.damaged if each.lost]


@pytest.mark.parametrize(
    "change", ["message = 'x'", "seq = 77", "id = zeroblob(32)", "session = 2", "prev = NULL"]
)
def test_a_damaged_row_is_named_by_what_is_left_of_it(path, saved, change):
    spoil(path, f"UPDATE checkpoints SET {change} WHERE id = ?", bytes.fromhex(saved[1].id))
    report = verify(path, quick=True)
    (lost,) = [each for each in report.damaged if each.lost]
    assert lost.id in (saved[1].id, "00" * 32)
    assert "checkpoint" in kinds(report)


def reseal(path, checkpoint, **changes):
    """Change a row and give it a right seal: what it says about history is wrong, and nothing else."""
    with holdfast.open(path) as store, store._backend.reader() as reader:
        found = reader.checkpoint(CheckpointId(bytes.fromhex(checkpoint)))
        assert found is not None
        row = found._replace(**changes)
    columns = ("message", "prev", "hidden")
    values = dict(zip(("message", "prev", "hidden"), (row.message, row.prev, row.hidden), strict=True))
    sets = ", ".join(f"{name} = ?" for name in columns)
    # In PostgreSQL a seal leaves out what the server gives a row.
    sealed = row._replace(position=0, stored_bytes=0) if isinstance(path, str) else row
    seal = rows.checkpoint_row(sealed)[-1]
    spoil(path, f"UPDATE checkpoints SET {sets}, seal = ? WHERE id = ?", *values.values(), seal, row.id)


def test_an_id_that_is_not_the_hash_of_its_row_is_damage(path, saved):
    reseal(path, saved[1].id, message="forged")
    report = verify(path, quick=True)
    assert [(each.id, each.lost) for each in report.damaged] == [(saved[1].id, True)]


@pytest.mark.parametrize("to", ["itself", "nothing", "later", "another session"])
def test_a_link_that_does_not_lead_back_is_found(path, saved, to):
    with holdfast.open(path) as store:
        other = store.session("other").checkpoint().id
    target = {"itself": saved[1].id, "nothing": "11" * 32, "later": saved[4].id, "another session": other}[to]
    reseal(path, saved[1].id, prev=bytes.fromhex(target))
    report = verify(path, quick=True)
    assert [each.checkpoints for each in report.problems] == [(saved[1].id,)]
    assert not report.damaged


def test_a_head_that_is_hidden_is_found(path, saved):
    reseal(path, saved[5].id, hidden=3)
    report = verify(path, quick=True)
    assert kinds(report) == {"branch"}
    assert report.problems[0].checkpoints == (saved[5].id,)


@on_sqlite
def test_pages_that_another_program_wrote_are_named_and_nothing_on_them_is_lost(path, saved):
    write_with_plain_sqlite(path)
    report = verify(path)
    assert "page" in kinds(report)
    assert len(report.damaged) == 9
    assert not any(each.lost for each in report.damaged)


@on_sqlite
def test_a_checkpoint_that_only_an_index_knows_is_named(path, saved):
    # The number of cells on the page of the table: the last row is not seen any more.
    flip(path, (root_page(path, "checkpoints") - 1) * PAGE + 4)
    report = verify(path)
    (lost,) = [each for each in report.damaged if each.lost]
    assert lost.id is not None
    assert lost.session in ("s", "other")
    assert lost.seq is not None
    assert "index" in lost.why


@on_sqlite
@pytest.mark.parametrize("at", [0, 16, 18, 20, 28, 47, 60, 68, 100, 105])
def test_a_damaged_first_page_is_reported_and_everything_behind_it_is_named(path, saved, at):
    flip(path, at, bit=1)
    report = verify(path)
    assert "page" in kinds(report) or "header" in kinds(report)
    assert {each.id for each in saved} <= {each.id for each in report.damaged} or report.checkpoints == 9


@on_sqlite
def test_rows_whose_way_is_damaged_are_found_on_their_pages(path):
    with holdfast.open(path, durability="process") as store:
        session = store.session("s")
        saved = [session.save({"n": n, "own": bytes([n]) * 50}, "some words") for n in range(150)]
    for name in ("checkpoints", "chunks", "sqlite_autoindex_checkpoints_1"):
        root = root_page(path, name)
        assert path.read_bytes()[(root - 1) * PAGE] in (2, 5), "it has pages below it"
        # The kind of the page: nothing below it can be reached from it any more.
        flip(path, (root - 1) * PAGE, bit=6)
        report = verify(path)
        assert {each.id for each in saved} == {each.id for each in report.damaged}
        assert not any(each.lost for each in report.damaged)
        flip(path, (root - 1) * PAGE, bit=6)
    assert verify(path).ok


def test_verify_beside_writers_finds_nothing(path):
    with holdfast.open(path, durability="process") as store:
        stop = threading.Event()

        def write():
            session = store.session("busy")
            for number in range(10_000):
                session.save({"n": number, "pad": "x" * 500})
                if number % 10 == 9:
                    session.delete("@~4")
                    store.gc(keep_days=0)
                if stop.is_set():
                    return

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(10):
                report = store.verify()
                assert report.ok, report.problems
        finally:
            stop.set()
            writer.join()


def test_a_store_in_memory_that_lost_a_chunk_says_so():
    backend = MemoryBackend()
    store = Store(backend)
    saved = store.session("s").save({"a": 1})
    moment = backend._open_moment()
    del moment.chunks[ChunkHash(bytes.fromhex(saved.root))]
    assert [each.id for each in store.verify().damaged] == [saved.id]


def test_progress_is_told_and_the_twin_says_the_same(path, monkeypatch):
    monkeypatch.setattr("holdfast.store.verify._STEP", 2)
    with holdfast.open(path) as store:
        fill(store)
        told = []
        report = store.verify(progress=lambda what, done: told.append((what, done)))
    assert {what for what, _ in told} == {"looking at checkpoints", "reading chunks"}

    async def twin():
        async with holdfast.aopen(path) as store:
            return await store.verify()

    assert asyncio.run(twin()) == report


def test_verify_beside_a_retention_finds_nothing(path, monkeypatch):
    """A row that goes between the two views is not damage."""
    with holdfast.open(path, durability="process") as store:
        writer = store.session("s", keep=holdfast.Keep(last=2))
        for n in range(5):
            writer.save({"n": n})
        inspect = store._backend.inspect

        @contextmanager
        def meanwhile():
            writer.save({"n": "before"})
            with inspect() as seen:
                writer.save({"n": "after"})
                yield seen

        monkeypatch.setattr(store._backend, "inspect", meanwhile)
        assert store.verify().problems == ()
