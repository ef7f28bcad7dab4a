"""bisect, blame, history and grep on the command line: what people see, what programs get, and how they end."""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path

import pytest
from tests.surfaces.cli.conftest import home, kept_in, process, run, terminal
from tests.surfaces.cli.json_schema import load, problems
from tests.surfaces.cli.places import KINDS, place, zero_chunks

import holdfast

__all__ = ["home", "kept_in", "process", "run", "terminal"]

PATIENCE = 60.0
on_each_store = pytest.mark.parametrize("kept_in", KINDS, indirect=True)


@pytest.fixture
def steps(home: Path):
    """Twelve steps: from #7 on the last message is a tool's, the score falls all along, the mode changes twice."""
    with holdfast.open(place(home)) as store:
        session = store.session()
        for n in range(12):
            messages = [
                {"role": "user", "content": f"question {n}"},
                {"role": "tool" if n >= 6 else "user", "content": f"step {n}: \x1b[31mrate limit\x1b[0m"},
            ]
            mode = ["calm", "busy", "lost"][n // 4]
            session.save({"messages": messages, "score": 1 - n / 12, "mode": mode}, f"saved {n}", step=n)
        yield session


@pytest.mark.usefixtures("steps")
def test_an_export_tells_of_an_empty_range_beside_other_refs(run):
    result = run("export", "#5..#2", "#1")

    assert (result.exit_code, json.loads(result.stdout)["message"]) == (0, "saved 0")
    assert result.stderr == "note: nothing is in #5..#2; did you mean #2..#5?\n"


def judge(home: Path, body: str) -> str:
    script = home / "judge.py"
    script.write_text(f"import json, os, sys, time\nstate = json.load(sys.stdin)\n{body}\n", encoding="utf-8")
    return f"{sys.executable} {script}"


@pytest.mark.usefixtures("steps")
def test_a_command_judges_the_state_on_its_stdin(process, home):
    command = judge(home, "print('looked at', state['mode'])\nsys.exit(0 if state['score'] < 0.5 else 1)")

    result = process("bisect", "--run", command)

    assert result.returncode == 0
    assert result.stdout.split("\t")[1] == "8"
    assert result.stdout.count("\n") == 1
    assert "looked at lost" in result.stderr


@pytest.mark.usefixtures("steps")
def test_a_command_that_is_not_there_ends_the_search_at_the_first_state(process, home):
    (home / "no-program").write_text("x", encoding="utf-8")

    for command, words in (
        ("no-such-command --at all", "it was not found"),
        ("./no-program", "it could not be run"),
        ("kill -9 $$", "it was ended by signal 9 (SIGKILL)"),
    ):
        result = process("bisect", "--run", command)
        assert result.returncode == 2
        assert f"for checkpoint #12: {words}" in result.stderr
        assert result.stdout == ""


@pytest.mark.usefixtures("steps")
def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(process, home):
    started = home / "child"
    started.touch()
    # It has no pipe of ours: were it left alone, we would wait for its end with the pipe's, and find it gone.
    script = f"sleep 601 > /dev/null 2>&1 & echo $! > {started}; wait"

    # On a busy machine it may take longer to start something.
    for seconds in ("0.5", "5", "50"):
        assert process("bisect", "--run", script, "--timeout", seconds).returncode == 2
        if child := started.read_text(encoding="utf-8").strip():
            break

    deadline = time.monotonic() + PATIENCE
    while is_running(int(child)):
        assert time.monotonic() < deadline, "what the command started goes on"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False


@on_each_store
def test_blame_says_who_when_to_what_and_what_was_before(run, steps):
    lines = dict(line.split("\t") for line in run("blame", "mode").stdout.splitlines())

    made = steps.checkpoint("#9")
    assert lines["id"] == made.id
    assert (lines["op"], lines["value"], lines["old"]) == ("replace", '"lost"', '"busy"')
    record = json.loads(run("blame", "mode", "#6", "--json").stdout)
    assert (record["checkpoint"]["seq"], record["before"]["seq"], record["value"], record["old"]) == (
        5,
        4,
        "busy",
        "calm",
    )


@on_each_store
@pytest.mark.usefixtures("steps")
def test_history_is_one_change_a_line_or_csv(run):
    lines = [line.split("\t") for line in run("history", "mode").stdout.splitlines()]

    assert [(seq, op, value, old) for _, seq, _, op, value, old in lines] == [
        ("9", "replace", '"lost"', '"busy"'),
        ("5", "replace", '"busy"', '"calm"'),
        ("1", "add", '"calm"', "-"),
    ]
    table = list(csv.DictReader(run("history", "mode", "--csv", "--oldest-first").stdout.splitlines()))
    assert [(row["seq"], row["op"], row["value"]) for row in table] == [
        ("1", "add", "calm"),
        ("5", "replace", "busy"),
        ("9", "replace", "lost"),
    ]
    assert len(run("history", "score", "#2..#5").stdout.splitlines()) == 3
    assert len(run("history", "score", "--limit", "2").stdout.splitlines()) == 2
    record = json.loads(run("history", "messages[-1]", "--json", "--limit", "1").stdout)
    assert record["changes"][0]["value"]["role"] == "tool"


@on_each_store
@pytest.mark.usefixtures("steps")
def test_grep_is_one_match_a_line_with_nothing_a_terminal_would_act_on(run):
    lines = [line.split("\t") for line in run("grep", "rate limit").stdout.splitlines()]

    assert [(line[1], line[3], line[5]) for line in lines] == [
        ("1", "messages[1].content", "13"),
    ]
    assert lines[0][4] == "step 0: \\x1b[31mrate limit\\x1b[0m"
    assert len(run("grep", "QUESTION 1", "-i", "--path", "messages[0]").stdout.splitlines()) == 2
    assert len(run("grep", "-E", r"question (3|4)$").stdout.splitlines()) == 2
    assert [line.split("\t")[1] for line in run("grep", "busy").stdout.splitlines()] == ["5"]
    record = json.loads(run("grep", "tool", "--limit", "1", "--json").stdout)
    assert (record["more"], [match["path"] for match in record["matches"]]) == (False, ["messages[1].role"])
    nothing = run("grep", "nowhere", "--json")
    assert nothing.exit_code == 1
    assert json.loads(nothing.stdout)["matches"] == []


def test_csv_comes_back_as_it_was_whatever_is_in_a_text(run, home):
    with holdfast.open(place(home)) as store:
        for note in ({"note": "a,b"}, {"note": '"q"\nnew line'}, {}, {"note": "=1+1"}, {"score": 0.2}):
            store.session().save(note)
    table = list(
        csv.DictReader(run("history", "note", "--csv", "--oldest-first").stdout.splitlines(keepends=True))
    )

    assert [(row["op"], row["value"]) for row in table] == [
        ("add", "a,b"),
        ("replace", '"q"\nnew line'),
        ("remove", ""),
        ("add", "=1+1"),
        ("remove", ""),
    ]


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["bisect", "n >= 2", "--check", "all"], "bisect"),
        (["blame", "n"], "blame"),
        (["history", "n"], "history"),
        (["history", "n", "--csv"], None),
        (["grep", "needle"], "grep"),
    ],
)
def test_a_damaged_state_is_named_in_every_form(process, home, args, name):
    with holdfast.open(place(home)) as store:
        made = [store.session().save({"n": n, "t": f"needle {n}"}) for n in range(4)]
    zero_chunks(home, bytes.fromhex(made[3].root))

    result = process(*args)

    assert "note: #4 (" in result.stderr
    assert "Warning" not in result.stderr
    if name is not None:
        record = json.loads(process(*args, "--json").stdout)
        assert problems(record, load(f"{name}.schema.json")) == []
        assert [each[:4] for each in record["notes"]] == ["#4 ("]
