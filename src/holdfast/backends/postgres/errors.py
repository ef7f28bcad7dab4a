"""The one place where the driver's errors become ours.

Every statement runs inside `translated`, so that no caller ever meets a class of `psycopg`. The server says what went
wrong with a five-character code (SQLSTATE); a table says what that means to a person. Errors of connecting have no
code, only text, so they are told apart by words; and the driver's error carries the password, so ours never keep it as
their cause.
"""

from __future__ import annotations

import re
from types import TracebackType
from typing import Final, NamedTuple

import ormsgpack
import psycopg
from psycopg import pq

from holdfast.backends.postgres.url import Address
from holdfast.backends.rules import store_damaged
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
_RIGHTS_HINT: Final = (
    "make the role the owner of the store's schema; or GRANT it USAGE on the schema and SELECT on all its tables and "
    "sequences (to write, also INSERT, UPDATE, DELETE on the tables and USAGE on the sequences); to make a store it "
    "needs CREATE on the database, and for gc TEMPORARY"
)


class Meaning(NamedTuple):
    """What an error of the server means: the kind and code of ours, what happened, and what to do."""

    kind: type[HoldfastError]
    code: ErrorCode
    message: str
    hint: str

    def error(self, url: str, why: str, **details: object) -> HoldfastError:
        """The error for a store, with the words of the server."""
        told = self.message.format(url=url, why=why)
        return self.kind(told, code=self.code, hint=self.hint, url=url, **details)


_LOCKED: Final = Meaning(
    BackendError,
    ErrorCode.STORE_LOCKED,
    "the store {url} is locked: {why}",
    "try again, or open the store with a longer timeout",
)
_UNFIT: Final = Meaning(
    InvalidInputError,
    ErrorCode.BAD_ARGUMENT,
    "a value cannot be kept in the store {url}: {why}",
    "use 64-bit integers, and text without NUL characters and half surrogate pairs",
)
_IO: Final = Meaning(
    BackendError,
    ErrorCode.IO_FAILED,
    "the store {url} could not be read or written: {why}",
    "look into the server's log, then try again",
)
_CUT: Final = Meaning(
    BackendError,
    ErrorCode.SERVER_GONE,
    "the connection to {url} was lost in the middle of a statement: {why}",
    _UNKNOWN_HINT,
)
_GONE: Final = Meaning(
    BackendError,
    ErrorCode.SERVER_GONE,
    "the server of {url} cannot be reached: {why}",
    "see that the server runs and that host and port are right; what was saved is safe there",
)
_LOGIN: Final = Meaning(
    BackendError,
    ErrorCode.LOGIN_REFUSED,
    "the server does not let us in to {url}: {why}",
    "see that user and password are right (in the URL, PGPASSWORD or ~/.pgpass), and pg_hba.conf lets them in",
)
_TLS: Final = _LOGIN._replace(
    message="no agreement on TLS with the server of {url}: {why}",
    hint="set sslmode in the URL to what the server asks for: require, verify-full (with sslrootcert), or disable",
)
_FULL: Final = Meaning(
    BackendError,
    ErrorCode.TOO_MANY_CONNECTIONS,
    "there is no connection left for {url}: {why}",
    "end idle clients, raise max_connections of the server, or put a pooler in session mode before it",
)
_NO_DATABASE: Final = Meaning(
    NotFoundError,
    ErrorCode.DATABASE_MISSING,
    "the database of {url} is not there: {why}",
    "make it with `createdb`, or name another one in the URL; holdfast makes a schema, not a database",
)
_DENIED: Final = Meaning(
    BackendError, ErrorCode.PERMISSION_DENIED, "the store {url} cannot be used: {why}", _RIGHTS_HINT
)
_LARGE: Final = Meaning(
    InvalidInputError,
    ErrorCode.VALUE_TOO_LARGE,
    "a value is too large for the store {url}: {why}",
    "split the state: PostgreSQL keeps at most 1 GB in one piece",
)
_READ_ONLY: Final = _DENIED._replace(
    message="the store {url} cannot be written: {why}",
    # The server has the same words for both.
    hint="connect to the primary (name all servers in the URL, with target_session_attrs=read-write); if it is the "
    "primary, see that default_transaction_read_only is off for the role and the database",
)
_HIDDEN_ROWS: Final = _DENIED._replace(
    hint="let the role see all rows: as the owner of the tables, with BYPASSRLS, or by a policy USING (true) on each "
    "of them; or ALTER TABLE ... DISABLE ROW LEVEL SECURITY"
)
_NO_ROOM: Final = Meaning(
    BackendError,
    ErrorCode.DISK_FULL,
    "there is no room to write to the store {url}: {why}",
    "make room on the server's disk, then do the same again; what is stored can be read meanwhile",
)
_UPGRADED: Final = Meaning(
    UnsupportedError,
    ErrorCode.FORMAT_TOO_NEW,
    "the store {url} was made anew for another version while this program had it open ({why})",
    "upgrade holdfast, and start this program again",
)

