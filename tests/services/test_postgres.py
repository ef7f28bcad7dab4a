"""The server that other tests rely on: it starts, is killed, comes back with its data, and never outlives us."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.services.postgres import Server


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def runs(pid: int) -> bool:
    # A process that has ended keeps its number until somebody asks for its exit code, but has no program any more.
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def durable(require) -> Iterator[Server]:
    require("postgres")
    with Server(fsync=True) as server:
        yield server


def test_a_fresh_database_is_empty_and_shares_nothing_with_another(postgres):
    one, other = postgres.fresh_database(), postgres.fresh_database()
    run(one, "CREATE TABLE mine (value int)")
    assert run(other, "SELECT count(*) FROM pg_tables WHERE tablename = 'mine'") == [(0,)]
    postgres.drop_database(one)
    postgres.drop_database(other)


def test_a_database_can_be_made_from_another_one(postgres, postgres_url):
    run(postgres_url, "CREATE TABLE mine AS SELECT 7 AS value")
    copy = postgres.fresh_database(template=postgres_url)
    assert run(copy, "SELECT value FROM mine") == [(7,)]
    postgres.drop_database(copy)


def test_killed_and_restarted_it_still_has_what_was_committed(durable):
    url = durable.fresh_database()
    run(url, "CREATE TABLE kept (value int)")
    for value in range(3):
        run(url, f"INSERT INTO kept VALUES ({value})")
        busy = psycopg.connect(url)
        busy.execute("INSERT INTO kept VALUES (-1)")
        [(backend,)] = busy.execute("SELECT pg_backend_pid()").fetchall()
        postmaster = durable.pid
        assert runs(postmaster)
        assert runs(backend)
        durable.kill()
        assert not runs(postmaster)
        assert not runs(backend)
        with pytest.raises(psycopg.OperationalError):
            busy.execute("SELECT 1")
        busy.close()
        durable.restart()
    assert run(url, "SELECT value FROM kept ORDER BY value") == [(0,), (1,), (2,)]
    assert durable.log.count("was not properly shut down") == 3


def test_it_ends_with_the_process_that_started_it(require):
    require("postgres")
    program = (
        "import os, signal\n"
        "from tests.services.postgres import Server\n"
        "server = Server(fsync=False).__enter__()\n"
        "print(server.pid, server.folder, os.path.realpath(server.folder / 'data'), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # The guard inherits standard error: reading that to its end waits until the guard has done its work.
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, folder, data = done.stdout.split()
    assert not runs(int(pid))
    assert not Path(folder).exists()
    assert not Path(data).exists()
