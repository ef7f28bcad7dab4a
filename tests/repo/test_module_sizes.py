"""Modules stay small, say what they are for, and have names that mean something."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WALL = 600
NAMES_OF_NOTHING = {"util", "utils", "helper", "helpers", "common", "misc", "base", "core", "manager"}
ENDINGS_OF_NOTHING = ("Manager", "Helper", "Handler", "Impl")

SOURCES = sorted([*ROOT.glob("src/**/*.py"), *ROOT.glob("tools/**/*.py")])
EVERYTHING = [*SOURCES, *sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("bench/**/*.py")])]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def empty_names(path: Path) -> set[str]:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return NAMES_OF_NOTHING & {word for part in parts for word in part.split("_")}


def empty_classes(source: str) -> list[str]:
    classes = [node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    return [name for name in classes if name.endswith(ENDINGS_OF_NOTHING)]


def opens_with_a_sentence(source: str) -> bool:
    first = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    return first.endswith((".", "?")) and len(first.split()) >= 3


@pytest.mark.parametrize("path", EVERYTHING, ids=named)
def test_a_module_is_not_longer_than_the_wall(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())

    assert lines <= WALL, f"{named(path)} has {lines} lines: split it along its ideas"


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_module_is_named_after_an_idea(path):
    source = path.read_text(encoding="utf-8")

    assert not empty_names(path)
    assert not empty_classes(source)
    assert opens_with_a_sentence(source), (
        f"{named(path)}: the first line of the docstring says what it is for"
    )


def test_empty_names_are_noticed():
    assert empty_names(ROOT / "src/holdfast/store_utils.py") == {"utils"}
    assert empty_names(ROOT / "src/holdfast/core/store.py") == {"core"}
    assert empty_classes("class StoreManager: ...\nclass Store:\n    class CodecImpl: ...") == [
        "StoreManager",
        "CodecImpl",
    ]
    assert not opens_with_a_sentence('"""Chunks"""')
    assert not opens_with_a_sentence("x = 1")
