"""SIGKILL in the middle of a beat: the next life goes on from the last checkpoint, and there is never a second one."""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial

import pytest
from tests.reliability.heartbeats import (
    SESSION,
    Clockwork,
    control,
    in_child,
    life,
    lined_up,
    lines,
    lived,
    snapshots,
)
from tests.reliability.witness import in_new_process

import holdfast

KILLS = 20


def die_at(wanted, beat):
    if beat == wanted:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_life_killed_at_beat_73_goes_on_from_beat_50_as_if_it_had_never_gone_further(memory_folder):
    path = memory_folder / "store.db"
    wanted = control([50, 100, 120])
    victim, read = in_child(lambda _pipe: life(path, Clockwork(partial(die_at, 73)), every=50, beats=None))
    lines(read)
    assert os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]) == -signal.SIGKILL

    reports = []

    def told(report):
        reports.append(report)
        state = snapshots(agent)
        assert state["identity"]["counters"]["total_awakenings"] == 2
        for name, part in lived(state).items():
            assert part == wanted[50][name], name
        reports.append("compared")

    agent = Clockwork(told=told)
    ended = life(path, agent, every=50, beats=70)

    (report, compared) = reports
    assert compared == "compared"
    assert (report.beat, report.reason, report.at_most_lost) == (50, "restored", 49)
    assert report.complete
    assert f"restored beat 50 from {report.checkpoint.id[:12]}" in str(report)
    assert "at most 49 beats lost" in str(report)
    # And what it lives after that is what the other one lived.
    assert ended.beat == 120
    with holdfast.open(path) as store:
        session = store.session(SESSION)
        assert [each.metadata["beats"] for each in session.log()] == [120, 100, 50]
        assert lived(session.load("#2")) == wanted[100]
        assert session.load()["working_memory"] == wanted[120]["working_memory"]


def say(pipe, word, *values):
    os.write(pipe, f"{word} {' '.join(map(str, values))}\n".encode())


def live_until_killed(path, every, pipe):
    def told(report):
        say(pipe, "woke", report.beat, report.at_most_lost, report.reason)

    life(path, Clockwork(partial(say, pipe, "beat"), told), every=every, beats=None)


def test_kills_at_random_beats_lose_no_more_than_they_may_and_there_is_never_a_second_heartbeat(
    memory_folder,
):
    path = memory_folder / "store.db"
    base = random.randrange(2**32)
    print(f"seed {base}")
    source = random.Random(base)
    completed, every = 0, 1
    longest = 0
    for number in range(KILLS):
        last_every, every = every, source.randrange(1, 12) if number % 10 == 0 else every
        victim, read = in_child(partial(live_until_killed, path, every))
        said = lined_up(read, 2 + source.randrange(40))
        if number % 5 == 0:
            # While it lives nobody else gets in.
            rival, answer = in_child(partial(live_until_killed, path, every))
            assert lines(answer) == [["refused", "lease-held"]]
            assert os.waitstatus_to_exitcode(os.waitpid(rival, 0)[1]) == 5
        time.sleep(source.random() * 0.003)
        os.kill(victim, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]) == -signal.SIGKILL
        said += lines(read)
        woke, beats = said[0], [int(each[1]) for each in said if each[0] == "beat"]
        assert woke[0] == "woke"
        lost = completed - int(woke[1])
        # A beat whose end was not seen may have been saved already, so it can even have gone further.
        assert lost <= last_every - 1, f"{lost} beats lost with a checkpoint every {last_every}"
        longest = max(longest, lost)
        if woke[3] == "restored":
            assert lost <= int(woke[2]), "what is said about it is not less"
        assert beats == list(range(int(woke[1]) + 1, beats[-1] + 1)), (
            "no beat is left out, and none comes twice"
        )
        completed = beats[-1] - 1
    assert longest > 0
    in_new_process(partial(check, path))


def check(path):
    with holdfast.open(path) as store:
        assert store.verify().ok
        session = store.session(SESSION)
        kept = session.log()
        # Whenever it was killed: what is too old goes in the commit of the save.
        assert 0 < len(kept) <= 10
        wanted = control(each.metadata["beats"] for each in kept)
        for each in kept:
            beat = each.metadata["beats"]
            assert lived(session.load(each)) == wanted[beat], f"beat {beat} is not what a whole life has"


@pytest.mark.parametrize("count", [4])
def test_of_many_that_begin_at_the_same_moment_one_lives(memory_folder, count):
    path = memory_folder / "store.db"
    with holdfast.open(path):
        pass
    for _ in range(3):
        children = [in_child(partial(live_until_killed, path, 5)) for _ in range(count)]
        first = {child: lined_up(read, 1)[0][0] for child, read in children}
        winners = [child for child, word in first.items() if word == "woke"]
        assert len(winners) == 1
        assert sorted(first.values()) == ["refused"] * (count - 1) + ["woke"]
        os.kill(winners[0], signal.SIGKILL)
        for child, read in children:
            os.waitpid(child, 0)
            lines(read)
