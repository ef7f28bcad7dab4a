"""Times in expressions: compared with texts in ISO 8601, and with nothing else that is not a time."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.store.searching.expressions import Expression

STATE = {
    "at": datetime(2026, 11, 16, 12, 30, tzinfo=UTC),
    "there": datetime(2026, 11, 16, 12, 30, tzinfo=timezone(timedelta(hours=9))),
    "naive": datetime(2026, 11, 16, 12, 30),
    "day": date(2026, 11, 16),
    "hour": time(12, 30),
    "text": "2026-11-16T12:30:00+00:00",
    "items": [{"at": datetime(2026, 1, 1, tzinfo=UTC)}, {"at": datetime(2026, 6, 1, tzinfo=UTC)}],
}


def holds(text: str) -> tuple[bool, bool]:
    """Whether it holds, and whether all of it is known."""
    held, notes = Expression(text).holds(STATE)
    return held, not notes


@pytest.mark.parametrize(
    "text",
    [
        'at > "2026-11-16T12:00:00+00:00"',
        'at > "2026-11-16"',
        'at < "2026-11-17"',
        '"2026-11-16" < at < "2026-11-17"',
        'at == "2026-11-16T13:30:00+01:00"',
        'at != "2026-11-16"',
        'there >= "2026-11-16T12:30"',
        'there < "2026-11-16T12:30Z"',
        'naive > "2026-11-16T12:29:59"',
        'day == "2026-11-16" and day < "2026-12-01"',
        'hour > "12:00"',
        "there < at",
        'text > "2026-11-16"',
        'text != "2026-11-16T13:30:00+01:00"',
        'any(i.at > "2026-03-01" for i in items)',
        'at != "no time"',
    ],
)
def test_a_time_is_compared_with_a_text(text):
    assert holds(text) == (True, True)


@pytest.mark.parametrize(
    "text",
    [
        'at < "no time"',
        'at > ""',
        'naive > "2026-11-16T12:00:00Z"',
        'day < "2026-11-16T12:00:00"',
        "at > 5",
        f'at < "{"9" * 500}"',
    ],
)
def test_what_is_no_such_time_is_unknown(text):
    assert holds(text) == (False, False)
    assert holds(f"not ({text})") == (False, False)


@given(one=st.datetimes(timezones=st.just(UTC)), other=st.datetimes(timezones=st.just(UTC)))
def test_a_text_means_the_time_that_it_was_written_from(one, other):
    for sign, wanted in (("<", one < other), ("==", one == other), (">=", one >= other)):
        assert Expression(f'at {sign} "{other.isoformat()}"').holds({"at": one})[0] is wanted
        assert Expression(f'"{one.isoformat()}" {sign} at').holds({"at": other})[0] is wanted
