"""What the driver and the server say becomes an error with a code and a hint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")


from holdfast.backends.postgres.errors import (  # noqa: E402
    check_server,
    connecting_failed,
    is_lost,
    is_passing,
    translate,
    translated,
)
from holdfast.backends.postgres.url import parse  # noqa: E402
from holdfast.errors import (  # noqa: E402
    BackendError,
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)

URL = "postgresql://me@host/db"


@pytest.fixture
def connection(postgres_url) -> Iterator[Any]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def caught(work: Callable[[], object]) -> HoldfastError:
    with pytest.raises(HoldfastError) as error, translated(URL):
        work()
    assert URL in str(error.value)
    assert error.value.hint
    return error.value


def of_state(state: str, text: str = "said the server") -> HoldfastError:
    error = translate(psycopg.errors.lookup(state)(text), URL)
    assert error is not None
    assert "said the server" in str(error)
    return error


@pytest.mark.parametrize(
    ("state", "kind", "code"),
    [
        ("53100", BackendError, ErrorCode.DISK_FULL),
        ("53300", BackendError, ErrorCode.TOO_MANY_CONNECTIONS),
        ("53200", BackendError, ErrorCode.IO_FAILED),
        ("58030", BackendError, ErrorCode.IO_FAILED),
        ("25006", BackendError, ErrorCode.PERMISSION_DENIED),
        ("42501", BackendError, ErrorCode.PERMISSION_DENIED),
        ("55P03", BackendError, ErrorCode.STORE_LOCKED),
        ("57014", BackendError, ErrorCode.STORE_LOCKED),
        ("40001", BackendError, ErrorCode.STORE_LOCKED),
        ("40P01", BackendError, ErrorCode.STORE_LOCKED),
        ("3D000", NotFoundError, ErrorCode.DATABASE_MISSING),
        ("28P01", BackendError, ErrorCode.LOGIN_REFUSED),
        ("54000", InvalidInputError, ErrorCode.VALUE_TOO_LARGE),
        ("42P01", IntegrityError, ErrorCode.STORE_DAMAGED),
        ("42883", InvalidInputError, ErrorCode.BAD_ARGUMENT),
        ("3F000", IntegrityError, ErrorCode.STORE_DAMAGED),
        ("XX001", IntegrityError, ErrorCode.STORE_DAMAGED),
        ("XX002", IntegrityError, ErrorCode.STORE_DAMAGED),
        ("23503", IntegrityError, ErrorCode.STORE_DAMAGED),
        ("23502", InvalidInputError, ErrorCode.BAD_ARGUMENT),
        ("22021", InvalidInputError, ErrorCode.BAD_ARGUMENT),
        ("XX000", BackendError, ErrorCode.IO_FAILED),
    ],
)
def test_each_failure_of_the_server_has_a_code(state, kind, code):
    error = of_state(state)
    assert type(error) is kind
    assert error.code is code
    assert not is_lost(error)


@pytest.mark.parametrize("state", ["57P01", "57P02", "57P03", "57P05", "25P03", "08006", "08003"])
def test_a_session_that_the_server_ended_is_lost(state):
    error = psycopg.errors.lookup(state)("said the server")
    assert is_lost(error)
    ours = of_state(state)
    assert ours.code is ErrorCode.SERVER_GONE
    assert is_lost(ours)
    assert isinstance(ours, BackendError)
    assert ours.retryable


def test_other_errors_pass_through():
    with pytest.raises(KeyError), translated(URL):
        raise KeyError
    assert not is_lost(OSError())
    assert not is_lost(psycopg.errors.PipelineAborted())
    assert not is_lost(psycopg.DataError())


@pytest.mark.parametrize("value", ["a\0b", "a\udcffb", 2**70])
def test_values_that_no_column_takes_are_the_callers_to_mend(connection, value):
    connection.execute("CREATE TEMP TABLE t (a text, b bigint)")
    column = "b" if isinstance(value, int) else "a"
    error = caught(lambda: connection.execute(f"INSERT INTO t ({column}) VALUES (%s)", (value,)))
    assert isinstance(error, InvalidInputError)
    assert error.code is ErrorCode.BAD_ARGUMENT


def test_a_killed_session_is_lost_and_an_answered_error_is_not(connection, postgres):
    assert caught(lambda: connection.execute("SELECT * FROM missing")).code is ErrorCode.STORE_DAMAGED
    postgres.execute("SELECT pg_terminate_backend(%s, 60000)", connection.info.backend_pid)
    error = caught(lambda: connection.execute("SELECT 1"))
    assert error.code is ErrorCode.SERVER_GONE
    assert is_lost(error)
    # And so is every use after it.
    assert is_lost(caught(lambda: connection.execute("SELECT 1")))


def test_a_lock_that_others_hold_too_long(connection, postgres_url):
    connection.execute("CREATE TABLE t ()")
    with psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE t")
        connection.execute("SET lock_timeout = 1")
        error = caught(lambda: connection.execute("LOCK TABLE t; SELECT 1"))
    assert error.code is ErrorCode.STORE_LOCKED
    assert isinstance(error, BackendError)
    assert error.retryable


def test_a_server_that_only_reads_says_where_to_write(connection):
    connection.execute("SET default_transaction_read_only = on")
    error = caught(lambda: connection.execute("CREATE TABLE t ()"))
    assert error.code is ErrorCode.PERMISSION_DENIED
    assert "target_session_attrs=read-write" in error.hint


def test_a_role_without_rights(postgres, postgres_url):
    role = postgres.create_role()
    with psycopg.connect(
        postgres_url.replace("postgres:xyzzy-superuser-password", f"{role.name}:{role.password}")
    ) as plain:
        error = caught(lambda: plain.execute("CREATE SCHEMA mine"))
    assert error.code is ErrorCode.PERMISSION_DENIED
    assert "GRANT" in error.hint


@pytest.mark.parametrize(
    ("version", "shown"), [(120_022, "12.22"), (90_624, "9"), (0, "0"), (129_999, "12.9999")]
)
def test_a_server_that_is_too_old_is_refused(version, shown):
    with pytest.raises(UnsupportedError) as error:
        check_server(version, "UTF8", URL)
    assert error.value.code is ErrorCode.SERVER_TOO_OLD
    assert f"PostgreSQL {shown};" in str(error.value)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('FATAL: password authentication failed for user "ssl"', ErrorCode.LOGIN_REFUSED),
        ("fe_sendauth: no password supplied", ErrorCode.LOGIN_REFUSED),
        ('FATAL: role "me" does not exist', ErrorCode.LOGIN_REFUSED),
        ('FATAL: role "me" is not permitted to log in', ErrorCode.LOGIN_REFUSED),
        (
            'FATAL: no pg_hba.conf entry for host "h", user "u", database "d", SSL encryption',
            ErrorCode.LOGIN_REFUSED,
        ),
        ('FATAL: database "x" does not exist', ErrorCode.DATABASE_MISSING),
        ('FATAL: permission denied for database "x"', ErrorCode.PERMISSION_DENIED),
        ("FATAL: sorry, too many clients already", ErrorCode.TOO_MANY_CONNECTIONS),
        ("FATAL: remaining connection slots are reserved for roles", ErrorCode.TOO_MANY_CONNECTIONS),
        ('FATAL: too many connections for role "me"', ErrorCode.TOO_MANY_CONNECTIONS),
        ("FATAL: the database system is starting up", ErrorCode.SERVER_GONE),
        ("FATAL: the database system is shutting down", ErrorCode.SERVER_GONE),
        ("FATAL: the database system is in recovery mode", ErrorCode.SERVER_GONE),
        ("FATAL: terminating connection due to administrator command", ErrorCode.SERVER_GONE),
        ("SSL SYSCALL error: EOF detected", ErrorCode.SERVER_GONE),
        ("SSL connection has been closed unexpectedly", ErrorCode.SERVER_GONE),
        ("server closed the connection unexpectedly", ErrorCode.SERVER_GONE),
        ("Connection refused Is the server running on that host", ErrorCode.SERVER_GONE),
        ("connection timeout expired", ErrorCode.SERVER_GONE),
        ("FATAL: etwas in einer anderen Sprache", ErrorCode.SERVER_GONE),
    ],
)
def test_reasons_not_to_connect_are_told_apart(text, code):
    error = connecting_failed(psycopg.OperationalError(text), parse(URL))
    assert error.code is code
    assert text in str(error)
    assert is_passing(error) == (code in (ErrorCode.SERVER_GONE, ErrorCode.TOO_MANY_CONNECTIONS))
    # Nothing was sent, so there is nothing to settle.
    assert not is_lost(error)
