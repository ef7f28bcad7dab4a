"""Rows of runs: they equal what the states say, and each ready question equals a brute-force answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.agents import Questions, Run, reindex
from holdfast.agents.run.tables import EXECUTIONS, THOUGHTS, TOOL_CALLS, rows_of

ACTIONS = st.lists(
    st.sampled_from(
        ["think", "call", "fail", "variable", "pause", "complete", "back", "fork", "prune", "reopen"]
    ),
    max_size=25,
)


def stored(store):
    tables = {"executions": EXECUTIONS, "thoughts": THOUGHTS, "tool_calls": TOOL_CALLS}
    return {
        name: {tuple(row[key] for key in table.key): row for row in store.rows(table).find()}
        for name, table in tables.items()
    }


def comparable(rows, *, without=()):
    return {
        name: {key: {k: v for k, v in row.items() if k not in without} for key, row in found.items()}
        for name, found in rows.items()
    }


def live(store, actions):
    """Do these things with runs of one session."""
    run = Run(store.session("x"), task="t", sql=True)
    for number, action in enumerate(actions):
        if action == "think":
            run.think(f"thought {number}", confidence=number / 100, tokens=number)
        elif action == "call":
            with run.tool(f"tool-{number % 3}", {"n": number}) as call:
                call.result = {"of": number}
        elif action == "fail":
            with pytest.raises(ValueError), run.tool(f"tool-{number % 3}", {"n": number}):
                raise ValueError(number)
        elif action == "variable":
            run.context.variables[f"v{number % 2}"] = number
        elif action == "prune":
            run.prune(last=3)
        elif action == "pause":
            run.pause("wait")
            run = Run(store.session("x"), sql=True)
        elif action == "complete":
            run.complete()
            run = Run(store.session("x"), task="t", sql=True)
        elif action == "reopen":
            run = Run(store.session("x"), sql=True)
        else:
            found = store.session("x").log()
            if not found:
                continue
            at = found[number % len(found)]
            if action == "back":
                run = Run(store.session("x"), resume_from=at.key or at.id, sql=True)
            else:
                line = store.session("x").fork(at, f"line-{number}")
                Run(line, sql=True).think(f"on a fork {number}")


@settings(max_examples=40, deadline=None)
@given(ACTIONS)
def test_rows_equal_what_the_states_say(actions):
    with holdfast.open("memory:") as store:
        live(store, actions)
        # Which checkpoint added something may be pruned; what was added may not. And an execution's own numbers are
        # those of whoever wrote last.
        told = comparable(stored(store), without=["checkpoint_id"])
        expected = comparable(rows_of(store, "x"), without=["checkpoint_id"])
        assert {key: told["thoughts"].get(key) for key in expected["thoughts"]} == expected["thoughts"]
        for key, row in expected["tool_calls"].items():
            # A call that was cut off on this line ended on another, whose checkpoints were pruned since.
            ended = row["status"] == "interrupted" and told["tool_calls"][key]["status"] != "running"
            assert ended or told["tool_calls"][key] == row
        reindex(store)
        assert stored(store) == rows_of(store, "x")
        reindex(store, "x")
        assert stored(store) == rows_of(store, "x")


@settings(max_examples=25, deadline=None)
@given(ACTIONS)
def test_each_question_has_the_answer_of_brute_force(actions):
    with holdfast.open("memory:") as store:
        live(store, actions)
        reindex(store)
        ask = Questions(store)
        rows = rows_of(store, "x")
        calls, executions = list(rows["tool_calls"].values()), list(rows["executions"].values())
        for name in ("tool-0", "tool-1", "tool-2"):
            expected = sorted((row["checkpoint_id"], row["id"]) for row in calls if row["tool_id"] == name)
            assert sorted((each["checkpoint_id"], each["id"]) for each in ask.tool_calls(name)) == expected
        tokens = ask.tokens()
        assert sum(each["tokens"] for each in tokens[:-1]) == sum(row["tokens_used"] for row in executions)
        if executions:
            assert tokens[-1]["tokens"] == sum(row["tokens_used"] for row in executions) / len(executions)
        for each in ask.errors():
            of_tool = [row for row in calls if row["tool_id"] == each["tool_id"]]
            assert each["calls"] == len(of_tool)
            assert each["failed"] == sum(row["status"] in ("failed", "interrupted") for row in of_tool)
        counted = {each["status"]: each["executions"] for each in ask.by_status()}
        assert sum(counted.values()) == len(ask.executions()) == len(executions)
        for status, count in counted.items():
            assert len(ask.executions(status)) == count
        times = [row["completed_at"] - row["started_at"] for row in calls if row["completed_at"] is not None]
        assert [each["duration_ms"] for each in ask.slowest(limit=5)] == sorted(times, reverse=True)[:5]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_rows_go_with_the_checkpoint_and_with_the_session(kind, tmp_path, request):
    place = request.getfixturevalue("postgres_place") if kind == "postgres" else tmp_path / "store"
    with holdfast.open(place, durability="process") as store:
        run = Run(store.session("x"), task="t", sql=True)
        run.think("one", parent_id=None)
        with run.tool("ls", {"path": "."}) as call:
            call.result = {1, 2}
        [row] = store.rows(TOOL_CALLS).find(tool_id="ls")
        assert (
            store.session("x").checkpoint(f"key:{row['checkpoint_id']}").metadata["checkpoint_reason"]
            == "tool_completed"
        )
        assert (row["args_json"], row["success"]) == ('{"path": "."}', 1)
        with pytest.raises(holdfast.ConflictError):
            store.write([THOUGHTS.upsert(store.rows(THOUGHTS).find()[0] | {"execution_id": "exec_none"})])
        # A save that fails leaves no row behind.
        run.context.variables["bad"] = object()
        with pytest.raises(holdfast.InvalidInputError):
            run.think("never")
        assert store.rows(THOUGHTS).count() == 1
        store.forget(session="x")
        assert [store.rows(table).count() for table in (EXECUTIONS, THOUGHTS, TOOL_CALLS)] == [0, 0, 0]


def test_the_sql_layer_is_optional():
    with holdfast.open("memory:") as store:
        with Run(store.session("x")) as run:
            run.think("one")
        assert store.rows(EXECUTIONS).count() == 0
        assert reindex(store) == 1
        assert [each["content"] for each in Questions(store).thoughts(run.execution_id)] == ["one"]
