"""One connection: what is set on it, what refuses it, and poolers."""

from __future__ import annotations

import logging
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

psycopg = pytest.importorskip("psycopg")

from tests.services.postgres import SUPERUSER, Role  # noqa: E402
from tests.unit.backends.test_postgres_address import everything_said  # noqa: E402

from holdfast.backends.postgres import connecting  # noqa: E402
from holdfast.backends.postgres.address import parse  # noqa: E402
from holdfast.backends.postgres.connecting import Connected, Connector, is_quiet  # noqa: E402
from holdfast.errors import ErrorCode, HoldfastError  # noqa: E402

PASSWORD = "kestrel/under@gl:ss ?"
SPELLINGS = (PASSWORD, quote(PASSWORD, safe=""), quote(PASSWORD))


def connector(url: str, **options) -> Connector:
    settings: dict[str, Any] = {"durability": "power", "timeout": 5.0}
    return Connector(parse(url), **(settings | options))


@pytest.fixture
def connect() -> Iterator[Callable[..., Connected]]:
    opened: list[Connected] = []

    def one(url: str, **options) -> Connected:
        opened.append(connector(url, **options)())
        return opened[-1]

    yield one
    for connection in opened:
        connection.close()


def setting(connection: Connected, name: str) -> str:
    [(value,)] = connection.execute("SELECT current_setting(%s)", (name,)).fetchall()
    return str(value)


def refused(url: str, **options) -> HoldfastError:
    made = connector(url, **options)
    with pytest.raises(HoldfastError) as caught:
        made()
    assert made.failure is not None
    assert made.failure[1] is caught.value
    assert caught.value.hint
    # The driver's error holds the password.
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value


def test_everything_is_set(connect, postgres_url):
    connection = connect(postgres_url + "?schema=agents", timeout=2.5)
    wanted = {
        "search_path": "agents, pg_temp",
        "default_transaction_isolation": "read committed",
        "synchronous_commit": "on",
        "client_min_messages": "error",
        "lock_timeout": "2500ms",
        "statement_timeout": "0",
        "idle_in_transaction_session_timeout": "0",
        "client_encoding": "UTF8",
        "application_name": "holdfast",
        "jit": "off",
    }
    assert {name: setting(connection, name) for name in wanted} == wanted
    assert connection.autocommit


@pytest.mark.parametrize(("timeout", "shown"), [(float("inf"), "0"), (0.0, "1ms"), (1e12, "2147483647ms")])
def test_any_timeout_is_one_that_the_server_takes(connect, postgres_url, timeout, shown):
    assert setting(connect(postgres_url, timeout=timeout), "lock_timeout") == shown


def test_durability_is_ours_to_say_whatever_the_role_has_set(connect, postgres):
    role = postgres.create_role()
    postgres.execute(f"ALTER ROLE {role.name} SET synchronous_commit = off")
    postgres.execute(f"ALTER ROLE {role.name} SET search_path = elsewhere")
    postgres.execute(f"ALTER ROLE {role.name} SET statement_timeout = 600000")
    connection = connect(postgres.url(role=role))
    assert setting(connection, "synchronous_commit") == "on"
    assert setting(connection, "search_path") == "holdfast, pg_temp"
    assert setting(connection, "statement_timeout") == "0"
    assert setting(connect(postgres.url(role=role), durability="process"), "synchronous_commit") == "off"


def test_a_stronger_durability_of_the_role_stays(connect, postgres):
    role = postgres.create_role()
    postgres.execute(f"ALTER ROLE {role.name} SET synchronous_commit = remote_apply")
    assert setting(connect(postgres.url(role=role)), "synchronous_commit") == "remote_apply"


def test_a_limit_on_statements_does_not_end_what_lifts_it(connect, postgres, postgres_url, monkeypatch):
    role = postgres.create_role()
    postgres.execute(f"ALTER ROLE {role.name} SET statement_timeout = '500ms'")
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute("CREATE SEQUENCE tries")
        other.execute("GRANT USAGE ON SEQUENCE tries TO PUBLIC")
    # The first statement of a session has to look up everything, and a busy server takes its time for it.
    slow = b"(SELECT pg_backend_pid() FROM pg_sleep(CASE WHEN nextval('tries') < 3 THEN 60 ELSE 0 END))"
    monkeypatch.setattr(connecting, "_SET_UP", connecting._SET_UP.replace(b"pg_backend_pid()", slow, 1))
    connection = connect(postgres.url(urlsplit(postgres_url).path[1:], role))
    assert setting(connection, "statement_timeout") == "0"


def test_options_of_the_url_count_where_they_are_not_ours(connect, postgres_url):
    url = postgres_url + "?application_name=mine&options=-c%20work_mem%3D5MB%20-c%20search_path%3Delsewhere"
    connection = connect(url)
    assert setting(connection, "application_name") == "mine"
    assert setting(connection, "work_mem") == "5MB"
    assert setting(connection, "search_path") == "holdfast, pg_temp"


