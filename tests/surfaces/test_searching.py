"""bisect, blame, history and grep on the command line: what people see, what programs get, and how they end."""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path

import pytest
from tests.surfaces.cli.conftest import home, kept_in, process, run, terminal
from tests.surfaces.cli.places import KINDS, place

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


@on_each_store
@pytest.mark.usefixtures("steps")
def test_bisect_prints_the_checkpoint_where_an_expression_begins_to_hold(run):
    result = run("bisect", 'messages[-1].role == "tool" and score < 0.7')

    assert result.exit_code == 0
    assert result.stdout.split("\t")[1] == "7"
    assert "states of 12 checkpoints loaded" in result.stderr
    assert "holdfast diff" in result.stderr
    record = json.loads(run("bisect", "mode == 'lost'", "--check", "all", "--json").stdout)
    assert (record["found"]["seq"], record["before"]["seq"], record["monotonic"]) == (9, 8, "checked")
    assert record["loads"] == 12
    bounded = run("bisect", "score < 0.9", "--good", "#2", "--bad", "@~3", "--path", "")
    assert bounded.stdout.split("\t")[1] == "3"


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["bisect", "mode == 'none'"], 1, "code: never-holds"),
        (["bisect", "nowhere == 1"], 1, "there is no nowhere"),
        (["bisect", "score <"], 2, "  score <\n         ^\n"),
        (["bisect", "score ** 2"], 2, "  score ** 2\n        ^\n"),
        (["bisect", "a && b"], 2, "write and instead of &&"),
        (["bisect"], 2, "EXPRESSION, or --run CMD"),
        (["bisect", "x", "--run", "true"], 2, "EXPRESSION, or --run CMD, not both"),
        (["bisect", "--run", ""], 2, "--run needs a command"),
        (["bisect", "--run", " \t"], 2, "--run needs a command"),
        (["bisect", "--run", "true", "--timeout", "0"], 2, "--timeout takes a number above 0, not 0\n"),
        (
            ["bisect", "-n < -2"],
            2,
            "hint: a text that begins with - goes behind --: holdfast bisect -- EXPRESSION\n",
        ),
        (["grep", "-x"], 2, "hint: a text that begins with - goes behind --: holdfast grep -- PATTERN\n"),
        (
            ["grep", "--limt"],
            2,
            "hint: did you mean --limit?\n",
        ),
        (["bisect", "--", "-score > 0"], 1, "code: never-holds"),
        (
            ["grep", "--unlike-any"],
            2,
            "shows how it is called; a text that begins with - goes behind --: holdfast grep",
        ),
        (["grep", "--", "-x"], 1, "nothing matches '-x'"),
        (["blame", "-x"], 2, "goes behind --: holdfast blame -- PATH"),
        (["bisect", "x", "--timeout", "1"], 2, "--timeout is for --run"),
        (["bisect", "x", "--good", "nope"], 4, "nope"),
        (["bisect", "x", "--session", "other"], 4, "there is no session 'other'"),
        (["blame", "scoer"], 4, "did you mean score?"),
        (["blame", "]["], 2, "code: bad-path"),
        (["blame", "score", "nope"], 4, "nope"),
        (["history", "scoer"], 4, "did you mean score?"),
        (["history", "scoer", "--csv"], 4, "did you mean score?"),
        (["history", "score", "--csv", "--json"], 2, "--csv excludes --json"),
        (["grep", "nowhere"], 1, "nothing matches 'nowhere'"),
        (["grep", "(a", "--regex"], 2, "code: bad-pattern"),
        (["grep", ""], 2, "with --regex"),
        (["grep", "x", "nope"], 4, "nope"),
    ],
)
def test_what_goes_wrong_ends_with_its_code_and_says_what_to_do(run, args, code, words):
    result = run(*args)

    assert result.exit_code == code
    assert result.stdout == ""
    assert words in result.stderr


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize(
    ("args", "code", "label"),
    [
        (["list"], 0, ""),
        (["history", "score"], 0, "note: "),
        (["history", "score", "--oldest-first"], 0, "note: "),
        (["grep", "rate limit"], 1, "note: "),
        (["export"], 2, "error: there is nothing to export: "),
    ],
)
def test_a_range_the_wrong_way_round_is_empty_to_every_command_which_says_what_was_meant(
    run, args, code, label
):
    result = run(*args, "#5..#2")

    assert (result.exit_code, result.stdout) == (code, "")
    assert f"{label}nothing is in #5..#2; did you mean #2..#5?\n" in result.stderr


@pytest.mark.usefixtures("steps")
def test_an_export_tells_of_an_empty_range_beside_other_refs(run):
    result = run("export", "#5..#2", "#1")

    assert (result.exit_code, json.loads(result.stdout)["message"]) == (0, "saved 0")
    assert result.stderr == "note: nothing is in #5..#2; did you mean #2..#5?\n"


def test_in_a_pipe_a_value_that_is_not_there_is_a_dash_to_every_command(run, home):
    with holdfast.open(place(home)) as store:
        session = store.session()
        session.save({"n": 1})
        session.save({"n": 1, "late": 2})
        session.save({"n": 1})

    changes = [line.split("\t")[3:] for line in run("history", "late").stdout.splitlines()]
    assert changes == [["remove", "-", "2"], ["add", "2", "-"]]
    for ref, values in (("@", ("-", "2")), ("#2", ("2", "-"))):
        lines = dict(line.split("\t") for line in run("blame", "late", ref).stdout.splitlines())
        assert (lines["value"], lines["old"]) == values
    assert run("diff").stdout.split() == ["remove", "late", "late", "2", "-"]


