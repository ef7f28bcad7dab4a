"""`Keep`: which checkpoints a session keeps, as one record.

It has two kinds of fields. Keep rules are ORed: a checkpoint that one of them wants is kept. Caps win over the rules.
Everything is checked when the record is made, so that a `Keep` that exists can be carried out; what it means for the
checkpoints of a session is worked out in `retention`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, cast

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.history.names import check_tags

Per = Literal["session", "branch", "agent"]
Count = int | Literal["all"]
"""How many periods a calendar rule looks back over; "all" is every one there is."""

PER = ("session", "branch", "agent")
PERIODS = ("hourly", "daily", "weekly", "monthly")
RULES = ("last", "within", *PERIODS, "days", "manual", "tags", "significant")
CAPS = ("at_most", "max_age_days")

_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SPAN = re.compile(r"([0-9]{1,9})([wdhms])")
_MOST = 1_000_000_000
"""No store gets near it, and every sum with it fits into 64 bits."""
_PLAIN = re.compile(r"[\w.:/+,-]+")


@dataclass(frozen=True, init=False, repr=False)
class Keep:
    """Which checkpoints to keep.

        Keep(last=100, days=7)                                           # the newest 100, and all of the last 7 days
        Keep(within="1h", manual=True, significant=True, hourly="all")   # the last hour; of what is older, those that
                                                                         # matter and one an hour
        Keep(at_most=10)                                                 # everything, but never more than 10
        Keep(max_age_days=30)                                            # everything, until it is 30 days old
        Keep(at_most=100, per="agent")                                   # 100 for each agent, over all its sessions

    A checkpoint is kept if any of the keep rules wants it. The caps, `at_most` and `max_age_days`, win over the rules;
    with caps alone, everything is kept that they do not remove. The tip of a branch, a checkpoint from which branches
    go on and one that is pinned always stay, whatever is said here. A `Keep` that says nothing is refused.

    `hourly`, `daily`, `weekly` and `monthly` keep the newest checkpoint of each period of the calendar (UTC; weeks
    begin on Monday), for so many of the latest periods that have one; "all" sets no limit.

    Args:
        last: The newest so many.
        within: Everything younger than "90s", "30m", "1h", "2d" or "1w", or than a timedelta.
        hourly: One for each hour.
        daily: One for each day.
        weekly: One for each week.
        monthly: One for each month.
        days: Everything younger than so many days.
        manual: Those that somebody asked for (trigger `manual`).
        tags: Those with any of these tags.
        significant: Those tagged hypothesis_confirmed, hypothesis_rejected, contradiction_detected or branch_merged,
            or saved by a trigger of that meaning, such as `auto:hypothesis.confirmed` or `merge`.
        at_most: A cap: only the newest so many of all that would be kept.
        max_age_days: A cap: nothing older than so many days.
        per: What `last`, `at_most` and the periods count in: each "session", each "branch" or each "agent".

    Raises:
        InvalidInputError: A value cannot be used (`bad-argument`), or nothing is said at all (`empty-policy`).
    """

    last: int | None
    within: str | None
    hourly: Count | None
    daily: Count | None
    weekly: Count | None
    monthly: Count | None
    days: int | None
    manual: bool
    tags: tuple[str, ...]
    significant: bool
    at_most: int | None
    max_age_days: int | None
    per: Per

    def __init__(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        *,
        last: int | None = None,
        within: str | timedelta | None = None,
        hourly: Count | None = None,
        daily: Count | None = None,
        weekly: Count | None = None,
        monthly: Count | None = None,
        days: int | None = None,
        manual: bool = False,
        tags: Iterable[str] = (),
        significant: bool = False,
        at_most: int | None = None,
        max_age_days: int | None = None,
        per: Per = "session",
    ) -> None:
        values = {
            "last": _number("last", last),
            "within": _span(within),
            "hourly": _count("hourly", hourly),
            "daily": _count("daily", daily),
            "weekly": _count("weekly", weekly),
            "monthly": _count("monthly", monthly),
            "days": _number("days", days),
            "manual": _flag("manual", manual),
            "tags": check_tags(tags),
            "significant": _flag("significant", significant),
            "at_most": _number("at_most", at_most),
            "max_age_days": _number("max_age_days", max_age_days),
            "per": _per(per),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if not (has_rules(self) or self.at_most or self.max_age_days):
            raise InvalidInputError(
                "this Keep says nothing about what to keep",
                code=ErrorCode.EMPTY_POLICY,
                hint="give a rule such as last=10 or days=7, or a cap such as at_most=10",
            )

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain JSON data; `Keep(**data)` makes the same record again."""
        return {name: getattr(self, name) for name in (*RULES, *CAPS, "per")} | {"tags": list(self.tags)}

    def __str__(self) -> str:
        """What is set, in one line: `last=100 days=7 per=session`."""
        words = []
        for name, value in self._given():
            text = ",".join(value) if name == "tags" else str(value)
            # Quoted where a tag could be taken for the next word: two different records never look the same.
            shown = text if _PLAIN.fullmatch(text) else repr(text)
            words.append(name if value is True else f"{name}={shown}")
        return " ".join([*words, f"per={self.per}"])

    def __repr__(self) -> str:
        given = [f"{name}={list(value) if name == 'tags' else value!r}" for name, value in self._given()]
        return f"Keep({', '.join(given if self.per == 'session' else [*given, f'per={self.per!r}'])})"

    def _given(self) -> list[tuple[str, Any]]:
        return [(name, value) for name in (*RULES, *CAPS) if (value := getattr(self, name))]


