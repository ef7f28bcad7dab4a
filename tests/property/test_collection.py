"""Collections against an obvious model: whatever comes in between, every row decodes, and only garbage goes.

Writers save small trees, each with what it remembers of its last save, so that chunks are left out, shared, found again
and stored as differences. Rows go for good, collections begin, mark a little, sweep a little and are left, anyhow.
The model is a dict of values by checkpoint. In the end a quiet collection leaves exactly the chunks that rows reach.
"""

from __future__ import annotations

import copy
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.property.long_runs import long_runs
from tests.property.test_tree import SMALL
from tests.services.postgres import cut_connections, drop_schemas
from tests.values import identical

from holdfast.backends.memory import MemoryBackend
from holdfast.backends.postgres import PostgresBackend
from holdfast.backends.sqlite import SqliteBackend
from holdfast.errors import ConflictError, ErrorCode
from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.tree.boundaries import FORMAT_0
from holdfast.objects.tree.read import links, reachable
from holdfast.objects.tree.state import decode_state, encode_state
from holdfast.storage.ports import Backend
from holdfast.storage.records import Query
from holdfast.testing.rows import batch, chunk, removal, row

NUMBERS = count(1)
WRITERS = 3
CUTS = (FORMAT_0, SMALL, SMALL)
"""The first writer has states of one chunk, which follow each other in a stream; the others have trees."""
ITEMS = st.text(max_size=12) | st.integers() | st.lists(st.integers(0, 9), max_size=30)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["append", "set", "delete", "cut"]), st.integers(0, 99), ITEMS), max_size=6
)
START = {"log": [f"entry {n} of the beginning" for n in range(40)], "table": {f"k{n}": n for n in range(30)}}
"""Large enough for a stream, or for indexes and leaves."""


def changed(state, changes):
    state = copy.deepcopy(state)
    log = state["log"]
    for kind, place, item in changes:
        if kind == "append":
            log.append(item)
        elif kind == "cut":
            del log[place % (len(log) + 1) :]
        elif log:
            at = place % len(log)
            log[at : at + 1] = [item] if kind == "set" else []
        state["table"][f"k{place}"] = item
    return state


class Place:
    """Where stores can be opened by name."""

    lasts = True
    share = 4
    """How many times fewer runs than examples of other tests."""

    def open(self, name: str, *, create: bool) -> Backend:
        raise NotImplementedError

    def crash(self, backend: Backend) -> None:
        """End a process that uses it, without a word."""

    def remove(self, name: str) -> None:
        """Remove what was opened."""


class Memory(Place):
    lasts = False

    def __init__(self, request):
        del request

    def open(self, name, *, create):
        del name, create
        return MemoryBackend()


class Files(Place):
    def __init__(self, request):
        self.folder = request.getfixturevalue("memory_folder")

    def open(self, name, *, create):
        return SqliteBackend.open(
            self.folder / f"{name}.db", durability="process", create=create, timeout=10.0
        )


class Server(Place):
    share = 20

    def __init__(self, request):
        self.database, _, _ = request.getfixturevalue("postgres_place").partition("&schema=")

    def open(self, name, *, create):
        url = f"{self.database}&schema={name}"
        return PostgresBackend.open(url, durability="process", create=create, timeout=10.0)

    def crash(self, backend):
        cut_connections(backend)

    def remove(self, name):
        drop_schemas(self.database, name)


class Marking:
    """A collection that is under way: which rows it has seen, and which chunks it has still to look into."""

    def __init__(self, backend, stack):
        self.collection = stack.enter_context(backend.collection())
        self.backend = backend
        self.position = 0
        self.to_do = []
        self.marked = False

    def step(self, steps):
        """Look at the next rows, one after the other, until there are no more."""
        for _ in range(steps):
            if self.marked:
                return
            with self.backend.reader() as reader:
                if self.to_do:
                    name = self.to_do.pop()
                    self.to_do += self.collection.mark(links(name, reader.chunks([name])[name]))
                    continue
                rows = reader.checkpoints(
                    Query(after_position=self.position, include_hidden=True, oldest_first=True, limit=1)
                )
            self.marked = not rows
            for each in rows:
                self.position = each.position
                self.to_do += self.collection.mark([each.root])