@pytest.mark.parametrize(
    ("environment", "option", "used"), [("", "", "3"), ("7", "", "7"), ("7", "?connect_timeout=9", "9")]
)
def test_how_long_a_login_may_take_is_the_users_to_say(
    connect, postgres_url, monkeypatch, environment, option, used
):
    if environment:
        monkeypatch.setenv("PGCONNECT_TIMEOUT", environment)
    connection = connect(postgres_url + option)
    found = {each.keyword: each.val for each in connection.pgconn.info}
    assert found[b"connect_timeout"] == used.encode()


def test_a_connection_costs_one_statement(connect, postgres):
    role = postgres.create_role()
    postgres.execute(f"ALTER ROLE {role.name} SET log_statement = 'all'")
    connection = connect(postgres.url(role=role))
    pid = connection.info.backend_pid
    connection.execute("SELECT 'the mark'")
    said = [line for line in postgres.log.splitlines() if f"[{pid}] LOG:" in line]
    assert len(said) == 2
    assert "the mark" in said[1]


def test_a_wrong_password(postgres):
    role = postgres.create_role()
    error = refused(postgres.url(role=Role(role.name, "guessed")))
    assert error.code is ErrorCode.LOGIN_REFUSED
    assert "password" in error.hint


def test_no_such_role(postgres):
    assert refused(postgres.url(role=Role("nobody_of_that_name", "x"))).code is ErrorCode.LOGIN_REFUSED


def test_no_such_database(postgres):
    error = refused(postgres.url("nowhere"))
    assert error.code is ErrorCode.DATABASE_MISSING
    assert error.exit_code == 10
    assert "createdb" in error.hint


