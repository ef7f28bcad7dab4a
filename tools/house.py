"""How large the house is: lines of code and modules for each part of src/, and lines of tests and docs.

    python tools/house.py

A line of code is a line with a token on it that is neither a comment nor part of a docstring.
"""

from __future__ import annotations

import ast
import io
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "src/holdfast/"

# A part, and the packages or modules that belong to it. What is in none of them is "others".
PARTS = {
    "objects, storage": ("objects", "storage"),
    "store, history, aio": ("store", "history", "aio"),
    "backends": ("backends",),
    "testing": ("testing",),
    "integrations": ("integrations",),
    "cli": ("cli",),
    "recording": ("recording",),
    "agents": ("agents",),
    "settings": ("settings",),
}

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """Count the lines of a module that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for docstring in _docstrings(ast.parse(source)):
        lines.difference_update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def _docstrings(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            ast.get_docstring(node, clean=False) is not None
        ):
            yield node.body[0]


def part_of(path: str) -> str:
    """Name the part that a module of the package belongs to."""
    top = path.removeprefix(PACKAGE).partition("/")[0].removesuffix(".py")
    return next((part for part, names in PARTS.items() if top in names), "others")


def _files(*patterns: str) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [path for path in listed.stdout.splitlines() if (ROOT / path).is_file()]


def _lines(paths: list[str]) -> int:
    return sum((ROOT / path).read_text(encoding="utf-8").count("\n") for path in paths)


def main() -> None:
    """Print the figures."""
    lines = dict.fromkeys([*PARTS, "others"], 0)
    modules = dict.fromkeys(lines, 0)
    gerunds = []
    for path in _files("src/*.py"):
        part = part_of(path)
        lines[part] += code_lines((ROOT / path).read_text(encoding="utf-8"))
        modules[part] += 1
        if path.endswith("ing.py"):
            gerunds.append(path)
    print(f"{'part of src':<22}{'lines of code':>14}{'modules':>9}")
    for part in lines:
        print(f"{part:<22}{lines[part]:>14,}{modules[part]:>9}")
    print(f"{'all of src':<22}{sum(lines.values()):>14,}{sum(modules.values()):>9}")
    print(f"\nmodules named with -ing: {len(gerunds)}")
    print(f"lines of tests: {_lines(_files('tests/*.py')):,}")
    print(f"lines of docs: {_lines(_files('docs/*.md', '*.md')):,}")


if __name__ == "__main__":
    main()
