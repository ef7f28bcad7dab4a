"""The server that other tests rely on: it starts, is killed, comes back with its data, and never outlives us."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from tests.services.postgres import CHOICE, Role, Server, ServerError, installations


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


def numbers_of(memory: Path) -> list[str]:
    return [line.split()[1] for line in memory.read_text().splitlines()]


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


def test_a_dropped_database_is_gone_even_while_somebody_is_connected(postgres):
    url = postgres.fresh_database()
    connection = psycopg.connect(url)
    postgres.drop_database(url)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        run(url, "SELECT 1")
    connection.close()


@pytest.mark.parametrize("by_socket", [False, True])
def test_a_role_needs_its_password(postgres, by_socket):
    role = postgres.create_role()
    assert run(postgres.url("postgres", role, by_socket=by_socket), "SELECT current_user") == [(role.name,)]
    wrong = postgres.url("postgres", Role(role.name, "guessed"), by_socket=by_socket)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        run(wrong, "SELECT 1")


def test_a_role_has_no_rights_unless_they_are_given(postgres):
    plain, maker = postgres.create_role(), postgres.create_role("CREATEDB")
    statement = "SELECT rolcreatedb, rolsuper FROM pg_roles WHERE rolname = current_user"
    assert run(postgres.url(role=plain), statement) == [(False, False)]
    assert run(postgres.url(role=maker), statement) == [(True, False)]


def test_only_the_server_for_ordinary_tests_does_without_the_disk(postgres, durable):
    assert run(postgres.url(), "SHOW fsync") == [("off",)]
    assert run(durable.url(), "SHOW fsync") == [("on",)]
    assert run(durable.url(), "SHOW full_page_writes") == [("on",)]


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


def test_a_kill_waits_for_the_processes_that_have_not_noticed_yet(durable):
    # Calculating, a backend looks neither at its client nor for its postmaster.
    busy = psycopg.connect(durable.url())
    backend = busy.info.backend_pid
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(busy.execute, "SELECT sum(i) FROM generate_series(1, 3000000) AS i")
        while not durable.execute(
            "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state = 'active'", backend
        ):
            pass
        durable.kill()
        assert not runs(backend)
        answer.exception()
    busy.close()
    durable.restart()


@pytest.mark.parametrize("end", [Server.kill, Server.stop])
def test_a_halted_log_writer_ends_with_its_server(durable, end):
    durable.halt_log_writer()
    [(writer,)] = durable.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
    assert Path(f"/proc/{writer}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    end(durable)
    assert not runs(writer)
    durable.start()


def test_a_restart_in_order_keeps_the_data_and_the_url(durable):
    url = durable.fresh_database()
    run(url, "CREATE TABLE kept AS SELECT 7 AS value")
    before = durable.pid
    durable.restart()
    assert durable.pid != before
    assert run(url, "SELECT value FROM kept") == [(7,)]


def test_a_stopped_server_takes_no_connections_until_it_starts(durable):
    durable.stop()
    try:
        with pytest.raises(psycopg.OperationalError):
            run(durable.url(), "SELECT 1")
        with pytest.raises(ServerError, match="not running"):
            durable.kill()
    finally:
        durable.start()
    assert run(durable.url(), "SELECT 1") == [(1,)]


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(require):
    require("postgres")
    server = Server(settings={"max_connections": "many"})
    with pytest.raises(ServerError, match="max_connections"):
        server.__enter__()
    assert not server.folder.exists()


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


def test_a_second_installation_can_be_chosen(require):
    require("postgres")
    programs = installations()[-1]
    with Server(fsync=False, programs=programs) as server:
        assert run(server.url(), "SELECT 1") == [(1,)]


def test_the_programs_of_another_version_are_chosen_by_a_variable(require, monkeypatch, tmp_path):
    require("postgres")
    chosen = installations()[-1]
    monkeypatch.setenv(CHOICE, str(chosen))
    assert installations() == [chosen]
    # Not the next best: whoever names one wants to know how that one does.
    monkeypatch.setenv(CHOICE, str(tmp_path))
    with pytest.raises(ServerError, match=CHOICE):
        installations()


def test_a_killed_server_leaves_no_memory_behind(require):
    require("postgres")
    memory = Path("/proc/sysvipc/shm")
    if not memory.exists():
        pytest.skip("this system does not say which shared memory there is")
    with Server(fsync=False) as server:
        number = Path(server.folder, "data", "postmaster.pid").read_text().split("\n")[6].split()[1]
        server.kill()
        assert number in numbers_of(memory)
    assert number not in numbers_of(memory)


def test_programs_that_another_user_cannot_reach_are_copied(require, tmp_path):
    require("postgres")
    programs = installations()[0]
    package = programs.parent.parent
    tmp_path.chmod(0o700)
    for name in (f"{package.name}/{programs.parent.name}", f"{package.name}.libs"):
        if (package.parent / name).is_dir():
            shutil.copytree(package.parent / name, tmp_path / name, symlinks=True)
    hidden = tmp_path / package.name / programs.parent.name
    with Server(fsync=False, programs=hidden / programs.name) as server:
        assert run(server.url(), "SELECT 1") == [(1,)]
        # Only root, who must run it as another user, ever needs the copy.
        assert server.programs is not None
        assert server.programs.is_relative_to(server.folder) == (os.geteuid() == 0)
