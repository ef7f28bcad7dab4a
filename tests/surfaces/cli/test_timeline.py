"""`holdfast timeline`: what was saved when."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from tests.surfaces.cli.places import place

import holdfast
from holdfast.backends.registry import connect
from holdfast.cli import timeline
from holdfast.cli._terminal import lasted

NOON = datetime(2026, 11, 14, 12, 0, tzinfo=UTC)


@pytest.fixture
def clock():
    """A clock that stands still until a test moves it."""

    class Clock:
        now = NOON

        def __call__(self) -> int:
            return (self.now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

        def after(self, **passed: float) -> None:
            self.now += timedelta(**passed)

    return Clock()


@pytest.fixture
def store(home, clock):
    """Two days of work on two branches, and another session."""
    backend = connect(place(home), durability="process", create=True, timeout=10)
    with holdfast.Store(backend, clock=clock) as opened:
        session = opened.session()
        session.save(1, "first", tags=["good"])
        clock.after(minutes=3, seconds=12)
        session.save(2, "second")
        clock.after(hours=11, minutes=56)
        beside = opened.session()
        beside.save("x", "beside", parent="#1")
        clock.after(seconds=41)
        opened.session("other").save(0, "elsewhere")
        clock.after(milliseconds=120)
        session.save(3, "third")
        yield opened


SCREEN = """
     TIME           GAP  ID        SEQ  BRANCH  TAGS  MESSAGE
