"""What holds for every command that changes history: plans, dry runs, the way back, hints, hostile text."""

from __future__ import annotations

import json
import re

import pytest
from tests.surfaces.cli.places import content, here, place

import holdfast

EVIL = "\x1b[31mred\r\nid\t1\u202e"


@pytest.fixture
def store(home):
    """Three checkpoints on main, a branch `side` whose tip is in use nowhere else, and one operation to redo."""
    with holdfast.open(place(home)) as opened:
        session = opened.session()
        for n in (1, 2, 3):
            session.save({"n": n}, f"step {n}", tags=["verified"] if n == 1 else ())
        session.fork("#2", "side")
        session.fork("#3", "spare")
        session.tag("#3", "golden")
        session.undo()
    return home


CHANGES = [
    ["restore", "#1"],
    ["undo"],
    ["redo"],
    ["fork"],
    ["fork", "@-", "risky"],
    ["fork", "tag:verified", "--session-to", "other"],
    ["branch", "--rename", "side", "aside"],
    ["branch", "--delete", "spare", "--force", "--yes"],
    ["switch", "side"],
    ["tag", "@", "a", "b"],
    ["tag", "#1", "verified", "--remove"],
    ["pin", "@"],
    ["annotate", "@", "--message", "better", "--metadata", "a=b"],
    ["delete", "#2", "--force"],
    ["delete", "@", "--force"],
    ["clear", "--force", "--yes"],
]


def plan_of(result):
    return [line for line in result.stderr.splitlines() if line.startswith("plan: ")]


@pytest.mark.parametrize("args", CHANGES, ids=" ".join)
def test_a_dry_run_tells_the_same_plan_and_changes_nothing(run, store, args):
    before = content(store)
    dry, dry_json = run(*args, "--dry-run"), json.loads(run(*args, "-n", "--json").stdout)
    assert content(store) == before

    # The same operation twice, on two copies of the store.
    assert run("copy", here(), "copy.db").exit_code == 0
    real = run(*args)
    real_json = json.loads(run(*args, "--json", "--store", "copy.db").stdout)

    assert (dry.exit_code, real.exit_code) == (0, 0), (dry.stderr, real.stderr)
    assert content(store) != before
    assert dry.stdout == ""
    assert plan_of(dry) == plan_of(real) != []
    assert dry.stderr.splitlines()[-1] == "a dry run: nothing was changed"
    assert dry_json["plan"] == real_json["plan"]
    assert (dry_json["dry_run"], real_json["dry_run"]) == (True, False)
    assert dry_json["changed"] is real_json["changed"] is True


def seen(run):
    """What a person can see of history: checkpoints, branches and their heads, tags, pins, metadata."""
    branches = [line.split("\t")[:3] for line in run("branch").stdout.splitlines()]
    head = run("show", "--record", "#3").stdout
    return run("list").stdout, branches, run("tag").stdout, run("pin").stdout, head


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("args", CHANGES, ids=" ".join)
def test_the_last_line_takes_it_back(run, args):
    before = seen(run)

    real = run(*args)
    label, _, back = real.stderr.splitlines()[-1].partition(": ")
    undone = run(*back.split()[1:])

    assert label == ("Redo" if args == ["undo"] else "Undo")
    assert undone.exit_code == 0, undone.stderr
    assert seen(run) == before


@pytest.mark.parametrize(
    ("args", "exit_code", "code", "hint"),
    [
        (["restore", "#99"], 4, "checkpoint-missing", "holdfast list shows what there is"),
        (["restore", "tag:verifed"], 4, "checkpoint-missing", "did you mean 'verified'?"),
        (["restore", "sied"], 4, "checkpoint-missing", "did you mean 'side'?"),
        (["restore", "@{soon}"], 2, "bad-time", None),
        (
            ["fork", "@", "side"],
            5,
            "branch-exists",
            "choose another name; holdfast branch lists those that are taken",
        ),
        (["fork", "@", "../etc"], 2, "bad-name", None),
        (["fork", "@", EVIL], 2, "bad-name", None),
        (["fork", "fresh"], 4, "checkpoint-missing", "holdfast fork @ fresh"),
        (["switch", "sied"], 4, "branch-missing", "did you mean 'side'?"),
        (["switch", EVIL], 2, "bad-name", None),
        (["branch", "--rename", "sied", "x"], 4, "branch-missing", "did you mean 'side'?"),
        (["branch", "--rename", "side", "main"], 5, "branch-exists", "holdfast branch lists"),
        (
            ["branch", "--delete", "main"],
            2,
            "protected",
            "--force deletes it all the same; or holdfast switch",
        ),
        (["branch", "--delete", "side"], 2, "protected", "holdfast tag '#4' NAME helps"),
        (["tag", "#1", "verifed", "--remove"], 4, "checkpoint-missing", "did you mean verified?"),
        (["tag", "@", "bad\ttag"], 2, "bad-name", None),
        (["annotate", "@"], 2, "bad-argument", "give --message or --metadata"),
        (["annotate", "@", "--metadata", "{"], 2, "bad-argument", None),
        (["delete", "#2"], 2, "protected", "--force deletes it all the same"),
        (["delete", "#9"], 4, "checkpoint-missing", None),
        (["undo", "--session", "defalt"], 4, "session-missing", "did you mean default?"),
        (["restore", "@-", "--session", "nope"], 4, "session-missing", "--session chooses one of: default"),
        (["restore", "@", "--branch", "sied"], 4, "branch-missing", "did you mean 'side'?"),
    ],
    ids=lambda value: " ".join(value).replace("\x1b", "") if isinstance(value, list) else None,
)
@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_what_cannot_be_done_fails_the_same_in_a_dry_run(run, store, args, dry, exit_code, code, hint):
    before = content(store)

    result = run(*args, *dry)

    assert result.exit_code == exit_code, result.stderr
    assert f"code: {code}\n" in result.stderr
    assert hint is None or hint in result.stderr
    assert result.stdout == ""
    assert content(store) == before


