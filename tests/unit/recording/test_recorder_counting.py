"""A resume goes on counting where the state was counted, whoever put that state there once more."""

from __future__ import annotations

from tests.unit.recording.parts import Part

import holdfast
from holdfast import Recorder, Store


def lived(store: Store, *steps: int) -> None:
    """An agent that has counted steps and beats, and saved each."""
    part = Part()
    recorder = Recorder(store.session("s")).connect("part", part)
    for step in steps:
        part.value = f"at {step}"
        recorder.step(step, tokens=step * 100)
        recorder.beat()
        recorder.save()


def resumed(store: Store, session: str = "s", ref: str = "@") -> tuple[Recorder, holdfast.ResumeReport]:
    recorder = Recorder(store.session(session)).connect("part", Part())
    report = recorder.resume(ref)
    assert report is not None
    return recorder, report


def test_a_persons_note_does_not_set_the_counters_back(store: Store) -> None:
    lived(store, 3, 7)
    session = store.session("s")
    session.save(session.load(), "note")
    session.save(session.load(), "another note")

    recorder, report = resumed(store)

    assert (recorder.steps, recorder.next_step, recorder.beats) == (7, 8, 2)
    assert (report.steps_recovered, report.beats_recovered) == (7, 2)
    assert report.counted_on == session.log()[2].id
    assert f"counted on from {report.counted_on[:12]}" in str(report)
    saved = recorder.save()
    assert (saved.step, saved.tokens, saved.metadata) == (7, 700, {"beats": 2})


def test_a_restore_has_the_counters_of_what_it_restores(store: Store) -> None:
    lived(store, 3, 7, 9)
    session = store.session("s")
    session.restore("#1")

    recorder, report = resumed(store)

    assert (recorder.steps, recorder.beats) == (3, 1)
    assert report.counted_on == session.log()[3].id


def test_a_fork_into_another_session_counts_on(store: Store) -> None:
    lived(store, 3, 7)
    store.session("s").fork("@", session="other")

    recorder, _ = resumed(store, "other")

    assert (recorder.steps, recorder.beats) == (7, 2)


def test_another_state_begins_at_0_and_the_report_says_so(store: Store) -> None:
    lived(store, 3, 7)
    store.session("s").save({"part": {"value": "edited by hand"}}, "edited")

    recorder, report = resumed(store)

    assert (recorder.next_step, recorder.beats, report.counted_on) == (0, 0, None)
    assert "counting begins at 0" in str(report)