@pytest.mark.usefixtures("steps")
def test_a_history_of_nothing_is_no_table(terminal, run):
    assert "ID" not in terminal("history", "score", "#5..#2", TERM="dumb").screen
    record = json.loads(run("history", "score", "#5..#2", "--json").stdout)
    assert (record["changes"], record["notes"]) == ([], ["nothing is in #5..#2; did you mean #2..#5?"])
    assert run("history", "score", "#5..#2", "--csv").stdout.splitlines() == [
        "id,seq,created_at,op,value,step"
    ]


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
@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (
            "sys.exit(125 if state['mode'] == 'busy' else state['mode'] != 'lost')",
            0,
            "skipped: #5 to #8",
        ),
        ("sys.exit(124)", 1, "code: never-holds"),
        ("sys.exit(126)", 2, "#12: it could not be run (exit code 126)\nhint: make it executable"),
        ("sys.exit(127)", 2, "#12: it was not found (exit code 127)\nhint: check the name"),
        ("sys.exit(130)", 2, "it ended with 130 (SIGINT)"),
        ("sys.exit(255)", 2, "it ended with 255\nhint: let it end with 125"),
        ("sys.stdout.flush(); os.kill(os.getpid(), 9)", 2, "it ended with 137 (SIGKILL)"),
        ("time.sleep(60)", 2, "it took more than 0.5 s\nhint: give it more time with a longer --timeout"),
        ("sys.exit(3)", 1, "code: never-holds"),
        ("sys.exit(125)", 1, "was skipped\nhint: let the command end with 0, or with 1 to 124"),
    ],
)
def test_the_exit_code_of_the_command_is_its_answer(process, home, body, code, words):
    limit = ["--timeout", "0.5"] if "sleep" in body else []

    result = process("bisect", "--run", judge(home, body) + "; exit $?", *limit)

    assert result.returncode == code
    assert words in result.stderr


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
    record = json.loads(run("blame", "mode", "#6", "--exact", "--json").stdout)
    assert (record["checkpoint"]["seq"], record["before"]["seq"], record["value"], record["old"]) == (
        5,
        4,
        "busy",
        "calm",
    )
    assert record["certain"] is True


@on_each_store
@pytest.mark.usefixtures("steps")
def test_history_is_one_change_a_line_or_csv(run):
    lines = [line.split("\t") for line in run("history", "mode").stdout.splitlines()]

    assert [(seq, op, value, old) for _, seq, _, op, value, old in lines] == [
        ("9", "replace", '"lost"', '"busy"'),
        ("5", "replace", '"busy"', '"calm"'),
        ("1", "add", '"calm"', "-"),
    ]
    assert run("history", "mode", "--leap").stdout == run("history", "mode").stdout
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
    lines = [line.split("\t") for line in run("grep", "rate limit", "--limit", "2").stdout.splitlines()]

    assert [(line[1], line[3], line[5]) for line in lines] == [
        ("12", "messages[1].content", "14"),
        ("11", "messages[1].content", "14"),
    ]
    assert lines[0][4] == "step 11: \\x1b[31mrate limit\\x1b[0m"
    assert len(run("grep", "QUESTION 1", "-i", "--path", "messages[0]").stdout.splitlines()) == 3
    assert len(run("grep", "-E", r"question (3|4)$").stdout.splitlines()) == 2
    assert len(run("grep", "busy").stdout.splitlines()) == 4
    assert [line.split("\t")[1] for line in run("grep", "busy", "--new").stdout.splitlines()] == ["5"]
    record = json.loads(run("grep", "lost", "--limit", "1", "--json").stdout)
    assert (record["more"], [match["path"] for match in record["matches"]]) == (True, ["mode"])
    nothing = run("grep", "nowhere", "--json")
    assert nothing.exit_code == 1
    assert json.loads(nothing.stdout)["matches"] == []


@pytest.mark.usefixtures("steps")
def test_on_a_terminal_numbers_are_a_curve_and_matches_are_marked(terminal):
    curve = terminal("history", "score", TERM="dumb")
    assert "██▇▆▆▅▄▃▃▂▁▁" in curve.screen.splitlines()[0]
    assert "0.0833333 to 1, now 0.0833333" in curve.screen
    assert "VALUE" in curve.screen.splitlines()[1]
    plain = terminal("history", "mode", TERM="dumb")
    assert "▁" not in plain.screen
    marked = terminal("grep", "rate limit", "--limit", "1", "--color", "always")
    assert "\x1b[31mrate limit\x1b[0m" in marked.screen
    assert "\\x1b[31m" in marked.screen
    assert "only the first is shown" in marked.stderr
    blamed = terminal("blame", "mode", TERM="dumb")
    assert "changed by" in blamed.screen
    assert '"busy"  (#8)' in blamed.screen
    found = terminal("bisect", "score < 0.5", both=True, TERM="dumb")
    assert "does not hold" in found.screen
    assert "saved 7" in found.screen


@pytest.mark.usefixtures("steps")
def test_an_old_locale_gets_no_bars_and_no_error(terminal):
    seen = terminal("history", "score", TERM="dumb", PYTHONIOENCODING="ascii")

    assert seen.exit_code == 0
    assert "VALUE" in seen.screen


@pytest.mark.usefixtures("steps")
def test_refs_are_completed(process):
    words = {
        "COMP_WORDS": "holdfast blame score ma",
        "COMP_CWORD": "3",
        "_HOLDFAST_COMPLETE": "bash_complete",
    }

    assert "main" in process(**words).stdout


def test_a_store_is_not_made_by_looking(run, home):
    for args in (["bisect", "x"], ["blame", "x"], ["history", "x"], ["grep", "x"]):
        assert run(*args).exit_code == 10
    assert not (home / ".holdfast").exists()
