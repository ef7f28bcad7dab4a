"""`holdfast migrate`."""

from __future__ import annotations

import pytest
from tests.surfaces.cli.places import place

import holdfast


def test_a_sqlite_store_is_up_to_date(run, home):
    holdfast.open(place(home)).close()
    result = run("migrate")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "up to date" in result.stderr


@pytest.mark.usefixtures("no_store_yet")
def test_without_a_store_it_says_so(run):
    assert run("migrate").exit_code == 10


def test_a_session_does_not_apply(run, home):
    holdfast.open(place(home)).close()
    result = run("migrate", "--session", "s")
    assert result.exit_code == 2
    assert "does not apply" in result.stderr