Saturday 2026-11-14, UTC+00:00
@    23:59:53      +41s  ID------   #4  main          third
│ ○  23:59:12  +11h 56m  ID------   #3  main-1        beside
○    12:03:12   +3m 12s  ID------   #2  main          second
○    12:00:00            ID------   #1  main    good  first
"""


def blotted(screen: str) -> str:
    return re.sub(r"\b[0-9a-f]{8}\b", "ID------", screen)


@pytest.mark.usefixtures("store")
def test_a_terminal_gets_days_clock_times_gaps_and_lanes(terminal):
    seen = terminal("timeline", NO_COLOR="1", TZ="UTC")

    assert blotted(seen.screen) == SCREEN.lstrip("\n")
    assert seen.stderr == ""


@pytest.mark.usefixtures("store")
def test_days_and_clock_times_are_local(terminal):
    lines = blotted(terminal("timeline", NO_COLOR="1", TZ="Asia/Kolkata").screen).splitlines()

    assert lines[1] == "Sunday 2026-11-15, UTC+05:30"
    assert lines[2].startswith("@    05:29:53")
    assert lines[4] == "Saturday 2026-11-14, UTC+05:30"


@pytest.mark.usefixtures("store")
def test_a_terminal_that_is_not_unicode_gets_ascii(terminal):
    seen = terminal("timeline", NO_COLOR="1", TZ="UTC", PYTHONIOENCODING="ascii")

    assert blotted(seen.screen) == SCREEN.lstrip("\n").translate(str.maketrans("○│", "o|"))


@pytest.mark.usefixtures("store")
def test_all_sessions_stand_side_by_side(terminal):
    lines = blotted(terminal("timeline", "--all-sessions", NO_COLOR="1", TZ="UTC").screen).splitlines()

    assert lines[0].split() == ["TIME", "GAP", "ID", "SEQ", "SESSION", "SAVED", "ON", "TAGS", "MESSAGE"]
    assert lines[2].startswith("○    23:59:53    +120ms  ID------   #4  default")
    assert lines[3].startswith("│ ○  23:59:53      +41s  ID------   #1  other")


def test_a_pipe_gets_a_checkpoint_a_line(run, store):
    result = run("timeline")

    rows = [line.split("\t") for line in result.stdout.splitlines()]
    found = {each.seq: each for each in store.find(session="default")}
    assert result.stderr == ""
    assert [row[:2] for row in rows] == [[found[seq].id, str(seq)] for seq in (4, 3, 2, 1)]
    assert [row[2] for row in rows][-1] == "2026-11-14T12:00:00.000000Z"
    assert [row[3] for row in rows] == ["41.120000", "42960.000000", "192.000000", ""]
    assert rows[1][4:] == ["default", "main-1", "1", "", "beside"]
    assert rows[3][4:] == ["default", "main", "0", "good", "first"]
    assert "\x1b" not in result.stdout


def test_json_has_gaps_and_lanes(run, store):
    document = json.loads(run("timeline", "--json", "--limit", "2").stdout)

    assert (document["store"], document["session"], document["more"]) == (store.url, "default", True)
    assert [each["gap_seconds"] for each in document["moments"]] == [41.12, 42960.0]
    assert [each["lane"] for each in document["moments"]] == [0, 1]
    assert json.loads(run("timeline", "--json", "--limit", "4").stdout)["more"] is False


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (["--since", "2026-11-14T12:03:12Z"], ["third", "beside", "second"]),
        (["--until", "2026-11-14T12:03:12Z"], ["second", "first"]),
        (["--since", "2026-11-14T12:01:00Z", "--until", "2026-11-14T13:00:00Z"], ["second"]),
        (["--branch", "main"], ["third", "second", "first"]),
        (["--branch", "main-1"], ["beside", "first"]),
        (["--session", "other"], ["elsewhere"]),
        (["--all-sessions"], ["third", "elsewhere", "beside", "second", "first"]),
        (["--limit", "1"], ["third"]),
    ],
)
def test_options_choose_what_is_shown(run, monkeypatch, args, wanted):
    monkeypatch.setattr(timeline, "_PAGE", 2)

    result = run("timeline", *args)

    assert result.exit_code == 0, result.stderr
    assert [line.split("\t")[8] for line in result.stdout.splitlines()] == wanted


def test_the_order_is_that_of_the_clocks(run, store, clock):
    clock.after(hours=-6)
    store.session(branch="main-1").save("late", "a slow clock", parent="#1")

    rows = [line.split("\t") for line in run("timeline").stdout.splitlines()]

    assert [row[8] for row in rows] == ["third", "beside", "a slow clock", "second", "first"]
    assert all(float(row[3] or 0) >= 0 for row in rows)


def test_a_screen_shows_the_newest_and_says_that_there_are_more(terminal, home):
    with holdfast.open(place(home), durability="process") as store:
        session = store.session()
        for n in range(60):
            session.save(n, f"message {n}")

    seen = terminal("timeline", NO_COLOR="1", TZ="UTC")

    shown = [line for line in seen.screen.splitlines() if "message " in line]
    assert len(shown) == 50
    assert all("+" in line for line in shown)  # the last one too: what came before it is known
    assert "--limit 0" in seen.stderr


@pytest.mark.usefixtures("store")
def test_a_range_without_checkpoints_and_what_is_missing_are_errors(run):
    nothing = run("timeline", "--since", "2100-01-01T00:00:00Z")
    assert (nothing.exit_code, nothing.stdout) == (4, "")
    assert "no checkpoint matches --since 2100-01-01T00:00:00Z" in nothing.stderr
    assert run("timeline", "--all-sessions", "--until", "2000-01-01").exit_code == 4
    assert run("timeline", "--session", "unheard-of").exit_code == 4
    both = run("timeline", "--session", "unheard-of", "--since", "2000-01-01")
    assert both.exit_code == 4
    assert "no session 'unheard-of'" in both.stderr
    assert run("timeline", "--branch", "unheard-of").exit_code == 4
    assert run("timeline", "--all-sessions", "--session", "other").exit_code == 2
    assert run("timeline", "--since", "nonsense").exit_code == 2


def test_an_empty_store_is_no_error(run):
    run("init")

    for args in ([], ["--all-sessions"]):
        empty = run("timeline", *args)
        assert (empty.exit_code, empty.stdout) == (0, "")
        assert "holdfast create" in empty.stderr
    assert json.loads(run("timeline", "--json").stdout)["moments"] == []


def test_hostile_text_can_neither_break_nor_fake_a_row(terminal, run, home):
    evil = "\x1b[2J\r\nSunday 2026-11-15, UTC+00:00\n@ 12:00:00\t\u202efake\u2028x"
    with holdfast.open(place(home)) as store:
        store.session().save(1, evil)

    seen = terminal("timeline", "--color", "never", width=200)

    assert len(seen.screen.splitlines()) == 3
    assert {char for char in seen.screen if char != "\n" and not char.isprintable()} == set()
    assert [len(line.split("\t")) for line in run("timeline").stdout.splitlines()] == [9]


@pytest.mark.parametrize(
    ("gap", "text"),
    [
        ({}, "0ms"),
        ({"milliseconds": 999}, "999ms"),
        ({"seconds": 1}, "1s"),
        ({"minutes": 3, "seconds": 12}, "3m 12s"),
        ({"hours": 2}, "2h"),
        ({"hours": 2, "seconds": 5}, "2h"),
        ({"days": 2, "hours": 4, "minutes": 59}, "2d 4h"),
        ({"days": 400}, "400d"),
    ],
)
def test_how_long_in_two_units(gap, text):
    assert lasted(timedelta(**gap)) == text