# Whole codes, and classes of them by their first two characters; None is a store that is damaged.
_BY_STATE: Final[dict[str, Meaning | None]] = {
    "HF426": _UPGRADED,
    "55P03": _LOCKED._replace(message="the store {url} is locked: another writer held it too long ({why})"),
    "57014": _LOCKED._replace(
        message="the store {url} is locked: the server ended a statement that took too long ({why})"
    ),
    "40001": _LOCKED._replace(message="the store {url} is locked: another writer was first ({why})"),
    "40P01": _LOCKED._replace(message="the store {url} is locked: another writer waited for us ({why})"),
    "53100": _NO_ROOM,
    "53300": _FULL,
    "25006": _READ_ONLY,
    "42501": _DENIED,
    "3D000": _NO_DATABASE,
    "23502": _UNFIT,
    "23": None,
    "22": _UNFIT,
    "28": _LOGIN,
    "54": _LARGE,
    # The statements themselves are constant: a table or column that is missing was taken away. Whatever else does not
    # fit them, such as an argument of another type than the function takes, is a value.
    "3F": None,
    "42P01": None,
    "42703": None,
    "42": _UNFIT,
    "XX001": None,
    "XX002": None,
}

_UNKNOWN_HOST: Final = "(resolve|translate) host(?!.*[Tt]emporary failure)"
# The first that fits. The server says these words in English unless its lc_messages is another language; then all of
# them end as "cannot be reached", after the time-out and with the server's own text.
_BY_WORDS: Final[tuple[tuple[str, Meaning], ...]] = (
    (
        _UNKNOWN_HOST,
        _GONE._replace(hint="see that the host in the URL is spelled right: the resolver knows no such name"),
    ),
    ('database ".*" does not exist', _NO_DATABASE),
    ("too many (clients|connections)|connection slots", _FULL),
    ("permission denied for database", _DENIED),
    # Before the words of TLS, which occur in these as well.
    ("starting up|shutting down|recovery mode|not (yet )?accepting|administrator command", _GONE),
    ("closed the connection|closed unexpectedly|SYSCALL error|[Cc]onnection reset", _GONE),
    ("pg_hba.conf entry(?!.*SSL encryption).*no encryption", _TLS),
    ('authentication failed|no password supplied|role ".*" does not exist', _LOGIN),
    ("pg_hba.conf|not permitted to log|no such user|SASL|SCRAM|auth", _LOGIN),
    (r"\bSSL\b|\bTLS\b|certificate", _TLS),
)


def translate(error: BaseException, url: str) -> HoldfastError | None:
    """The error to raise instead of one of the driver's, or None where it is not the driver's."""
    # Of the driver, and of the seal that comes before it.
    if isinstance(error, (OverflowError, UnicodeEncodeError, ormsgpack.MsgpackEncodeError)):
        return _UNFIT.error(url, str(error))
    if not isinstance(error, psycopg.Error):
        return None
    text = " ".join(str(error).split())
    if is_lost(error):
        return _CUT.error(url, text, outcome="unknown")
    state = error.sqlstate
    if state is None:
        # NUL in a text, a number that no column takes: refused by the driver before anything was sent.
        return (_UNFIT if isinstance(error, psycopg.DataError) else _IO).error(url, text)
    if state == "42501" and "row-level security" in text:
        return _HIDDEN_ROWS.error(url, text)
    meaning = _BY_STATE.get(state, _BY_STATE.get(state[:2], _IO))
    return store_damaged(url, text) if meaning is None else meaning.error(url, text)


