"""Rows of extension tables: all or nothing with a checkpoint, or alone."""

# ruff: noqa: D102 - the names of the tests are the sentences

from __future__ import annotations

import pytest

from holdfast.errors import ConflictError, ErrorCode, UnsupportedError
from holdfast.storage.leases import Holder
from holdfast.storage.ports import Backend
from holdfast.storage.tables import Row, RowQuery, Table
from holdfast.testing.kit.contract import Contract, elsewhere
from holdfast.testing.rows import save

RUNS = Table(
    "kit_runs",
    columns={"session": str, "run": str, "status": str},
    key=("run",),
    indexes=[("session", "status")],
)
STEPS = Table(
    "kit_steps",
    columns={"run": str, "step": int, "status": str, "cost": float | None, "result": bytes | None},
    key=("run", "step"),
    foreign_keys={("run",): RUNS},
)


def run(name: str, session: str = "s", status: str = "running") -> Row:
    """A row of RUNS."""
    return {"session": session, "run": name, "status": status}


def step(run: str, number: int, status: str = "running", cost: float | None = None) -> Row:
    """A row of STEPS."""
    return {"run": run, "step": number, "status": status, "cost": cost, "result": None}


def rows_of(backend: Backend, table: Table, **query: object) -> list[Row]:
    """The rows of a table, by key."""
    with backend.reader() as reader:
        return list(reader.find_rows(table, RowQuery(**query)))  # type: ignore[arg-type]