def test_no_right_to_connect(postgres, postgres_url):
    database = urlsplit(postgres_url).path[1:]
    postgres.execute(f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC")
    error = refused(postgres.url(database, postgres.create_role()))
    assert error.code is ErrorCode.PERMISSION_DENIED


def test_no_connection_left(connect, postgres):
    url = postgres.url(role=postgres.create_role("CONNECTION LIMIT 1"))
    connect(url)
    assert refused(url).code is ErrorCode.TOO_MANY_CONNECTIONS


def test_tls_where_the_server_has_none(postgres_url):
    error = refused(postgres_url + "?sslmode=require")
    assert error.code is ErrorCode.LOGIN_REFUSED
    assert "sslmode" in error.hint


@pytest.mark.parametrize("place", ["127.0.0.1:1", "no-such-host.invalid", "%2Fno%2Fsuch%2Ffolder"])
def test_a_host_that_cannot_be_reached(place):
    error = refused(f"postgresql://me@{place}/db")
    assert error.code is ErrorCode.SERVER_GONE


def test_an_option_with_a_value_that_cannot_be(postgres_url):
    assert refused(postgres_url + "?connect_timeout=soon").code is ErrorCode.BAD_URL
    assert refused(f"postgresql://{'x' * 300}/db").code is ErrorCode.BAD_URL


@pytest.mark.parametrize("in_query", [False, True])
@pytest.mark.parametrize(
    "what", ["password", "database", "rights", "limit", "tls", "host", "option", "startup"]
)
def test_the_password_is_nowhere(postgres, postgres_url, in_query, what, caplog, capfd):
    role = postgres.create_role("CONNECTION LIMIT 0" if what == "limit" else "", password=PASSWORD)
    place, database, options = f"127.0.0.1:{postgres.port}", "postgres", []
    user = role.name
    if what == "password":
        user = postgres.create_role(password="another").name
    elif what == "database":
        database = "nowhere"
    elif what == "rights":
        database = urlsplit(postgres_url).path[1:]
        postgres.execute(f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC")
    elif what == "host":
        place = "127.0.0.1:1,127.0.0.1:2"
    elif what == "startup":
        options = ["options=-c%20session_preload_libraries%3Dnothing"]
    options += {"tls": ["sslmode=require"], "option": ["connect_timeout=soon"]}.get(what, [])
    secret = quote(PASSWORD, safe="")
    if in_query:
        url = f"postgresql://{place}/{database}?" + "&".join([f"user={user}&password={secret}", *options])
    else:
        url = f"postgresql://{user}:{secret}@{place}/{database}?" + "&".join(options)
    with caplog.at_level(logging.DEBUG):
        made = connector(url.rstrip("?"))
        with pytest.raises(HoldfastError) as caught:
            made()
    said = everything_said(caught.value) + caplog.text + "".join(capfd.readouterr())
    said += repr(made) + repr(made.address) + made.address.shown + repr(made.failure)
    assert "127.0.0.1" in said
    for spelling in SPELLINGS:
        assert spelling not in said


def test_a_quiet_connection_is_told_from_one_that_the_server_ended(connect, postgres, postgres_url):
    connection = connect(postgres_url)
    assert is_quiet(connection)
    connection.execute("SELECT 1")
    assert is_quiet(connection)
    postgres.execute("SELECT pg_terminate_backend(%s, 60000)", connection.info.backend_pid)
    assert not is_quiet(connection)
    connection.close()
    assert not is_quiet(connection)


Pooler = Callable[..., str]


@pytest.fixture
def pooler(require, postgres) -> Iterator[Pooler]:
    """Starts PgBouncer before the server, in a mode; the URL of a database through it."""
    require("pgbouncer")
    started: list[tuple[subprocess.Popen[bytes], Path]] = []

    def start(mode: str, database: str, **settings: object) -> str:
        folder = Path(tempfile.mkdtemp(prefix="holdfast-pooler-"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = {
            "listen_addr": "127.0.0.1",
            "listen_port": port,
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": folder / "users",
            "pool_mode": mode,
        } | settings
        (folder / "users").write_text(f'"{SUPERUSER.name}" "{SUPERUSER.password}"\n')
        (folder / "ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={postgres.port}\n[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in options.items())
        )
        account = {}
        if os.geteuid() == 0:
            # It refuses to run as root.
            nobody = pwd.getpwnam("nobody")
            account = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            for path in (folder, folder / "users", folder / "ini"):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
        program = shutil.which("pgbouncer")
        assert program is not None
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([program, str(folder / "ini")], stdout=log, stderr=log, **account)  # type: ignore[call-overload]
        started.append((process, folder))
        url = f"postgresql://{SUPERUSER.name}:{SUPERUSER.password}@127.0.0.1:{port}/{database}"
        while True:
            try:
                psycopg.connect(url).close()
            except psycopg.OperationalError:
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.02)
            else:
                return url

    yield start
    for process, folder in started:
        process.send_signal(signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("size", [1, 20])
@pytest.mark.parametrize("round_robin", [0, 1])
def test_a_pooler_that_changes_sessions_is_refused(pooler, postgres_url, mode, size, round_robin):
    url = pooler(
        mode, urlsplit(postgres_url).path[1:], default_pool_size=size, server_round_robin=round_robin
    )
    others = [psycopg.connect(url, autocommit=True) for _ in range(3)]
    for other in others:
        other.execute("SELECT 1")
    error = refused(url)
    assert error.code is ErrorCode.TRANSACTION_POOLER
    assert "session mode" in error.hint
    # Nothing of ours is left behind in a session that the next client gets.
    for other in others * 2:
        assert other.execute("SHOW search_path").fetchall() == [('"$user", public',)]
    for other in others:
        other.close()


def test_a_pooler_in_session_mode_is_as_good_as_the_server(pooler, connect, postgres_url):
    url = pooler("session", urlsplit(postgres_url).path[1:], ignore_startup_parameters="extra_float_digits")
    made = connector(url)
    for _ in range(3):
        connection = made()
        assert setting(connection, "search_path") == "holdfast, pg_temp"
        assert setting(connection, "synchronous_commit") == "on"
        connection.close()
    assert made.failure is None


def test_a_pooler_that_lets_nobody_else_in_says_so(pooler, postgres_url):
    url = pooler("session", urlsplit(postgres_url).path[1:], max_client_conn=1)
    error = refused(url)
    assert error.code is ErrorCode.TOO_MANY_CONNECTIONS
    assert "outcome" not in error.details


def test_a_pooler_that_has_no_session_left_is_not_waited_for_longer_than_asked(pooler, connect, postgres_url):
    url = pooler("session", urlsplit(postgres_url).path[1:], default_pool_size=2, query_wait_timeout=60)
    made = connector(url)
    made().close()
    others = [psycopg.connect(url) for _ in range(2)]
    for other in others:
        other.execute("SELECT 1")
    with pytest.raises(HoldfastError) as caught:
        made(time.monotonic() + 0.2)
    assert caught.value.code is ErrorCode.SERVER_GONE
    assert "default_pool_size" in caught.value.hint
    # Nothing was asked yet that could have been done.
    assert "outcome" not in caught.value.details
    for other in others:
        other.close()
    made(time.monotonic() + 60).close()


def test_who_waits_for_a_pooler_takes_a_connection_that_is_given_back(pooler, open_pool, postgres_url):
    url = pooler("session", urlsplit(postgres_url).path[1:], default_pool_size=2, query_wait_timeout=60)
    pool = open_pool(url, timeout=20.0)
    with pool.connection():
        pass
    with psycopg.connect(url) as other, ThreadPoolExecutor() as threads:
        other.execute("SELECT 1")
        with pool.connection() as held:
            waiting = threads.submit(lambda: pool.connection().__enter__())
            until_asked(pool)
        assert waiting.result() is held
        pool.give(held)


def until_asked(pool) -> None:
    """Wait until somebody asks for one more connection."""
    while not pool._opening:
        time.sleep(0.001)


def test_a_pooler_that_has_only_one_session_says_so(pooler, postgres_url, monkeypatch):
    monkeypatch.setattr("holdfast.backends.postgres.connecting._LOOK_PATIENCE", 0.2)
    url = pooler("session", urlsplit(postgres_url).path[1:], default_pool_size=1)
    assert refused(url).code is ErrorCode.TOO_MANY_CONNECTIONS
