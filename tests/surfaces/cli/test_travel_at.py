"""`holdfast at` (C13, C14)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from tests.surfaces.cli.places import place

from holdfast.backends.registry import connect
from holdfast.store import Store

DAY = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.fixture
def store(home, monkeypatch):
    """Saved at 10:00:00, 10:03:12 and 10:04:00 UTC; a side branch at 10:03:30."""
    monkeypatch.setenv("TZ", "UTC")
    clock = [0.0]
    backend = connect(place(home), durability="power", create=True, timeout=10)
    with Store(backend, clock=lambda: int(clock[0] * 1_000_000)) as opened:
        session = opened.session()
        clock[0] = DAY.replace(hour=10).timestamp()
        session.save({"n": 1}, "first", tags=["verified"])
        clock[0] = DAY.replace(hour=10, minute=3, second=12).timestamp()
        second = session.save({"n": 2}, "second")
        clock[0] = DAY.replace(hour=10, minute=3, second=30).timestamp()
        session.fork(second, "side")
        clock[0] = DAY.replace(hour=10, minute=4).timestamp()
        session.save({"n": 3}, "third")
        yield opened


def seq(result):
    return result.stdout.split("\t")[1]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("when", "found", "missed", "following"),
    [
        ("2026-03-02 10:02:00", 1, 120, 2),
        ("2026-03-02 10:03:12", 2, 0, 4),
        ("2026-03-02 10:03:59.5", 2, 47.5, 4),
        ("2026-03-02T12:04:00+01:00", 4, 3600, None),
        ("2026-03-04", 4, 2 * 86400 - 36240, None),
        ("2026-03-02 09:59:50", 1, -10, 2),
    ],
)
def test_it_says_what_was_asked_and_by_how_much_it_missed(run, when, found, missed, following):
    told = json.loads(run("at", when, "--nearest", "--json").stdout)

    asked = datetime.fromisoformat(when)
    asked = asked if asked.tzinfo else asked.replace(tzinfo=UTC)
    assert datetime.fromisoformat(told["asked"]) == asked
    assert (told["checkpoint"]["seq"], told["missed_seconds"]) == (found, missed)
    assert (told["next"] and told["next"]["seq"]) == following


@pytest.mark.usefixtures("store")
def test_quotes_are_not_needed_and_a_time_without_a_zone_is_local(run, process):
    assert seq(run("at", "2026-03-02", "10:03:30")) == "2"
    assert seq(run("at", "1", "minute", "ago")) == "4"
    # 10:03:30 in New York is 15:03:30 in UTC.
    assert process("at", "2026-03-02 10:03:30", TZ="America/New_York").stderr.startswith(
        "asked: 2026-03-02T15:03:30"
    )


@pytest.mark.usefixtures("store")
def test_it_is_about_one_branch_unless_told_otherwise(run):
    assert seq(run("at", "2026-03-02 10:03:45")) == "2"
    assert seq(run("at", "2026-03-02 10:03:45", "--branch", "side")) == "3"
    assert seq(run("at", "2026-03-02 10:03:45", "--all")) == "3"
    run("switch", "side")
    assert seq(run("at", "2026-03-02 10:03:45")) == "3"


@pytest.mark.usefixtures("store")
def test_a_tag_narrows_it_down(run):
    assert seq(run("at", "2026-03-02 10:03:45", "--tag", "verified")) == "1"
    typo = run("at", "2026-03-02 10:03:45", "--tag", "verifed")
    assert typo.exit_code == 4
    assert "did you mean 'verified'?" in typo.stderr


@pytest.mark.usefixtures("store")
def test_before_the_first_is_an_error_with_the_range_unless_nearest_is_enough(run):
    refused = run("at", "2025-01-20 14:30:00")

    assert refused.exit_code == 4
    assert "code: before-history" in refused.stderr
    assert "2026-03-02T10:00:00Z" in refused.stderr
    assert seq(run("at", "2026-03-02 09:59:59", "--nearest")) == "1"


@pytest.mark.usefixtures("store")
def test_the_state_is_printed_as_show_prints_it(run):
    at = run("at", "2026-03-02 10:03:12", "--state")

    assert at.stdout == run("show", "#2", "--state").stdout
    assert (
        run("at", "2026-03-02 10:03:12", "--state", "--json").stdout
        == run("show", "#2", "--state", "--json").stdout
    )


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("when", ["soon", "", "2026-02-30", "99:99"])
def test_what_is_no_time_is_refused(run, when):
    result = run("at", when)

    assert result.exit_code == 2
    assert "code: bad-time" in result.stderr
