"""What the source documents ask of comparing checkpoints. Public API and command line only."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def run(place, *words):
    """The command line on one store, with the state for `create` on stdin where one is given."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words, "--store", place],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.requirement("T10")
def test_a_debugging_session_on_the_command_line(place, tmp_path):
    """Create with tags, list by tag, compare, look at a time, see the timeline, go back, prune."""
    for number, (message, tag) in enumerate([("a guess", "guess"), ("it holds", "verified")]):
        state = {
            "hypotheses": {"h1": {"status": ["open", "confirmed"][number]}},
            "notes": ["x"] * (number + 1),
        }
        (tmp_path / "state.json").write_text(json.dumps(state), encoding="utf-8")
        run(place, "create", message, "--tags", tag, "--state", str(tmp_path / "state.json"))

    assert "it holds" in run(place, "list", "--tag", "verified")
    assert "a guess" not in run(place, "list", "--tag", "verified")

    changes = [line.split("\t") for line in run(place, "diff", "tag:guess", "tag:verified").splitlines()]
    assert changes == [
        ["replace", "hypotheses.h1.status", "-", '"open"', '"confirmed"'],
        ["add", "notes[1]", "-", "-", '"x"'],
    ]
    assert json.loads(run(place, "diff", "tag:guess", "tag:verified", "--json"))["summary"] == (
        "+1 note, hypotheses.h1.status open to confirmed"
    )

    assert "it holds" in run(place, "at", "now")
    assert run(place, "timeline").count("\n") == 2
    run(place, "restore", "tag:guess")
    assert json.loads(run(place, "show", "--state", "--json"))["notes"] == ["x"]
    assert run(place, "diff", "tag:guess", "@") == ""
    run(place, "prune", "--keep-last", "1", "--only", "--yes")
    assert run(place, "list").count("\n") == 1
