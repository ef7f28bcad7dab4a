"""What people type as a moment: words, clocks, weekdays and ISO times, in zones whose clocks change."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast import ErrorCode, InvalidInputError, parse_time
from holdfast.history.times import to_microseconds

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 15, 12, 0, tzinfo=BERLIN)
"""A Sunday, in winter."""


def read(text, *, now=NOW, zone=BERLIN, end=False):
    return parse_time(text, now=now, zone=zone, end=end)


def berlin(*parts):
    return datetime(*parts).replace(tzinfo=BERLIN).astimezone(UTC)


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("now", timedelta()),
        ("0 seconds ago", timedelta()),
        ("2 hours ago", timedelta(hours=2)),
        ("90 min ago", timedelta(minutes=90)),
        ("90m ago", timedelta(minutes=90)),
        ("3d ago", timedelta(days=3)),
        ("3 D AGO", timedelta(days=3)),
        ("an hour ago", timedelta(hours=1)),
        ("a week ago", timedelta(weeks=1)),
        ("1.5 hours ago", timedelta(minutes=90)),
        ("0.000001 s ago", timedelta(microseconds=1)),
        ("1h30m ago", timedelta(minutes=90)),
        ("  1 day,  2 hours and 3 mins ago ", timedelta(days=1, hours=2, minutes=3)),
    ],
)
def test_a_length_of_time_counts_back_from_now(text, ago):
    assert read(text) == NOW - ago


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("today", (2026, 11, 15)),
        ("yesterday", (2026, 11, 14)),
        ("yesterday 17:00", (2026, 11, 14, 17)),
        ("yesterday at 5pm", (2026, 11, 14, 17)),
        ("5 PM yesterday", (2026, 11, 14, 17)),
        ("yesterday 5:30 p.m.", (2026, 11, 14, 17, 30)),
        ("today 23:00", (2026, 11, 15, 23)),
        ("11:30", (2026, 11, 15, 11, 30)),
        ("12:00", (2026, 11, 15, 12)),
        ("12:00:00.000001", (2026, 11, 14, 12, 0, 0, 1)),
        ("5pm", (2026, 11, 14, 17)),
        ("17:00", (2026, 11, 14, 17)),
        ("12am", (2026, 11, 15, 0)),
        ("12 pm", (2026, 11, 15, 12)),
        ("noon", (2026, 11, 15, 12)),
        ("midnight", (2026, 11, 15, 0)),
        ("monday", (2026, 11, 9)),
        ("monday 9:00", (2026, 11, 9, 9)),
        ("noon on mon", (2026, 11, 9, 12)),
        ("sunday", (2026, 11, 15)),
        ("sunday 9:00", (2026, 11, 15, 9)),
        ("sunday 13:00", (2026, 11, 8, 13)),
        ("last sunday", (2026, 11, 8)),
        ("last sunday 9:00", (2026, 11, 8, 9)),
        ("last friday", (2026, 11, 13)),
        ("last friday at 9:00", (2026, 11, 13, 9)),
        ("2025-01-20", (2025, 1, 20)),
        ("2025-01-20 14:30:00", (2025, 1, 20, 14, 30)),
        ("2025-01-20 2:30pm", (2025, 1, 20, 14, 30)),
        ("2025-01-20T14:30", (2025, 1, 20, 14, 30)),
        ("2025-01-20T14:30:00.25", (2025, 1, 20, 14, 30, 0, 250_000)),
        ("20250120", (2025, 1, 20)),
        ("2025-W04-1", (2025, 1, 20)),
        ("1 month ago", (2026, 10, 15, 12)),
        ("11 months ago", (2025, 12, 15, 12)),
        ("2 years ago", (2024, 11, 15, 12)),
    ],
)
def test_words_clocks_and_dates_are_local_time(text, moment):
    assert read(text) == berlin(*moment)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-11-15T17:00:00+01:00", datetime(2026, 11, 15, 16, tzinfo=UTC)),
        ("2026-11-15T17:00:00Z", datetime(2026, 11, 15, 17, tzinfo=UTC)),
        ("2026-11-15t17:00z", datetime(2026, 11, 15, 17, tzinfo=UTC)),
        ("2026-11-15 17:00:00 +0530", datetime(2026, 11, 15, 11, 30, tzinfo=UTC)),
        ("2026-11-15T17:00:00-08:00", datetime(2026, 11, 16, 1, tzinfo=UTC)),
    ],
)
def test_a_zone_that_is_written_wins(text, utc):
    assert read(text) == utc
    assert read(text).tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("2026-11-14", (2026, 11, 15)),
        ("yesterday", (2026, 11, 15)),
        ("friday", (2026, 11, 14)),
        # 23 and 25 hours long.
        ("2026-03-29", (2026, 3, 30)),
        ("2026-10-25", (2026, 10, 26)),
    ],
)
def test_a_day_that_ends_a_range_is_meant_to_its_end(text, last):
    assert read(text, end=True) == berlin(*last) - timedelta(microseconds=1)


def test_a_local_time_that_clocks_left_out_is_read_by_the_clock_before():
    # On 2026-03-29 Berlin's clocks went from 2:00 to 3:00.
    assert read("2026-03-29 02:30") == berlin(2026, 3, 29, 3, 30) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    after = datetime(2026, 3, 29, 12, tzinfo=BERLIN)
    assert read("2:30", now=after) == read("today 2:30am", now=after) == berlin(2026, 3, 29, 3, 30)


def test_a_local_time_that_came_twice_is_the_first():
    # On 2026-10-25 Berlin's clocks went from 3:00 back to 2:00.
    assert read("2026-10-25 02:30") == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    between = datetime(2026, 10, 25, 2, 45, fold=1, tzinfo=BERLIN)
    assert read("2:30", now=between) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


def test_a_day_ago_is_24_hours_and_yesterday_is_a_day_of_the_calendar():
    now = datetime(2026, 3, 29, 12, tzinfo=BERLIN)
    assert read("1 day ago", now=now) == berlin(2026, 3, 28, 11)
    assert read("yesterday 12:00", now=now) == berlin(2026, 3, 28, 12)
    assert read("1 month ago", now=now) == berlin(2026, 2, 28, 12)


def test_the_day_is_that_of_the_zone_and_not_of_utc():
    late = datetime(2026, 11, 15, 23, 30, tzinfo=UTC)
    assert read("today", now=late) == berlin(2026, 11, 16)
    assert read("today", now=late, zone=UTC) == datetime(2026, 11, 15, tzinfo=UTC)
    assert read("today", now=late, zone=ZoneInfo("Pacific/Kiritimati")) == datetime(
        2026, 11, 15, 10, tzinfo=UTC
    )


@pytest.fixture
def machine_in_new_york(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("machine_in_new_york")
def test_the_zone_of_the_machine_is_meant_where_none_is_given():
    assert parse_time("2026-11-15 12:00", now=NOW) == datetime(2026, 11, 15, 17, tzinfo=UTC)
    assert parse_time("2026-07-15 12:00", now=NOW) == datetime(2026, 7, 15, 16, tzinfo=UTC)
    # Clocks went from 2:00 to 3:00, and back: the same promises as for a zone that is given.
    assert parse_time("2026-03-08 02:30", now=NOW) == datetime(2026, 3, 8, 7, 30, tzinfo=UTC)
    assert parse_time("2026-11-01 01:30", now=NOW) == datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
    assert to_microseconds(datetime(2026, 11, 15, 12), now=0) == 1_794_762_000_000_000


BAD = [
    "", " ", "x", "ago", "hours ago", "2 ago", "2 parsecs ago", "-2 hours ago", "2 hours", "5ms ago", "1.5 months ago",
    "1e3 s ago", "9999999999 s ago", "999999999 years ago", "9999 years ago", "999999999 weeks ago", "in 2 hours",
    "tomorrow", "25:00", "12:60", "12:30:60", "24:00", "13pm", "0am", "5", "17", "5pm foo",
    "yesterday foo", "yesterday 5",
    "last", "last foo", "last yesterday", "last 5pm", "monday tuesday", "today today", "2026-13-01", "2026-02-30",
    "2026-02-30 10:00", "2026-11-15 25:00", "2026-11-15T25:00", "2026-11-15 foo", "0000-01-01", "10000-01-01",
    "@1700000000",
    "1700000000", "now\n", "\x1b[2J", "now\x00", "\u0661 hours ago", "\u00b2 hours ago", "2\u00a0hours ago", "now" * 50,
    "1 hour " * 1000 + "ago", "0001-01-01T00:00:00+12:00", "9999-12-31T23:00:00-12:00", "\udc80",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_what_is_not_a_time_is_refused_with_examples(text):
    with pytest.raises(InvalidInputError) as caught:
        parse_time(text, now=NOW, zone=BERLIN, what="--since")

    assert caught.value.code is ErrorCode.BAD_TIME
    assert str(caught.value).startswith("--since: ")
    assert "'2 hours ago'" in caught.value.hint
    assert "2026-11-15T17:00:00+01:00" in caught.value.hint
    assert len(str(caught.value)) < 250
    assert str(caught.value).isprintable()


WORDS = st.sampled_from(
    [
        *(
            "now",
            "today",
            "yesterday",
            "last",
            "monday",
            "fri",
            "at",
            "on",
            "noon",
            "ago",
            "and",
            "a",
            "an",
            "2",
            "1.5",
        ),
        *(
            "hours",
            "h",
            "min",
            "mo",
            "5pm",
            "17:00",
            "25:00",
            "12:30:60",
            "am",
            "2026-11-15",
            "2026-13-01",
            "T17:00",
        ),
        *("Z", "+01:00", ",", "-", ":", "999999999", "years", "20261115"),
    ]
)


@given(
    st.text(max_size=40)
    | st.lists(WORDS, max_size=6).map(" ".join)
    | st.lists(WORDS, max_size=4).map("".join)
)
@example("a ago")
@example("1 h, ago")
def test_any_text_is_a_time_or_an_error(text):
    for end in (False, True):
        outcome: object
        try:
            outcome = read(text, end=end).tzinfo
        except InvalidInputError as refused:
            outcome = refused.code
        assert outcome in (UTC, ErrorCode.BAD_TIME)


UNITS = {"s": 1, "minutes": 60, "hour": 3600, "d": 86_400, "weeks": 604_800}


@given(
    st.integers(0, 50_000),
    st.sampled_from(sorted(UNITS)),
    st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1)),
)
def test_fixed_lengths_are_exact_whatever_the_clocks_do(amount, unit, now):
    now = now.replace(tzinfo=UTC)
    expected = now - timedelta(seconds=amount * UNITS[unit])
    for zone in (UTC, BERLIN):
        try:
            assert read(f"{amount} {unit} ago", now=now, zone=zone) == expected
        except InvalidInputError:
            assert expected.year < 1980


@given(st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1)), st.integers(0, 23), st.integers(0, 59))
def test_a_clock_is_the_newest_that_was(now, hour, minute):
    now = now.replace(tzinfo=UTC)
    moment = read(f"{hour}:{minute:02}", now=now, zone=UTC)
    assert now - timedelta(days=1) < moment <= now
    assert (moment.hour, moment.minute) == (hour, minute)


@given(st.datetimes(datetime(1970, 1, 10), datetime(2100, 1, 1)), st.integers(0, 6))
def test_a_weekday_is_the_newest_that_was(now, number):
    now = now.replace(tzinfo=UTC)
    name = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")[number]
    assert read(name, now=now, zone=UTC).weekday() == number
    assert timedelta() <= now - read(name, now=now, zone=UTC) < timedelta(days=7)
    assert timedelta() <= now - read(f"{name} 13:00", now=now, zone=UTC) < timedelta(days=7)
    assert read(f"last {name}", now=now, zone=UTC).date() < now.date()


@given(st.integers(-(2**53), 2**55))
def test_microseconds_are_exact(microseconds):
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    assert to_microseconds(when, now=0) == microseconds
    assert to_microseconds(when.isoformat(), now=0) == microseconds
