"""`holdfast tag`, `pin`, `annotate` and `delete`."""

from __future__ import annotations

import pytest
from tests.surfaces.cli.places import place

import holdfast


@pytest.fixture
def store(home):
    with holdfast.open(place(home)) as opened:
        for n in (1, 2, 3):
            opened.session().save({"n": n}, f"step {n}", tags=["verified"] if n < 3 else ())
        yield opened.session()


def test_the_tags_of_a_session_are_listed_with_what_they_name(run, terminal, store):
    store.tag("#3", "golden")

    rows = [line.split("\t") for line in run("tag").stdout.splitlines()]
    screen = terminal("tag", "--color", "never").screen.splitlines()

    assert [(row[0], row[1], row[3], row[5]) for row in rows] == [
        ("golden", "1", "3", "step 3"),
        ("verified", "2", "2", "step 2"),
    ]
    assert screen[0].split() == ["TAG", "COUNT", "ID", "SEQ", "SAVED", "MESSAGE"]
    assert run("tag", "--session", "nope").exit_code == 4


def test_a_checkpoint_where_branches_part_needs_force(run, store):
    store.fork("#2", "side")

    assert run("delete", "#2").exit_code == 2
    assert run("delete", "#2", "--force").exit_code == 0
    assert [each.seq for each in store.log("side")] == [4, 1]
