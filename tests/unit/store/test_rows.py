"""Rows of extension tables through the public API."""

from __future__ import annotations

import os

import pytest

import holdfast
from holdfast import ConflictError, ErrorCode, InvalidInputError, Table
from holdfast.backends.memory import MemoryBackend
from holdfast.errors import BackendError
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed

RUNS = Table("runs", columns={"session": str, "run": str}, key=("run",))
STEPS = Table(
    "steps",
    columns={"run": str, "step": str, "status": str, "cost": float | None},
    key=("run", "step"),
    indexes=(("status",),),
    foreign_keys={("run",): RUNS},
)


def begun(step="s1"):
    return [
        RUNS.upsert({"session": "work", "run": "r1"}),
        STEPS.insert({"run": "r1", "step": step, "status": "running"}),
    ]


def done(step="s1"):
    return STEPS.update(("r1", step), {"status": "done"}, expect={"status": "running"})


def test_a_save_carries_rows_and_a_conflict_leaves_neither(tmp_path):
    with holdfast.open(tmp_path / "s.db") as store:
        s = store.session("work")
        s.save({"n": 1}, rows=begun())
        assert store.rows(STEPS).get("r1", "s1") == {
            "run": "r1",
            "step": "s1",
            "status": "running",
            "cost": None,
        }
        with pytest.raises(ConflictError) as caught:
            s.save({"n": 2}, rows=begun())
        assert caught.value.code is ErrorCode.ROW_CONFLICT
        assert caught.value.details["key"] == ["r1", "s1"]
        assert s.load() == {"n": 1}
        s.save({"n": 3}, rows=[done()])
        doc = s.document()
        doc["n"] = 4
        doc.save(rows=begun("s2"))
        assert store.rows(STEPS).count(status="done") == 1
        assert [row["step"] for row in store.rows(STEPS).find(run="r1", order_by="-step", limit=1)] == ["s2"]


def test_a_save_whose_reply_is_lost_has_its_rows_once():
    for fault in (Fault("commit", after=failing(io_failed())), Fault("commit", before=failing(io_failed()))):
        backend = FaultyBackend(MemoryBackend())
        store = holdfast.Store(backend)
        s = store.session("work")
        s.save({"n": 1}, rows=begun())
        backend.plan(fault)
        try:
            s.save({"n": 2}, rows=[done()])
        except BackendError:
            assert s.load() == {"n": 1}
            assert store.rows(STEPS).count(status="running") == 1
            s.save({"n": 2}, rows=[done()])
        assert store.rows(STEPS).count(status="done") == 1
        assert len(s.log()) == 2


def test_a_later_save_is_not_answered_with_an_earlier_one_that_had_other_rows():
    unknown = BackendError("lost", code=ErrorCode.SERVER_GONE, hint="look", outcome="unknown")
    backend = FaultyBackend(MemoryBackend())
    store = holdfast.Store(backend)
    s = store.session("work")
    s.save({"n": 1}, rows=begun())
    # It took place, and nobody could find out.
    backend.plan(Fault("commit", after=failing(unknown)), Fault("checkpoint", before=failing(io_failed())))
    with pytest.raises(BackendError):
        s.save({"n": 1}, rows=begun("s2"))
    s.save({"n": 1}, rows=begun("s3"))
    assert [row["step"] for row in store.rows(STEPS).find()] == ["s1", "s2", "s3"]


def test_rows_alone_are_fenced_by_a_lease(tmp_path):
    with holdfast.open(tmp_path / "s.db") as store:
        with store.lease("heartbeat:work") as held:
            store.write(begun(), lease=held)
            store.session("work", lease=held).write([done()])
        with pytest.raises(ConflictError) as caught:
            store.write([STEPS.delete(("r1", "s1"))], lease=held)
        assert caught.value.code is ErrorCode.LEASE_LOST
        assert store.rows(STEPS).count(step="s1", status="done") == 1
        assert store.sessions() == []


def test_forget_removes_rows_and_copies_take_them_along(tmp_path):
    with holdfast.open(tmp_path / "a.db") as store, holdfast.open(tmp_path / "b.db") as other:
        store.session("work").save({"n": 1}, rows=begun())
        store.session("rest").save({"n": 1}, rows=[RUNS.insert({"session": "rest", "run": "r9"})])
        store.copy_to(other)
        assert other.rows(STEPS).find() == store.rows(STEPS).find() != []
        store.write([done(), *begun("s2")])
        other.write(begun("only here"))
        store.copy_to(other)
        assert other.rows(STEPS).find() == store.rows(STEPS).find()
        store.backup(tmp_path / "c.db")
        store.forget("work")
        assert store.rows(STEPS).count() == 0
        assert [row["run"] for row in store.rows(RUNS).find()] == ["r9"]
    with holdfast.open(tmp_path / "c.db") as copy:
        assert copy.rows(STEPS).count() == 2


def test_a_repaired_store_keeps_its_rows(tmp_path):
    path = tmp_path / "s.db"
    with holdfast.open(path) as store:
        s = store.session("work")
        for n in range(50):
            s.save({"n": n, "noise": f"begin {n:02}".encode() + os.urandom(2000)}, rows=begun(f"s{n:02}"))
    data = bytearray(path.read_bytes())
    with holdfast.open(path) as store:
        rows = store.rows(STEPS).find()
    # A page with a chunk, not with rows.
    at = data.index(b"begin 25")
    data[at] ^= 1
    path.write_bytes(data)
    with holdfast.open(path, damaged=True) as store:
        store.repair()
        assert store.rows(STEPS).find() == rows


@pytest.mark.parametrize(
    "make",
    [
        lambda: Table("Steps", columns={"session": str}, key=("session",)),
        lambda: Table("checkpoints", columns={"session": str}, key=("session",)),
        lambda: Table("t", columns={"session": str, "limit": int}, key=("session",)),
        lambda: Table("t", columns={"session": str, "x": list}, key=("session",)),
        lambda: Table("t", columns={"session": str, "x": int | None}, key=("x",)),
        lambda: Table("t", columns={"session": str}, key=("other",)),
        lambda: Table("t", columns={"x": str}, key=("x",)),
        lambda: Table("t", columns={"session": str, "r": int}, key=("r",), foreign_keys={("r",): RUNS}),
        lambda: STEPS.insert({"run": "r1", "step": "s1"}),
        lambda: STEPS.insert({"run": "r1", "step": "s1", "status": 1}),
        lambda: STEPS.insert({"run": "r1", "step": "s\x00", "status": "x"}),
        lambda: STEPS.insert({"run": "r1", "step": "s", "status": "x", "cost": float("nan")}),
        lambda: STEPS.insert({"run": "r1", "step": "s", "status": "x", "other": 1}),
        lambda: STEPS.update(("r1",), {"status": "x"}),
        lambda: STEPS.update(("r1", "s1"), {"run": "x"}),
        lambda: STEPS.update(("r1", "s1"), {}),
        lambda: holdfast.Store(MemoryBackend()).write(done()),
        lambda: holdfast.Store(MemoryBackend()).session("s").save({}, rows=[{"run": "r1"}]),  # type: ignore[list-item]
        lambda: holdfast.Store(MemoryBackend()).rows(STEPS).find(order_by="nothing"),
        lambda: holdfast.Store(MemoryBackend()).rows("steps"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_kept_is_refused_with_a_hint(make):
    with pytest.raises(InvalidInputError) as caught:
        make()
    assert caught.value.hint
