"""Did you mean (C17)."""

from __future__ import annotations

import pytest

from holdfast.settings.near import close_names


def test_only_names_within_two_slips_are_offered_and_only_the_nearest():
    assert close_names("mian", ["main", "mean", "maintenance"]) == ["main", "mean"]
    assert close_names("surveyy-1", ["survey-1", "survey-2"]) == ["survey-1"]
    assert close_names("zzzz", ["main", "risky"]) == []
    assert close_names("verified", ["verifxyz"]) == []
    assert close_names("x", ["yz"]) == []


@pytest.mark.parametrize(
    ("typed", "meant"), [("lst", "list"), ("shwo", "show"), ("creat", "create"), ("dmeo", "demo")]
)
def test_a_mistyped_command_is_suggested_and_not_run(run, home, typed, meant):
    result = run(typed)

    assert result.exit_code == 2
    assert f"did you mean {meant}?" in result.stderr
    assert list(home.iterdir()) == []


def test_a_mistyped_option_is_suggested(run):
    assert "did you mean --session?" in run("list", "--sesion", "x").stderr
    assert "did you mean --limit?" in run("list", "--limt", "3").stderr
