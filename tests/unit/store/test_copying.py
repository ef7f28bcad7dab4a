"""`store.copy_to`: what arrives, what is refused, what is not sent twice, and what others may do meanwhile."""

from __future__ import annotations

import os
from typing import Any

import pytest

import holdfast
from holdfast import ConflictError, ErrorCode, InvalidInputError, Keep, NotFoundError
from holdfast.backends.memory import MemoryBackend
from holdfast.backends.sqlite import SqliteBackend
from holdfast.objects.tree.read import reachable
from holdfast.storage.records import Query
from holdfast.store import copy
from holdfast.testing.faults import Fault, FaultyBackend
from holdfast.testing.rows import contents


def make(kind, request, tmp_path, name):
    if kind == "memory":
        return MemoryBackend()
    if kind == "postgres":
        # Only where it is asked for: it takes a server.
        from holdfast.backends.postgres import PostgresBackend

        place = request.getfixturevalue("postgres_store")
        return PostgresBackend.open(place, durability="process", create=True, timeout=10.0)
    return SqliteBackend.open(tmp_path / f"{name}.db", durability="process", create=True, timeout=5)


@pytest.fixture(params=["memory to sqlite", "sqlite to memory", "sqlite to postgres", "postgres to sqlite"])
def stores(request, tmp_path):
    """A source and a target; each counts its calls."""
    kinds = request.param.split(" to ")
    backends = [
        FaultyBackend(make(kind, request, tmp_path, name))
        for kind, name in zip(kinds, ["source", "target"], strict=True)
    ]
    source, target = (holdfast.Store(each) for each in backends)
    yield source, target
    source.close()
    target.close()


def rich(store, name="work"):
    """A session with everything that a session can have."""
    s = store.session(name, agent="scout", project="acme")
    messages = []
    for n in range(12):
        messages.append({"text": f"message {n} " * 20})
        s.save(
            {"messages": messages, "n": n},
            f"step {n}",
            key=f"{name} {n}",
            step=n,
            metadata={"n": n},
            tokens=n,
        )
    s.tag("#3", "golden")
    s.pin("#4")
    s.annotate("#5", message="said better", metadata={"why": "clear"})
    s.fork("#6", "idea").save({"other": True}, "on the idea")
    s.delete("#8")
    s.switch("idea", remember=True)
    return s


def told(store):
    """Everything, but for the positions and what chunks take where."""
    seen = contents(store._backend)
    rows = sorted((row._replace(position=0) for row in seen.checkpoints), key=lambda r: (r.session, r.seq))
    return list(seen.sessions), list(seen.branches), rows, list(seen.operations)


def backend_of(store):
    return store._backend


def test_everything_arrives_as_it_is(stores):
    source, target = stores
    rich(source)
    rich(source, "other")

    report = source.copy_to(target)

    assert told(target) == told(source)
    assert target.verify().ok
    assert [each.status for each in report.sessions] == ["new", "new"]
    assert (report.checkpoints, report.changed, report.removed) == (28, 0, 0)
    assert report.chunks == target.stats().chunks
    assert (report.source, report.target) == (source.url, target.url)
    for mine in source.find():
        theirs = target.session(mine.session).checkpoint(mine.id)
        assert (theirs.id, theirs.root, theirs.seq) == (mine.id, mine.root, mine.seq)
        assert target.session(mine.session).load(mine.id) == source.session(mine.session).load(mine.id)


def test_a_second_copy_sends_what_is_new_and_nothing_else(stores):
    source, target = stores
    s = rich(source)
    source.copy_to(target)
    with backend_of(target).reader() as reader:
        known = set(reader.present(_all_chunks(source)))
    s.save({"messages": ["new"], "n": 99}, "new")
    for store in stores:
        backend_of(store).plan()
    asked = set()

    def noted(found):
        asked.update(found)
        return found

    backend_of(source).plan(Fault("chunks", nth=None, after=noted))

    report = source.copy_to(target)

    assert (report.checkpoints, report.changed) == (1, 0)
    assert asked
    assert not known & asked
    assert backend_of(target).calls["adopt"] == 1
    assert told(target) == told(source)


def _all_chunks(store):
    with backend_of(store).reader() as reader:
        rows = reader.checkpoints(Query(include_hidden=True))
        return [name for row in rows for name in reachable(row.root, reader.chunks)]


def test_a_session_of_the_same_id_that_is_another_one_is_refused_before_anything_is_written(stores):
    source, target = stores
    source.session("fine").save({"n": 1})
    source.session("work").save({"n": 1})
    target.session("work").save({"n": 1})
    before = contents(backend_of(target))

    with pytest.raises(ConflictError) as caught:
        source.copy_to(target)

    assert caught.value.code is ErrorCode.HISTORY_DIFFERS
    assert caught.value.details["session"] == "work"
    assert "began at different times" in str(caught.value)
    assert contents(backend_of(target)) == before
    assert source.copy_to(target, sessions=["fine"]).checkpoints == 1


