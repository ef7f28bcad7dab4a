"""Connections: shared by threads, one user at a time, always given back, none left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.backends.sqlite import SqliteBackend
from holdfast.errors import StateError
from holdfast.storage.records import Query
from holdfast.testing.rows import checkpoint_id, contents, save

from .conftest import Open


def descriptors(path: Path) -> int:
    """How many open descriptors of this process lead to a store."""
    count = 0
    for each in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{each}").startswith(str(path))
        except OSError:
            # It was the one of the listing itself.
            continue
    return count


def test_a_view_that_has_ended_does_not_answer(store: SqliteBackend) -> None:
    store.commit(save("a"))
    with store.reader() as reader:
        assert reader.session("work") is not None
    for ask in (
        lambda: reader.session("work"),
        lambda: reader.checkpoint(checkpoint_id("a")),
        lambda: reader.checkpoints(Query()),
        lambda: reader.chunks([]),
        reader.stats,
    ):
        with pytest.raises(StateError):
            ask()


def test_a_commit_inside_a_view_does_not_wait_for_it(store: SqliteBackend) -> None:
    with store.reader() as reader:
        store.commit(save("a"))
        assert reader.sessions() == []
    assert len(contents(store).sessions) == 1


def test_closing_empties_the_wal_and_lets_go_of_the_files(path: Path, open_store: Open) -> None:
    backend = open_store()
    backend.commit(save("a"))
    assert path.with_name("store.db-wal").stat().st_size > 0
    assert descriptors(path) > 0
    backend.close()
    backend.close()
    assert descriptors(path) == 0
    assert [each.name for each in path.parent.iterdir()] == ["store.db"]
