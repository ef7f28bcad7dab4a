"""The real store against the slow, obvious one: the same calls on both, the same answers and the same errors.

Three writers work on two sessions, so that two of them share one: their conflicts, forks and deletions meet. Each rule
calls the real store first and tells the model the id that it gave. At the end everything is compared with everything.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.model.past import Past
from tests.model.store import ModelStore
from tests.property.long_runs import long_runs
from tests.property.machine_compared import attempt, plain, telling, turned_alike, written_alike
from tests.property.machine_inputs import (
    BRANCHES,
    KEYS,
    METADATA,
    REFS,
    SAID,
    STATES,
    TAG_LISTS,
    TAGS,
    WRITERS,
)
from tests.property.machine_removing import RemovingRules
from tests.property.machine_states import SMALL, LargeStateRules
from tests.values import identical

import holdfast
from holdfast.backends.memory import MemoryBackend
from holdfast.backends.sqlite import SqliteBackend
from holdfast.errors import ErrorCode
from holdfast.history.checkpoint import moment
from holdfast.history.oplog import check_chain
from holdfast.storage.records import Query


class StoreMachine(RemovingRules, LargeStateRules, RuleBasedStateMachine):
    """Calls on both stores; `self.both` is where they are compared."""

    def __init__(self):
        super().__init__()
        self.now = 1_700_000_000_000_000
        self.saved = []
        self.states_by_root = {}
        self.backend = self.open_backend()
        self.cuts = None
        self.real = self.open_store()
        self.model = ModelStore(app_version="1.0", clock=lambda: self.now)
        self.writers: list[Any] = [None] * 3

    def open_backend(self):
        raise NotImplementedError

    def open_store(self):
        return self.store_on(self.backend)

    def store_on(self, backend):
        store = holdfast.Store(backend, app_version="1.0", clock=lambda: self.now)
        store._parts = store._parts._replace(cuts=self.cuts)
        return store

    def store_of(self, writer):
        """The store that a writer works with; all share one unless a machine says otherwise."""
        del writer
        return self.real

    @initialize(cuts=st.sampled_from([SMALL, SMALL, None]))
    def something_to_work_on(self, cuts):
        """Two branches in one session and one in another, with writers that have seen different heads."""
        self.cuts = cuts
        self.real = self.open_store()
        for number in range(3):
            self.new_writer(number, "main", None, None)
        for step in range(3):
            self.save(0, {"step": step}, {"tags": TAGS[:step]}, None, None)
        self.load_the_newest(1)
        self.save(2, "elsewhere", {"key": "k1"}, None, None)
        self.save(0, "a fork", {}, None, ("seq", 1))

    @rule(writer=WRITERS, state=STATES)
    def append(self, writer, state):
        """What most programs do."""
        self.save(writer, state, {}, None, None)

    @rule(state=STATES, on_conflict=st.sampled_from(["raise", "fork"]))
    def meet(self, state, on_conflict):
        """Two writers see the same head, and both save."""
        for writer in (0, 1):
            self.new_writer(writer, "main", None, None)
            self.load_the_newest(writer)
        self.save(0, state, {}, None, None)
        self.save(1, state, {"on_conflict": on_conflict}, None, None)

    @rule(
        writer=WRITERS,
        branch=st.sampled_from(["main", "main", "main-1", "nowhere", None]),
        agent=st.sampled_from([None, None, "scout", "other"]),
        project=st.sampled_from([None, None, "acme"]),
    )
    def new_writer(self, writer, branch, agent, project):
        """A new Session has seen nothing."""
        name = "other" if writer == 2 else "work"
        where = {"agent": agent, "project": project, "branch": branch}
        real, model = self.store_of(writer).session(name, **where), self.model.session(name, **where)
        # Where no branch is named, it is the current one of the session.
        assert real.branch == model.branch
        self.writers[writer] = real, model

    @rule(
        writer=WRITERS,
        state=STATES,
        said=SAID,
        expect=st.none() | st.just("nothing") | st.tuples(st.just("expect"), REFS),
        parent=st.none() | st.none() | REFS,
    )
    def save(self, writer, state, said, expect, parent):
        real, model = self.writers[writer]
        for_real, for_model = dict(said), dict(said)
        if expect == "nothing":
            for_real["expect"] = for_model["expect"] = None
        elif expect is not None:
            for_real["expect"], for_model["expect"] = self.pick(expect[1])
        if parent is not None:
            for_real["parent"], for_model["parent"] = self.pick(parent)
        mine = copy.deepcopy(state)
        pair = self.both(
            lambda: real.save(mine, **for_real),
            lambda done: model.save(mine, **for_model, as_id=done.id if done else None),
            written_alike,
        )
        if pair is not None and all(known.id != pair[0].id for known, _ in self.saved):
            self.saved.append(pair)
        # What the caller does to its state afterwards is no concern of the store.
        with suppress(Exception):
            mine.clear()

    @rule(writer=WRITERS, ref=REFS, default=st.booleans())
    def load(self, writer, ref, default):
        real, model = self.writers[writer]
        real_ref, model_ref = self.pick(ref)
        options = {"default": "nothing there"} if default else {}
        self.both(
            lambda: real.load(real_ref, **options), lambda _: model.load(model_ref, **options), identical
        )

    @rule(writer=WRITERS)
    def load_the_newest(self, writer):
        self.load(writer, ("@", 0), default=True)

    @rule(writer=WRITERS, ref=REFS)
    def checkpoint(self, writer, ref):
        real, model = self.writers[writer]
        real_ref, model_ref = self.pick(ref)
        self.both(lambda: real.checkpoint(real_ref), lambda _: model.checkpoint(model_ref))

    @rule(writer=WRITERS, ref=REFS, limit=st.none() | st.integers(1, 4))
    def log(self, writer, ref, limit):
        real, model = self.writers[writer]
        real_ref, model_ref = self.pick(ref)
        self.both(lambda: real.log(real_ref, limit=limit), lambda _: model.log(model_ref, limit=limit))

    @rule(writer=WRITERS, ref=REFS)
    def exists(self, writer, ref):
        real, model = self.writers[writer]
        real_ref, model_ref = self.pick(ref)
        self.both(lambda: real.exists(real_ref), lambda _: model.exists(model_ref), lambda a, b: a is b)

    @rule(writer=WRITERS, ref=REFS, force=st.booleans())
    def delete(self, writer, ref, force):
        real, model = self.writers[writer]
        real_ref, model_ref = self.pick(ref)
        self.both(
            lambda: real.delete(real_ref, force=force),
            lambda _: model.delete(model_ref, force=force),
            written_alike,
        )

    @rule(
        writer=WRITERS,
        ref=REFS,
        message=st.none() | st.sampled_from(["", "said better"]),
        metadata=st.sampled_from([None, *METADATA]),
    )
    def annotate(self, writer, ref, message, metadata):
        real, model = self.writers[writer]
        real_ref, model_ref = self.pick(ref)
        what = {"message": message, "metadata": metadata}
        self.both(
            lambda: real.annotate(real_ref, **what),
            lambda _: model.annotate(model_ref, **what),
            written_alike,
        )

    @rule(writer=WRITERS, ref=REFS, tags=TAG_LISTS, on=st.booleans())
    def tag(self, writer, ref, tags, on):
        real, model = self.writers[writer]
        real_ref, model_ref = self.pick(ref)
        verb = "tag" if on else "untag"
        self.both(
            lambda: getattr(real, verb)(real_ref, *tags),
            lambda _: getattr(model, verb)(model_ref, *tags),
            written_alike,
        )

    @rule(writer=WRITERS, ref=REFS, on=st.booleans())
    def pin(self, writer, ref, on):
        real, model = self.writers[writer]
        real_ref, model_ref = self.pick(ref)
        verb = "pin" if on else "unpin"
        self.both(
            lambda: getattr(real, verb)(real_ref), lambda _: getattr(model, verb)(model_ref), written_alike
        )

    @rule(writer=WRITERS, force=st.booleans(), really=st.integers(0, 4))
    def clear(self, writer, force, really):
        """Not often: there is little to do afterwards."""
        if really:
            return
        real, model = self.writers[writer]
        self.both(lambda: real.clear(force=force), lambda _: model.clear(force=force), lambda a, b: a == b)

    @rule(
        writer=WRITERS,
        ref=REFS,
        name=st.none() | BRANCHES,
        session=st.sampled_from([None, None, None, "work", "other", "third"]),
        adopt=st.booleans(),
    )
    def fork(self, writer, ref, name, session, adopt):
        real, model = self.writers[writer]
        real_ref, model_ref = self.pick(ref)
        forked = []

        def real_fork():
            forked.append(real.fork(real_ref, name, session=session))
            return forked[0].checkpoint()

        def model_fork(done):
            forked.append(model.fork(model_ref, name, session=session, as_id=done.id if done else None))
            return forked[1].checkpoint()

        pair = self.both(real_fork, model_fork, written_alike)
        if pair is not None:
            self.saved.append(pair)
            assert (forked[0].id, forked[0].branch) == (forked[1].id, forked[1].branch)
            if adopt:
                self.writers[writer] = tuple(forked)

    @rule(writer=WRITERS, ref=REFS)
    def restore(self, writer, ref):
        real, model = self.writers[writer]
        real_ref, model_ref = self.pick(ref)
        pair = self.both(
            lambda: real.restore(real_ref),
            lambda done: model.restore(model_ref, as_id=done.id if done else None),
            written_alike,
        )
        if pair is not None:
            self.saved.append(pair)

    @rule(writer=WRITERS, name=BRANCHES, remember=st.booleans())
    def switch(self, writer, name, remember):
        real, model = self.writers[writer]
        self.both(
            lambda: real.switch(name, remember=remember),
            lambda _: model.switch(name, remember=remember),
            written_alike,
        )

    @rule(writer=WRITERS, old=BRANCHES, new=BRANCHES)
    def rename_branch(self, writer, old, new):
        real, model = self.writers[writer]
        self.both(
            lambda: real.rename_branch(old, new),
            lambda _: model.rename_branch(old, new),
            lambda done, _: done.name == new,
        )

    @rule(writer=WRITERS, name=BRANCHES, force=st.booleans())
    def delete_branch(self, writer, name, force):
        real, model = self.writers[writer]
        self.both(
            lambda: real.delete_branch(name, force=force),
            lambda _: model.delete_branch(name, force=force),
            written_alike,
        )

    @rule(
        ref=st.tuples(st.just("recent"), st.integers(0, 8)),
        operation=st.sampled_from(["delete", "delete", "fork", "restore"]),
        between=st.lists(st.sampled_from(["append", "onto", "undo", "undo", "redo"]), max_size=5),
    )
    def there_and_back(self, ref, operation, between):
        """An operation that others save beside, and on, while it is undone and redone."""
        self.new_writer(0, "main", None, None)
        if operation == "delete":
            self.delete(0, ref, force=True)
        elif operation == "fork":
            self.fork(0, ref, None, None, adopt=False)
        else:
            self.restore(0, ref)
        for each in [*between, "undo"]:
            if each == "append":
                self.save(0, "beside", {}, None, None)
            elif each == "onto":
                self.save(1, "onto", {"on_conflict": "fork"}, None, ("recent", 0))
            else:
                self.turn(0, [each])

    @rule(writer=WRITERS, verbs=st.lists(st.sampled_from(["undo", "undo", "redo"]), min_size=1, max_size=4))
    def turn(self, writer, verbs):
        """There and back again, any number of times."""
        real, model = self.writers[writer]
        for verb in verbs:
            said: list[ErrorCode] = []
            self.both(
                lambda v=verb, s=said: telling(s, getattr(real, v)),
                # Where the store could not tell, the model has to agree.
                lambda _, v=verb, s=said: getattr(model, v)(unsure=s == [ErrorCode.UNDO_GONE]),
                turned_alike,
            )
            assert real.branch == model.branch

    @rule(
        filters=st.fixed_dictionaries(
            {},
            optional={
                "session": st.sampled_from(["work", "other", "nobody"]),
                "branch": st.sampled_from(["main", "main-1"]),
                "agent": st.sampled_from(["scout", "other"]),
                "project": st.just("acme"),
                "tag": st.sampled_from(TAGS),
                "status": st.sampled_from(["running", "failed"]),
                "trigger": st.sampled_from(["auto", "auto:x", "manual"]),
                "step": st.integers(-1, 2),
                "key": st.sampled_from(KEYS),
                "metadata": st.sampled_from([{"run": {"n": 1}}, {"n": 1}, *METADATA]),
                "limit": st.integers(1, 5),
            },
        ),
        before=st.none() | st.integers(0, 30),
        since=st.none() | st.integers(-5, 5),
    )
    def find(self, filters, before, since):
        for_real, for_model = dict(filters), dict(filters)
        if before is not None and self.saved:
            for_real["before"], for_model["before"] = self.saved[before % len(self.saved)]
        if since is not None:
            name = "since" if since < 0 else "until"
            for_real[name] = for_model[name] = moment(self.now) + timedelta(microseconds=since)
        self.both(lambda: self.real.find(**for_real), lambda _: self.model.find(**for_model))

    @rule(
        writer=WRITERS,
        start=st.sampled_from(["", "a", "k1 ", *KEYS]),
        stop=st.sampled_from([None, "", "k2", "k3", *KEYS]),
        reverse=st.booleans(),
        limit=st.none() | st.integers(1, 3),
    )
    def keyed(self, writer, start, stop, reverse, limit):
        real, model = self.writers[writer]
        how = {"reverse": reverse, "limit": limit}
        self.both(lambda: real.keyed(start, stop, **how), lambda _: model.keyed(start, stop, **how))

    @rule(
        writer=WRITERS,
        branch=BRANCHES,
        state=STATES,
        said=SAID,
        parent=st.none() | st.none() | REFS,
        then=st.integers(0, 2),
    )
    def begin_a_line(self, writer, branch, state, said, parent, then):
        """A branch with a beginning of its own, beside what there is, and more on it."""
        self.new_writer(writer, branch, None, None)
        self.save(writer, state, said, "nothing", parent)
        for number in range(then):
            self.save(writer, {"more": number}, {"key": KEYS[number]}, None, None)

    @rule(by=st.sampled_from([-3_600_000_000, -1, 1, 2, 60_000_000]))
    def the_clock_goes(self, by):
        self.now += by

    def pick(self, ref):
        """A ref for the real store and the same for the model."""
        kind, number = ref
        if kind == "recent":
            kind, number = ("object", "id", "seq")[number % 3], len(self.saved) - 1 - number // 3
        if kind == "tag":
            text = f"tag:{TAGS[number % len(TAGS)]}"
        elif kind == "seq":
            text = f"#{max(number, 0)}"
        elif kind.startswith("id") and self.saved:
            known = self.saved[number % len(self.saved)][0]
            text = known.id[: 64 if number % 3 else 8] + kind[2:]
        elif kind == "object" and self.saved:
            return self.saved[number % len(self.saved)]
        else:
            text = kind if kind.startswith(("@", "main", "idea")) else "abcdef"
        return text, text

    def both(self, real, model, same=None):
        """Run both; they must end alike. Returns both answers, or None where both failed."""
        done, real_error = attempt(real)
        wanted, model_error = attempt(lambda: model(done))
        # Not every state can be shown: repr of a Counter compares its values, and NaN does not like that.
        note(f"real: {real_error!r}" if real_error else f"real: {getattr(done, 'id', type(done).__name__)}")
        assert (real_error and real_error.code) == (model_error and model_error.code), (
            real_error,
            model_error,
        )
        assert type(real_error) is type(model_error)
        if real_error is not None:
            return None
        if same is not None:
            assert same(done, wanted)
        elif isinstance(done, list):
            assert [plain(each) for each in done] == [plain(each) for each in wanted]
        else:
            assert plain(done) == plain(wanted)
        return done, wanted

    def teardown(self):
        try:
            self.compare_everything()
        finally:
            self.real.close()

    def compare_everything(self):
        found, wanted = self.real.find(), self.model.find()
        assert [plain(each) for each in found] == [plain(each) for each in wanted]
        assert [each.position for each in found] == sorted((each.position for each in found), reverse=True)
        infos = [(each.id, each.agent, each.project, each.saves) for each in self.real.sessions()]
        assert infos == [
            (name, agent, project, saves) for name, agent, project, _, saves in self.model.sessions()
        ]
        for real, model in zip(found, wanted, strict=True):
            state = self.real.session(real.session, branch=real.branch).load(real)
            assert identical(state, model.state)
            # Equal roots mean equal states.
            assert identical(self.states_by_root.setdefault(real.root, state), state)
        for name, *_ in self.model.sessions():
            with self.backend.reader() as reader:
                heads = {branch.name: branch.head.hex() for branch in reader.branches(name)}
                self.check_links(reader, name)
                check_chain(reader.session(name), reader.operations(name))
                assert reader.session(name).current == self.model.lines[name].current
            assert heads == self.model.branches(name)
            assert {each.name: each.head.id for each in self.real.session(name).branches()} == heads
            past = self.model.pasts.get(name, Past())
            done = self.real.session(name).operations(limit=None)
            assert [each.kind for each in reversed(done)] == past.kinds
            assert [self.origin(each) for each in done if each.undoable] == [
                step.kind for step in past.reachable(self.model.lines[name])
            ]
            for branch in heads:
                walked = self.real.session(name, branch=branch).log()
                assert [plain(each) for each in walked] == [
                    plain(each) for each in self.model.session(name, branch=branch).log()
                ]
        stats = self.real.stats()
        assert stats.checkpoints == len(wanted)
        assert stats.hidden == sum(len(line.present()) for line in self.model.lines.values()) - len(wanted)
        verified = self.real.verify()
        assert verified.ok, verified

    def check_links(self, reader, name):
        """Every link leads back to something that is there, hidden rows included, and to nothing nearer than that."""
        rows = {row.id: row for row in reader.checkpoints(Query(session=name, include_hidden=True))}
        line = self.model.lines[name]
        assert len(rows) == len(line.present())
        for row in rows.values():
            if row.prev is not None:
                assert not rows[row.prev].hidden
                assert rows[row.prev].seq < row.seq
            known = line.get(row.id.hex())
            assert known is not None
            prev, skipped = line.link(known)
            assert (row.prev and row.prev.hex(), row.skipped) == (prev, skipped)

    def origin(self, operation):
        """What was done in the first place, where it came back with a redo."""
        verbs = {"delete branch": "drop", "rename branch": "rename", "unpin": "pin"}
        said = operation.summary.removeprefix("redo of ")
        return next((kind for words, kind in verbs.items() if said.startswith(words)), said.split(" ")[0])


class MemoryMachine(StoreMachine):
    def open_backend(self):
        return MemoryBackend()


class LastingMachine(StoreMachine):
    """A store that is there for the next process as well."""

    def open_again(self):
        raise NotImplementedError

    @precondition(lambda self: self.saved)
    @rule()
    def reopen(self):
        """Another process comes, with writers that have seen nothing."""
        self.real.close()
        self.come_back()

    def come_back(self):
        self.backend = self.open_again()
        self.real = self.open_store()
        for writer, (real, model) in enumerate(self.writers):
            where = {"agent": real.agent, "project": real.project, "branch": real.branch}
            again = self.store_of(writer).session(real.id, **where)
            self.writers[writer] = again, self.model.session(model.id, **where)


class SqliteMachine(LastingMachine):
    place: Path
    """Where its files are; the test says so, as nobody can hand anything to a machine."""

    def open_backend(self):
        self.folder = Path(tempfile.mkdtemp(dir=self.place))
        return self.open_file(create=True)

    def open_file(self, *, create):
        return SqliteBackend.open(self.folder / "store.db", durability="process", create=create, timeout=10.0)

    def open_again(self):
        return self.open_file(create=False)

    @precondition(lambda self: self.saved)
    @rule()
    def crash(self):
        """The machine went off between two calls: the files are found as they were left, with nothing closed."""
        after = Path(tempfile.mkdtemp(dir=self.place))
        for file in self.folder.iterdir():
            # The index of the log is shared memory, and is not there after a crash.
            if not file.name.endswith("-shm"):
                shutil.copy(file, after / file.name)
        self.real.close()
        shutil.rmtree(self.folder)
        self.folder = after
        self.come_back()

    def teardown(self):
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.folder)


# In parts, which can run at the same time.
@pytest.mark.parametrize(("machine", "part"), [(MemoryMachine, 1), (SqliteMachine, 1), (SqliteMachine, 2)])
def test_the_store_does_what_the_model_does(machine, part, memory_folder, monkeypatch, chunks_at_hand):
    # In one of them, loads read all there is; in the other, as for people, what they have not read just now.
    chunks_at_hand(20_000 if part == 2 else 0)
    monkeypatch.setattr(machine, "place", memory_folder, raising=False)
    run_state_machine_as_test(machine, settings=long_runs(steps=50, share=4))
