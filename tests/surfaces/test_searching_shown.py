"""A session of an agent, searched by a person: what fits on 80 columns, what a curve says, what hints lead to."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import apsw
import pytest
from tests.surfaces.cli import json_schema
from tests.surfaces.cli.conftest import home, kept_in, process, run, terminal
from tests.surfaces.cli.places import place

import holdfast
from holdfast.cli.terminal import text_width

__all__ = ["home", "kept_in", "process", "run", "terminal"]

KEPT_IN = ["sqlite"]

LONG = "ステップ " + "とても長い説明 " * 20


@pytest.fixture
def agent(home: Path):
    """Thirty steps with messages, a plan, a score that comes late and falls, and an opinion from another branch."""
    with holdfast.open(place(home)) as store:
        session = store.session()
        state: dict[str, object] = {"messages": [], "plan": ["search"], "beliefs": {"b1": 0.4}}
        for n in range(1, 31):
            message = {
                "role": "tool" if n % 3 == 0 else "assistant",
                "content": f"東京 step {n} " + "文字列" * 30,
            }
            if n % 3 == 0:
                message["ok"] = str(n < 20)
            state = state | {"messages": [*state["messages"], message]}  # type: ignore[misc]
            if n == 12:
                state = state | {"plan": ["search", "write"]}
            if n >= 10:
                state = state | {"score": 0.9 if n < 22 else 0.2}
            session.save(state, LONG if n == 12 else f"step {n}", step=n)
            if n == 15:
                aside = session.fork("@", "opinion")
                aside.save(state | {"beliefs": {"b1": 0.9}}, "asked another model")
            if n == 18:
                session.merge("opinion")
                state = state | {"beliefs": {"b1": 0.9}}
        session.save(state | {"note": "a,b", "flag": 1}, "note")
        session.save(state | {"note": '"q"\nnew line', "flag": 1.5}, "quoted")
        session.save(state | {"flag": None}, "no note")
        session.save(state | {"note": "=1+1", "flag": 3}, "formula")
        session.save(state, "gone")
        yield session


def fits(screen: str) -> bool:
    return all(text_width(line) <= 80 for line in screen.splitlines())


@pytest.mark.usefixtures("agent")
def test_a_merged_value_is_blamed_on_its_branch_with_the_merge(terminal, run):
    seen = terminal("blame", "beliefs.b1", TERM="dumb")

    lines = {line[:13].strip(): line[13:] for line in seen.screen.splitlines()}
    assert lines["changed by"].endswith("#17  asked another model")
    assert lines["on branch"] == "opinion"
    assert "merge of branch 'opinion'" in lines["came in by"]
    assert (lines["value"], lines["before"][:3]) == ("0.9", "0.4")
    record = json.loads(run("blame", "beliefs.b1", "--json").stdout)
    assert json_schema.problems(record, json_schema.load("blame.schema.json")) == []
    assert (record["checkpoint"]["branch"], [each["trigger"] for each in record["merges"]]) == (
        "opinion",
        ["merge"],
    )
    fields = dict(line.split("\t") for line in run("blame", "beliefs.b1").stdout.splitlines())
    assert fields["merges"] == record["merges"][0]["id"]


@pytest.mark.usefixtures("agent")
def test_csv_comes_back_as_it_was_whatever_is_in_a_text(run):
    table = list(csv.DictReader(io.StringIO(run("history", "note", "--csv", "--oldest-first").stdout)))

    assert [(row["op"], row["value"]) for row in table] == [
        ("add", "a,b"),
        ("replace", '"q"\nnew line'),
        ("remove", ""),
        ("add", "=1+1"),
        ("remove", ""),
    ]
    numbers = list(csv.DictReader(io.StringIO(run("history", "score", "--csv").stdout)))
    assert [(row["value"], row["step"]) for row in numbers] == [("0.2", "22"), ("0.9", "10")]


def spoil(home: Path, root: str) -> None:
    """Other bytes for a chunk, written behind the back of the store."""
    damage = apsw.Connection(str(home / ".holdfast" / "store.db"), vfs="cksmvfs")
    damage.execute("UPDATE chunks SET data = x'00' WHERE hash = ?", (bytes.fromhex(root),)).fetchall()
    damage.close()


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["bisect", "n >= 2", "--check", "all"], "bisect"),
        (["blame", "n"], "blame"),
        (["history", "n"], "history"),
        (["history", "n", "--csv"], None),
        (["grep", "needle"], "grep"),
        (["grep", "nowhere"], "grep"),
    ],
)
def test_a_damaged_state_is_named_in_every_form(process, home, args, name):
    with holdfast.open(place(home)) as store:
        made = [store.session().save({"n": n, "t": f"needle {n}"}) for n in range(4)]
    spoil(home, made[3].root)

    result = process(*args)

    assert "note: #4 (" in result.stderr
    assert "the state cannot be read" in result.stderr
    assert "holdfast verify says what is damaged" in result.stderr
    assert "Warning" not in result.stderr
    if name is not None:
        record = json.loads(process(*args, "--json").stdout)
        assert json_schema.problems(record, json_schema.load(f"{name}.schema.json")) == []
        assert len(record["notes"]) == 1
        assert record["notes"][0].startswith("#4 (")
