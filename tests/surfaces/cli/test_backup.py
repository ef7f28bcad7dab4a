"""`holdfast backup`."""

from __future__ import annotations

import json

import pytest
from tests.surfaces.cli.places import place

import holdfast

KEPT_IN = ["sqlite"]


@pytest.fixture
def store(home):
    with holdfast.open(place(home)) as opened:
        opened.session().save({"n": 1}, "kept")
        yield home


@pytest.mark.usefixtures("store")
def test_the_copy_is_a_store_of_its_own_and_its_path_is_printed(run, home):
    result = run("backup", "copy.db")

    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"{home / 'copy.db'}\n"
    assert run("list", "--store", "copy.db").stdout == run("list").stdout
    assert json.loads(run("show", "--state", "--json", "--store", "copy.db").stdout) == {"n": 1}


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("path", "code"),
    [("there.db", "path-exists"), ("folder", "path-exists"), ("no/where.db", "bad-argument")],
)
def test_what_is_there_is_never_replaced_and_a_dry_run_says_the_same(run, home, path, code, dry):
    (home / "there.db").write_text("mine", encoding="utf-8")
    (home / "folder").mkdir()

    result = run("backup", path, *dry)

    assert result.exit_code == 2
    assert f"code: {code}" in result.stderr
    assert (home / "there.db").read_text(encoding="utf-8") == "mine"


def test_a_dry_run_tells_the_same_plan_and_writes_nothing(run, store):
    before = sorted(path.name for path in store.rglob("*"))
    dry = run("backup", "copy.db", "-n")

    assert (dry.exit_code, dry.stdout) == (0, "")
    assert sorted(path.name for path in store.rglob("*")) == before
    assert dry.stderr.splitlines()[0] == run("backup", "copy.db").stderr.splitlines()[0]
    assert "nothing was written" in dry.stderr
