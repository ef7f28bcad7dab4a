"""The list of requirements, and which scenario shows which point.

The list is the table of `docs/requirements.md`. Scenarios are found by reading `tests/requirements/` as text, not by
running it: a point is shown when a test function carries `@pytest.mark.requirement("T1")`.

    python tools/requirements.py            print the table
    python tools/requirements.py --check    end with 1 when a due point has no scenario
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "docs" / "requirements.md"
SCENARIOS = ROOT / "tests" / "requirements"

_ROW = re.compile(r"^\| (?P<id>[A-Z]\d+) \| (?P<status>[a-z]+) \| (?P<text>.+) \|$")


@dataclass(frozen=True)
class Requirement:
    """One point of the list."""

    id: str
    status: str
    text: str


def requirements(page: Path = LIST) -> list[Requirement]:
    """The points of the list, in its order."""
    rows = (_ROW.match(line) for line in page.read_text(encoding="utf-8").splitlines())
    return [Requirement(**row.groupdict()) for row in rows if row]


def scenarios(folder: Path = SCENARIOS) -> dict[str, list[str]]:
    """The tests that carry each id, as `file.py::test_name`."""
    shown: dict[str, list[str]] = {}
    for file in sorted(folder.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        for test, ids in _marked_tests(tree, inherited=_module_marks(tree)):
            for each in ids:
                shown.setdefault(each, []).append(f"{file.relative_to(folder)}::{test}")
    return shown


def problems(listed: list[Requirement], shown: dict[str, list[str]]) -> list[str]:
    """What is wrong with the list and its scenarios, each in one sentence."""
    known = [each.id for each in listed]
    found = [f"{each} is listed twice." for each in sorted({each for each in known if known.count(each) > 1})]
    found += [
        f"{each.id} is {each.status!r}; it has to be 'due' or 'later'."
        for each in listed
        if each.status not in ("due", "later")
    ]
    found += [
        f"{each.id} is due, and no test in tests/requirements/ carries it: {each.text}."
        for each in listed
        if each.status == "due" and not shown.get(each.id)
    ]
    found += [
        f"{each} is not in docs/requirements.md ({shown[each][0]})."
        for each in sorted(set(shown) - set(known))
    ]
    return found


def _marked_tests(
    tree: ast.Module | ast.ClassDef, *, inherited: list[ast.expr]
) -> Iterator[tuple[str, list[str]]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            marks = inherited + node.decorator_list
            yield from ((f"{node.name}::{name}", ids) for name, ids in _marked_tests(node, inherited=marks))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            marks = inherited + node.decorator_list
            # A test that does not run, or may fail, shows nothing.
            if not {"skip", "xfail"} & {_mark(mark) for mark in marks}:
                yield (
                    node.name,
                    [each for mark in marks if _mark(mark) == "requirement" for each in _ids(mark)],
                )


def _module_marks(tree: ast.Module) -> list[ast.expr]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            return node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
    return []


def _mark(node: ast.expr) -> str | None:
    called = node.func if isinstance(node, ast.Call) else node
    parts = ast.unparse(called).split(".")
    return parts[-1] if parts[:-1] == ["pytest", "mark"] else None


def _ids(mark: ast.expr) -> list[str]:
    arguments = mark.args if isinstance(mark, ast.Call) else []
    return [str(each.value) if isinstance(each, ast.Constant) else ast.unparse(each) for each in arguments]


def main(arguments: list[str]) -> int:
    """Print the table, or only what is wrong with it."""
    listed, shown = requirements(), scenarios()
    if arguments == ["--check"]:
        wrong = problems(listed, shown)
        print("\n".join(wrong) or "Every due requirement has a scenario.")
        return 1 if wrong else 0
    for each in listed:
        print(f"{each.id:4} {each.status:6} {each.text}")
        missing = ["(no scenario yet)"] if each.status == "due" else []
        for test in shown.get(each.id, missing):
            print(f"            {test}")
    due = [each for each in listed if each.status == "due"]
    print(f"\n{len(listed)} requirements: {len(due)} due, {len(listed) - len(due)} later.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
