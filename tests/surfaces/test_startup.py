"""What it costs to start: processor time as a ratio to Python itself, with bytecode cached as it is once installed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

import holdfast

PROGRAM = "from holdfast.cli import main; main()"
LOAD = "import holdfast\nwith holdfast.open({path!r}, create=False) as store:\n    store.session('a').load()"


@pytest.fixture(scope="module")
def starts(tmp_path_factory):
    """How many starts of Python the processor time of a program is."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("bytecode"))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def spent(program: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-c", program], env=environment, check=True, stdout=subprocess.DEVNULL
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def measure(program: str) -> float:
        # In turns, and often: other work on the machine slows both down, and a longer run is more rarely spared.
        rounds = [(spent(program), spent("pass")) for _ in range(60)]
        return min(ours for ours, _ in rounds) / min(bare for _, bare in rounds)

    return measure


def test_opening_a_small_store_and_loading_costs_at_most_eight_starts_of_python(starts, tmp_path):
    path = str(tmp_path / "store")
    with holdfast.open(path) as store:
        store.session("a").save({"step": 1, "notes": ["small"]})
    assert starts(LOAD.format(path=path)) <= 8


@pytest.mark.parametrize("command", ["list", "show", "diff"])
def test_a_hot_command_costs_at_most_eight_starts_of_python(starts, tmp_path, command):
    path = str(tmp_path / "store")
    with holdfast.open(path) as store:
        store.session().save({"step": 1, "notes": ["small"]}, "a small one")
        store.session().save({"step": 2, "notes": ["small"]}, "another one")
    assert starts(f"import sys; sys.argv = ['holdfast', {command!r}, '--store', {path!r}]\n" + PROGRAM) <= 8


def test_importing_costs_at_most_five_starts_of_python(starts):
    assert starts("import holdfast") <= 5