class Collecting(RuleBasedStateMachine):
    rows = Bundle("rows")
    place: Place
    """Where the store is; the test says so, as nobody can hand anything to a machine."""

    def __init__(self):
        super().__init__()
        self.name = f"machine_{next(NUMBERS)}"
        self.backend = self.place.open(self.name, create=True)
        self.values = {}
        self.written = {}
        self.labels = count()
        self.going: Any = None

    @initialize()
    def begin_all_writers(self):
        self.states = [copy.deepcopy(START) for _ in range(WRITERS)]
        # What each remembers of its last save, and the checkpoint that it saved.
        self.memos: list[tuple[Any, Any]] = [(None, None)] * WRITERS

    @rule(target=rows, writer=st.integers(0, WRITERS - 1), changes=CHANGES)
    def save(self, writer, changes):
        self.states[writer] = state = changed(self.states[writer], changes)
        memo, last = self.memos[writer]
        encoded = encode_state(state, GLOBAL, memo, cuts=CUTS[writer])
        made = row(f"{next(self.labels)}", root=encoded.root, message=f"by {writer}")
        relies_on = last if encoded.relies_on is not None else None
        try:
            (kept,) = self.backend.commit(batch(made, chunks=encoded.chunks, relies_on=relies_on)).checkpoints
        except ConflictError as error:
            if error.code is not ErrorCode.CHUNKS_GONE or last in self.values:
                raise
            encoded = encode_state(state, GLOBAL, None, cuts=CUTS[writer])
            (kept,) = self.backend.commit(batch(made, chunks=encoded.chunks)).checkpoints
        self.memos[writer] = (encoded.memo, kept.id)
        self.values[kept.id] = copy.deepcopy(state)
        self.written[kept.id] = kept
        return kept.id

    @rule(target=rows, writer=st.integers(0, WRITERS - 1), source=rows)
    def copy_a_checkpoint(self, writer, source):
        """As fork and restore do: the same root, and no chunk in the batch."""
        made = row(f"{next(self.labels)}", root=self.written[source].root)
        copying = batch(made, chunks=(), relies_on=source)
        if source not in self.values:
            with pytest.raises(ConflictError):
                self.backend.commit(copying)
            return source
        (kept,) = self.backend.commit(copying).checkpoints
        self.values[kept.id] = self.values[source]
        self.written[kept.id] = kept
        self.states[writer] = copy.deepcopy(self.values[source])
        self.memos[writer] = (None, None)
        return kept.id

    @rule(which=st.lists(rows, min_size=1, max_size=6, unique=True))
    def remove(self, which):
        self.backend.commit(removal(*(self.written[each] for each in which if each in self.values)))
        for each in which:
            self.values.pop(each, None)

    @rule()
    def begin_a_collection(self):
        # One that is under way is left where it is.
        self.leave()
        self.left = ExitStack()
        self.going = Marking(self.backend, self.left)

    @precondition(lambda self: self.going and not self.going.marked)
    @rule(steps=st.integers(1, 40))
    def mark(self, steps):
        self.going.step(steps)

    @precondition(lambda self: self.going and not self.going.marked)
    @rule()
    def mark_the_rest(self):
        self.going.step(100_000)

    @precondition(lambda self: self.going and self.going.marked)
    @rule(limit=st.integers(1, 12))
    def sweep(self, limit):
        if self.going.collection.sweep(limit).done:
            self.leave()

    @rule(
        target=rows,
        writer=st.integers(0, WRITERS - 1),
        changes=st.lists(CHANGES, min_size=2, max_size=7),
        keep=st.lists(st.booleans(), min_size=6, max_size=6),
        limit=st.integers(1, 4),
    )
    def collect_around_saves(self, writer, changes, keep, limit):
        """The weakest point, on purpose: saves between the last mark, the first sweep and the last."""
        for each in changes[:-2]:
            self.save(writer, each)
        mine = [each for each in self.values if self.written[each].message == f"by {writer}"]
        self.remove([each for each, kept in zip(mine[-2::-1], keep, strict=False) if not kept])
        self.begin_a_collection()
        self.going.step(100_000)
        self.save(writer, changes[-2])
        self.going.collection.sweep(limit)
        newest = self.save(writer, changes[-1])
        while not self.going.collection.sweep(limit).done:
            pass
        self.leave()
        return newest

    @precondition(lambda self: self.place.lasts and self.values)
    @rule(crash=st.booleans())
    def come_back(self, crash):
        """Another process comes, whatever was under way; the one before it has ended, or is just gone."""
        gone = self.backend
        if crash:
            self.place.crash(gone)
            self.going = None
        self.leave()
        self.backend = self.place.open(self.name, create=False)
        gone.close()

    def leave(self):
        if self.going is not None:
            self.going = None
            self.left.close()

    @invariant()
    def the_newest_rows_decode(self):
        for each in list(self.values)[-4:]:
            self.check(each)

    def check(self, each):
        with self.backend.reader() as reader:
            assert identical(decode_state(self.written[each].root, reader.chunks, GLOBAL), self.values[each])

    def teardown(self):
        try:
            self.check_everything()
        finally:
            self.leave()
            self.backend.close()
            self.place.remove(self.name)

    def check_everything(self):
        if self.going is not None:
            self.going.step(100_000)
            while not self.going.collection.sweep(7).done:
                pass
            self.leave()
        with self.backend.reader() as reader:
            assert {each.id for each in reader.checkpoints(Query())} == self.values.keys()
        for each in self.values:
            self.check(each)
        with ExitStack() as stack:
            quiet = Marking(self.backend, stack)
            quiet.step(100_000)
            counted = quiet.collection.unneeded().chunks
            swept = quiet.collection.sweep(100_000)
            while not swept.done:
                more = quiet.collection.sweep(100_000)
                swept = more._replace(chunks=more.chunks + swept.chunks)
            assert swept.chunks == counted
        for each in self.values:
            self.check(each)
        with self.backend.reader() as reader:
            needed = {
                name for each in self.values for name in reachable(self.written[each].root, reader.chunks)
            }
            assert reader.stats().chunks == len(needed)
            assert set(reader.chunks(needed)) == needed
            assert all(chunk(data).hash == name for name, data in reader.chunks(needed).items())


@pytest.fixture(params=[Memory, Files, Server])
def place(request, monkeypatch):
    made = request.param(request)
    monkeypatch.setattr(Collecting, "place", made, raising=False)
    return made


# In parts, which can run at the same time.
def test_whatever_comes_in_between_only_garbage_goes(place):
    run_state_machine_as_test(Collecting, settings=long_runs(steps=40, share=place.share))