@pytest.mark.parametrize(
    "args",
    [
        ["tag", "@", "--dry-run"],
        ["tag", "--remove"],
        ["tag", "golden"],
        ["pin", "--remove"],
        ["branch", "--force"],
        ["branch", "--dry-run"],
        ["branch", "--delete", "a", "--rename", "b", "c"],
        ["fork", "@", "a", "--name", "b"],
        ["switch", "main", "--branch", "side"],
        ["undo", "--list", "--dry-run"],
        ["undo", "--limit", "3"],
        ["at"],
        ["restore"],
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_a_usage_error(run, store, args):
    before = content(store)

    assert run(*args).exit_code == 2
    assert content(store) == before


def test_no_hint_of_the_command_line_is_written_in_python(run, store):
    python = re.compile(r"\bs\.\w+\(|=True|save\(\)|store\.session")
    cases = [
        ["undo"],
        ["undo"],
        ["undo"],
        ["redo"],
        ["delete", "#2"],
        ["branch", "--delete", "main"],
        ["branch", "--delete", "side"],
        ["fork", "@", "side"],
        ["switch", "nowhere-near"],
        ["annotate", "@"],
        ["show", "7"],
        ["show", "tag:nothing"],
        ["show", "#70"],
    ]
    hints = [line for args in cases for line in run(*args).stderr.splitlines() if line.startswith("hint: ")]
    run("restore", "#1")
    run("create", "more")
    blocked = run("undo")
    with holdfast.open(place(store)) as opened:
        opened.session("gone").save(1)
        opened.session("gone").clear()
    hints += [blocked.stderr, run("show", "--session", "gone").stderr]

    assert len(hints) >= 12
    assert blocked.exit_code == 5
    assert "holdfast restore '#" in blocked.stderr
    assert [hint for hint in hints if python.search(hint)] == []


def test_hostile_text_stays_text(terminal, run, home):
    with holdfast.open(place(home)) as opened:
        session = opened.session()
        session.save({"n": 1}, EVIL, tags=["x"])
        session.save({"n": 2}, EVIL)
        session.annotate("@", metadata={EVIL: EVIL})

    for args in (
        ["restore", "#1"],
        ["at", "now"],
        ["branch"],
        ["tag"],
        ["tag", "@", "y"],
        ["annotate", "@", "--message", EVIL, "--metadata", f"{EVIL}=1"],
        ["undo", "--list"],
        ["undo"],
        ["delete", "@"],
        ["restore", EVIL],
        ["fork", EVIL],
        ["switch", EVIL],
        ["at", EVIL],
    ):
        seen = terminal(*args, "--color", "never", both=True)
        assert {char for char in seen.screen if char != "\n" and not char.isprintable()} == set(), args
        piped = run(*args)
        lines = piped.stdout.splitlines()
        assert len({line.count("\t") for line in lines}) <= 1, args


@pytest.mark.parametrize("args", [args for args in CHANGES if args[0] != "fork"], ids=" ".join)
def test_the_way_back_names_the_store_and_session_that_were_named(run, store, args):
    with holdfast.open(store / "else where") as opened:
        session = opened.session("a b")
        for n in (1, 2, 3):
            session.save({"n": n}, tags=["verified"] if n == 1 else ())
        session.fork("#2", "side")
        session.fork("#3", "spare")
        session.pin("#1")
        session.tag("#3", "golden")
        session.undo()

    result = run(*args, "--store", "else where", "--session", "a b")

    assert result.exit_code == 0, result.stderr
    assert result.stderr.splitlines()[-1].endswith("do --store 'else where' --session 'a b'")


def test_refs_branches_and_tags_are_completed(process, store):
    def asked(line):
        done = process(
            _HOLDFAST_COMPLETE="bash_complete",
            COMP_LINE=line,
            COMP_POINT=str(len(line)),
            COMP_WORDBREAKS=" \t\n",
        )
        return [each.removeprefix("plain,") for each in done.stdout.splitlines() if each]

    for verb in ("restore", "fork", "tag", "pin", "annotate", "delete"):
        assert asked(f"holdfast {verb} si") == ["side"], verb
        assert asked(f"holdfast {verb} tag:v") == ["tag:verified"], verb
    for line in ("switch si", "branch --delete si", "branch --rename si"):
        assert asked(f"holdfast {line}") == ["side"], line
    assert asked("holdfast tag @ ver") == ["verified"]
    assert asked("holdfast at --tag ver") == ["verified"]
    assert asked("holdfast fork @ x --session-to de") == ["default"]
