"""Many writers of one PostgreSQL store: no save and no update is lost, and nobody hears of a deadlock.

Eight processes write to one branch. In the first test they append without having seen what is there; in the second
each reads a number, adds one, and saves that on the condition that nobody saved in between, so that a lost update would
show as a number that occurs twice. In the third, threads of several processes write to thousands of sessions whose
states share chunks.
"""

from __future__ import annotations

from functools import partial

from hypothesis import settings
from tests.property.long_runs import NIGHTLY
from tests.reliability.crews import Crew, in_threads

import holdfast
from holdfast import ConflictError, ErrorCode

PROCESSES = 8
_ALL_NIGHT = settings.default is not None and settings.default.max_examples >= NIGHTLY
SAVES = 10_000 if _ALL_NIGHT else 1_600
# Here each save of one loses the round of the seven others, so that 10,000 take minutes.
COUNTED = 10_000 if _ALL_NIGHT else 400
MANY_PROCESSES, MANY_THREADS, MANY_SESSIONS = 3, 16, 600
SESSION = "one"


def append(url, name, saves, say, _stops):
    with holdfast.open(url, durability="process", timeout=120) as store:
        for n in range(saves):
            # A new Session each time: one that had seen the branch would be told that others moved it.
            saved = store.session(SESSION).save({"by": name, "n": n}, step=n, message=str(name))
            say(f"{name} {n} {saved.seq} {saved.id}")


def test_eight_processes_append_to_one_branch_and_lose_nothing(postgres_url):
    holdfast.open(postgres_url).close()
    crew = Crew()
    for name in range(PROCESSES):
        crew.start(partial(append, postgres_url, name, SAVES // PROCESSES))
    said = [line.split() for line in crew.wait()]
    with holdfast.open(postgres_url, create=False) as store:
        log = store.session(SESSION).log()
        assert [each.seq for each in log] == list(range(SAVES, 0, -1))
        assert [each.parent for each in log] == [*(each.id for each in log[1:]), None]
        # What the writers were told is what is there, each save once.
        there = sorted((each.message, each.step, each.seq, each.id) for each in log)
        assert there == sorted((name, int(n), int(seq), identity) for name, n, seq, identity in said)
        assert len({(each.message, each.step) for each in log}) == SAVES
        session = store.session(SESSION)
        assert all(session.load(each)["n"] == each.step for each in log[::97])
        assert store.verify(quick=True).ok


def count_up(url, name, wins_wanted, say, _stops):
    with holdfast.open(url, durability="process", timeout=120) as store:
        session = store.session(SESSION)
        wins = conflicts = 0
        while wins < wins_wanted:
            head = session.checkpoint()
            value = session.load(head)["count"]
            try:
                session.save({"count": value + 1, "by": name}, step=value + 1, expect=head)
            except ConflictError as conflict:
                if conflict.code is not ErrorCode.BRANCH_MOVED:
                    raise
                conflicts += 1
            else:
                wins += 1
        say(f"{name} {conflicts}")


def test_eight_processes_count_and_lose_no_update(postgres_url):
    with holdfast.open(postgres_url) as store:
        store.session(SESSION).save({"count": 0, "by": None}, step=0)
    crew = Crew()
    for name in range(PROCESSES):
        crew.start(partial(count_up, postgres_url, name, COUNTED // PROCESSES))
    conflicts = sum(int(line.split()[1]) for line in crew.wait())
    print(f"{conflicts} conflicts")
    with holdfast.open(postgres_url, create=False) as store:
        session = store.session(SESSION)
        log = session.log()
        assert [each.step for each in log] == list(range(COUNTED, -1, -1))
        assert [each.seq for each in log] == list(range(COUNTED + 1, 0, -1))
        assert [each.parent for each in log] == [*(each.id for each in log[1:]), None]
        assert session.load()["count"] == COUNTED
        assert [session.load(each)["count"] for each in log[::50]] == [each.step for each in log[::50]]
        assert store.verify(quick=True).ok
    # Without any they were never at it at the same time, and nothing was shown.
    assert conflicts > 0


def shared_state(number):
    """Large enough for several chunks, most of which are those of other sessions too, in another order."""
    parts = [[f"part {(number + each) % 7} line {line}" * 3 for line in range(60)] for each in range(4)]
    return {"number": number, "parts": parts}


def write_to_many(url, process, say, _stops):
    def work(store, thread):
        for number in range(thread, MANY_SESSIONS // MANY_PROCESSES, MANY_THREADS):
            session = store.session(f"{process}-{number}")
            session.save(shared_state(number))
            session.save(shared_state(number + 1))
        say(f"{process}-{thread}")

    with holdfast.open(url, durability="process", timeout=120) as store:
        in_threads(*(partial(work, store, thread) for thread in range(MANY_THREADS)))


def test_thousands_of_sessions_in_parallel_end_without_a_deadlock(postgres_url):
    holdfast.open(postgres_url).close()
    crew = Crew()
    for process in range(MANY_PROCESSES):
        crew.start(partial(write_to_many, postgres_url, process))
    assert len(crew.wait()) == MANY_PROCESSES * MANY_THREADS
    with holdfast.open(postgres_url, create=False) as store:
        assert len(store.sessions()) == MANY_SESSIONS
        found = store.find()
        assert len(found) == 2 * MANY_SESSIONS
        for each in found[::101]:
            number = int(each.session.split("-")[1]) + each.seq - 1
            assert store.session(each.session).load(each) == shared_state(number)
        assert store.verify(quick=True).ok
