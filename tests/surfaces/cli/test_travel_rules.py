"""What holds for every command that changes history: plans, dry runs, the way back, hints, hostile text."""

from __future__ import annotations

import pytest
from tests.surfaces.cli.places import content, place

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


def test_refs_branches_and_tags_are_completed(process, store):
    def asked(line):
        done = process(
            _HOLDFAST_COMPLETE="bash_complete",
            COMP_LINE=line,
            COMP_POINT=str(len(line)),
            COMP_WORDBREAKS=" \t\n",
        )
        return [each.removeprefix("plain,") for each in done.stdout.splitlines() if each]

    assert asked("holdfast restore si") == ["side"]
    assert asked("holdfast tag tag:v") == ["tag:verified"]
    assert asked("holdfast branch --delete si") == ["side"]
    assert asked("holdfast tag @ ver") == ["verified"]
    assert asked("holdfast at --tag ver") == ["verified"]
    assert asked("holdfast fork @ x --session-to de") == ["default"]
