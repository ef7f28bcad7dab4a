"""`holdfast diff`: for people drawn and coloured, for programs a change a line, and patches that apply."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonpatch
import pytest
from tests.surfaces.cli.places import place

import holdfast
from holdfast.cli import cli

NOTES = "\n".join(f"line {number}, as it was" for number in range(20))
OLD: dict[str, Any] = {
    "score": 0.41,
    "status": "running",
    "messages": [{"id": number, "text": f"hello {number}"} for number in range(12)],
    "notes": NOTES,
    "tags": {"a"},
}
NEW = {
    "score": 0.63,
    "status": "done",
    "messages": [*OLD["messages"][1:], {"id": 12, "text": "good bye"}],
    "notes": NOTES.replace("line 9, as it was", "line 9, as it is now"),
    "tags": {"a"},
    "evil \x1b[2J": "\x1b]0;title\x07\u202e",
}
SUMMARY = "+1 -1 messages, score 0.41 to 0.63, status running to done"


@pytest.fixture
def store(home):
    with holdfast.open(place(home)) as opened:
        opened.session().save(OLD, "before")
        opened.session().save(NEW, "after")
        opened.session("other").save({"score": 0.5}, "elsewhere")
        yield opened


def test_json_has_all_of_it(run, store):
    found = json.loads(run("diff", "--json").stdout)
    assert (found["a"]["seq"], found["b"]["seq"]) == (1, 2)
    assert found["summary"].startswith(SUMMARY)
    assert found["stat"]["parts"][2] == {
        "path": "messages",
        "added": 1,
        "removed": 1,
        "replaced": 0,
        "moved": 0,
    }
    assert found["changes"][1] == {
        "op": "replace",
        "path": "status",
        "old_path": "status",
        "steps": [["key", "status"]],
        "old_steps": [["key", "status"]],
        "old": "running",
        "new": "done",
    }
    assert "changes" not in json.loads(run("diff", "--json", "--stat").stdout)


def test_a_patch_applies_to_what_show_writes(run, store):
    old, new = (json.loads(run("show", ref, "--state", "--json").stdout) for ref in ("#1", "#2"))
    patch = json.loads(run("diff", "--patch").stdout)
    assert jsonpatch.apply_patch(old, patch) == new
    assert json.loads(run("diff", "--patch", "--json").stdout) == patch
    assert json.loads(run("diff", "@", "@", "--patch").stdout) == []


def test_of_two_states_that_are_equal_there_is_nothing_to_say(run, terminal, store):
    assert run("diff", "@", "@").stdout == ""
    assert run("diff", "@", "@", "--exit-code").exit_code == 0
    assert run("diff", "--exit-code").exit_code == 1
    assert run("diff").exit_code == 0


@pytest.mark.parametrize(
    ("args", "seqs"),
    [
        (["#1", "#2"], (1, 2)),
        (["#1"], (1, 2)),
        (["#1..#2"], (1, 2)),
        (["#2", "#1"], (2, 1)),
        ([], (1, 2)),
    ],
)
def test_refs_are_taken_as_they_are_meant(run, store, args, seqs):
    found = json.loads(run("diff", *args, "--json", "--stat").stdout)
    assert (found["a"]["seq"], found["b"]["seq"]) == seqs


def test_a_part_alone(run, store):
    assert run("diff", "--path", "messages").stdout.count("\n") == 2
    assert run("diff", "--path", "nowhere").exit_code == 4
    assert run("diff", "--path", "a[").exit_code == 2


@pytest.mark.parametrize(
    "args",
    [
        ["--patch", "--stat"],
        ["--patch", "--unified"],
        ["--unified", "--side-by-side"],
        ["--side-by-side", "--unified"],
        ["--side-by-side", "--stat"],
        ["--fold", "-1"],
    ],
)
def test_what_excludes_each_other_is_refused(run, store, args):
    assert run("diff", *args).exit_code == 2


def test_a_range_may_have_an_open_end_and_needs_a_beginning(run, store):
    assert run("diff", "#1..").stdout == run("diff", "#1", "@").stdout != ""
    result = run("diff", "..@")
    assert result.exit_code == 2
    assert "'..@' does not say what to compare with\nhint: name both ends, A..B" in result.stderr


def test_a_terminal_gets_a_drawing(terminal, store):
    lines = terminal("diff", width=80, NO_COLOR="1").screen.splitlines()
    assert re.fullmatch(r"--- [0-9a-f]{8} #1  (now|\d+s ago)  before", lines[0])
    assert re.fullmatch(r"\+\+\+ [0-9a-f]{8} #2  (now|\d+s ago)  after", lines[1])
    assert lines[2].startswith(SUMMARY)
    assert lines[3:] == [
        "- score: 0.41",
        "+ score: 0.63",
        '- status: "running"',
        '+ status: "done"',
        '- messages[0]: {"id": 0, "text": "hello 0"}',
        '+ messages[11]: {"id": 12, "text": "good bye"}',
        "  notes:",
        "    … 6 lines unchanged",
        "    line 6, as it was",
        "    line 7, as it was",
        "    line 8, as it was",
        "-   line 9, as it was",
        "+   line 9, as it is now",
        "    line 10, as it was",
        "    line 11, as it was",
        "    line 12, as it was",
        "    … 7 lines unchanged",
        "+ ['evil \\x1b[2J']: \"\\u001b]0;title\\u0007\\u202e\"",
    ]


def test_words_are_marked_in_one_line(process, terminal, store):
    piped = process("diff", "--unified", "--words").stdout.splitlines()
    assert '~ status: "[-running-]{+done+}"' in piped
    assert "~   line 9, as it [-was-]{+is now+}" in piped
    seen = terminal("diff", "--words", width=80).screen
    assert "\x1b[31mrunning" in seen
    assert "\x1b[32mdone" in seen


EVIL = "\x1b[2J\u202e"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"x": f"{EVIL} one"}, {"x": f"{EVIL} two"}),
        ({"x": f"{EVIL}\none\n{EVIL}"}, {"x": f"{EVIL}\ntwo\n{EVIL}"}),
        ({"x": "one\n"}, {"x": f"one\n{EVIL}\n"}),
        ({EVIL: "one\n"}, {EVIL: "two\n"}),
        ({EVIL: 1, "b": 2}, {"b": 2, EVIL: 1}),
        ({EVIL: 1}, {EVIL: 2}),
        ({"x": [1]}, {"x": {EVIL: EVIL}}),
        ({"x": {EVIL}}, {"x": {EVIL * 2}}),
        ({EVIL: "a" * 20_000 + EVIL}, {EVIL: "a" * 20_000 + EVIL * 2}),
    ],
)
@pytest.mark.parametrize("form", [[], ["--side-by-side"], ["--words"], ["--stat"]])
def test_no_kind_of_line_lets_what_is_stored_reach_the_terminal(store, old, new, form, monkeypatch, capsys):
    session = store.session("evil")
    session.save(old, EVIL)
    session.save(new, EVIL)
    monkeypatch.setattr("holdfast.cli.invocation.is_terminal", lambda _: True)
    with pytest.raises(SystemExit):
        cli.main(["diff", "--session", "evil", "--no-pager", "--store", store.url, *form])
    said = capsys.readouterr()
    plain = re.sub(r"\x1b\[[0-9]+m", "", said.out + said.err)
    assert plain
    assert "\x1b" not in plain
    assert "\u202e" not in plain


def test_a_timeline_calls_checkpoints_by_what_they_changed_if_asked(run, terminal, store):
    store.session().save(NEW | {"score": 0.7})
    rows = [line.split("\t")[8] for line in run("timeline", "--labels").stdout.splitlines()]
    assert rows == ["score 0.63 to 0.7", "after", "before"]
    assert run("timeline").stdout.splitlines()[0].split("\t")[8] == ""
    assert "score 0.63 to 0.7" in terminal("timeline", "--labels", width=100, NO_COLOR="1").screen
