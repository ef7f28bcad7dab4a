"""Connections shared by threads: through restarts of the server, forks, and the end of the process."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

psycopg = pytest.importorskip("psycopg")

from tests.services.postgres import Server  # noqa: E402

from holdfast.backends.postgres.connection import Pool  # noqa: E402
from holdfast.backends.postgres.errors import is_lost  # noqa: E402
from holdfast.errors import BackendError, ErrorCode  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def pool(open_pool):
    return open_pool()


@pytest.fixture(scope="module")
def mortal(require) -> Iterator[Server]:
    """A server that tests may kill; they leave it running."""
    require("postgres")
    with Server(fsync=False) as server:
        yield server


def process(pool: Pool) -> int:
    with pool.connection() as connection:
        return ask(connection)


def ask(connection) -> int:
    [(pid,)] = connection.execute("SELECT pg_backend_pid()").fetchall()
    return int(pid)


def filled(pool: Pool, count: int) -> list[int]:
    """Have so many connections open at once, and give all of them back."""
    with ExitStack() as stack:
        return [ask(stack.enter_context(pool.connection())) for _ in range(count)]


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_after_a_restart_nobody_meets_a_connection_of_before(open_pool, mortal, how):
    pool = open_pool(mortal.url())
    before = filled(pool, 5)
    getattr(mortal, how)()
    mortal.start()
    after = filled(pool, 5)
    assert len(set(after)) == 5
    assert not set(after) & set(before)


def test_a_server_that_is_gone_is_waited_for(open_pool, mortal):
    pool = open_pool(mortal.url())
    process(pool)
    mortal.kill()
    found: list[int] = []

    def dedicated() -> None:
        with pool.dedicated() as connection:
            found.append(ask(connection))

    threads = [threading.Thread(target=lambda: found.append(process(pool))) for _ in range(4)]
    threads.append(threading.Thread(target=dedicated))
    for thread in threads:
        thread.start()
    assert found == []
    mortal.start()
    for thread in threads:
        thread.join()
    assert len(found) == 5


@pytest.mark.parametrize("way", ["connection", "dedicated"])
def test_a_server_that_stays_away_is_an_error_after_the_timeout(open_pool, mortal, way):
    pool = open_pool(mortal.url(), timeout=0.3)
    mortal.stop()
    try:
        for _ in range(2):
            with pytest.raises(BackendError) as caught, getattr(pool, way)():
                pass
            assert caught.value.code is ErrorCode.SERVER_GONE
            assert caught.value.retryable
            assert not is_lost(caught.value)
            assert pool.address.shown in str(caught.value)
    finally:
        mortal.start()


_PROLOGUE = """
import os, sys, threading
from holdfast.backends.postgres.url import parse
from holdfast.backends.postgres.connection import Pool
pool = Pool(parse(sys.argv[1]), durability="power", timeout=float(sys.argv[2]))
def use():
    with pool.connection() as connection:
        connection.execute("SELECT 1")
"""


def run(program: str, url: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", _PROLOGUE + program, url, str(timeout)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=300,  # a hang is what this is about
    )
