"""Modules stay small, say what they are for, and have names that mean something."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WALL = 600
NAMES_OF_NOTHING = {"util", "utils", "helper", "helpers", "common", "misc", "base", "core", "manager"}
ENDINGS_OF_NOTHING = ("Manager", "Helper", "Handler", "Impl")

SOURCES = {*ROOT.glob("src/**/*.py"), *ROOT.glob("tools/**/*.py")}
EVERYTHING = sorted({*SOURCES, *ROOT.glob("tests/**/*.py"), *ROOT.glob("bench/**/*.py")})


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


def complaints(path: Path) -> list[str]:
    """What is wrong with a module; its names and its docstring count only where it is part of the program."""
    source = path.read_text(encoding="utf-8")
    lines = len(source.splitlines())
    found = [f"{lines} lines: split it along its ideas"] if lines > WALL else []
    if path in SOURCES:
        found += [f"is named {name}" for name in sorted(empty_names(path))]
        found += [f"has a class {name}" for name in empty_classes(source)]
        if not opens_with_a_sentence(source):
            found.append("the first line of the docstring says what it is for")
    return found


# One test for all files: as a test each, there would be more of them than of anything else.
def test_a_module_is_short_and_named_after_an_idea_and_says_which():
    assert len(EVERYTHING) > len(SOURCES) > 100
    assert {named(path): found for path in EVERYTHING if (found := complaints(path))} == {}


def test_what_is_wrong_with_a_module_is_noticed(tmp_path, monkeypatch):
    long, empty = tmp_path / "long.py", tmp_path / "store_utils.py"
    long.write_text("x = 1\n" * (WALL + 1))
    empty.write_text('"""Chunks"""\nclass StoreManager: ...\n')
    monkeypatch.setitem(globals(), "SOURCES", {empty})
    monkeypatch.setitem(globals(), "ROOT", tmp_path)

    assert complaints(long) == [f"{WALL + 1} lines: split it along its ideas"]
    assert complaints(empty) == [
        "is named utils",
        "has a class StoreManager",
        "the first line of the docstring says what it is for",
    ]


def test_empty_names_are_noticed():
    assert empty_names(ROOT / "src/holdfast/store_utils.py") == {"utils"}
    assert empty_names(ROOT / "src/holdfast/core/store.py") == {"core"}
    assert empty_classes("class StoreManager: ...\nclass Store:\n    class CodecImpl: ...") == [
        "StoreManager",
        "CodecImpl",
    ]
    assert not opens_with_a_sentence('"""Chunks"""')
    assert not opens_with_a_sentence("x = 1")
