"""Refs and ranges against real stores: times, tags within a time, neighbours of a moment, and errors that help."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast import ErrorCode, InvalidInputError, NotFoundError
from holdfast.backends.memory import MemoryBackend
from holdfast.backends.sqlite.backend import SqliteBackend
from holdfast.history.refs import around, parse, parse_range, resolve_range
from holdfast.storage.ports import Backend

HOUR = 3_600_000_000
START = datetime(2026, 11, 15, 8, tzinfo=UTC)
"""When the first checkpoint is saved; one more follows each hour."""


class Clock:
    def __init__(self) -> None:
        self.now = int(START.timestamp()) * 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def backend(request, tmp_path):
    made: Backend
    if request.param == "memory":
        made = MemoryBackend()
    else:
        made = SqliteBackend.open(tmp_path / "store.db", durability="process", create=True, timeout=5.0)
    yield made
    made.close()


@pytest.fixture
def store(backend, clock):
    return holdfast.Store(backend, clock=clock)


@pytest.fixture
def session(store, clock):
    """Five on main at 8, 9, 10, 11, 12 o'clock UTC; then #6 (13:00) and #7 (14:00) on main-1, which grew from #2.

    It is 15:00. #2 and #4 are tagged good, #7 too.
    """
    made = store.session("s")
    for n in range(1, 6):
        made.save({"n": n}, f"number {n}", tags=["good"] if n in (2, 4) else [])
        clock.now += HOUR
    side = store.session("s")
    side.save({"n": 6}, parent="#2")
    clock.now += HOUR
    side.save({"n": 7}, tags=["good"])
    clock.now += HOUR
    assert side.branch == "main-1"
    return store.session("s")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "@{",
            "@{now",
            "@now}",
            "{now}",
            "@@{now}",
            "@-@{now}",
            "#4@{now}",
            "@{now}@{now}",
            "@{a{b}}",
            "@{now}x",
        ),
        *(
            "main@now",
            "main~1@{now}",
            "@{1 ~ 2}",
            "a b",
            "17:00",
            "now:",
            "2026-11-15X17:00",
            "a..b",
            "..",
            "#3..",
        ),
    ],
)
def test_what_is_not_a_ref_is_refused(text):
    with pytest.raises(InvalidInputError) as caught:
        parse(text)
    assert caught.value.code is ErrorCode.BAD_REF
    if ".." in text:
        assert "range" in caught.value.hint
    elif "{" in text:
        assert "@{2 hours ago}" in caught.value.hint


@pytest.fixture
def machine_in_berlin(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("machine_in_berlin")
def test_a_time_without_a_zone_is_local(session, clock):
    # 11:00 in Berlin is 10:00 UTC.
    assert session.checkpoint("2026-11-15 11:00").seq == 3
    assert session.checkpoint("@{11:00}").seq == 3
    assert session.checkpoint("@{today at 11am}").seq == 3
    clock.now += 24 * HOUR
    assert session.checkpoint("@{yesterday 10:59}").seq == 2
    assert session.checkpoint("2026-11-16").seq == 5


@pytest.mark.usefixtures("machine_in_berlin")
def test_a_branch_wins_over_a_date_and_a_date_over_everything_else(session, store):
    assert session.checkpoint("2026-11-16").seq == 5
    other = store.session("t", branch="2026-11-16")
    other.save({"n": "other"})
    assert other.checkpoint("2026-11-16").seq == 1
    # With a time of day, or in braces, it can only be a time.
    assert other.checkpoint("2026-11-17 00:00").seq == 1
    assert other.checkpoint("@{2026-11-17}").seq == 1
    assert other.checkpoint("2026-11-16@{2026-11-17}").seq == 1
    with pytest.raises(NotFoundError) as caught:
        other.checkpoint("@{2026-11-14}")
    assert caught.value.code is ErrorCode.BEFORE_HISTORY


@pytest.mark.parametrize(
    "ref", ["@{garbage}", "main@{}", "tag:good@{25:00}", "2026-13-01", "2026-11-15 25:00", "@{\x1b[2J}"]
)
def test_a_time_that_cannot_be_read_is_an_error_of_its_own(session, ref):
    with pytest.raises(InvalidInputError) as caught:
        session.load(ref)
    assert caught.value.code is ErrorCode.BAD_TIME
    assert repr(ref) in str(caught.value)
    assert "'2 hours ago'" in caught.value.hint


def test_saves_take_times_as_parents(session):
    made = session.save({"n": 8}, parent="@{5 hours ago}")
    assert made.parent == session.checkpoint("#3").id
    assert session.tag("main@{6 hours ago}", "x").seq == 2


def seqs(backend, text, *, clock, branch="main"):
    with backend.reader() as reader:
        return [row.seq for row in resolve_range(reader, "s", branch, text, now=clock.now)]


@pytest.mark.usefixtures("session")
def test_an_open_end_is_the_branch_in_use(backend, clock):
    assert seqs(backend, "#2..", clock=clock, branch="main-1") == [7, 6]


@pytest.mark.parametrize(
    "text", ["", "..", "...", "#1...#2", "#1..#2..#3", "#1", "..x..", "#1..a b", "@{now..", 7, None]
)
def test_what_is_not_a_range_is_refused(text):
    with pytest.raises(InvalidInputError) as caught:
        parse_range(text)
    assert caught.value.code is ErrorCode.BAD_REF


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    ("text", "code"), [("#9..", "checkpoint-missing"), ("..@{1 week ago}", "before-history")]
)
def test_the_ends_of_a_range_must_be_there(backend, clock, text, code):
    with pytest.raises(NotFoundError) as caught:
        seqs(backend, text, clock=clock)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("options", "first", "newest", "where"),
    [
        ({}, 1, 5, "branch 'main' of session 's'"),
        ({"all_branches": True}, 1, 7, "session 's'"),
        ({"tag": "good"}, 2, 4, "with the tag 'good'"),
        ({"tag": "good", "all_branches": True}, 2, 7, "with the tag 'good'"),
    ],
)
@pytest.mark.usefixtures("session")
def test_before_the_first_one_is_an_error_with_the_range(backend, options, first, newest, where):
    with backend.reader() as reader, pytest.raises(NotFoundError, match=re.escape(where)) as caught:
        around(reader, "s", "main", int(START.timestamp()) * 1_000_000 - 1, **options)
    error = caught.value
    assert error.code is ErrorCode.BEFORE_HISTORY
    assert error.exit_code == 4
    assert error.details["asked"] == "2026-11-15T07:59:59.999999+00:00"
    assert (error.details["first"]["seq"], error.details["newest"]["seq"]) == (first, newest)
    for seq in (first, newest):
        when = START + timedelta(hours=seq - 1)
        assert f"{when:%Y-%m-%dT%H:%M:%SZ} (#{seq})" in str(error)
    assert f"'#{first}'" in error.hint


@pytest.mark.parametrize(
    ("ref", "says", "hint", "candidates"),
    [
        ("tag:goood", "no checkpoint has the tag 'goood'", "did you mean 'good'?", ["good"]),
        ("tag:zzz", "no checkpoint has the tag 'zzz'", "s.log() (holdfast list) shows what there is", []),
        ("tag:elsewhere", "session 'other' has one", "use store.session('other')", []),
        (
            "tag:zzz@{now}",
            "no checkpoint has the tag 'zzz'",
            "s.log() (holdfast list) shows what there is",
            [],
        ),
        (
            "#99",
            "there is no checkpoint #99",
            "s.log() (holdfast list) shows what there is",
            [],
        ),
        ("key:/ a", "no checkpoint has the key '/ a'", "s.log() (holdfast list) shows what there is", []),
        ("mian", "there is no branch 'mian'", "did you mean 'main'?", ["main", "main-1"]),
        ("good", "there is no branch 'good'", "did you mean 'tag:good'?", ["tag:good"]),
        (
            "1234567",
            "no #1234567",
            "s.log()",
            [],
        ),
    ],
)
def test_a_ref_that_names_nothing_says_what_there_is(session, store, ref, says, hint, candidates):
    store.session("other").save({}, tags=["elsewhere"])
    with pytest.raises(NotFoundError) as caught:
        session.checkpoint(ref)
    assert caught.value.code is ErrorCode.CHECKPOINT_MISSING
    assert says in str(caught.value)
    assert caught.value.hint.startswith(hint)
    assert caught.value.details["candidates"] == candidates


def test_a_key_is_a_ref_to_its_checkpoint_in_this_session_alone(session, store):
    first = session.save({"m": 1}, key="/ 1f1e")
    store.session("other").save({}, key="/ 2f2e")
    second = session.save({"m": 2}, key="/ 1f1e task 0")

    assert session.load("key:/ 1f1e") == {"m": 1}
    assert session.checkpoint("key:/ 1f1e task 0").id == second.id
    assert [row.id for row in session.log("key:/ 1f1e..")] == [second.id]
    assert session.checkpoint("key:/ 1f1e task 0~").id == first.id
    for ref in ("key:/ 2f2e", "key:/ 1f1", "key:1f1e", "key:/ 1F1E"):
        with pytest.raises(NotFoundError, match="no checkpoint has the key"):
            session.checkpoint(ref)
    session.delete("key:/ 1f1e")
    with pytest.raises(NotFoundError, match="any more: it was removed"):
        session.checkpoint("key:/ 1f1e")
    with pytest.raises(InvalidInputError) as caught:
        session.checkpoint("key:")
    assert caught.value.code is ErrorCode.BAD_NAME


def test_a_branch_with_a_time_must_be_there(session):
    with pytest.raises(NotFoundError) as caught:
        session.checkpoint("mian@{now}")
    assert caught.value.code is ErrorCode.BRANCH_MISSING
    assert caught.value.hint == "did you mean 'main'?"
    # A time goes with a branch, never with an id.
    with pytest.raises(NotFoundError) as caught:
        session.checkpoint(f"{session.checkpoint('#1').id}@{{now}}")
    assert caught.value.code is ErrorCode.BRANCH_MISSING


def test_a_time_before_the_first_one_counts_as_missing(session):
    assert not session.exists("@{1 week ago}")
    assert session.load("@{1 week ago}", default="none") == "none"
