"""One connection: what is set on it, and what refuses it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

psycopg = pytest.importorskip("psycopg")

from tests.services.postgres import Role  # noqa: E402
from tests.unit.backends.test_postgres_url import everything_said  # noqa: E402

from holdfast.backends.postgres.connection import Connection, Pool  # noqa: E402
from holdfast.backends.postgres.url import parse  # noqa: E402
from holdfast.errors import ErrorCode, HoldfastError  # noqa: E402

PASSWORD = "kestrel/under@gl:ss ?"
SPELLINGS = (PASSWORD, quote(PASSWORD, safe=""), quote(PASSWORD))


def pool_of(url: str, **options) -> Pool:
    settings: dict[str, Any] = {"durability": "power", "timeout": 0.0}
    return Pool(parse(url), **(settings | options))


@pytest.fixture
def connect() -> Iterator[Callable[..., Connection]]:
    with ExitStack() as opened:
        yield lambda url, **options: opened.enter_context(pool_of(url, **options).dedicated())


def setting(connection: Connection, name: str) -> str:
    [(value,)] = connection.execute("SELECT current_setting(%s)", (name,)).fetchall()
    return str(value)


def refused(url: str, **options) -> HoldfastError:
    with pytest.raises(HoldfastError) as caught, pool_of(url, **options).dedicated():
        pass
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


def test_a_wrong_password(postgres):
    role = postgres.create_role()
    error = refused(postgres.url(role=Role(role.name, "guessed")))
    assert error.code is ErrorCode.LOGIN_REFUSED
    assert "password" in error.hint


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


@pytest.mark.parametrize("place", ["127.0.0.1:1", "no-such-host.invalid", "%2Fno%2Fsuch%2Ffolder"])
def test_a_host_that_cannot_be_reached(place):
    error = refused(f"postgresql://me@{place}/db")
    assert error.code is ErrorCode.SERVER_GONE


def test_an_unknown_host_is_said_at_once():
    # With this time-out a server that is gone would be waited for.
    error = refused("postgresql://me@no-such-host.invalid/db", timeout=1000.0)
    assert error.code is ErrorCode.SERVER_GONE
    assert "host" in error.hint


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
        made = pool_of(url.rstrip("?"))
        with pytest.raises(HoldfastError) as caught, made.connection():
            pass
    said = everything_said(caught.value) + caplog.text + "".join(capfd.readouterr())
    said += repr(made) + repr(made.address) + made.address.shown
    assert "127.0.0.1" in said
    for spelling in SPELLINGS:
        assert spelling not in said
