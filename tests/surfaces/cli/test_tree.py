"""`holdfast tree`: the lineage of a session, on a terminal, in a pipe and as JSON."""

from __future__ import annotations

import json
import re
from textwrap import dedent

import pytest
from tests.surfaces.cli.places import place, zero_chunks

import holdfast


@pytest.fixture
def store(home):
    """A session with two branches, a pin, a tag, a removed checkpoint and a long stretch."""
    with holdfast.open(place(home), durability="process") as opened:
        session = opened.session()
        for n in range(1, 21):
            session.save(n, f"step {n}", tags=["good"] if n == 16 else [])
        beside = opened.session()
        beside.save("x", "beside", parent="#17")
        beside.save("y", "beside again")
        session.delete("#19")
        yield opened


def picture(screen: str) -> str:
    """What was drawn, with ids and ages blotted out."""
    screen = re.sub(r"\b[0-9a-f]{8}\b", "ID------", screen)
    # One blank less or more is the width of the ages.
    screen = re.sub(r" +(now|\d+s ago|in \d+s|AGE)  ", "  AGE  ", screen)
    return "\n".join(line.rstrip() for line in screen.splitlines())


SCREEN = """
     ID        SEQ  AGE  BRANCH  TAGS  MESSAGE
  ○  ID------  #22  AGE  main-1        beside again
  ○  ID------  #21  AGE                beside
@ │  ID------  #20  AGE  main          step 20 (1 removed below)
○ │  ID------  #18  AGE                step 18
├─╯
○    ID------  #17  AGE                step 17
○    ID------  #16  AGE          good  step 16
○    ID------  #15  AGE                step 15
○    ID------  #14  AGE                step 14
…    10 checkpoints
○    ID------   #3  AGE                step 3
○    ID------   #2  AGE                step 2
○    ID------   #1  AGE                step 1
"""


@pytest.mark.usefixtures("store")
def test_a_terminal_gets_a_drawing_beside_a_table(terminal):
    seen = terminal("tree", NO_COLOR="1")

    assert picture(seen.screen) == SCREEN.strip("\n")
    assert seen.stderr == ""


@pytest.mark.usefixtures("store")
def test_a_terminal_that_is_not_unicode_gets_the_same_drawing_in_ascii(terminal):
    seen = terminal("tree", PYTHONIOENCODING="ascii", NO_COLOR="1")

    strokes = str.maketrans("○│├─╯…", "o|+-':")
    assert seen.screen.isascii()
    assert picture(seen.screen) == SCREEN.strip("\n").translate(strokes)


def test_a_pin_is_a_diamond_and_a_line_without_a_branch_says_so(terminal, store):
    session = store.session()
    session.pin("#2")
    session.delete_branch("main-1", force=True)

    lines = picture(terminal("tree", NO_COLOR="1").screen).splitlines()

    assert [line for line in lines if "◆" in line] == ["◆    ID------   #2  AGE                     step 2"]
    assert lines[1] == "  ○  ID------  #22  AGE  (no branch)        beside again"
    assert lines[2] == "  ○  ID------  #21  AGE                     beside"
    nodes = json.loads(terminal("tree", "--json").screen)["nodes"]
    assert [node["on_branch"] for node in nodes][:3] == [False, False, True]


@pytest.mark.usefixtures("store")
def test_a_limit_says_that_there_are_more_and_where_lines_go_on(terminal, run):
    seen = terminal("tree", "--limit", "4", NO_COLOR="1")

    assert picture(seen.screen).endswith(
        dedent("""
        @ │  ID------  #20  AGE  main          step 20 (1 removed below)
        ○ │  ID------  #18  AGE                step 18
        ├─╯
        …    older ones""")
        .replace("main          ", "main    ")
        .replace("AGE                ", "AGE          ")
    )
    assert "--limit 0" in seen.stderr
    assert len(run("tree", "--limit", "4").stdout.splitlines()) == 4
    assert json.loads(run("tree", "--limit", "4", "--json").stdout)["more"] is True
    assert json.loads(run("tree", "--limit", "0", "--json").stdout)["more"] is False


def test_json_has_the_lineage_and_the_lanes(run, store):
    document = json.loads(run("tree", "--json").stdout)

    assert document["store"] == store.url
    assert {key: document[key] for key in document if key != "store"} == store.session().tree().to_dict()
    assert [node["lane"] for node in document["nodes"]][:4] == [1, 1, 0, 0]
    assert [node["checkpoint"]["seq"] for node in document["nodes"] if node["fork"]] == [17]


@pytest.mark.usefixtures("store")
def test_colour_decorates_the_columns_and_no_state_is_read(terminal, home):
    zero_chunks(home)

    seen = terminal("tree")

    assert "\x1b[33m" in seen.screen
    plain = re.sub(r"\x1b\[\d+m", "", seen.screen)
    assert picture(plain) == SCREEN.strip("\n")
