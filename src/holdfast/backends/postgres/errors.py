"""The one place where the driver's errors become ours.

Every statement runs inside `translated`, so that no caller ever meets a class of `psycopg`. The server says what went
wrong with a five-character code (SQLSTATE); ours say what a person can do about it. Errors of connecting have no code,
only text, so they are told apart by words; and the driver's error carries the password, so ours never keep it as their
cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import ormsgpack
import psycopg

from holdfast.backends.postgres.address import Address
from holdfast.backends.rules import store_damaged
from holdfast.backends.translating import Translating
from holdfast.errors import (
    BackendError,
    ErrorCode,
    HoldfastError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)

MINIMUM_SERVER: Final = 13
"""Older ones have long got no fixes from their makers."""
MINIMUM_LIBRARY: Final = 14
"""The first libpq with pipelines, whatever the server."""

# The server ended the session, or the connection broke: 57P05 and 25P03 are time limits on idle ones.
_LOST: Final = {"57P01", "57P02", "57P03", "57P05", "25P03"}
_ROLLED_BACK: Final = {"40001", "40P01"}

_UNKNOWN_HINT: Final = (
    "whether it took effect is not known. Reading again is safe, and so is saving again with the same Session or the "
    "same key=; before anything else is done again, look at log() and operations()"
)

_Build = Callable[[str, str], HoldfastError]


def _builder(
    kind: type[HoldfastError], code: ErrorCode, message: str, hint: str, **details: object
) -> _Build:
    """What makes an error of the name of a store and the words of the server."""

    def build(url: str, why: str) -> HoldfastError:
        return kind(message.format(url=url, why=why), code=code, hint=hint, url=url, **details)

    return build


_locked = "the store {url} is locked: {why}"
_gone = "the server of {url} cannot be reached: {why}"
_unfit = _builder(
    InvalidInputError,
    ErrorCode.BAD_ARGUMENT,
    "a value cannot be kept in the store {url}: {why}",
    "use 64-bit integers, and text without NUL characters and half surrogate pairs",
)
_io_failed = _builder(
    BackendError,
    ErrorCode.IO_FAILED,
    "the store {url} could not be read or written: {why}",
    "look into the server's log, then try again",
)
_lost = _builder(
    BackendError,
    ErrorCode.SERVER_GONE,
    "the connection to {url} was lost in the middle of a statement: {why}",
    _UNKNOWN_HINT,
    outcome="unknown",
)
_server_gone = _builder(
    BackendError,
    ErrorCode.SERVER_GONE,
    _gone,
    "see that the server runs and that host and port are right; what was saved is safe there",
)
_unknown_host = _builder(
    BackendError,
    ErrorCode.SERVER_GONE,
    _gone,
    "see that the host in the URL is spelled right: the resolver knows no such name",
    unknown_host=True,
)
_login_refused = _builder(
    BackendError,
    ErrorCode.LOGIN_REFUSED,
    "the server does not let us in to {url}: {why}",
    "see that user and password are right (in the URL, PGPASSWORD or ~/.pgpass), and pg_hba.conf lets them in",
)
_tls_refused = _builder(
    BackendError,
    ErrorCode.LOGIN_REFUSED,
    "no agreement on TLS with the server of {url}: {why}",
    "set sslmode in the URL to what the server asks for: require, verify-full (with sslrootcert), or disable",
)
_too_many_connections = _builder(
    BackendError,
    ErrorCode.TOO_MANY_CONNECTIONS,
    "there is no connection left for {url}: {why}",
    "end idle clients, raise max_connections of the server, or put a pooler in session mode before it",
)
_database_missing = _builder(
    NotFoundError,
    ErrorCode.DATABASE_MISSING,
    "the database of {url} is not there: {why}",
    "make it with `createdb`, or name another one in the URL; holdfast makes a schema, not a database",
)
store_locked = _builder(
    BackendError, ErrorCode.STORE_LOCKED, _locked, "try again, or open the store with a longer timeout"
)
too_large = _builder(
    InvalidInputError,
    ErrorCode.VALUE_TOO_LARGE,
    "a value is too large for the store {url}: {why}",
    "split the state: PostgreSQL keeps at most 1 GB in one piece",
)
view_ended = _builder(
    BackendError,
    ErrorCode.STORE_LOCKED,
    "the server ended a view of the store {url}: {why}",
    "read again; where a standby does this often, raise its max_standby_streaming_delay",
    outcome="unknown",
)


def permission_denied(url: str, why: str) -> HoldfastError:
    """The role lacks a right."""
    return BackendError(
        f"the store {url} cannot be used: {why}",
        code=ErrorCode.PERMISSION_DENIED,
        hint=next((hint for words, hint in _RIGHTS.items() if re.search(words, why)), _ANY_RIGHT),
        url=url,
    )


# The first that fits; in another language than English none does.
_RIGHTS: Final = {
    "row-level security": (
        "let the role see all rows: as the owner of the tables, with BYPASSRLS, or by a policy USING (true) on each of "
        "them; or ALTER TABLE ... DISABLE ROW LEVEL SECURITY"
    ),
    "temporary": "GRANT TEMPORARY ON DATABASE to the role: a collection notes in a temporary table what is needed",
    "must be (owner|member)|SET ROLE": (
        "do it as the owner of the schema and of all that is in it, or as a superuser"
    ),
    "for (schema|table|sequence|function)": (
        "make the role the owner, or GRANT it USAGE on the schema and SELECT on all its tables and sequences "
        "(to write, also INSERT, UPDATE, DELETE on the tables and USAGE on the sequences)"
    ),
}
_ANY_RIGHT: Final = (
    "GRANT the role CREATE on the database (to make the store), or make it the owner of the store's schema"
)

# Whole codes, and classes of them by their first two characters.
_BY_STATE: Final[dict[str, _Build]] = {
    "HF426": _builder(
        UnsupportedError,
        ErrorCode.FORMAT_TOO_NEW,
        "the store {url} was made anew for another version while this program had it open ({why})",
        "upgrade holdfast, and start this program again",
    ),
    "55P03": lambda url, why: store_locked(url, f"another writer held it too long ({why})"),
    "57014": lambda url, why: store_locked(url, f"the server ended a statement that took too long ({why})"),
    "40001": lambda url, why: store_locked(url, f"another writer was first ({why})"),
    "40P01": lambda url, why: store_locked(url, f"another writer waited for us ({why})"),
    "53100": _builder(
        BackendError,
        ErrorCode.DISK_FULL,
        "there is no room to write to the store {url}: {why}",
        "make room on the server's disk, then do the same again; what is stored can be read meanwhile",
    ),
    "53300": _too_many_connections,
    "25006": _builder(
        BackendError,
        ErrorCode.PERMISSION_DENIED,
        "the store {url} cannot be written: {why}",
        # The server has the same words for both.
        "connect to the primary (name all servers in the URL, with target_session_attrs=read-write); if it is the "
        "primary, see that default_transaction_read_only is off for the role and the database",
    ),
    "42501": permission_denied,
    "3D000": _database_missing,
    "23502": _unfit,
    "23": lambda url, why: store_damaged(url, f"its rows contradict each other ({why})"),
    "22": _unfit,
    "28": _login_refused,
    "54": too_large,
    # The statements themselves are constant: a table, column or function that is missing was taken away. Whatever else
    # does not fit them is a value.
    "3F": store_damaged,
    "42P01": store_damaged,
    "42703": store_damaged,
    "42883": store_damaged,
    "42": _unfit,
    "XX001": store_damaged,
    "XX002": store_damaged,
}

# The first that fits. The server says these words in English unless its lc_messages is another language; then all of
# them end as "cannot be reached", after the time-out and with the server's own text.
_REFUSALS: Final[tuple[tuple[str, _Build], ...]] = (
    ("(resolve|translate) host(?!.*[Tt]emporary failure)", _unknown_host),
    ('database ".*" does not exist', _database_missing),
    ("too many (clients|connections)|connection slots", _too_many_connections),
    ("permission denied for database", permission_denied),
    # Before the words of TLS, which occur in these as well.
    ("starting up|shutting down|recovery mode|not (yet )?accepting|administrator command", _server_gone),
    ("closed the connection|closed unexpectedly|SYSCALL error|[Cc]onnection reset", _server_gone),
    ("pg_hba.conf entry(?!.*SSL encryption).*no encryption", _tls_refused),
    ('authentication failed|no password supplied|role ".*" does not exist', _login_refused),
    ("pg_hba.conf|not permitted to log|no such user|SASL|SCRAM|auth", _login_refused),
    (r"\bSSL\b|\bTLS\b|certificate", _tls_refused),
)


def translate(error: BaseException, url: str) -> HoldfastError | None:
    """The error to raise instead of one of the driver's, or None where it is not the driver's."""
    # Of the driver, and of the seal that comes before it.
    if isinstance(error, (OverflowError, UnicodeEncodeError, ormsgpack.MsgpackEncodeError)):
        return _unfit(url, str(error))
    if not isinstance(error, psycopg.Error):
        return None
    text = " ".join(str(error).split())
    if is_lost(error):
        return _lost(url, text)
    state = error.sqlstate
    if state is None:
        # NUL in a text, a number that no column takes: refused by the driver before anything was sent.
        return (_unfit if isinstance(error, psycopg.DataError) else _io_failed)(url, text)
    return (_BY_STATE.get(state) or _BY_STATE.get(state[:2]) or _io_failed)(url, text)


class translated(Translating):  # noqa: N801 - a context manager that reads as a word
    """Run statements on the store at a URL (as it is shown); their errors come out as holdfast's."""

    __slots__ = ()
    translate = staticmethod(translate)


