"""`holdfast list`."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from tests.surfaces.cli.places import place, zero_chunks

import holdfast
from holdfast.cli import list as listing
from holdfast.cli._input import parse_time


@pytest.fixture
def store(home):
    """Two sessions with a little of everything."""
    with holdfast.open(place(home)) as opened:
        session = opened.session()
        session.save(1, "one", tags=["red"], step=1)
        session.save(2, "two", tags=["red", "blue"], step=2, trigger="auto:tool", status="failed")
        session.save(3, "three", step=2, trigger="error")
        opened.session("other", agent="scout", project="acme").save(4, "four", tags=["red"])
        yield opened


def messages(result):
    assert result.exit_code == 0, result.stderr
    return [line.split("\t")[9] for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        ([], ["three", "two", "one"]),
        (["--tag", "red"], ["two", "one"]),
        (["--tag", "red", "--all-sessions"], ["four", "two", "one"]),
        (["--all-sessions"], ["four", "three", "two", "one"]),
        (["--session", "other"], ["four"]),
        (["--status", "failed"], ["two"]),
        (["--trigger", "auto"], ["two"]),
        (["--trigger", "auto:tool"], ["two"]),
        (["--step", "2"], ["three", "two"]),
        (["--agent", "scout", "--all-sessions"], ["four"]),
        (["--project", "acme", "--all-sessions"], ["four"]),
        (["--limit", "2"], ["three", "two"]),
        (["--limit", "0"], ["three", "two", "one"]),
        (["--tag", "red", "--limit", "1"], ["two"]),
        (["--since", "2000-01-01"], ["three", "two", "one"]),
        (["--until", "2100-01-01T00:00:00Z", "--step", "1"], ["one"]),
    ],
)
def test_filters_choose_what_is_listed_newest_first(run, args, wanted):
    assert messages(run("list", *args)) == wanted


def test_times_bound_the_list_and_what_was_assumed_is_said(run, store):
    two = store.session().checkpoint("#2").created_at.isoformat()

    assert messages(run("list", "--since", two)) == ["three", "two"]
    assert messages(run("list", "--until", two)) == ["two", "one"]
    assert messages(run("list", "--since", two, "--until", two)) == ["two"]
    assert run("list", "--since", two).stderr == ""
    assert run("list", "--since", "2000-01-01").stderr.startswith("since: ")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "args",
    [
        ["--tag", "green"],
        ["--status", "paused"],
        ["--step", "99"],
        ["--since", "2100-01-01"],
        ["--agent", "nobody", "--all-sessions"],
    ],
)
def test_filters_that_match_nothing_are_an_error_that_repeats_them(run, args):
    result = run("list", *args)

    assert result.exit_code == 4
    assert result.stdout == ""
    assert f"no checkpoint matches {args[0]} {args[1]}" in result.stderr


@pytest.mark.usefixtures("store")
def test_a_session_that_is_not_there_is_an_error_that_names_what_is(run):
    result = run("list", "--session", "unheard-of")

    assert result.exit_code == 4
    assert "--session chooses one of: default, other" in result.stderr
    assert run("list", "--session", "unheard-of", "--tag", "red").exit_code == 4


def test_an_empty_store_is_no_error_unless_something_was_asked_for(run):
    run("init")

    empty = run("list")

    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "holdfast create" in empty.stderr
    assert json.loads(run("list", "--json").stdout)["checkpoints"] == []
    assert run("list", "--all-sessions").exit_code == 0
    assert run("list", "--session", "x").exit_code == 4
    assert run("list", "--tag", "x").exit_code == 4


def test_a_session_whose_checkpoints_were_all_deleted_is_empty_not_missing(run, store):
    session = store.session("other")
    session.delete("@")

    result = run("list", "--session", "other")

    assert (result.exit_code, result.stdout) == (0, "")


def test_the_default_session_is_missed_where_there_are_only_others(run, home):
    with holdfast.open(place(home)) as store:
        store.session("survey-1").save(1)

    result = run("list")

    assert result.exit_code == 4
    assert "survey-1" in result.stderr


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("where", [["--session", "other"], ["--branch", "main"]])
def test_all_sessions_and_one_session_exclude_each_other(run, where):
    assert run("list", "--all-sessions", *where).exit_code == 2
    assert run("list", "--all-sessions", env={"HOLDFAST_SESSION": "other"}).exit_code == 0


def test_a_long_list_comes_page_by_page_and_whole(run, home, monkeypatch):
    monkeypatch.setattr(listing, "_PAGE", 7)
    with holdfast.open(place(home), durability="process") as store:
        for n in range(40):
            store.session("a" if n % 2 else "b").save(n, str(n), tags=["even"] if n % 4 == 0 else [])

    assert messages(run("list", "--all-sessions")) == [str(n) for n in reversed(range(40))]
    assert messages(run("list", "--session", "a")) == [str(n) for n in range(39, 0, -2)]
    assert messages(run("list", "--session", "b", "--tag", "even", "--limit", "8")) == [
        str(n) for n in range(36, 4, -4)
    ]


def test_a_screen_shows_the_newest_and_says_that_there_are_more(terminal, home):
    with holdfast.open(place(home), durability="process") as store:
        session = store.session()
        for n in range(60):
            session.save(n, f"message {n}")

    seen = terminal("list", NO_COLOR="1")
    whole = terminal("list", "--limit", "0", NO_COLOR="1")

    assert len(seen.screen.splitlines()) == 51
    assert "message 10" in seen.screen
    assert "--limit 0" in seen.stderr
    assert len(whole.screen.splitlines()) == 61
    assert whole.stderr == ""


@pytest.mark.usefixtures("store")
def test_json_says_whether_the_limit_left_some_out(run):
    some = json.loads(run("list", "--json", "--limit", "2").stdout)
    whole = json.loads(run("list", "--json", "--limit", "3").stdout)

    assert (len(some["checkpoints"]), some["more"]) == (2, True)
    assert (len(whole["checkpoints"]), whole["more"]) == (3, False)


@pytest.mark.usefixtures("store")
def test_a_table_of_all_sessions_names_them(terminal):
    lines = terminal("list", "--all-sessions", NO_COLOR="1").screen.splitlines()

    assert lines[0].split() == ["ID", "SEQ", "SESSION", "AGE", "STEP", "STATUS", "TAGS", "MESSAGE"]
    assert "other" in lines[1]


def test_no_state_is_read(run, home):
    run("create", "one", "--metadata", "a=b")
    zero_chunks(home)

    assert messages(run("list")) == ["one"]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "since", ["1h", "30m", "2d", "1h30m", "1.5h", "2 hours ago", "@{1 hour ago}", "@{1h}"]
)
def test_since_takes_lengths_and_every_time_of_a_ref(run, since):
    result = run("list", "--since", since)

    assert messages(result) == ["three", "two", "one"]
    assert re.fullmatch(r"since: \d{4}-\d\d-\d\dT[\d:.]+Z\n", result.stderr)
    assert run("timeline", "--since", since).exit_code == 0
    assert run("list", "--until", since).exit_code == run("timeline", "--until", since).exit_code == 4


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("time", ["1x", "h", "1", "-1h", "1h ago ago", "@{", "@{soon}", "1h1x"])
def test_what_is_no_length_and_no_time_is_refused_with_examples(run, time):
    result = run("list", "--since", time)

    assert result.exit_code == 2
    assert "code: bad-time\n" in result.stderr
    assert "hint: write 30m, 1h, 2d, '2 hours ago'" in result.stderr


def test_five_pm_is_a_clock_and_five_minutes_are_a_length():
    before = datetime.now(UTC)
    clock, _ = parse_time("5pm", "--since")
    length, _ = parse_time("5m", "--since")
    after = datetime.now(UTC)

    assert clock.astimezone().hour == 17
    assert clock <= after
    assert before <= length + timedelta(minutes=5) <= after


@pytest.mark.parametrize(
    ("ref", "wanted"),
    [
        ("#1..@", ["three", "two"]),
        ("#1..", ["three", "two"]),
        ("#1..#2", ["two"]),
        ("side..main", ["three"]),
        ("main..side", ["aside"]),
        ("#2", ["two", "one"]),
        ("@-", ["two", "one"]),
        ("side", ["aside", "two", "one"]),
        ("@..@", []),
    ],
)
def test_a_range_or_a_ref_lists_its_history(run, store, ref, wanted):
    store.session().fork("#2", "side").annotate("@", message="aside")

    result = run("list", ref)

    assert messages(result) == wanted
    assert [
        each["message"] for each in json.loads(run("list", ref, "--json").stdout)["checkpoints"]
    ] == wanted
    assert result.stderr == ("" if wanted else "nothing is in @..@\n")


@pytest.mark.usefixtures("store")
def test_a_range_goes_with_filters_and_not_with_other_sessions(run):
    assert messages(run("list", "#1..@", "--tag", "red")) == ["two"]
    assert messages(run("list", "@", "--step", "2", "--limit", "1")) == ["three"]
    nothing = run("list", "#2..@", "--tag", "red")
    assert nothing.exit_code == 4
    assert "no checkpoint matches --tag red in #2..@" in nothing.stderr
    assert run("list", "nope..@").exit_code == 4
    assert "did you mean other?" in run("list", "#1..@", "--session", "othr").stderr
    assert run("list", "@", "--all-sessions").exit_code == run("list", "@", "--sessions").exit_code == 2


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("time", ["1x", "@{1x}", "@{soon}", "  1x"])
def test_what_is_no_time_is_repeated_as_it_was_typed(run, time):
    for command in ("list", "timeline"):
        result = run(command, "--since", time)
        assert f"error: --since: {time!r} is not a time: " in result.stderr
        assert json.loads(run(command, "--since", time, "--json").stderr)["error"]["details"]["text"] == repr(
            time
        )
