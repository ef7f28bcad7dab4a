"""Plant one fault at a time in a copy of the package, and say which tests catch it.

    python tools/faults.py                 # every fault, with the tests that are expected to catch it
    python tools/faults.py blind-swap      # some, by name
    python tools/faults.py --check         # only whether each can still be planted

The faults are in tests/faults/table.py: small mistakes that a rewrite could make, each against one promise. A fault
that no test catches is a promise without a test. One that cannot be planted has lost its place in a rewrite: give it a
new pattern. Not part of `make test`: it takes minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.faults.table import FAULTS, Fault  # noqa: E402 - the path comes first

SOURCE = ROOT / "src" / "holdfast"
_COPIED = shutil.ignore_patterns("__pycache__")
_CAUGHT = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_PATIENCE = 300
"""Seconds for the tests of one fault: a fault may also hang whoever meets it, which counts as caught."""


def places(fault: Fault, package: Path) -> list[tuple[Path, str]]:
    """Find each file that has the pattern of a fault, with what it reads once the fault is in it."""
    found = []
    for path in sorted((package / fault.folder).rglob("*")):
        if path.suffix in (".py", ".sql"):
            text = path.read_text(encoding="utf-8")
            planted = re.sub(fault.pattern, lambda _: fault.instead, text, count=1, flags=re.MULTILINE)
            if planted != text:
                found.append((path, planted))
    return found


def plant(fault: Fault, folder: Path) -> bool:
    """Make a copy of the package with a fault in it; whether that was possible."""
    package = folder / "holdfast"
    shutil.copytree(SOURCE, package, ignore=_COPIED)
    found = places(fault, package)
    if len(found) != 1:
        return False
    path, planted = found[0]
    path.write_text(planted, encoding="utf-8")
    return True


def caught_by(fault: Fault, folder: Path) -> list[str] | None:
    """Run the tests of a fault against the copy; those that failed, or None where there were no such tests."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "examples"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    try:
        done = subprocess.run(
            [*command, *fault.tests],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return ["(the tests did not end)"]
    caught = list(dict.fromkeys(_CAUGHT.findall(done.stdout)))
    if caught or done.returncode == 0:
        return caught
    # 2 and 3 without a failed test: the copy cannot even be imported. 4 and 5: there are no such tests.
    return ["(nothing could be imported)"] if done.returncode in (2, 3) else None


def tried(fault: Fault, *, only_check: bool) -> str:
    """What became of one fault, as a line of the report."""
    if only_check:
        count = len(places(fault, SOURCE))
        return "can be planted" if count == 1 else f"CANNOT BE PLANTED ({count} places)"
    with tempfile.TemporaryDirectory(prefix="holdfast-fault-") as folder:
        if not plant(fault, Path(folder)):
            return "CANNOT BE PLANTED"
        tests = caught_by(fault, Path(folder))
    if tests is None:
        return "HAS NO TESTS"
    if not tests:
        return "NOT CAUGHT"
    return f"caught by {tests[0].removeprefix('tests/')}"


def main() -> int:
    """Try the faults that are named, or all; 1 where one was not caught or not planted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults to plant; all where none is named")
    parser.add_argument("--check", action="store_true", help="run no tests")
    options = parser.parse_args()
    if unknown := set(options.names) - {fault.name for fault in FAULTS}:
        parser.error(f"there is no fault {', '.join(sorted(unknown))}")
    failed = 0
    for fault in FAULTS:
        if options.names and fault.name not in options.names:
            continue
        outcome = tried(fault, only_check=options.check)
        failed += not outcome.startswith("ca")
        print(f"{fault.name:<28}{outcome}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