@pytest.mark.parametrize("at_the_source", ["save", "tag", "nothing", "retired", "forgotten"])
@pytest.mark.parametrize("at_the_target", ["save", "tag", "delete"])
def test_a_copy_that_was_written_to_is_never_overwritten(stores, at_the_source, at_the_target):
    source, target = stores
    for n in range(4):
        source.session("work").save({"n": n})
    source.copy_to(target)
    _write(target, at_the_target)
    if at_the_source == "retired":
        for n in range(9):
            source.session("work", keep=Keep(last=2)).save({"more": n})
    elif at_the_source == "forgotten":
        source.session("work").save({"secret": 1})
        source.forget("work", "@")
        source.session("work").save({"more": 1})
    else:
        _write(source, at_the_source)
    before = contents(backend_of(target))

    if at_the_source == "nothing":
        assert [each.status for each in source.copy_to(target).sessions] == ["ahead"]
    else:
        with pytest.raises(ConflictError) as caught:
            source.copy_to(target)
        assert caught.value.code is ErrorCode.HISTORY_DIFFERS
    assert contents(backend_of(target)) == before


def _write(store, what):
    session = store.session("work")
    if what == "save":
        session.save({"saved": "here", "in": store.url})
    elif what == "tag":
        session.tag("#2", "mine")
    elif what == "delete":
        session.delete("#2")


def test_who_writes_to_the_target_meanwhile_ends_the_copy_and_loses_nothing(stores, monkeypatch):
    source, target = stores
    monkeypatch.setattr(copy, "_ROWS", 4)
    rich(source)
    saved = []
    write = Fault("adopt", nth=3, before=lambda: saved.append(target.session("work").save({"mine": 1})))
    backend_of(target).plan(write)

    with pytest.raises(ConflictError) as caught:
        source.copy_to(target)

    assert caught.value.code is ErrorCode.SESSION_CHANGED
    assert "target" in str(caught.value)
    assert target.session("work").load(saved[0].id) == {"mine": 1}
    assert target.verify().ok


@pytest.mark.parametrize("nth", [1, 2, 3, 5, 8, 13])
def test_a_collection_at_the_target_takes_nothing_from_a_copy(stores, monkeypatch, nth):
    source, target = stores
    monkeypatch.setattr(copy, "_ROWS", 3)
    monkeypatch.setattr(copy, "_BYTES", 2000)
    monkeypatch.setattr(copy, "_READ_AT_ONCE", 2)
    state = {"noise": [os.urandom(100) for _ in range(300)]}
    # What the target has of it belongs to nobody there, and goes with the next collection.
    target.session("gone").save(state)
    target.session("gone").save({"noise": state["noise"][:150]})
    for n in (0, 3):
        target.session("gone").save({"noise": [*state["noise"][n:], n]})
    target.session("gone").clear(force=True)
    backend_of(target)._inner.erase_session("gone")
    for n in range(6):
        source.session("work").save({"noise": [*state["noise"][n:], n]})
    backend_of(target).plan(
        Fault("adopt", nth=nth, before=lambda: target.gc(keep_days=0)),
        Fault("adopt", nth=nth + 1, before=lambda: target.gc(keep_days=0)),
    )

    source.copy_to(target)

    backend_of(target).plan()
    target.gc(keep_days=0)
    assert told(target) == told(source)
    assert target.verify().ok
    assert target.stats().chunks == source.stats().chunks


def test_a_dry_run_says_the_same_and_writes_nothing(stores):
    source, target = stores
    rich(source)
    before = contents(backend_of(target))

    dry = source.copy_to(target, dry_run=True)

    assert contents(backend_of(target)) == before
    assert dry.dry_run
    assert dry.bytes > 0
    assert dry.sessions == source.copy_to(target).sessions


def test_some_sessions_can_be_chosen(stores):
    source, target = stores
    for name in ("a", "b", "c"):
        source.session(name).save({"n": name})

    report = source.copy_to(target, sessions=["c", "a", "c"])

    assert [each.id for each in report.sessions] == ["c", "a"]
    assert {each.id for each in target.sessions()} == {"a", "c"}
    with pytest.raises(NotFoundError) as caught:
        source.copy_to(target, sessions=["a", "nobody"])
    assert caught.value.code is ErrorCode.SESSION_MISSING
    with pytest.raises(InvalidInputError):
        source.copy_to(target, sessions="a")


def test_a_target_is_opened_by_its_name_and_made(tmp_path):
    with holdfast.open(tmp_path / "a.db") as source:
        source.session().save({"n": 1})
        dry = source.copy_to(tmp_path / "b.db", dry_run=True)
        assert not (tmp_path / "b.db").exists()
        assert dry.target == source.copy_to(str(tmp_path / "b.db")).target
        nonsenses: list[Any] = [None, 3, source]
        for nonsense in nonsenses:
            with pytest.raises(InvalidInputError):
                source.copy_to(nonsense)
    with holdfast.open(tmp_path / "b.db", create=False) as copied:
        assert copied.session().load() == {"n": 1}
