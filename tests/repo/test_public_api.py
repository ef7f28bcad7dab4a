"""The public names are those of the checked-in list, and importing holdfast stays cheap."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import holdfast

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("public_api.txt")

# Part of the public contract: programs rely on these names, and docs/architecture.md explains them.
METHODS = {
    "Store": "backup close current_branch find projects rehearsal session sessions stats url",
    "Session": (
        "annotate branches checkpoint clear delete delete_branch document exists fork load log operations pin redo "
        "rename_branch restore save switch tag undo unpin untag"
    ),
    "Document": "changes plain save",
    "Checkpoint": (
        "agent app_version branch cost_usd created_at duration_ms id key message metadata parent parents pinned "
        "position prev project root seq session size_bytes skipped status step stored_at stored_bytes tags to_dict "
        "tokens trigger"
    ),
    "HoldfastError": "exit_code to_dict",
}

# Each costs more to import than holdfast itself, and most programs that save a state need none of them.
HEAVY = ("anyio", "asyncio", "attr", "attrs", "click", "hypothesis", "pydantic")


def test_the_public_names_are_the_listed_ones():
    listed = LIST.read_text(encoding="utf-8").split()

    assert list(holdfast.__all__) == listed, "a changed public name also needs a line in CHANGELOG.md"
    assert listed == sorted(listed)


@pytest.mark.parametrize("name", LIST.read_text(encoding="utf-8").split())
def test_a_public_name_can_be_imported(name):
    assert getattr(holdfast, name) is not None
    assert name in dir(holdfast)


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = holdfast.no_such_name


@pytest.mark.parametrize(("owner", "names"), METHODS.items())
def test_the_methods_of_the_contract_are_there(owner, names):
    cls = getattr(holdfast, owner)

    assert set(names.split()) - {*dir(cls), *getattr(cls, "__annotations__", ())} == set()


def heavy_modules_after(statement: str) -> list[str]:
    program = f"import sys; {statement}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_holdfast_loads_nothing_heavy():
    assert heavy_modules_after("import holdfast") == []


def test_the_async_part_is_loaded_when_it_is_asked_for():
    assert "anyio" in heavy_modules_after("from holdfast import AsyncStore")


def test_the_package_and_its_metadata_agree_on_the_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert holdfast.__version__ == project["version"]


def test_the_package_says_that_it_is_typed():
    assert (Path(holdfast.__file__).parent / "py.typed").exists()
