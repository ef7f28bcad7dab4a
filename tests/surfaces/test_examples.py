"""The programs in examples/ do what they say, run the way a newcomer runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

import holdfast

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def example(tmp_path):
    def start(name, *words):
        return subprocess.Popen(
            [sys.executable, "-W", "error", str(EXAMPLES / name), *words],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def done(started):
    out, errors = started.communicate()
    assert started.returncode == 0, errors
    return out


def test_the_plain_loop_goes_on_where_it_was(example, tmp_path):
    first = done(example("plain_loop.py"))
    assert first.startswith("a new loop\n")
    assert "step 10: saved" in first
    assert "step 20: saved" in first
    assert "done at step 25" in first
    second = done(example("plain_loop.py", "60"))
    assert second.startswith("resumed from #3 'reached step 25'")
    assert "step 30: saved" in second
    assert "done at step 60, $0.060 spent" in second
    with holdfast.open(tmp_path / ".holdfast") as store:
        state = store.session("plain-loop").load()["agent"]
        assert len(state["conversation_history"]) == 120
        assert state["tool_usage_counts"] == {"multiply": 60}
        assert len(store.session("plain-loop").log()) == 5


def test_the_heartbeat_agent_remembers_the_files_of_its_last_life(example, tmp_path):
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    first = done(example("heartbeat_agent.py"))
    assert first.startswith("first life of session watcher: nothing to restore\n")
    assert "paused at beat 11 after 11 beats" in first
    (tmp_path / "more.txt").write_text("again", encoding="utf-8")
    second = done(example("heartbeat_agent.py"))
    assert second.startswith("restored beat 11 from ")
    with holdfast.open(tmp_path / ".holdfast") as store:
        state = store.session("watcher").load()
    assert set(state["files"]["files"]) == {"notes.txt", "more.txt"}
    # Each file is new once.
    assert state["inner_life"]["questions"] == ["what is notes.txt for?", "what is more.txt for?"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_interrupted_run_ends_with_a_checkpoint_and_goes_on_after_it(example, tmp_path, number):
    started = example("interrupted_run.py", "12", "600")
    assert started.stdout.readline() == "step 1\n"
    started.send_signal(number)
    started.communicate()
    assert started.returncode == 128 + number
    with holdfast.open(tmp_path / ".holdfast") as store:
        assert store.session("interrupted-run").checkpoint().status == "interrupted"
    second = done(example("interrupted_run.py", "12", "0.001")).splitlines()
    assert second[:2] == ["going on after step 1, which ended interrupted", "step 2"]
    assert second[-1] == "visited 12, total 78"


def test_time_travel_mends_a_run_that_went_wrong(tmp_path):
    """The loop as the script has it: bisect, show, fork, edit, and the unchanged `"shopping_agent.py"` goes on."""
    programs = Path(sys.executable).parent
    done = subprocess.run(
        ["sh", str(EXAMPLES / "time_travel.sh")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr
    endings = [line for line in done.stdout.splitlines() if line.startswith("ready ")]
    assert endings == ["ready without tent, 218.60 left", "ready with all it needs, 29.60 left"]
    with holdfast.open(tmp_path / ".holdfast") as store:
        session = store.session("camping")
        assert session.branch == "mended"
        parted = session.diverge("main", "mended")
        assert parted.last is not None
        assert parted.a is not None
        assert parted.b is not None
        assert (parted.last.step, parted.a.step, parted.b.message) == (3, 4, "the tent costs 189.00")
        assert parted.last.id in done.stdout
        # No type was lost on the way through the editor: another program may look at it without its class.
        assert session.load(path="prices.tent") == Decimal("189.00")
        assert session.load(path="bought") == ("stove", "lamp", "tent", "rope")
        assert session.load("main", path="skipped") == ("tent",)


def test_every_example_has_a_test():
    tests = Path(__file__).parents[1].rglob("test_*.py")
    text = "".join(each.read_text(encoding="utf-8") for each in tests)
    assert [each.name for each in EXAMPLES.glob("*.py") if f'"{each.name}"' not in text] == []
