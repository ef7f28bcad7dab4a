"""What a person types as a moment, read as a datetime.

    time     = "now" | amount unit { amount unit } "ago" | "last" unit | day | clock | day clock | clock day | ISO 8601
    amount   = a number, "a" or "an";    unit = second, minute, hour, day, week, month, year, or s min h d w mo y
    day      = "today" | "yesterday" | ["last"] weekday | 2026-11-15
    clock    = 17:00 | 17:00:30 | 5pm | 5:30 pm | "noon" | "midnight", "at" before it or not

A day alone is its first moment, or its last one where a range ends with it. A clock alone, or with a weekday, is the
newest moment that has already been: `5pm` at noon is yesterday's. `last friday` is never today; `last week` is a week
ago. Seconds to weeks have
a fixed length, so `1 day ago` is 24 hours ago; months and years go by the calendar and stop at the end of a month.

What names no zone is local time. Clocks that are put back show an hour twice: the first one is meant. Clocks that are
put forward leave one out: a time in it is read by the clock as it was before, so where 2:00 becomes 3:00, 2:30 is 3:30.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NoReturn

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.history.checkpoint import moment

EXAMPLES = "'2 hours ago', 'yesterday 17:00', 'monday 9:00', 2026-11-15 or 2026-11-15T17:00:00+01:00"

_LONGEST = 100
"""Longer than any time is written, and short enough that no text takes long to refuse."""

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_MONTHS = {"month": 1, "year": 12}
_UNITS = {
    word: unit
    for unit, words in {
        "second": "s sec secs second seconds",
        "minute": "m min mins minute minutes",
        "hour": "h hr hrs hour hours",
        "day": "d day days",
        "week": "w wk wks week weeks",
        "month": "mo mos month months",
        "year": "y yr yrs year years",
    }.items()
    for word in words.split()
}
_LAST = ("minute", "hour", "day", "week", "month", "year")
_WEEKDAYS = {
    name: number
    for number, day in enumerate(
        ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    )
    for name in (day, day[:3])
}
_NAMED_CLOCKS = {"noon": time(12), "midnight": time(0)}

_PART = re.compile(r"(?:([0-9]{1,9})(?:\.([0-9]{1,6}))?|an?(?= )) ?([a-z]+)(?:,? and |, ?| |(?=[0-9])|$)")
_CLOCK = re.compile(r"([0-9]{1,2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?)?(?: ?([ap])\.?m\.?)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class _Unreadable(Exception):  # noqa: N818 - never leaves this module
    """Why a text is not a time."""


def parse_time(
    text: str,
    *,
    now: datetime | None = None,
    zone: tzinfo | None = None,
    end: bool = False,
    what: str = "",
) -> datetime:
    """Read a moment as people write it: `2 hours ago`, `yesterday 17:00`, `monday 9:00`, `5pm`, or ISO 8601.

    Args:
        text: What was typed.
        now: What relative times count from, with a zone; the present if it is not given.
        zone: The zone of a time that names none; the machine's own if it is not given.
        end: A day alone is its last microsecond instead of its first.
        what: The option or argument it was given for, to begin the message of the error with.

    Returns:
        The moment, in UTC.

    Raises:
        InvalidInputError: It is not a time (`bad-time`).
    """
    if type(text) is not str:
        _refuse(text, what, f"it is of type {type(text).__name__}, not a text")
    if len(text) > _LONGEST:
        _refuse(text, what, f"it has more than {_LONGEST} characters")
    if not text.isprintable():
        _refuse(text, what, "it has control characters")
    try:
        reading = _Reading(now or datetime.now(UTC), zone, end=end)
        return reading.read(" ".join(text.lower().split()))
    except _Unreadable as why:
        _refuse(text, what, str(why))
    # OSError: a year that the platform's clock does not have.
    except (ValueError, OverflowError, OSError):
        _refuse(text, what, "it is outside the years 1 to 9999")


def to_microseconds(when: datetime | str, *, now: int, end: bool = False, what: str = "") -> int:
    """A time as a store keeps it: whole microseconds since 1970 UTC. A datetime without a zone is local time."""
    if isinstance(when, str):
        return _since_1970(parse_time(when, now=moment(now), end=end, what=what))
    if not isinstance(when, datetime):
        raise InvalidInputError(
            f"{what or 'a time'} cannot be {when!r:.60}: it is of type {type(when).__name__}",
            code=ErrorCode.BAD_ARGUMENT,
            hint=f"pass a datetime, or text such as {EXAMPLES}",
        )
    try:
        return _since_1970(_in_utc(when, None))
    except (ValueError, OverflowError, OSError):
        _refuse(when.isoformat(), what, "it is outside the years 1 to 9999")


def _since_1970(when: datetime) -> int:
    # Whole numbers only: a float of seconds has no room for the microseconds.
    return (when - moment(0)) // timedelta(microseconds=1)


def _in_utc(when: datetime, zone: tzinfo | None) -> datetime:
    if when.tzinfo is None and zone is None:
        # astimezone() would read an hour that was left out by the clock after it; timestamp() keeps the promise above.
        whole = datetime.fromtimestamp(int(when.replace(microsecond=0).timestamp()), UTC)
        return whole.replace(microsecond=when.microsecond)
    if when.tzinfo is None:
        when = when.replace(tzinfo=zone)
    return when.astimezone(UTC)


class _Reading:
    """One text being read: what it counts from, and how days and clocks become moments."""

    def __init__(self, now: datetime, zone: tzinfo | None, *, end: bool) -> None:
        self.now = now.astimezone(UTC)
        self.zone = zone
        self.end = end
        self.today = now.astimezone(zone).date()

    def read(self, text: str) -> datetime:
        if text == "now":
            return self.now
        if text.endswith(" ago"):
            return self._ago(text.removesuffix("ago"))
        if text.removeprefix("last ") in _LAST:
            return self._ago(f"1 {text.removeprefix('last ')}")
        return self._clock_first(text) or self._day_first(text) or self._iso(text)

    def _ago(self, text: str) -> datetime:
        place, seconds, months = 0, timedelta(), 0
        while place < len(text):
            found = _PART.match(text, place)
            if found is None:
                raise _Unreadable(f"before 'ago' comes a number and a unit, not {text[place:].strip()!r}")
            place = found.end()
            whole, fraction, word = int(found[1] or 1), found[2] or "", found[3]
            unit = _UNITS.get(word, "")
            if unit in _SECONDS:
                microseconds = _SECONDS[unit] * 1_000_000
                part = int(fraction or 0) * microseconds // 10 ** len(fraction)
                seconds += timedelta(microseconds=whole * microseconds + part)
            elif unit in _MONTHS and not fraction:
                months += whole * _MONTHS[unit]
            else:
                raise _Unreadable(f"{found[0].strip()!r} is no length of time")
        return self._months_back(months) - seconds

    def _months_back(self, months: int) -> datetime:
        if not months:
            return self.now
        local = self.now.astimezone(self.zone)
        year, month = divmod(local.year * 12 + local.month - 1 - months, 12)
        first = date(year, month + 1, 1)
        last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
        return self._local(first.replace(day=min(local.day, last.day)), local.time())

    def _clock_first(self, text: str) -> datetime | None:
        """`5pm`, `17:00 yesterday`, `noon on monday`."""
        clock, rest = _leading_clock(text)
        if clock is None:
            return None
        if rest:
            return self._on(rest.removeprefix("on "), clock)
        today = self._local(self.today, clock)
        return today if today <= self.now else self._local(self.today - timedelta(days=1), clock)

    def _day_first(self, text: str) -> datetime | None:
        """`yesterday`, `last friday`, `monday at 9:00`."""
        words = text.split(" ", 2 if text.startswith("last ") else 1)
        name = " ".join(words[:2]) if words[0] == "last" else words[0]
        rest = text.removeprefix(name).strip()
        if not rest:
            return self._on(name, None)
        if self._day(name) is None:
            return None
        clock, left = _leading_clock(rest)
        if clock is None or left:
            if _DATE.fullmatch(name):
                # A time of day with a zone: that is ISO 8601.
                return None
            raise _Unreadable(f"{rest!r} is no time of day")
        return self._on(name, clock)

    def _on(self, name: str, clock: time | None) -> datetime | None:
        day = self._day(name)
        if day is None:
            if clock is not None:
                raise _Unreadable(f"{name!r} is no day")
            return None
        if clock is None:
            return self._whole(day)
        found = self._local(day, clock)
        if name in _WEEKDAYS and found > self.now:
            return self._local(day - timedelta(days=7), clock)
        return found

    def _day(self, name: str) -> date | None:
        if name in ("today", "yesterday"):
            return self.today - timedelta(days=int(name == "yesterday"))
        if _DATE.fullmatch(name):
            return _date(name)
        weekday = name.removeprefix("last ")
        if weekday not in _WEEKDAYS:
            return None
        back = (self.today.weekday() - _WEEKDAYS[weekday]) % 7
        return self.today - timedelta(days=back or (7 if name.startswith("last ") else 0))

    def _iso(self, text: str) -> datetime:
        # ISO 8601 is written in capitals, and people put a space before the zone.
        text = re.sub(r" (?=z$|[+-][0-9:]+$)", "", text).upper()
        with suppress(ValueError):
            # A basic date (20261115) or a week date: a day alone, like the others.
            return self._whole(date.fromisoformat(text))
        try:
            found = datetime.fromisoformat(text)
        except ValueError as error:
            raise _Unreadable(_reason(error)) from error
        return _in_utc(found, self.zone)

    def _whole(self, day: date) -> datetime:
        if not self.end:
            return self._local(day, time(0))
        if day == date.max:
            return self._local(day, time.max)
        return self._local(day + timedelta(days=1), time(0)) - timedelta(microseconds=1)

    def _local(self, day: date, clock: time) -> datetime:
        return _in_utc(datetime.combine(day, clock.replace(fold=0)), self.zone)


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise _Unreadable(_reason(error)) from error


def _reason(error: ValueError) -> str:
    """What Python says about a number that is too large is worth showing; that a text is no ISO format is not."""
    return str(error) if "must be" in str(error) or "range" in str(error) else "nothing in it is known"


def _leading_clock(text: str) -> tuple[time | None, str]:
    """The time of day at the start of a text, and what comes after it."""
    text = text.removeprefix("at ")
    word, _, rest = text.partition(" ")
    if word in _NAMED_CLOCKS:
        return _NAMED_CLOCKS[word], rest
    found = _CLOCK.match(text)
    if found is None or not (found[2] or found[5]) or text[found.end() : found.end() + 1] not in ("", " "):
        return None, text
    hour, half = int(found[1]), found[5]
    if half and not 1 <= hour <= 12:
        raise _Unreadable(f"there is no {found[0]!r}: before am and pm comes 1 to 12")
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    minute, second, fraction = int(found[2] or 0), int(found[3] or 0), (found[4] or "").ljust(6, "0")
    if hour > 23 or minute > 59 or second > 59:
        raise _Unreadable(f"there is no {found[0]!r} on a clock")
    return time(hour, minute, second, int(fraction)), text[found.end() :].strip()


def _refuse(text: object, what: str, why: str) -> NoReturn:
    raise InvalidInputError(
        f"{what + ': ' if what else ''}{text!r:.60} is not a time: {why}",
        code=ErrorCode.BAD_TIME,
        hint=f"write {EXAMPLES}",
        text=repr(text)[:60],
    )
