"""Forks and rollbacks of a recorder: the next start goes on where the last one was, and people are taken along."""

from __future__ import annotations

from tests.unit.recording.parts import Part

import holdfast
from holdfast import Recorder, every
from holdfast.backends.memory import MemoryBackend
from holdfast.testing.faults import Fault, FaultyBackend


def started(store, **session):
    part = Part(0)
    return Recorder(store.session("s", **session), trigger=every(steps=1)).connect("part", part), part


def forked(store):
    """A recorder that somebody saved beside, and that has gone on since."""
    recorder, part = started(store)
    recorder.step(0)
    store.session("s").save({"by": "hand"})
    for part.value in range(1, 4):
        recorder.step(part.value)
    return recorder


def test_after_a_fork_the_next_start_goes_on_there(store):
    assert forked(store).session.branch == "main-1"

    again, part = started(store)
    report = again.resume()

    assert (part.value, report.checkpoint.step, again.session.branch) == (3, 3, "main-1")
    assert report.newer_branches == ()
    assert store.current_branch("s") == "main-1"
    assert again.step().branch == "main-1"


def test_the_fork_and_the_switch_are_one_commit():
    commits = []
    backend = FaultyBackend(MemoryBackend())
    store = holdfast.Store(backend)
    backend.plan(Fault("commit", nth=None, before=lambda: commits.append(store.current_branch("s"))))
    recorder, _ = started(store)
    recorder.step(0)
    store.session("s").save({"by": "hand"})
    commits.clear()

    recorder.step(1)

    # The first was refused, because the branch had moved; before the second nobody was taken along.
    assert commits == ["main", "main"]
    assert store.current_branch("s") == "main-1"


def test_after_a_rollback_the_next_start_goes_on_from_what_was_mended(store):
    recorder, part = started(store)
    for part.value in range(5):
        recorder.step(part.value)
    told = []
    recorder.events.subscribe("*", lambda event: told.append((event.type, getattr(event, "forked", None))))
    recorder.resume("@~2")
    for part.value in (10, 11):
        recorder.step()
    assert recorder.events.flush(5)

    assert told == [
        ("checkpoint.restored", None),
        ("checkpoint.created", False),
        ("checkpoint.created", False),
    ]
    assert store.metrics().checkpoint_conflict_count == 0
    again, mended = started(store)
    assert again.resume().checkpoint.branch == "main-1"
    assert mended.value == 11