class ExtensionContract(Contract):
    """What `commit` and `write_rows` make of changes, and what `find_rows` tells of them."""

    def test_rows_come_out_as_they_went_in(self, backend: Backend) -> None:
        wide = Table(
            "kit_wide",
            columns={
                "session": str,
                "n": int,
                "order": str | None,
                "real": float | None,
                "raw": bytes | None,
            },
            key=("n",),
        )
        full = {"session": "ä%s?", "n": -(2**63), "order": "", "real": 0.1, "raw": b"\x00\xff"}
        empty = {"session": "s", "n": 2**63 - 1, "order": None, "real": None, "raw": None}
        backend.write_rows([wide.insert(full), wide.insert({"session": "s", "n": 2**63 - 1})])
        assert rows_of(backend, wide) == [full, empty]

    def test_reading_a_table_that_nobody_wrote_to_gives_nothing(self, backend: Backend) -> None:
        with backend.reader() as reader:
            assert list(reader.tables()) == []
            assert list(reader.find_rows(RUNS, RowQuery())) == []
            assert reader.count_rows(RUNS, RowQuery()) == 0

    def test_rows_go_in_with_their_checkpoint_or_not_at_all(self, backend: Backend) -> None:
        backend.commit(save("a")._replace(rows=(RUNS.insert(run("r1")),)))
        assert rows_of(backend, RUNS) == [run("r1")]
        refused = save("b", after="a")._replace(rows=(RUNS.insert(run("r2")), RUNS.insert(run("r1"))))
        with pytest.raises(ConflictError) as caught:
            backend.commit(refused)
        assert caught.value.code is ErrorCode.ROW_CONFLICT
        assert rows_of(backend, RUNS) == [run("r1")]
        with backend.reader() as reader:
            assert reader.checkpoint(refused.checkpoints[0].id) is None
        stale = save("c")._replace(rows=(RUNS.insert(run("r3")),))
        with pytest.raises(ConflictError) as caught:
            backend.commit(stale)
        assert caught.value.code is ErrorCode.BRANCH_MOVED
        assert rows_of(backend, RUNS) == [run("r1")]

    def test_a_commit_that_is_settled_applies_its_rows_once(self, backend: Backend) -> None:
        batch = save("a")._replace(
            rows=(
                RUNS.insert(run("r1")),
                RUNS.update(("r1",), {"status": "done"}, expect={"status": "running"}),
            )
        )
        assert backend.commit(batch) == backend.commit(batch)
        assert rows_of(backend, RUNS) == [run("r1", status="done")]

    def test_an_update_needs_the_row_as_expected(self, backend: Backend) -> None:
        backend.write_rows([RUNS.insert(run("r1")), STEPS.insert(step("r1", 1))])
        done = STEPS.update(
            ("r1", 1), {"status": "done", "cost": 0.5}, expect={"status": "running", "cost": None}
        )
        backend.write_rows([done])
        assert rows_of(backend, STEPS) == [step("r1", 1, "done", 0.5)]
        for refused in (done, STEPS.update(("r1", 9), {"status": "done"})):
            with pytest.raises(ConflictError) as caught:
                backend.write_rows([RUNS.upsert(run("r1", status="x")), refused])
            assert caught.value.code is ErrorCode.ROW_CONFLICT
        assert rows_of(backend, RUNS) == [run("r1")]

    def test_an_upsert_makes_a_row_or_changes_what_it_names(self, backend: Backend) -> None:
        backend.write_rows([RUNS.insert(run("r1")), STEPS.upsert(step("r1", 1, cost=2.0))])
        backend.write_rows([STEPS.upsert({"run": "r1", "step": 1, "status": "done"})])
        assert rows_of(backend, STEPS) == [step("r1", 1, "done", 2.0)]

    def test_a_delete_takes_rows_along_and_finds_none_in_peace(self, backend: Backend) -> None:
        backend.write_rows([RUNS.insert(run("r1")), RUNS.insert(run("r2"))])
        backend.write_rows([STEPS.insert(step(each, n)) for each in ("r1", "r2") for n in (1, 2)])
        backend.write_rows([RUNS.delete(("r1",)), RUNS.delete(("r9",))])
        assert rows_of(backend, RUNS) == [run("r2")]
        assert [row["run"] for row in rows_of(backend, STEPS)] == ["r2", "r2"]

    def test_a_row_refers_to_one_that_is_there(self, backend: Backend) -> None:
        with pytest.raises(ConflictError) as caught:
            backend.write_rows([STEPS.insert(step("r1", 1))])
        assert caught.value.code is ErrorCode.ROW_CONFLICT
        backend.write_rows([RUNS.insert(run("r1")), STEPS.insert(step("r1", 1))])
        assert len(rows_of(backend, STEPS)) == 1

    def test_rows_are_found_by_value_and_in_order(self, backend: Backend) -> None:
        names = ["b", "a", "Ä", "B"]
        backend.write_rows([RUNS.insert(run(name, session="s" if name != "B" else "t")) for name in names])
        backend.write_rows([STEPS.insert(step("a", n, cost=cost)) for n, cost in enumerate((None, 2.0, 1.0))])
        assert [row["run"] for row in rows_of(backend, RUNS)] == ["B", "a", "b", "Ä"]
        assert [row["run"] for row in rows_of(backend, RUNS, where=(("session", "t"),))] == ["B"]
        falling = rows_of(backend, STEPS, order_by=(("cost", True),))
        assert [row["step"] for row in falling] == [1, 2, 0]
        rising = rows_of(backend, STEPS, order_by=(("cost", False),), limit=2)
        assert [row["step"] for row in rising] == [0, 2]
        with backend.reader() as reader:
            assert reader.count_rows(STEPS, RowQuery((("cost", None),))) == 1
            assert reader.count_rows(STEPS, RowQuery(limit=1)) == 3
            assert [table.name for table in reader.tables()] == ["kit_runs", "kit_steps"]
            assert list(reader.tables()) == [RUNS, STEPS]

    def test_a_lease_that_was_lost_writes_nothing(self, backend: Backend) -> None:
        first = backend.claim("lease", Holder("a", "h", 1, ""), 30, at=1, ticks=1)
        backend.write_rows([RUNS.insert(run("r1"))], first.fence)
        backend.release(first)
        with pytest.raises(ConflictError) as caught:
            backend.write_rows([RUNS.insert(run("r2"))], first.fence)
        assert caught.value.code is ErrorCode.LEASE_LOST
        assert rows_of(backend, RUNS) == [run("r1")]

    def test_a_session_that_is_erased_takes_its_rows_along(self, backend: Backend) -> None:
        backend.commit(
            save("a", session="s")._replace(rows=(RUNS.insert(run("r1")), STEPS.insert(step("r1", 1))))
        )
        backend.commit(
            save("b", session="t")._replace(rows=(RUNS.insert(run("r2", "t")), STEPS.insert(step("r2", 1))))
        )
        assert [row["run"] for row in rows_of(backend, STEPS, session="t")] == ["r2"]
        backend.erase_session("s")
        assert [row["run"] for row in rows_of(backend, RUNS)] == ["r2"]
        assert [row["run"] for row in rows_of(backend, STEPS)] == ["r2"]

    def test_a_table_grows_columns_and_keeps_its_types(self, backend: Backend) -> None:
        backend.write_rows([RUNS.insert(run("r1"))])
        columns = {"session": str, "run": str, "status": str, "note": str | None}
        grown = Table("kit_runs", columns=columns, key=("run",), indexes=[("note",)])
        assert rows_of(backend, grown, where=(("note", None),)) == [run("r1") | {"note": None}]
        backend.write_rows([grown.insert(run("r2") | {"note": "n"})])
        assert [row["note"] for row in rows_of(backend, grown)] == [None, "n"]
        backend.write_rows([RUNS.insert(run("r3"))])
        assert [row["run"] for row in rows_of(backend, RUNS)] == ["r1", "r2", "r3"]
        others = [
            Table("kit_runs", columns={"session": str, "run": str, "status": int}, key=("run",)),
            Table("kit_runs", columns={"session": str, "run": str, "status": str}, key=("run", "session")),
            Table("kit_runs", columns={"session": str, "run": str, "status": str, "must": str}, key=("run",)),
        ]
        for other in others:
            row = {name: 1 if column.type is int else "x" for name, column in other.columns.items()}
            with pytest.raises(UnsupportedError) as caught:
                backend.write_rows([other.insert(row)])
            assert caught.value.code is ErrorCode.TABLE_MISMATCH

    def test_a_reader_keeps_its_moment_of_rows(self, backend: Backend) -> None:
        backend.write_rows([RUNS.insert(run("r1"))])
        with backend.reader() as reader:
            before = list(reader.find_rows(RUNS, RowQuery()))
            elsewhere(lambda: backend.write_rows([RUNS.update(("r1",), {"status": "done"})]))
            assert list(reader.find_rows(RUNS, RowQuery())) == before

    def test_rows_outlive_the_process(self, backend: Backend) -> None:
        backend.write_rows([RUNS.insert(run("r1"))])
        again = self.reopen(backend)
        try:
            assert rows_of(again, RUNS) == [run("r1")]
        finally:
            again.close()
