"""What each rule and cap of a Keep keeps, and how the rest of history closes over what goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import ErrorCode, InvalidInputError, Keep
from holdfast.backends.memory import MemoryBackend
from holdfast.history.removal import plan_removal
from holdfast.history.retention import plan
from holdfast.storage.records import BranchRow, CheckpointRow
from holdfast.testing.rows import batch, checkpoint_id, history, row, save

NOW = datetime(2026, 11, 15, 17, 30, tzinfo=UTC)  # a Sunday


def micro(when):
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def line(*ages, session="work", first=1, **fields):
    """Rows of those ages, oldest first, each after the one before; named a1, a2 ... of their session."""
    rows: list[CheckpointRow] = []
    for seq, age in enumerate(ages, start=first):
        made = row(
            f"{session}{seq}",
            session=session,
            seq=seq,
            position=seq,
            created_at=micro(NOW - age),
            prev=rows[-1].id if rows else None,
            **{"trigger": "auto:tick"} | fields,
        )
        rows.append(made)
    return rows


def tip(of, name="main"):
    return BranchRow(session=of.session, name=name, head=of.id, moved_at=0)


def hours(*numbers):
    return [timedelta(hours=number) for number in numbers]


def change(rows, seq, **fields):
    return [each._replace(**fields) if each.seq == seq else each for each in rows]


def kept(rows, keep, *heads, now=NOW, **more):
    """The seqs that stay, with their reasons."""
    decided = plan(rows, heads or [tip(rows[-1])], keep, micro(now), **more).decisions
    return {each.row.seq: each.reasons for each in decided if each.kept}


def gone(rows, keep, *heads, now=NOW):
    decided = plan(rows, heads or [tip(rows[-1])], keep, micro(now)).decisions
    return {each.row.seq: each.reasons for each in decided if not each.kept}


FIVE = line(*hours(50, 30, 4, 2.5, 0))


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (Keep(last=2), {4: ("last 2",), 5: ("tip of main", "last 2")}),
        (Keep(within="3h"), {4: ("within 3h",), 5: ("tip of main", "within 3h")}),
        (
            Keep(days=1),
            dict.fromkeys((3, 4), ("younger than 1 day",)) | {5: ("tip of main", "younger than 1 day")},
        ),
        (
            Keep(days=2),
            dict.fromkeys((2, 3, 4), ("younger than 2 days",)) | {5: ("tip of main", "younger than 2 days")},
        ),
        (Keep(hourly=2), {4: ("hourly 2026-11-15 15:00",), 5: ("tip of main", "hourly 2026-11-15 17:00")}),
        (
            Keep(daily=3),
            {1: ("daily 2026-11-13",), 2: ("daily 2026-11-14",), 5: ("tip of main", "daily 2026-11-15")},
        ),
        (Keep(weekly="all"), {5: ("tip of main", "weekly 2026-W46")}),
        (Keep(monthly=1), {5: ("tip of main", "monthly 2026-11")}),
        (Keep(manual=True), {5: ("tip of main",)}),
        (Keep(at_most=2), {4: ("newest 2",), 5: ("tip of main", "newest 2")}),
        (
            Keep(max_age_days=1),
            dict.fromkeys((3, 4), ("not older than 1 day",)) | {5: ("tip of main", "not older than 1 day")},
        ),
        (
            Keep(last=4, at_most=3, max_age_days=1),
            {3: ("last 4",), 4: ("last 4",), 5: ("tip of main", "last 4")},
        ),
        (Keep(last=1, within="3h"), {4: ("within 3h",), 5: ("tip of main", "last 1", "within 3h")}),
    ],
    ids=str,
)
def test_a_rule_keeps_what_it_says_and_says_so(keep, expected):
    assert kept(FIVE, keep) == expected


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (Keep(last=4), {1: ("no rule keeps it",)}),
        (Keep(at_most=3), {1: ("at most 3",), 2: ("at most 3",)}),
        (Keep(max_age_days=2), {1: ("older than 2 days",)}),
        (Keep(last=4, at_most=2), {1: ("no rule keeps it",), 2: ("at most 2",), 3: ("at most 2",)}),
        (Keep(last=5, max_age_days=1), {1: ("older than 1 day",), 2: ("older than 1 day",)}),
    ],
    ids=str,
)
def test_what_goes_has_its_reason(keep, expected):
    assert gone(FIVE, keep) == expected


@pytest.mark.parametrize(
    ("period", "before", "after", "labels"),
    [
        (
            "hourly",
            "2026-01-01T00:59:59.999999",
            "2026-01-01T01:00:00",
            ("2026-01-01 00:00", "2026-01-01 01:00"),
        ),
        ("daily", "2025-12-31T23:59:59.999999", "2026-01-01T00:00:00", ("2025-12-31", "2026-01-01")),
        ("weekly", "2026-01-04T23:59:59.999999", "2026-01-05T00:00:00", ("2026-W01", "2026-W02")),
        ("weekly", "1969-12-28T23:59:59.999999", "1969-12-29T00:00:00", ("1969-W52", "1970-W01")),
        ("monthly", "2024-02-29T23:59:59.999999", "2024-03-01T00:00:00", ("2024-02", "2024-03")),
    ],
)
def test_periods_are_those_of_the_calendar(period, before, after, labels):
    moments = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (before, after, after)]
    rows = line(*(NOW - when for when in moments))

    reasons = kept(rows, Keep(**dict[str, Any]([(period, "all")])))
    assert reasons == {1: (f"{period} {labels[0]}",), 3: ("tip of main", f"{period} {labels[1]}")}


def test_manual_tags_and_significant_look_at_what_a_checkpoint_is():
    rows = line(*hours(*range(9, 0, -1)))
    rows = change(rows, 1, trigger="manual")
    rows = change(rows, 2, tags=("golden", "other"))
    rows = change(rows, 3, tags=("contradiction_detected",))
    rows = change(rows, 4, trigger="auto:hypothesis.confirmed")
    rows = change(rows, 5, trigger="auto:hypothesis.rejected")
    rows = change(rows, 6, trigger="merge")
    rows = change(rows, 7, trigger="auto:hypothesis.opened")

    assert kept(rows, Keep(manual=True)) == {1: ("manual",), 9: ("tip of main",)}
    assert kept(rows, Keep(tags=["silver", "golden"])) == {2: ("tag golden",), 9: ("tip of main",)}
    assert list(kept(rows, Keep(significant=True))) == [9, 6, 5, 4, 3]


@pytest.mark.parametrize(
    "tag", ["hypothesis_confirmed", "hypothesis_rejected", "contradiction_detected", "branch_merged"]
)
def test_the_tags_of_the_source_document_are_significant(tag):
    rows = change(line(*hours(3, 2, 1)), 1, tags=(tag,))

    assert kept(rows, Keep(significant=True))[1] == ("significant",)


def test_pins_tips_and_fork_points_stay_whatever_the_caps_say():
    rows = line(*hours(*range(900, 890, -1)))
    rows = change(rows, 2, pinned=True)
    side = row("side", seq=11, position=11, created_at=rows[-1].created_at, prev=rows[3].id, branch="side")

    reasons = kept([*rows, side], Keep(at_most=1, max_age_days=1), tip(rows[-1]), tip(side, "side"))
    assert reasons == {
        11: ("tip of side",),
        10: ("tip of main",),
        4: ("branches part here",),
        2: ("pinned",),
    }


@pytest.mark.parametrize(
    "empty", [{}, {"per": "agent"}, {"tags": []}, {"manual": False, "last": None}], ids=str
)
def test_a_policy_that_says_nothing_is_refused(empty):
    with pytest.raises(InvalidInputError) as caught:
        Keep(**empty)
    assert caught.value.code is ErrorCode.EMPTY_POLICY
    assert "last=10" in caught.value.hint


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"last": 0}, "last=10"),
        ({"last": -1}, "last=10"),
        ({"last": True}, "last=10"),
        ({"last": 1.0}, "last=10"),
        ({"last": "10"}, "last=10"),
        ({"last": 10**9 + 1}, "last=10"),
        ({"days": 0}, "days=10"),
        ({"at_most": 0}, "at_most=10"),
        ({"max_age_days": -3}, "max_age_days=10"),
        ({"hourly": True}, 'hourly="all"'),
        ({"daily": "every"}, 'daily="all"'),
        ({"weekly": 0}, 'weekly="all"'),
        ({"monthly": 1.5}, 'monthly="all"'),
        ({"within": "1 hour"}, '"1h"'),
        ({"within": "0s"}, '"1h"'),
        ({"within": ""}, '"1h"'),
        ({"within": "-1h"}, '"1h"'),
        ({"within": "1h\n"}, '"1h"'),
        ({"within": "\u0661h"}, '"1h"'),
        ({"within": "999999999w"}, '"1h"'),
        ({"within": 60}, '"1h"'),
        ({"within": timedelta(0)}, '"1h"'),
        ({"within": timedelta(seconds=-1)}, '"1h"'),
        ({"within": timedelta(milliseconds=1500)}, '"1h"'),
        ({"within": timedelta.max}, '"1h"'),
        ({"manual": 1}, "manual=True"),
        ({"significant": "yes"}, "significant=True"),
        ({"tags": "golden"}, "tags=['golden']"),
        ({"tags": None}, "tags="),
        ({"last": 1, "per": "agents"}, '"session"'),
        ({"last": 1, "per": "store"}, '"session"'),
        ({"last": 1, "per": None}, '"session"'),
        ({"last": 1, "per": ["session"]}, '"session"'),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_used_is_refused_with_a_hint(wrong, hint):
    with pytest.raises(InvalidInputError) as caught:
        Keep(**wrong)
    assert caught.value.code is ErrorCode.BAD_ARGUMENT
    assert hint in caught.value.hint


def after(rows, edits):
    new = {each.id: each for _, each in edits}
    return [each._replace(**new[each.id]._asdict()) if each.id in new else each for each in rows]


@pytest.fixture
def backend():
    """A session of four checkpoints whose second one was removed."""
    backend = MemoryBackend()
    for label, previous in zip("abcd", [None, *"abc"], strict=True):
        backend.commit(save(label, after=previous))
    with backend.reader() as reader:
        session, second = reader.session("work"), reader.checkpoint(checkpoint_id("b"))
        assert session is not None
        assert second is not None
        removed = plan_removal(reader, session, second, force=False)
    backend.commit(batch(edits=tuple(new for _, new in removed.edits), operations=history(1)))
    return backend