def is_lost(error: BaseException) -> bool:
    """Whether the connection died under a statement, so that nobody knows whether it took effect."""
    if isinstance(error, HoldfastError):
        return error.code is ErrorCode.SERVER_GONE and error.details.get("outcome") == "unknown"
    if isinstance(error, psycopg.errors.PipelineAborted):
        return False
    if not isinstance(error, (psycopg.OperationalError, psycopg.InternalError)):
        return False
    if error.sqlstate is None:
        # The driver's own words for a socket that broke; all that the server says has a code.
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate in _LOST or error.sqlstate.startswith("08")


def is_retryable(error: BaseException | None) -> bool:
    """Whether the server took back the whole transaction for the sake of another one: it can simply be done again."""
    return isinstance(error, psycopg.Error) and error.sqlstate in _ROLLED_BACK


def outcome_unknown(error: HoldfastError, url: str) -> BackendError:
    """An error that came while a commit was tried again whose connection had been lost: it may have taken place."""
    return BackendError(
        f"the connection to {url} was lost while a commit was under way, and what came of it could not be found out: "
        f"{error}",
        code=error.code if isinstance(error, BackendError) else ErrorCode.SERVER_GONE,
        hint=_UNKNOWN_HINT,
        **(error.details | {"url": url, "outcome": "unknown"}),
    )


