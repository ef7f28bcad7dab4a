"""`holdfast watch`: a line for each checkpoint, at once, from whatever process."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from contextlib import contextmanager
from functools import partial

import pytest
from tests.surfaces.cli.conftest import PROGRAM
from tests.surfaces.cli.json_schema import load, problems
from tests.surfaces.cli.places import on_both, place

import holdfast
from holdfast import Store


@pytest.fixture
def store(home):
    with holdfast.open(place(home)) as opened:
        opened.session().save({"n": 0}, "before")
        yield opened


@contextmanager
def watching(home, *words, **options):
    """A process that watches, once it has shown a first checkpoint."""
    child = subprocess.Popen(
        # So that it ends some time, even where a line is not written at once.
        [*PROGRAM, "watch", "--after", "#1", "--timeout", "60", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home,
        **options,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@on_both
def test_a_save_of_one_process_is_shown_by_another_and_nobody_has_to_end_for_it(home, store):
    """Three processes: this one, the one that watches, and one after the other those that save."""
    with watching(home, "--json") as child:
        for n in range(1, 4):
            subprocess.run(
                [*PROGRAM, "create", f"number {n}", "--session", "s", "--state", "-"],
                input=json.dumps({"n": n}),
                check=True,
                capture_output=True,
                text=True,
                cwd=home,
            )
            # It shows this one before the next is saved, and goes on watching.
            line = json.loads(child.stdout.readline())
            assert problems(line, load("watch.schema.json")) == []
            shown = line["checkpoint"]
            assert (shown["seq"], shown["session"], shown["message"]) == (n, "s", f"number {n}")
            assert child.poll() is None
    assert [each.message for each in store.session("s").log()] == ["number 3", "number 2", "number 1"]


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_ctrl_c_is_130_and_quiet(home, store, words):
    with watching(home, *words) as child:
        store.session().save({}, "one")
        assert child.stdout.readline()
        child.send_signal(signal.SIGINT)
        stdout, stderr = child.communicate()

    assert (child.returncode, stdout) == (130, "")
    assert "Traceback" not in stderr
    assert "interrupted" in stderr


def test_a_reader_that_goes_away_ends_it_quietly(home, store):
    with watching(home) as child:
        store.session().save({}, "one")
        assert child.stdout.readline()
        child.stdout.close()
        store.session().save({}, "two")
        assert child.wait() == 141
        assert child.stderr.read() == ""


def test_it_begins_now_unless_told_otherwise(run, store):
    store.session().save({}, "after it")

    assert run("watch", "--timeout", "0").stdout == ""
    assert run("watch", "--timeout", "0").exit_code == 0
    for option in ("--after", "--since"):
        result = run("watch", option, "#1", "--timeout", "0")
        assert [line.split("\t")[9] for line in result.stdout.splitlines()] == ["after it"]


def test_the_last_id_that_was_seen_goes_on_where_it_ended(run, store):
    store.session("a").save({}, "one")
    seen = run("watch", "--after", "#1", "--timeout", "0").stdout.split("\t")[0]
    store.session("b").save({}, "two")
    result = run("watch", "--after", seen, "--session", "a", "--timeout", "0")
    everything = run("watch", "--after", "#1", "--timeout", "0").stdout

    assert (result.exit_code, result.stdout) == (0, "")
    assert [line.split("\t")[9] for line in everything.splitlines()] == ["one", "two"]


@pytest.mark.usefixtures("store")
def test_a_session_that_is_not_there_yet_is_waited_for(run):
    result = run("watch", "--session", "later", "--timeout", "0")

    assert result.exit_code == 0
    assert result.stderr == "there is no session later yet: waiting for its first checkpoint\n"


@pytest.fixture
def aged(home):
    """Checkpoints of two days ago, of an hour ago and of now, in two sessions."""
    backend = holdfast.open(place(home))._backend
    now = time.time_ns() // 1000
    for age, session in ((48, "a"), (1, "b"), (0, "a")):
        store = Store(backend, clock=partial(int, now - age * 3_600_000_000))
        store.session(session).save({"age": age}, f"{age} hours old")
    backend.close()
    return home


@pytest.mark.usefixtures("aged")
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--since", "2h"], ["1 hours old", "0 hours old"]),
        (["--since", "90m"], ["1 hours old", "0 hours old"]),
        (["--since", "30m"], ["0 hours old"]),
        (["--since", "7d"], ["48 hours old", "1 hours old", "0 hours old"]),
        (["--since", "@{2 hours ago}"], ["1 hours old", "0 hours old"]),
        (["--since", "now"], []),
        (["--since", "7d", "--session", "a"], ["48 hours old", "0 hours old"]),
        (["--since", "#1", "--session", "a"], ["0 hours old"]),
        (["--after", "#1", "--session", "a"], ["0 hours old"]),
    ],
    ids=" ".join,
)
def test_since_takes_times_besides_a_ref(run, words, wanted):
    result = run("watch", *words, "--timeout", "0")

    assert result.exit_code == 0, result.stderr
    assert [line.split("\t")[9] for line in result.stdout.splitlines()] == wanted
    assert ("since: " in result.stderr) == ("#1" not in words)