class translated:  # noqa: N801 - a context manager that reads as a word
    """Run statements on the store at a URL (as it is shown); their errors come out as holdfast's.

    A class, because a generator costs more.
    """

    __slots__ = ("_url",)

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ours = None if error is None else translate(error, self._url)
        if ours is not None:
            raise ours from error


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


def store_locked(url: str, why: str) -> HoldfastError:
    """Somebody else held it for too long."""
    return _LOCKED.error(url, why)


def too_large(url: str, why: str) -> HoldfastError:
    """A commit is larger than the server takes."""
    return _LARGE.error(url, why)


def view_ended(url: str, why: str) -> HoldfastError:
    """The server took back a read transaction."""
    meaning = _LOCKED._replace(
        message="the server ended a view of the store {url}: {why}",
        hint="read again; where a standby does this often, raise its max_standby_streaming_delay",
    )
    return meaning.error(url, why, outcome="unknown")


def permission_denied(url: str, why: str) -> HoldfastError:
    """The role lacks a right."""
    return (_HIDDEN_ROWS if "row-level security" in why else _DENIED).error(url, why)


def connecting_failed(error: Exception, address: Address) -> HoldfastError:
    """Our error for one of connecting. Raise it outside of the except block: the driver's holds the password."""
    text = address.hide(" ".join(str(error).split()))
    if isinstance(error, psycopg.OperationalError):
        meaning = next((each for words, each in _BY_WORDS if re.search(words, text)), _GONE)
        return meaning.error(address.shown, text)
    return InvalidInputError(
        f"no connection can be made to {address.shown}: {text}",
        code=ErrorCode.BAD_URL,
        hint="look at the options of the URL",
        url=address.shown,
    )


def is_passing(error: HoldfastError) -> bool:
    """Whether an error of connecting may go away by itself, as when a server starts again; an unknown host does not."""
    passing = error.code in (ErrorCode.SERVER_GONE, ErrorCode.TOO_MANY_CONNECTIONS)
    return passing and re.search(_UNKNOWN_HOST, str(error)) is None


def check_server(version: int, encoding: str | None, url: str) -> None:
    """Refuse a server or a libpq that lacks what the store needs, and a database that cannot hold every text.

    Args:
        version: libpq's number of the server: 150004 for 15.4.
        encoding: Of the database; None where a pooler did not tell.
        url: The store, as it is shown.
    """
    if version < MINIMUM_SERVER * 10_000:
        shown = f"{version // 10_000}.{version % 10_000}" if version >= 100_000 else str(version // 10_000)
        raise UnsupportedError(
            f"the server of {url} is PostgreSQL {shown}; {MINIMUM_SERVER} or later is needed",
            code=ErrorCode.SERVER_TOO_OLD,
            hint="upgrade the server, or keep the store in another one",
            url=url,
            version=version,
        )
    if pq.version() < MINIMUM_LIBRARY * 10_000:
        raise UnsupportedError(
            f"psycopg works with libpq {pq.version() // 10_000} here; {MINIMUM_LIBRARY} or later is needed",
            code=ErrorCode.NOT_SUPPORTED,
            hint='install its wheel, which brings one along: pip install "psycopg[binary]"',
            version=pq.version(),
        )
    if encoding not in ("UTF8", None):
        raise UnsupportedError(
            f"the database of {url} keeps text as {encoding}, which does not hold what UTF8 holds",
            code=ErrorCode.NOT_SUPPORTED,
            hint="make one with `createdb --encoding=UTF8 --template=template0`, and name it in the URL",
            url=url,
            encoding=encoding,
        )
