"""Where a store is: the URL that the user wrote, what libpq gets of it, and what of it may be shown.

    postgresql://user:password@host:5432/database?schema=agents&sslmode=require

`schema` is ours: the database schema that holds the store, `holdfast` if it is not given. Everything else is libpq's,
read by libpq's own parser. What is shown is built anew from a list of harmless parts, so that a part nobody thought of
stays hidden. A password with a character that has a meaning in URLs would end up in the host or the port, and from
there in messages: such URLs are refused without quoting them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import quote, unquote, urlencode

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from holdfast.errors import ErrorCode, InvalidInputError

DEFAULT_SCHEMA = "holdfast"

SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,31}")
"""Needs no quotes, and leaves room for what is added to the name of a schema that is put aside."""

_SECRET = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_SHOWN_OPTIONS = ("service", "sslmode", "target_session_attrs")
_HIDDEN = "$PGPASSWORD"
"""In the place of a password. The variable works where the text is pasted."""
_SHORTEST_SECRET = 4
"""Shorter ones occur in ordinary words; no text of libpq or of the server quotes a password by itself."""
_PERCENT_HINT = (
    "write postgresql://user:password@host:5432/database?schema=holdfast, "
    "with %40 for @, %2F for /, %3A for : and %25 for % in user and password"
)


class Address:
    """A URL taken apart; made with `parse`.

    Attributes:
        parameters: What libpq gets. Holds the password: never show it.
        schema: The database schema of the store.
        shown: A URL without secrets. It leads to the same store for whoever has the password from elsewhere.
    """

    __slots__ = ("parameters", "schema", "shown")

    def __init__(self, parameters: Mapping[str, str], schema: str) -> None:
        self.parameters = parameters
        self.schema = schema
        self.shown = _shown(parameters, schema)

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    def hide(self, text: str) -> str:
        """A text of the driver or the server without the secrets of this address."""
        values = [self.parameters.get(name, "") for name in _SECRET] + [os.environ.get("PGPASSWORD", "")]
        # A password that is also a name, as `postgres` often is, would make messages unreadable and hide nothing.
        secret = {each for each in values if len(each) >= _SHORTEST_SECRET and each not in self.shown}
        for each in sorted(secret | {quote(value, safe="") for value in secret}, key=len, reverse=True):
            text = text.replace(each, _HIDDEN)
        return text


def parse(url: str) -> Address:
    """Take a URL apart.

    Raises:
        InvalidInputError: It is not one that libpq and we understand (`bad-url`). The text of it is not repeated.
    """
    if "\0" in url or any("\ud800" <= character <= "\udfff" for character in url):
        raise _bad_url("it holds a character that no URL can")
    scheme, separator, rest = url.partition("://")
    if scheme not in ("postgresql", "postgres") or not separator:
        raise _bad_url("it does not begin with postgresql://")
    place, query = _split(rest)
    schema, options = _options(query)
    parameters = _parsed(f"postgresql://{place}{'?' if options else ''}{'&'.join(options)}")
    for port in parameters.get("port", "").split(","):
        if port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
            raise _bad_url("the port is not a number from 1 to 65535")
    if SCHEMA_NAME.fullmatch(schema) is None or schema.startswith("pg_"):
        raise _bad_schema("is not a name of up to 32 lower-case letters, digits and underscores")
    if schema in ("public", "information_schema"):
        raise _bad_schema("is one that others use, and a store needs one to itself")
    return Address(parameters, schema)


def _split(rest: str) -> tuple[str, str]:
    """What comes before the options, and the options; as libpq sees it, for which a `?` may be in a password."""
    at, slash = rest.find("@"), rest.find("/")
    user = at + 1 if at >= 0 and (slash < 0 or at < slash) else 0
    place, _, query = rest[user:].partition("?")
    if "@" in place:
        raise _bad_url("there is more than one @, or a / before it")
    return rest[:user] + place, query


def _options(query: str) -> tuple[str, list[str]]:
    """The schema, and the options that are left for libpq."""
    schema, others = DEFAULT_SCHEMA, []
    # libpq spells the last one as JDBC does.
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()} | {"ssl"}
    for option in query.split("&") if query else ():
        name, equals, value = option.partition("=")
        name = unquote(name)
        if not equals:
            raise _bad_url("an option after the ? has no value")
        if name == "schema":
            schema = unquote(value)
        elif name in known:
            others.append(option)
        else:
            # What is not even a word may be a piece of a password.
            which = repr(name) if re.fullmatch(r"[a-z_]{1,32}", name) and "@" not in query else "an option"
            raise _bad_url(f"{which} after the ? is not one of PostgreSQL's")
    return schema, others


def _parsed(url: str) -> dict[str, str]:
    try:
        return {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.Error:
        pass
    # Outside of the except block, because libpq's message repeats the URL, and a chained error would show it.
    raise _bad_url("a part of it is malformed")


def _shown(parameters: Mapping[str, str], schema: str) -> str:
    user, host, port = (parameters.get(name, "") for name in ("user", "host", "port"))
    options = {name: parameters[name] for name in _SHOWN_OPTIONS if name in parameters}
    place = ""
    if "/" in host or "," in host or "," in port or not host:
        # Sockets and several hosts fit no other place than the options.
        options = {name: value for name, value in (("host", host), ("port", port)) if value} | options
    else:
        place = f"[{host}]" if ":" in host else quote(host, safe="")
        place += f":{port}" if port else ""
    if user:
        place = f"{quote(user, safe='')}@{place}"
    if schema != DEFAULT_SCHEMA:
        options["schema"] = schema
    database = "/" + quote(parameters["dbname"], safe="") if "dbname" in parameters else ""
    query = "?" + urlencode(options, safe="/,:", quote_via=quote) if options else ""
    return f"postgresql://{place}{database}{query}"


def _bad_schema(why: str) -> InvalidInputError:
    return _bad_url(f"its schema {why}", hint="name another: ?schema=holdfast, or leave it out")


def _bad_url(why: str, *, hint: str = _PERCENT_HINT) -> InvalidInputError:
    return InvalidInputError(
        f"the URL of a PostgreSQL store cannot be used: {why}", code=ErrorCode.BAD_URL, hint=hint
    )
