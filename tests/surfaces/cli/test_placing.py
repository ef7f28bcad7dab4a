"""People are told which branch a checkpoint is on, as `branch` and `tree` say; programs, which one it was saved on."""

from __future__ import annotations

import json
import re

import pytest
from tests.surfaces.cli.places import place

import holdfast
from holdfast.cli._placing import branches_here


@pytest.fixture
def store(home):
    """After an import, what was saved on main elsewhere is on main-1; a branch was renamed, and one was deleted."""
    with holdfast.open("memory:") as source:
        for n in range(1, 4):
            source.session().save(n, f"theirs {n}")
        source.session().export(path=home / "all.jsonl", session=True)
    with holdfast.open(place(home), durability="process") as opened:
        session = opened.session()
        session.save(0, "mine")
        opened.import_(home / "all.jsonl")
        session.fork("@", "idea")
        session.rename_branch("idea", "better")
        session.fork("@", "bad")
        session.delete_branch("bad", force=True)
        yield opened


def branches(screen: str) -> dict[str, str]:
    """The column BRANCH, by number."""
    lines = screen.splitlines()
    title = next(line for line in lines if "BRANCH" in line)
    at = title.index("BRANCH")
    return {found[1]: line[at:].split()[0] for line in lines if (found := re.search(r" (#\d+) ", line))}


HERE = {"#1": "main", "#2": "main-1", "#3": "main-1", "#4": "main-1", "#5": "better", "#6": "(bad)"}


@pytest.mark.usefixtures("store")
def test_a_list_says_which_branch_leads_to_each(terminal):
    assert branches(terminal("list", NO_COLOR="1").screen) == HERE


@pytest.mark.usefixtures("store")
def test_a_timeline_has_a_lane_for_each_of_them(terminal, run):
    assert branches(terminal("timeline", NO_COLOR="1", TZ="UTC").screen) == HERE
    moments = json.loads(run("timeline", "--json").stdout)["moments"]
    lanes = {each["checkpoint"]["seq"]: each["lane"] for each in moments}
    assert lanes[2] == lanes[4] != lanes[1]
    # What a checkpoint says of itself is part of its id.
    assert {each["checkpoint"]["branch"] for each in moments} == {"main", "idea", "bad"}


@pytest.mark.usefixtures("store")
def test_show_says_where_it_is_and_where_it_was_saved(terminal, run):
    def told(ref):
        screen = terminal("show", ref, "--record", NO_COLOR="1").screen
        return next(line for line in screen.splitlines() if line.startswith("place"))

    assert told("main-1").endswith("branch main-1 (saved on main)")
    assert told("#1").endswith("branch main")
    assert told("better").endswith("branch better (saved on idea)")
    assert told("#6").endswith("on no branch (saved on bad)")
    assert json.loads(run("show", "main-1", "--json").stdout)["checkpoint"]["branch"] == "main"


def test_no_more_is_read_than_is_as_new_as_what_is_shown(store, monkeypatch):
    session = store.session("long")
    for n in range(300):
        session.save(n)
    asked = []
    find = store.find

    def counted(**how):
        asked.append(how["limit"])
        return find(**how)

    monkeypatch.setattr(store, "find", counted)
    newest = session.log(limit=3)
    assert set(branches_here(store, newest).values()) == {"main"}
    assert asked == [64]
    assert branches_here(store, [session.checkpoint("#2")]).popitem()[1] == "main"
    assert asked == [64, 64, 1000]
