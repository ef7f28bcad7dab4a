"""`holdfast migrate`."""

from __future__ import annotations

import json

import pytest
from tests.surfaces.cli.places import place

import holdfast
from holdfast.backends.postgres import creation
from holdfast.backends.postgres.creation import VERSION, Migration, migrations


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


def test_the_steps_are_named_and_taken(run, postgres_url, monkeypatch):
    holdfast.open(postgres_url).close()
    step = Migration(VERSION + 1, "an example", "ALTER TABLE tags ADD COLUMN example bigint")
    steps = [*migrations(), step]
    monkeypatch.setattr(creation, "migrations", lambda: steps)
    monkeypatch.setattr(creation, "VERSION", VERSION + 1)

    refused = run("list", "--store", postgres_url)
    assert refused.exit_code == 6
    assert "holdfast migrate" in refused.stderr

    looked = run("migrate", "--dry-run", "--json", "--store", postgres_url)
    assert json.loads(looked.stdout)["steps"] == [f"{VERSION + 1:04} an example"]
    assert run("list", "--store", postgres_url).exit_code == 6

    done = run("migrate", "--store", postgres_url)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == f"{VERSION + 1:04} an example\n"
    assert "xyzzy" not in done.stdout + done.stderr
    assert run("migrate", "--store", postgres_url).stdout == ""
