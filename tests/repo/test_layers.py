"""Dependencies point down, and the tool that says so would notice if they did not.

A contract that cannot fail is worth nothing, so each is broken once, in a copy of the package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    # The copy has to win over the installed package.
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-c", LINT], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(
        ROOT / "src" / "holdfast", tmp_path / "src" / "holdfast", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_dependencies_point_down():
    done = lint(ROOT)

    assert done.returncode == 0, done.stdout + done.stderr


PLANTED = {
    "a lower layer imports a higher one": (
        "Layers point down",
        {"storage/planted.py": "import holdfast.objects"},
    ),
    "an import inside a function counts": (
        "Layers point down",
        {"errors.py": "def planted() -> None:\n    import holdfast.storage"},
    ),
    "history knows a backend": (
        "Layers point down",
        {"history/planted.py": "import holdfast.backends"},
    ),
    "a module in no layer": (
        "Layers point down",
        {"planted.py": ""},
    ),
    "one backend knows another": (
        "Backends do not know each other",
        {"backends/sqlite/planted.py": "import holdfast.backends.memory"},
    ),
    "the command line goes behind the public API": (
        "Surfaces speak only to the public API",
        {"cli/planted.py": "import holdfast.storage"},
    ),
    "a library leaves its corner": (
        "Third-party libraries stay in their corner",
        {"storage/planted.py": "import apsw"},
    ),
    "two modules import each other": (
        "No import cycles anywhere",
        {
            "objects/planted_one.py": "import holdfast.objects.planted_two",
            "objects/planted_two.py": "import holdfast.objects.planted_one",
        },
    ),
}


@pytest.mark.parametrize(("contract", "files"), PLANTED.values(), ids=PLANTED)
def test_a_planted_violation_is_caught(copy, contract, files):
    for name, source in files.items():
        path = copy / "src" / "holdfast" / name
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{source}\n")

    done = lint(copy)

    assert done.returncode != 0
    assert f"{contract} BROKEN" in done.stdout, done.stdout + done.stderr