def connecting_failed(error: Exception, address: Address) -> HoldfastError:
    """Our error for one of connecting. Raise it outside of the except block: the driver's holds the password."""
    text = address.hide(" ".join(str(error).split()))
    if isinstance(error, psycopg.OperationalError):
        build = next((build for words, build in _REFUSALS if re.search(words, text)), _server_gone)
        return build(address.shown, text)
    return InvalidInputError(
        f"no connection can be made to {address.shown}: {text}",
        code=ErrorCode.BAD_URL,
        hint="look at the options of the URL",
        url=address.shown,
    )


def is_passing(error: HoldfastError) -> bool:
    """Whether an error of connecting may go away by itself, as when a server starts again."""
    passing = error.code in (ErrorCode.SERVER_GONE, ErrorCode.TOO_MANY_CONNECTIONS)
    return passing and not error.details.get("unknown_host")


def check_server(version: int, url: str) -> None:
    """Refuse a server that lacks what the store needs. The number is libpq's: 150004 for 15.4."""
    if version < MINIMUM_SERVER * 10_000:
        shown = f"{version // 10_000}.{version % 10_000}" if version >= 100_000 else str(version // 10_000)
        raise UnsupportedError(
            f"the server of {url} is PostgreSQL {shown}; {MINIMUM_SERVER} or later is needed",
            code=ErrorCode.SERVER_TOO_OLD,
            hint="upgrade the server, or keep the store in another one",
            url=url,
            version=version,
        )


def check_library(version: int) -> None:
    """Refuse a libpq that cannot ask several things at once; psycopg's own wheels have a newer one."""
    if version < MINIMUM_LIBRARY * 10_000:
        raise UnsupportedError(
            f"psycopg works with libpq {version // 10_000} here; {MINIMUM_LIBRARY} or later is needed",
            code=ErrorCode.NOT_SUPPORTED,
            hint='install its wheel, which brings one along: pip install "psycopg[binary]"',
            version=version,
        )


def check_encoding(encoding: str | None, url: str) -> None:
    """Refuse a database that cannot hold every text, or that takes bytes for text. None: a pooler did not tell."""
    if encoding not in ("UTF8", None):
        raise UnsupportedError(
            f"the database of {url} keeps text as {encoding}, which does not hold what UTF8 holds",
            code=ErrorCode.NOT_SUPPORTED,
            hint="make one with `createdb --encoding=UTF8 --template=template0`, and name it in the URL",
            url=url,
            encoding=encoding,
        )
