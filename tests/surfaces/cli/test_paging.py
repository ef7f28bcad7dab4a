"""A pager for long output on a terminal (C23)."""

from __future__ import annotations

import pytest
from tests.surfaces.cli.conftest import PROGRAM
from tests.surfaces.cli.places import place

import holdfast

MARKED = "sed s/^/paged:/"


@pytest.fixture
def long(home):
    with holdfast.open(place(home), durability="process") as store:
        for n in range(30):
            store.session().save({"many": list(range(900))}, f"message {n}")
    return home


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("args", [["list"], ["show", "--full"]])
def test_what_is_longer_than_the_screen_goes_through_the_pager(talk, args):
    seen = talk([*PROGRAM, *args], HOLDFAST_PAGER=MARKED, NO_COLOR="1")

    assert seen.exit_code == 0
    lines = seen.screen.splitlines()
    assert len(lines) > 24
    assert all(line.startswith("paged:") for line in lines)


@pytest.mark.usefixtures("long")
def test_what_fits_is_written_straight_out(talk):
    assert "paged" not in talk([*PROGRAM, "list", "--limit", "21"], HOLDFAST_PAGER=MARKED).screen
    assert "paged" in talk([*PROGRAM, "list", "--limit", "22"], HOLDFAST_PAGER=MARKED).screen


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(
    ("args", "env"),
    [
        (["--no-pager"], {"HOLDFAST_PAGER": MARKED}),
        (["--json"], {"HOLDFAST_PAGER": MARKED}),
        ([], {"HOLDFAST_PAGER": "", "PAGER": MARKED}),
        ([], {"HOLDFAST_PAGER": "cat", "PAGER": MARKED}),
        ([], {"HOLDFAST_PAGER": MARKED, "TERM": "dumb"}),
        ([], {"HOLDFAST_PAGER": "'open quote"}),
    ],
)
def test_there_is_no_pager_where_nobody_wants_one_or_none_is_there(talk, args, env):
    seen = talk([*PROGRAM, "list", *args], **env)

    assert seen.exit_code == 0
    assert "message 0" in seen.screen
    assert "paged:" not in seen.screen


@pytest.mark.usefixtures("long")
def test_the_pager_of_the_environment_is_used_where_holdfast_has_none_of_its_own(talk):
    assert "paged:" in talk([*PROGRAM, "list"], PAGER=MARKED).screen
    assert "own:" in talk([*PROGRAM, "list"], PAGER=MARKED, HOLDFAST_PAGER="sed s/^/own:/").screen


@pytest.mark.usefixtures("long")
def test_leaving_the_pager_early_is_no_error_and_talk_comes_after_it(talk):
    with holdfast.open(".holdfast", durability="process") as store:
        for n in range(40):
            store.session().save({"text": "x" * 7000, "n": n}, "y" * 3000)

        # Far more than a pipe holds: the program is still writing when the pager is gone.
        store.session().save({"text": "x" * 900_000}, "long")

    left = talk([*PROGRAM, "list", "--limit", "0"], HOLDFAST_PAGER="head -n 1")
    cut = talk([*PROGRAM, "list"], HOLDFAST_PAGER="cat -", NO_COLOR="1")
    shown = talk([*PROGRAM, "show", "--full"], HOLDFAST_PAGER="head -n 1")

    assert left.exit_code == shown.exit_code == 0
    assert "error" not in left.screen + shown.screen
    assert cut.screen.splitlines()[-1].startswith("only the newest 50")
