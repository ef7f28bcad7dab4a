"""Stores for the tests of the backends, and a way to run a piece of a test in a child process."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.backends.sqlite import SqliteBackend

Open = Callable[..., SqliteBackend]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store of a test is, or will be."""
    return tmp_path / "store.db"


@pytest.fixture
def open_store(path: Path) -> Iterator[Open]:
    """Opens stores, by default the one of the test, and closes them after it."""
    opened: list[SqliteBackend] = []

    def open_one(at: Path = path, **options: Any) -> SqliteBackend:
        settings: dict[str, Any] = {"durability": "process", "create": True, "timeout": 10.0}
        backend = SqliteBackend.open(at, **(settings | options))
        opened.append(backend)
        return backend

    yield open_one
    for backend in opened:
        backend.close()


@pytest.fixture
def store(open_store: Open) -> SqliteBackend:
    """An open, empty store."""
    return open_store()


@pytest.fixture
def in_child() -> Callable[[Callable[[], object]], int]:
    """Runs a function in a forked child and returns the child's exit status: 0 if it returned, 1 if it raised."""

    def run(work: Callable[[], object]) -> int:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work()
                status = 0
            except BaseException:
                # Nothing of the parent's pytest may run in the child, so that the report is all it can leave.
                traceback.print_exc(file=sys.__stderr__)
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    return run


@pytest.fixture
def open_pool(postgres_url) -> Iterator[Callable[..., Any]]:
    """Makes pools of connections, and closes them."""
    from holdfast.backends.postgres.connection import Pool
    from holdfast.backends.postgres.url import parse

    opened: list[Pool] = []

    def one(url: str = postgres_url, *, timeout: float = 60.0, **options) -> Pool:
        pool = Pool(parse(url), durability="power", timeout=timeout, **options)
        opened.append(pool)
        return pool

    yield one
    for pool in opened:
        pool.close()
