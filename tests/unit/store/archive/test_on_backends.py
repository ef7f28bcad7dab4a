"""Archives between kinds of stores, with writers that come between, errors in the middle, and bounded memory."""

from __future__ import annotations

import os

import pytest
from holdfast.store.archives import bringing, importing, planning, spool
from tests.memory import peak
from tests.unit.store.archive.archive_samples import described, filled, ids

import holdfast
from holdfast import BackendError, Store
from holdfast.backends.chunk_codec import RecentChunks
from holdfast.backends.memory import MemoryBackend
from holdfast.objects.tree import chunk_cache as at_hand
from holdfast.store import load_many as loading
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed

NAME = "research/42"


@pytest.fixture
def store(anywhere):
    return anywhere


@pytest.fixture
def source():
    with holdfast.open("memory:") as made:
        filled(made)
        yield made


def test_a_session_goes_in_and_out_of_every_kind_of_store(source, store, tmp_path, monkeypatch):
    monkeypatch.setattr(bringing, "_AT_ONCE", 500)
    monkeypatch.setattr(bringing, "_PART", 500)
    source.session(NAME).export(path=tmp_path / "a.jsonl", session=True)
    store.import_(tmp_path / "a.jsonl")
    assert described(store) == described(source)
    assert store.verify().ok
    store.session(NAME).export(path=tmp_path / "b.jsonl", session=True)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert store.import_(tmp_path / "b.jsonl").checkpoints == 0


def test_somebody_who_writes_meanwhile_is_not_written_over(source, store, tmp_path, monkeypatch):
    source.session(NAME).export(path=tmp_path / "a.jsonl", session=True)
    planned = planning.plan_session
    came: list[holdfast.Checkpoint] = []

    def between(backend, read, **more):
        plan = planned(backend, read, **more)
        if not came:
            came.append(store.session(NAME).save({"came": "between"}))
        return plan

    monkeypatch.setattr(importing, "plan_session", between)
    report = store.import_(tmp_path / "a.jsonl")
    assert store.session(NAME).checkpoint("main").id == came[0].id
    assert set(report.sessions[0].branches) == {"idea", "main-1"}
    assert set(ids(source)) < set(ids(store))
    assert store.verify().ok


@pytest.mark.parametrize("hook", ["before", "after"])
def test_an_error_of_the_store_leaves_all_or_nothing_and_the_next_import_finishes(source, tmp_path, hook):
    source.session(NAME).export(path=tmp_path / "a.jsonl", session=True)
    broken = failing(io_failed())
    fault = Fault("adopt", before=broken) if hook == "before" else Fault("adopt", after=broken)
    with Store(FaultyBackend(MemoryBackend(), [fault])) as store:
        if hook == "before":
            with pytest.raises(BackendError):
                store.import_(tmp_path / "a.jsonl")
            assert store.find() == []
        # Where only the reply was lost, the import finds that out by itself.
        assert store.import_(tmp_path / "a.jsonl").checkpoints == 7
        assert ids(store) == ids(source)


def test_memory_is_that_of_the_largest_checkpoint_however_many_there_are(tmp_path, monkeypatch):
    # What is read and sent together has fixed sizes; with small ones, fewer states show that nothing else grows.
    for module, name in (
        (loading, "_PAGE_BYTES"),
        (at_hand, "KEPT_BYTES"),
        (bringing, "_AT_ONCE"),
        (bringing, "_PART"),
    ):
        monkeypatch.setattr(module, name, 500_000)
    monkeypatch.setattr(spool, "_IN_MEMORY", 500_000)
    monkeypatch.setattr(RecentChunks.__init__, "__defaults__", (500_000,))
    with holdfast.open(tmp_path / "a.db", durability="process") as store:
        for count, name in ((20, "few"), (120, "many")):
            session = store.session(name)
            for _ in range(count):
                session.save({"noise": os.urandom(75_000)})

        def export(name, look):
            store.session(name).export(path=tmp_path / f"{name}{look}.jsonl", session=True)

        enough = 1.5 * peak(lambda look: export("few", look))
        assert peak(lambda look: export("many", look), below=enough) < enough

    def import_(name, look):
        with holdfast.open(tmp_path / f"{name}{look}.db", durability="process") as store:
            store.import_(tmp_path / f"{name}0.jsonl")

    enough = 1.5 * peak(lambda look: import_("few", look))
    # Of 9 MB; what grows is a hash and a place for each chunk.
    assert peak(lambda look: import_("many", look), below=enough) < enough
