"""Leases in a SQLite file: beside damage and repairs, in stores from before there were any, and what a save costs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.unit.backends.conftest import Open

import holdfast
from holdfast.backends.sqlite import SqliteBackend
from holdfast.errors import BackendError, ConflictError, ErrorCode, UnsupportedError
from holdfast.storage.leasing import Holder, Lease
from holdfast.storage.seal import seal
from holdfast.testing.rows import save

NAME = "heartbeat:work"
STRANGER = Holder("stranger", "far-away/boot/1.1", 12345, "1")


def claim(store: SqliteBackend, name: str = NAME, seconds: float = 600.0) -> Lease:
    return store.claim(name, STRANGER, seconds, at=time.time_ns() // 1000, ticks=0)


def change(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


def make_old(path: Path) -> None:
    """Take away what a store has since there are leases."""
    change(
        path,
        "DROP TABLE leases",
        "DELETE FROM counters WHERE name = 'lease'",
        "DELETE FROM header WHERE key = 'revision'",
    )


def test_a_store_from_before_is_refused_and_left_as_it_is(path: Path, open_store: Open) -> None:
    store = open_store()
    store.commit(save("a"))
    store.close()
    make_old(path)
    before = path.read_bytes()
    with pytest.raises(UnsupportedError) as refused:
        open_store()
    assert refused.value.code is ErrorCode.FORMAT_TOO_OLD
    assert "revision 1" in str(refused.value)
    assert "holdfast repair" in refused.value.hint
    assert path.read_bytes() == before


def test_a_repair_makes_a_store_of_this_version_of_it(path: Path) -> None:
    with holdfast.open(path, durability="process") as store:
        store.session("s").save({"n": 1})
    make_old(path)
    with holdfast.open(path, damaged=True) as store:
        assert [problem.kind for problem in store.verify().problems] == ["header"]
        report = store.repair()
    assert (report.kept, report.lost) == (1, ())
    with holdfast.open(path, durability="process") as store, store.lease("heartbeat:s") as held:
        # Nobody knows any more which were given.
        assert held.epoch > 1_700_000_000
        session = store.session("s", lease=held)
        assert session.load() == {"n": 1}
        assert session.save({"n": 2}).seq == 2
        assert store.verify().ok


def test_a_store_of_a_later_revision_is_refused(path: Path, open_store: Open) -> None:
    open_store().close()
    change(path, f"UPDATE header SET value = '99', seal = {seal('revision', '99')} WHERE key = 'revision'")
    with pytest.raises(UnsupportedError) as refused:
        open_store()
    assert refused.value.code is ErrorCode.FORMAT_TOO_NEW


def test_a_repair_leaves_leases_behind_and_counts_on(path: Path) -> None:
    with holdfast.open(path, durability="process") as store:
        first = store.lease("heartbeat:s")
        store.session("s", lease=first).save({"n": 1})
        for number in range(200):
            # Enough for pages of their own.
            claim(store._backend, f"run:{number} {'x' * 100}")  # type: ignore[arg-type]
        change(path, "UPDATE checkpoints SET message = 'changed'")
        report = store.repair()
        assert len(report.lost) == 1
        assert store._backend.lease("heartbeat:s") is None
        with pytest.raises(ConflictError) as lost:
            store.session("s", lease=first).save({"n": 2})
        assert lost.value.code is ErrorCode.LEASE_LOST
        with store.lease("heartbeat:s") as again:
            assert again.epoch == first.epoch + 201
        assert store.verify().ok


def test_leases_are_no_part_of_what_is_salvaged_from_a_damaged_file(path: Path) -> None:
    with holdfast.open(path, durability="process") as store:
        store.session("s").save({"n": 1})
        for number in range(200):
            claim(store._backend, f"run:{number} {'x' * 100}")  # type: ignore[arg-type]
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    found: Any = connection.execute("SELECT name, rootpage FROM sqlite_schema").fetchall()
    roots: dict[str, int] = dict(found)
    connection.close()
    data = bytearray(path.read_bytes())
    # The page that all the others of the table hang on, and one of history, so that pages are read without SQLite.
    for name in ("leases", "sqlite_autoindex_sessions_1"):
        data[(roots[name] - 1) * 4096 + 100] ^= 0xFF
    path.write_bytes(bytes(data))
    with holdfast.open(path, damaged=True) as store:
        assert not store.verify().ok
        report = store.repair()
        assert (report.kept, report.lost) == (1, ())
    with holdfast.open(path, durability="process") as store:
        assert store.verify().ok
        assert store.session("s").load() == {"n": 1}
        assert claim(store._backend).epoch > 200  # type: ignore[arg-type]


def test_a_lease_that_was_given_up_leaves_nothing_behind(path: Path, store: SqliteBackend) -> None:
    held = claim(store, "heartbeat:a-secret-session")
    store.release(held)
    store.scrub()
    store.close()
    for file in path.parent.iterdir():
        assert b"a-secret-session" not in file.read_bytes()


def test_a_read_only_store_gives_no_lease(path: Path, open_store: Open) -> None:
    store = open_store()
    held = claim(store)
    store.close()
    path.chmod(0o400)
    path.parent.chmod(0o500)
    try:
        store = open_store(create=False)
        if store._writable:
            pytest.skip("this user may write everything")
        assert store.lease(NAME) == held
        for refused in (lambda: claim(store, "run:x"), lambda: store.release(held)):
            with pytest.raises(BackendError) as error:
                refused()
            assert error.value.code is ErrorCode.PERMISSION_DENIED
    finally:
        path.parent.chmod(0o700)


def test_a_claim_that_is_refused_asks_for_no_write_lock(path: Path, open_store: Open) -> None:
    store = open_store(timeout=0.05)
    claim(store)
    blocking = apsw.Connection(str(path), vfs="cksmvfs")
    blocking.execute("BEGIN IMMEDIATE")
    with pytest.raises(ConflictError):
        store.claim(NAME, STRANGER._replace(id="other"), 600.0, at=time.time_ns() // 1000, ticks=0)
    with pytest.raises(BackendError) as locked:
        claim(store, "run:other")
    assert locked.value.code is ErrorCode.STORE_LOCKED
    blocking.execute("ROLLBACK")
    blocking.close()


def test_a_save_costs_one_statement_more_with_a_fence_and_none_without(store: SqliteBackend) -> None:
    held = claim(store)
    counts: list[int] = []
    for number, fence in enumerate((None, None, held.fence, None)):
        before = f"{number - 1}" if number else None
        batch = save(f"{number}", after=before)._replace(fence=fence)
        connection = store._pool.take()
        run: list[str] = []
        connection.exec_trace = lambda _, sql, __, run=run: run.append(sql) or True
        store._pool.give(connection)
        store.commit(batch)
        connection.exec_trace = None
        assert [sql for sql in run if "leases" in sql] == [sql for sql in run if fence and "leases" in sql]
        counts.append(len(run))
    assert counts[2] == counts[1] + 1
    assert counts[3] == counts[1]
