"""Deleting a checkpoint and taking that back read what is around it, and not all that came after."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

import holdfast
from holdfast.storage.records import Move
from holdfast.testing.rows import batch, checkpoint_id, row


class Counting:
    """A reader that counts the rows that it gives out."""

    def __init__(self, reader, counts):
        self._reader = reader
        self._counts = counts

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def checkpoint(self, checkpoint):
        self._counts.append(1)
        return self._reader.checkpoint(checkpoint)

    def checkpoints(self, query):
        found = self._reader.checkpoints(query)
        self._counts.append(len(found))
        return found


def long_session(store, count):
    """A session with so many checkpoints on one branch, and a few beside it."""
    backend = store._backend
    rows = [
        row(
            f"{n}",
            session="s",
            parents=(checkpoint_id(f"{n - 1}"),) if n else (),
            prev=checkpoint_id(f"{n - 1}") if n else None,
        )
        for n in range(count)
    ]
    for start in range(0, count, 1000):
        part = rows[start : start + 1000]
        before = rows[start - 1].id if start else None
        backend.commit(batch(*part, session="s", moves=(Move("main", before, part[-1].id),)))
    return store.session("s")


def rows_read(store, monkeypatch, work):
    backend = store._backend
    counts: list[int] = []
    opened = backend.reader

    @contextmanager
    def reader():
        with opened() as reader:
            yield Counting(reader, counts)

    with monkeypatch.context() as patched:
        patched.setattr(backend, "reader", reader, raising=True)
        work()
    return sum(counts)


@pytest.mark.parametrize("where", ["the first", "the second", "the last"])
def test_delete_undo_and_redo_read_as_much_of_a_long_session_as_of_a_short_one(tmp_path, monkeypatch, where):
    read = {}
    for count in (100, 10_000):
        with holdfast.open(tmp_path / f"{count}.hf") as store:
            session = long_session(store, count)
            ref = {"the first": "#1", "the second": "#2", "the last": f"#{count}"}[where]
            before = [each.id for each in session.log()]
            read[count] = [
                rows_read(store, monkeypatch, lambda session=session, ref=ref: session.delete(ref)),
                rows_read(store, monkeypatch, session.undo),
                rows_read(store, monkeypatch, session.redo),
                rows_read(store, monkeypatch, session.undo),
            ]
            assert [each.id for each in session.log()] == before

    assert read[10_000] == read[100]
    assert all(0 < each < 30 for each in read[100])
