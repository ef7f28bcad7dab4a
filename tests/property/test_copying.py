"""Random histories, copied now and then: the copy is what the source is, whatever happened in between.

Batches are made tiny, and copies are interrupted before and after any of them. What is at the target meanwhile is a
store in order, and the next copy finishes.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.machine_inputs import BRANCHES, METADATA, SAID, STATES, TAG_LISTS
from tests.property.machine_states import SMALL

import holdfast
from holdfast.backends.memory import MemoryBackend
from holdfast.backends.sqlite import SqliteBackend
from holdfast.errors import BackendError, HoldfastError
from holdfast.storage.records import Query
from holdfast.store import copy as copying
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed

REF = st.sampled_from(["@", "@-", "@~2", "main", "#1", "#2", "#3", "#5", "#8"])
SESSION = st.sampled_from(["work", "work", "work", "other"])
LISTS = st.lists(st.integers(0, 9) | st.text(max_size=9), max_size=60)


def act(name, *arguments):
    return st.tuples(st.just(name), st.tuples(SESSION, *arguments))


CHANGES = (
    act("save", STATES | LISTS, SAID, BRANCHES)
    | act("save", STATES | LISTS, SAID, BRANCHES)
    | act("save_kept", STATES, st.integers(1, 4))
    | act("delete", REF)
    | act("tag", REF, TAG_LISTS)
    | act("pin", REF)
    | act("annotate", REF, st.sampled_from(METADATA))
    | act("fork", REF, BRANCHES)
    | act("restore", REF)
    | act("undo")
    | act("undo")
    | act("redo")
    | act("prune", st.integers(1, 4))
    | act("switch", BRANCHES)
    | act("drop_branch", BRANCHES)
    | act("clear")
    | act("gc")
    | act("forget", REF)
)
COPIES = st.tuples(st.just("copy"), st.tuples(st.none() | st.integers(1, 12), st.booleans())) | st.tuples(
    st.just("gc_target"), st.just(())
)


class History:
    """A store that things happen in, and what they are."""

    def __init__(self):
        self.now = 1_700_000_000_000_000
        self.store = holdfast.Store(MemoryBackend(), clock=self.clock)
        self.store._parts = self.store._parts._replace(cuts=SMALL)

    def clock(self):
        self.now += 1000
        return self.now

    def happen(self, name, arguments):
        session, *rest = arguments
        with suppress(HoldfastError):
            getattr(self, name)(self.store.session(session), *rest)

    def save(self, session, state, said, branch):
        self.store.session(session.id, branch=branch).save(state, **said)

    def save_kept(self, session, state, last):
        self.store.session(session.id, keep=holdfast.Keep(last=last)).save(state)

    def delete(self, session, ref):
        session.delete(ref, force=True)

    def tag(self, session, ref, tags):
        session.tag(ref, *tags)

    def pin(self, session, ref):
        session.pin(ref)

    def annotate(self, session, ref, metadata):
        session.annotate(ref, message="said better", metadata=metadata)

    def fork(self, session, ref, name):
        session.fork(ref, name)

    def restore(self, session, ref):
        session.restore(ref)

    def undo(self, session):
        session.undo()

    def redo(self, session):
        session.redo()

    def prune(self, session, last):
        session.prune(holdfast.Keep(last=last), only=True)

    def switch(self, session, name):
        session.switch(name, remember=True)

    def drop_branch(self, session, name):
        session.delete_branch(name)

    def clear(self, session):
        session.clear(force=True)

    def gc(self, _session):
        self.store.gc(keep_days=0)

    def forget(self, session, ref):
        self.store.forget(session.id, ref)


def told(backend):
    """All that a store says about its sessions, but for positions; the rows in their order of arrival."""
    with backend.reader() as reader:
        sessions = sorted(reader.sessions())
        rows = {
            each.id: [
                row._replace(position=0)
                for row in reader.checkpoints(Query(session=each.id, include_hidden=True))
            ]
            for each in sessions
        }
        arrived = {
            each.id: [
                row.seq for row in reader.checkpoints(Query(include_hidden=True)) if row.session == each.id
            ]
            for each in sessions
        }
        branches = [list(reader.branches(each.id)) for each in sessions]
        return sessions, rows, arrived, branches, [list(reader.operations(each.id)) for each in sessions]


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def make_target(request, tmp_path_factory):
    def make():
        if request.param == "memory":
            return MemoryBackend()
        path = tmp_path_factory.mktemp("copy") / "copy.db"
        return SqliteBackend.open(path, durability="process", create=True, timeout=5)

    return make


@pytest.fixture(scope="module", autouse=True)
def tiny_batches():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "_ROWS", 2)
        patch.setattr(copying, "_BYTES", 150)
        patch.setattr(copying, "_READ_AT_ONCE", 2)
        patch.setattr(copying, "_PAGE", 3)
        yield


def copy(history, target, interrupted, after):
    """Copy, interrupted once if so asked; the target is in order in between, and equal afterwards."""
    if interrupted is not None:
        hook = "after" if after else "before"
        target.plan(Fault("adopt", nth=interrupted, **{hook: failing(io_failed())}))
        with suppress(BackendError):
            history.store.copy_to(holdfast.Store(target))
        target.plan()
        report = holdfast.Store(target).verify()
        assert report.ok, report
    planned = history.store.copy_to(holdfast.Store(target), dry_run=True)
    report = history.store.copy_to(holdfast.Store(target))
    assert report.sessions == planned.sessions
    assert told(target) == told(history.store._backend)
    assert holdfast.Store(target).verify().ok
    target.plan()
    again = history.store.copy_to(holdfast.Store(target))
    assert {each.status for each in again.sessions} <= {"unchanged"}
    assert (target.calls["adopt"], target.calls["chunks"]) == (0, 0)


@given(steps=st.lists(CHANGES | CHANGES | CHANGES | COPIES, min_size=1, max_size=30))
def test_a_copy_is_what_its_source_is_after_any_history_and_any_interruption(make_target, steps):
    history, target = History(), FaultyBackend(make_target())
    try:
        for name, arguments in steps:
            if name == "copy":
                copy(history, target, *arguments)
            elif name == "gc_target":
                holdfast.Store(target).gc(keep_days=0)
            else:
                history.happen(name, arguments)
        copy(history, target, 3, after=True)
        check_life_goes_on(history, target)
    finally:
        target.close()


def check_life_goes_on(history, target):
    """What can be undone at the source can be undone at the target, and comes out the same."""
    for info in history.store.sessions():
        outcomes = []
        for store in (history.store, holdfast.Store(target, clock=lambda: history.now)):
            session = store.session(info.id)
            try:
                outcomes.append(session.undo().kind)
            except HoldfastError as error:
                outcomes.append(error.code)
            with suppress(HoldfastError):
                session.load()
                outcomes.append(session.checkpoint().root)
        half = len(outcomes) // 2
        assert repr(outcomes[:half]) == repr(outcomes[half:])
    assert holdfast.Store(target).verify().ok
