"""Loading from an open store what it has read before: only what is new is read, and nothing that is gone is given."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

import holdfast
from holdfast import ErrorCode, IntegrityError, NotFoundError
from holdfast.backends.sqlite.reader import SqliteReader
from holdfast.objects.tree import read as tree_read
from holdfast.objects.tree.chunk_cache import KEPT_BYTES, TRUSTED_SECONDS
from holdfast.testing.faults import Fault, FaultyBackend


@pytest.fixture
def read(monkeypatch, chunks_at_hand):
    """The names of the chunks that were read from the store."""
    chunks_at_hand(KEPT_BYTES)
    names = []
    chunks = SqliteReader.chunks

    def noted(self, hashes):
        wanted = list(hashes)
        names.extend(wanted)
        return chunks(self, wanted)

    monkeypatch.setattr(SqliteReader, "chunks", noted)
    return names


@pytest.fixture
def store(read, tmp_path):
    with holdfast.open(tmp_path / "s.db", durability="process") as opened:
        yield opened


def said(turns: int):
    return {"messages": [{"role": "user", "content": f"{n} " * 60} for n in range(turns)], "step": turns}


def test_a_state_that_was_loaded_is_loaded_again_without_reading(store, read):
    saved = store.session("s").save(said(500))
    assert store.session("s").load() == said(500)
    assert len(read) > 5
    del read[:]
    # It is the store that has them: whichever of its sessions asks, and however.
    session = store.session("s")
    assert session.load() == said(500)
    assert session.load(path="messages[-1].content") == "499 " * 60
    assert list(store.load_each([saved])) == [said(500)]
    assert read == []


def test_what_was_loaded_is_the_callers_own(store):
    session = store.session("s")
    session.save(said(50))
    first = session.load()
    first["messages"][0]["content"] = "changed"
    first["step"] = None
    assert session.load() == said(50)


def test_of_the_next_state_only_what_is_new_is_read(store, read, tmp_path):
    document = store.session("s").document(default=said(500))
    document.save()
    with holdfast.open(tmp_path / "s.db") as other:
        session = other.session("s")
        session.load()
        del read[:]
        for turn in range(500, 520):
            document["messages"].append({"role": "user", "content": f"{turn} " * 60})
            document["step"] = turn + 1
            document.save()
            assert session.load() == said(turn + 1)
    # The root each time, and now and then a run that ended.
    assert len(read) <= 20 + 10
    assert len(set(read)) == len(read)


@pytest.mark.parametrize("most", [60_000, KEPT_BYTES])
def test_on_any_backend_what_is_partly_at_hand_comes_out_whole(backend, chunks_at_hand, monkeypatch, most):
    chunks_at_hand(most)
    # So that there are many questions: a server is asked the next before it has answered the last.
    monkeypatch.setattr(tree_read, "_AT_ONCE", 8)
    asked = []

    def note(found):
        asked.append(found)
        return found

    with holdfast.Store(FaultyBackend(backend, [Fault("chunks", nth=None, after=note)])) as store:
        session = store.session("s")
        states = [said(1_500), said(1_520), {**said(1_510), "messages": said(1_510)["messages"][20:]}]
        saved = [session.save(state) for state in states]
        assert session.load(saved[0], path="messages[700:720]") == states[0]["messages"][700:720]
        read = []
        for n in (0, 1, 2, 0):
            del asked[:]
            assert session.load(saved[n]) == states[n]
            read.append([len(found) for found in asked])
        assert list(store.load_each(saved)) == states
    # Where there is room for all of them, a question leaves out what is there; where there is not, what was there goes.
    assert len(read[0]) > 3
    assert (sum(read[1]) < 5, read[3] == []) == (most == KEPT_BYTES, most == KEPT_BYTES)


def test_forgetting_empties_it(store, read):
    for name in ("s", "other"):
        store.session(name).save(said(100))
        store.session(name).load()
    del read[:]
    store.session("other").load()
    assert read == []
    store.forget("s")
    with pytest.raises(NotFoundError):
        store.session("s").load()
    assert not store._parts.at_hand._kept._chunks
    del read[:]
    assert store.session("other").load() == said(100)
    assert read


LOADS = {
    "all": lambda store, saved: store.session("s").load(saved),
    "path": lambda store, saved: {**said(500), "messages": store.session("s").load(saved, path="messages")},
    "each": lambda store, saved: next(store.load_each([saved])),
}


# When the view has shown that it is there; and when the root was read, and what lies under it is still to come.
@pytest.mark.parametrize("after", ["row", "root"])
@pytest.mark.parametrize("load", LOADS)
def test_what_is_forgotten_while_it_is_loaded_does_not_stay(backend, chunks_at_hand, load, after):
    chunks_at_hand(KEPT_BYTES)
    backend = FaultyBackend(backend)
    with holdfast.Store(backend) as store:
        saved = store.session("s").save(said(500))

        def forget(found):
            store.forget("s", clean=False)
            return found

        row = "checkpoints" if load == "each" else "checkpoint"
        backend.plan(Fault(row if after == "row" else "chunks", after=forget))
        assert LOADS[load](store, saved) == said(500)
        assert (backend.calls["chunks"] > 1, backend.calls["erase_session"]) == (True, 1)
        assert not store._parts.at_hand._kept._chunks


CALLS = {
    "save": lambda store: store.session("s").save(said(1)),
    "log": lambda store: store.session("s").log(),
    "document": lambda store: store.session("s").document(),
    "tag": lambda store: store.session("s").tag("@", "seen"),
    "diff": lambda store: store.session("s").diff("@", "@"),
    "find": lambda store: store.find(),
    "stats": lambda store: store.stats(),
    "gc": lambda store: store.gc(dry_run=True),
    "verify": lambda store: store.verify(quick=True),
    "lease": lambda store: store.lease("turn:s").__exit__(None, None, None),
}


@pytest.mark.parametrize("call", CALLS)
def test_whatever_the_store_is_used_for_after_ten_minutes_ends_it(store, call, monkeypatch):
    store.session("s").save(said(100))
    store.session("s").load()
    CALLS[call](store)
    assert store._parts.at_hand._kept._chunks
    later = time.monotonic() + TRUSTED_SECONDS + 1
    monkeypatch.setattr("holdfast.objects.tree.chunk_cache.time", SimpleNamespace(monotonic=lambda: later))
    CALLS[call](store)
    assert not store._parts.at_hand._kept._chunks


def test_a_closed_store_has_nothing(store):
    session = store.session("s")
    session.save(said(100))
    session.load()
    store.close()
    assert not store._parts.at_hand._kept._chunks
    with pytest.raises(holdfast.StateError) as closed:
        session.load()
    assert closed.value.code is ErrorCode.STORE_CLOSED


def test_what_was_whole_when_it_was_read_is_given_and_verify_finds_the_damage(store, tmp_path):
    import apsw

    session = store.session("s")
    session.save(said(500))
    assert session.load() == said(500)
    with apsw.Connection(str(tmp_path / "s.db")) as harmed:
        harmed.execute("UPDATE chunks SET data = zeroblob(length(data))")
    # Not what the disk says, and not wrong either: these bytes had the hash that they are named by.
    assert session.load() == said(500)
    assert not store.verify().ok
    with holdfast.open(tmp_path / "s.db") as other, pytest.raises(IntegrityError):
        other.session("s").load()
