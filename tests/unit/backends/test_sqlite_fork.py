"""A process that forks may go on using its store on both sides."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast.backends.sqlite import SqliteBackend
from holdfast.errors import StateError
from holdfast.testing.rows import batch, contents, row, save

from .conftest import Open

InChild = Callable[[Callable[[], object]], int]

# Forking beside threads is what is tested here; Python 3.12 and later warn about it.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_both_sides_of_a_fork_go_on(store: SqliteBackend, in_child: InChild) -> None:
    store.commit(save("a"))

    def work() -> None:
        assert len(contents(store).checkpoints) == 1
        store.commit(save("b", after="a"))
        store.close()

    assert in_child(work) == 0
    store.commit(save("c", after="b"))
    assert len(contents(store).checkpoints) == 3


def test_a_fork_in_the_middle_of_a_read_cuts_it_off_and_harms_nothing(
    store: SqliteBackend, in_child: InChild
) -> None:
    store.commit(save("a"))
    with store.reader() as reader:
        assert in_child(lambda: store.commit(save("b", after="a"))) == 0
        with pytest.raises(StateError, match="forked"):
            reader.sessions()
    store.commit(save("c", after="b"))
    assert len(contents(store).checkpoints) == 3


def test_workers_that_were_forked_first_go_on_when_the_parent_closes(
    path: Path, store: SqliteBackend, open_store: Open
) -> None:
    """As a server does that loads its application and forks its workers then."""
    store.commit(batch(row("parent")))
    there, here = os.pipe()
    workers = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(here)
                os.read(there, 1)
                for each in range(20):
                    store.commit(batch(row(f"worker {number} {each}")))
                status = 0
            finally:
                os._exit(status)
        workers.append(child)
    store.commit(batch(row("once more")))
    store.close()
    os.close(here)
    assert [os.waitpid(each, 0)[1] for each in workers] == [0, 0, 0]
    os.close(there)
    backend = open_store()
    assert len(contents(backend).checkpoints) == 2 + 3 * 20
    backend.close()
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    connection.close()