def has_rules(keep: Keep) -> bool:
    """Whether there is a keep rule; without one, everything is kept that no cap removes."""
    return any(getattr(keep, name) for name in RULES)


def check_keep(keep: object) -> Keep:
    """Return `keep` if it is a policy."""
    if not isinstance(keep, Keep):
        raise InvalidInputError(
            f"a policy must be a Keep, not {type(keep).__name__}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass Keep(last=100, days=7)",
        )
    return keep


def microseconds(span: str) -> int:
    """How long a checked span such as "90m" is."""
    return int(span[:-1]) * _SECONDS[span[-1]] * 1_000_000


def _number(name: str, value: object) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 1 <= value <= _MOST:
        raise _bad(name, value, f"a whole number from 1 to {_MOST}", f"pass {name}=10, say, or leave it out")
    return value


def _count(name: str, value: object) -> Count | None:
    if value is None:
        return None
    if isinstance(value, str) and value == "all":
        return "all"
    if type(value) is not int or not 1 <= value <= _MOST:
        wanted = f'a whole number from 1 to {_MOST}, or "all"'
        raise _bad(name, value, wanted, f'pass {name}=24, say, {name}="all" for no limit, or leave it out')
    return value


def _flag(name: str, value: object) -> bool:
    if type(value) is not bool:
        raise _bad(name, value, "True or False", f"pass {name}=True, or leave it out")
    return value


def _span(value: object) -> str | None:
    """The span in its largest unit up to days, so that equal spans are equal texts."""
    if value is None:
        return None
    seconds, rest = 0, timedelta()
    if isinstance(value, timedelta):
        seconds, rest = divmod(value, timedelta(seconds=1))
    elif isinstance(value, str) and (match := _SPAN.fullmatch(value)):
        seconds = int(match[1]) * _SECONDS[match[2]]
    if rest or not 1 <= seconds <= _MOST:
        wanted = f"a time span of 1 to {_MOST} whole seconds"
        raise _bad(
            "within", value, wanted, 'write it as "90s", "30m", "1h", "2d" or "1w", or pass a timedelta'
        )
    unit = next(unit for unit in "dhms" if seconds % _SECONDS[unit] == 0)
    return f"{seconds // _SECONDS[unit]}{unit}"


def _per(value: object) -> Per:
    if isinstance(value, str) and value in PER:
        return cast("Per", value)
    raise _bad("per", value, '"session", "branch" or "agent"', 'use "session", "branch" or "agent"')


def _bad(name: str, value: object, wanted: str, hint: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name} of a Keep must be {wanted}, not {value!r:.60}",
        code=ErrorCode.BAD_ARGUMENT,
        hint=hint,
        argument=name,
    )
