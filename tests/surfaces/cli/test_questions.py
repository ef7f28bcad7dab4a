"""`holdfast ask`, `sql`, `reindex` and `why`."""

from __future__ import annotations

import csv
import io
import json

import pytest

import holdfast
from holdfast.agents import Run


@pytest.fixture
def runs(home, run):
    """Two executions, in the store that the commands find by themselves."""
    assert run("init").exit_code in (0, 7)
    with holdfast.open() as store:
        with Run(store.session("x"), task="first", sql=True) as one:
            one.think("look at the weather", tokens=100)
            for city in ("Oslo", "Rome"):
                with one.tool("weather", {"city": city}) as call:
                    call.result = "rain"
            one.context.variables["take"] = "umbrella"
            one.think("take an umbrella", tokens=50)
        with (
            pytest.raises(ValueError),
            Run(store.session("y"), task="second", sql=True) as two,
            two.tool("pay"),
        ):
            raise ValueError("no money")
    return one, two


def rows_of(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["rows"]


def test_ready_questions(run, runs):
    one, two = runs
    found = rows_of(run("ask", "tool-calls", "weather", "--json"))
    assert [json.loads(each["args"])["city"] for each in found] == ["Rome", "Oslo"]
    for each in found:
        assert run("show", f"key:{each['checkpoint_id']}", "--session", "x").exit_code == 0
    assert len(rows_of(run("ask", "tool-calls", "weather", "--limit", "1", "--json"))) == 1
    tokens = rows_of(run("ask", "tokens", "--json"))
    assert [(each["task"], each["tokens"]) for each in tokens] == [
        ("first", 150),
        ("second", 0),
        ("of 2", 75.0),
    ]
    errors = rows_of(run("ask", "errors", "--json"))
    assert [(each["tool_id"], each["calls"], each["failed"]) for each in errors] == [
        ("pay", 1, 1),
        ("weather", 2, 0),
    ]
    assert len(rows_of(run("ask", "slowest", "--limit", "2", "--json"))) == 2
    [failed] = rows_of(run("ask", "executions", "--status", "failed", "--json"))
    assert failed["execution_id"] == two.execution_id
    lines = run("ask", "executions").stdout.splitlines()
    assert sorted(line.split("\t")[0] for line in lines) == sorted([one.execution_id, two.execution_id])
    table = list(csv.DictReader(io.StringIO(run("ask", "errors", "--csv").stdout)))
    assert [each["tool_id"] for each in table] == ["pay", "weather"]


def test_an_empty_store_says_how_rows_are_made(run, home):
    assert run("create", "first").exit_code == 0
    answer = run("ask", "tokens")
    assert (answer.exit_code, answer.stdout) == (0, "")
    assert "reindex" in answer.stderr


@pytest.mark.parametrize("kept_in", ["sqlite"], indirect=True)
def test_sql(run, runs, kept_in):
    query = "select tool_id, count(*) as n from tool_calls where tool_id = ? group by 1"
    assert rows_of(run("sql", query, "weather", "--json")) == [{"tool_id": "weather", "n": 2}]
    assert run("sql", query, "weather").stdout == "weather\t2\n"
    assert run("sql", query, "weather", "--csv").stdout.splitlines() == ["tool_id,n", "weather,2"]
    assert json.loads(run("sql", "select id from checkpoints", "--limit", "2", "--json").stdout)["truncated"]
    refused = run("sql", "delete from thoughts", "--json")
    assert json.loads(refused.stderr or refused.stdout)["error"]["code"] == "sql-refused"
    assert refused.exit_code != 0


def test_reindex(run, runs):
    assert run("reindex", "--json").exit_code == 0
    assert json.loads(run("reindex", "--session", "x", "--json").stdout) == {"executions": 1}
    assert run("reindex", "--session", "nope").exit_code == 4


def test_why(run, runs):
    found = json.loads(run("why", "variables.take", "--session", "x", "--json").stdout)
    assert (found["value"], found["tool_call"]["tool_id"]) == ("umbrella", "weather")
    assert found["thought"]["content"] == "look at the weather"
    assert found["checkpoint"]["message"] == "take an umbrella"
    assert "umbrella" in run("why", "variables.take", "--session", "x").stdout
    assert run("why", "variables.nothing", "--session", "x").exit_code == 4
