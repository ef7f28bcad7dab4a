"""Histories of any shape, with merges in all directions and rows that go for good: no merge takes work back silently.

The test keeps its own account of every checkpoint there ever was, so that it knows where two lines met last even where
the store does not any more. What both sides had there says what may be merged without asking.
"""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast import ABSENT, Keep
from holdfast.backends.memory import MemoryBackend
from holdfast.storage.records import CheckpointId, Query
from holdfast.testing.rows import START

KEYS = "xyz"
BRANCHES = ("main", "b", "c", "elsewhere")
"""The last one is a session of its own, which begins as a fork."""
POLICIES = [Keep(last=1, per="branch"), Keep(last=1), Keep(last=2, per="branch"), Keep(last=3)]


def lasts(parents: dict[Any, tuple[Any, ...]], one: Any, other: Any) -> set[Any]:
    """Where two lines met last: what both come from, without what comes before another of these."""
    both = before(parents, one) & before(parents, other)
    return {each for each in both if not any(each in before(parents, more) - {more} for more in both)}


def before(parents: dict[Any, tuple[Any, ...]], start: Any) -> set[Any]:
    found, waiting = {start}, [start]
    while waiting:
        for each in parents[waiting.pop()]:
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found


class World:
    """A session, and all that ever was in it.

    Args:
        whole: Whether every meeting has to be known.
    """

    def __init__(self, *, whole: bool = False) -> None:
        self.whole = whole
        ticks = count(START, 1000)
        self.backend = MemoryBackend()
        self.store = holdfast.Store(self.backend, clock=lambda: next(ticks))
        self.parents: dict[str, tuple[str, ...]] = {}
        self.states: dict[str, dict[str, int]] = {}
        self.values = count(1)
        self.note(self.store.session("s").save(dict.fromkeys(KEYS, 0)))

    def note(self, made: holdfast.Checkpoint | holdfast.Saved) -> None:
        with self.backend.reader() as reader:
            row = reader.checkpoint(CheckpointId(bytes.fromhex(made.id)))
        assert row is not None
        self.parents[made.id] = tuple(each.hex() for each in row.parents)
        self.states[made.id] = self.store.session(row.session, branch=row.branch).load(made.id)

    def session(self, branch: str) -> holdfast.Session | None:
        name, branch = ("elsewhere", "main") if branch == "elsewhere" else ("s", branch)
        with self.backend.reader() as reader:
            return None if reader.branch(name, branch) is None else self.store.session(name, branch=branch)

    def fork(self, name: str, number: int) -> None:
        """Begin a branch at one of the newest checkpoints, whether a branch leads to it or not."""
        with self.backend.reader() as reader:
            there = reader.checkpoints(Query(session="s", limit=9))
            branches = reader.branches("s")
        if there and branches:
            home = self.store.session("s", branch=branches[0].name)
            ref = there[number % len(there)].id.hex()
            begun = home.fork(ref, session=name) if name == "elsewhere" else home.fork(ref, name)
            self.note(begun.checkpoint())

    def merge(self, session: holdfast.Session, theirs: holdfast.Checkpoint, resolve: Any) -> None:
        ours = session.checkpoint()
        mine, other = self.states[ours.id], self.states[theirs.id]
        met = lasts(self.parents, ours.id, theirs.id)
        wanted = verdicts(self.states, met, mine, other)
        try:
            report = session.merge(theirs)
        except holdfast.NotFoundError:
            # Nothing is left of what they had in common.
            assert not self.whole
            return
        asked = {each.path for each in report.conflicts}
        if self.whole:
            assert report.base_exact
            assert {each.id for each in report.bases} == met
        if report.base_exact:
            # A way between two of them may be lost; one more that is asked makes nothing worse.
            assert {each.id for each in report.bases} >= met
            assert asked >= {key for key, value in wanted.items() if value is UNSURE}
            if len(report.bases) == len(met):
                assert asked == {key for key, value in wanted.items() if value is UNSURE}
        if report.conflicts:
            report = session.merge(theirs, resolve=resolve)
        if report.checkpoint is None:
            assert report.up_to_date
            return
        self.note(report.checkpoint)
        for key in KEYS:
            if key not in asked:
                assert self.states[report.checkpoint.id].get(key, ABSENT) == wanted[key], (key, report)


UNSURE = object()


def verdicts(
    states: dict[str, dict[str, int]], bases: set[str], ours: dict[str, int], theirs: dict[str, int]
) -> dict[str, Any]:
    """What each key has to become; UNSURE where that does not follow from all that both sides once had."""
    found: dict[str, Any] = {}
    for key in KEYS:
        mine, other = ours.get(key, ABSENT), theirs.get(key, ABSENT)
        said = set()
        for base in bases:
            was = states[base].get(key, ABSENT)
            said.add(mine if other in (was, mine) else other if mine == was else UNSURE)
        found[key] = said.pop() if len(said) == 1 else UNSURE
    return found


class Step(NamedTuple):
    what: str
    branch: str
    other: str
    number: int


STEPS = st.builds(
    Step,
    st.sampled_from(
        ["save"] * 4
        + ["merge"] * 4
        + ["fork", "revert", "revert", "prune", "retire", "delete", "forget", "drop", "undo"]
    ),
    st.sampled_from(BRANCHES),
    st.sampled_from(BRANCHES),
    st.integers(0, 5),
)


ORDINARY = st.builds(
    Step,
    st.sampled_from(["save"] * 4 + ["merge"] * 5 + ["revert"] * 3 + ["retire", "fork"]),
    st.sampled_from(BRANCHES[:-1]),
    st.sampled_from(BRANCHES[:-1]),
    st.integers(0, 5),
)
"""What retention sees all of: one session, and nothing that anybody takes out of it by hand."""


def carry_out(world: World, step: Step) -> None:
    session = world.session(step.branch)
    if session is None:
        if step.what in ("fork", "save", "merge"):
            world.fork(step.branch, step.number)
        return
    log = session.log(limit=9)
    match step.what:
        case "save":
            state = session.load()
            key = KEYS[step.number % 3]
            state[key] = next(world.values)
            world.note(session.save(state))
        case "revert":
            # Back to what it was once, one key of it.
            key = KEYS[step.number % 3]
            old = world.states[log[step.number % len(log)].id]
            world.note(session.save({**session.load(), key: old[key]}))
        case "merge":
            beside = world.session(step.other)
            if beside is not None:
                world.merge(session, beside.checkpoint(), ("ours", "theirs")[step.number % 2])
        case "prune":
            session.prune(POLICIES[step.number % 4], only=True)
            world.store.gc(keep_days=0)
        case "retire":
            state = session.load()
            kept = world.store.session(session.id, branch=session.branch, keep=POLICIES[step.number % 4])
            world.note(kept.save(state))
        case "forget" if len(log) > 1:
            world.store.forget(session.id, log[step.number % len(log)], clean=False)
        case "delete" if len(log) > 1:
            session.delete(log[step.number % len(log)], force=True)
            if step.number % 2:
                world.store.gc(keep_days=0)
        case "drop" if len(session.branches()) > 1 and session.id == "s":
            session.delete_branch(step.branch, force=True)
        case "undo":
            try:
                session.undo()
            except holdfast.HoldfastError:
                return


@given(st.lists(STEPS, min_size=4, max_size=30))
def test_what_one_side_took_back_never_comes_again_unasked(steps):
    world = World()
    for step in steps:
        carry_out(world, step)


@given(st.lists(ORDINARY, min_size=4, max_size=30))
def test_retention_never_costs_a_merge_where_both_met(steps):
    world = World(whole=True)
    for step in steps:
        carry_out(world, step)
