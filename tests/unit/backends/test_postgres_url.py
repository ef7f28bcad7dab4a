"""What a URL means, and that nothing of it is shown which must not be."""

from __future__ import annotations

import traceback
from contextlib import suppress
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

pytest.importorskip("psycopg")

from holdfast.backends.postgres.url import DEFAULT_SCHEMA, SCHEMA_NAME, parse
from holdfast.errors import ErrorCode, HoldfastError, InvalidInputError

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12)
PASSWORD = "kestrel-under-glass"


def everything_said(error: HoldfastError) -> str:
    """All that anyone would ever show of an error."""
    shown = [str(error), repr(error), error.hint, repr(error.details), repr(error.to_dict())]
    chained = [repr(error.__cause__), repr(error.__context__), repr(vars(error.__context__ or error))]
    return "\n".join(shown + chained + traceback.format_exception(error, chain=True))


def refused(url: str) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        parse(url)
    assert caught.value.code is ErrorCode.BAD_URL
    # The frames of this test quote the URL themselves.
    caught.value.__traceback__ = None
    return caught.value


def test_the_schema_is_ours_and_the_rest_is_for_libpq():
    address = parse("postgres://me:pw@db.example:5433/app?sslmode=require&schema=agents&connect_timeout=7")
    assert address.schema == "agents"
    assert address.parameters == {
        "user": "me",
        "password": "pw",
        "host": "db.example",
        "port": "5433",
        "dbname": "app",
        "sslmode": "require",
        "connect_timeout": "7",
    }
    assert address.shown == "postgresql://me@db.example:5433/app?sslmode=require&schema=agents"


def test_without_a_schema_it_is_the_one_that_holdfast_names():
    assert parse("postgresql://h/db").schema == DEFAULT_SCHEMA == "holdfast"
    assert "schema" not in parse("postgresql://h/db?schema=holdfast").shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://", "postgresql://"),
        ("postgresql:///db", "postgresql:///db"),
        ("postgresql://me@/db?host=/run/pg&port=5433", "postgresql://me@/db?host=/run/pg&port=5433"),
        ("postgresql://%2Frun%2Fpg/db", "postgresql:///db?host=/run/pg"),
        ("postgresql://[::1]:5433/db", "postgresql://[::1]:5433/db"),
        ("postgresql://a:1,b:2/db", "postgresql:///db?host=a,b&port=1,2"),
        ("postgresql://me:a?b@h/db", "postgresql://me@h/db"),
        ("postgresql:///db?user=me&password=a@b/c", "postgresql://me@/db"),
        ("postgresql://h/db?passfile=/secret/place&sslpassword=x&options=-cfoo", "postgresql://h/db"),
        ("postgresql://h/db?ssl=true", "postgresql://h/db?sslmode=require"),
    ],
)
def test_what_is_shown_leads_to_the_same_place_without_secrets(url, shown):
    assert parse(url).shown == shown
    kept = {"host", "port", "user", "dbname", "sslmode"}
    again = parse(shown).parameters
    assert again == {name: value for name, value in parse(url).parameters.items() if name in kept}


@given(user=NAMES, password=NAMES, database=NAMES, schema=st.from_regex(SCHEMA_NAME, fullmatch=True))
def test_any_user_password_and_database_come_through(user, password, database, schema):
    assume(not schema.startswith("pg_") and schema != "public")
    parts = [quote(part, safe="") for part in (user, password, database)]
    address = parse(f"postgresql://{parts[0]}:{parts[1]}@host:1/{parts[2]}?schema={schema}")
    assert [address.parameters[name] for name in ("user", "password", "dbname")] == [user, password, database]
    assert address.schema == schema
    assert urlsplit(address.shown).password is None
    again = parse(address.shown)
    assert again.shown == address.shown
    assert again.parameters == {n: v for n, v in address.parameters.items() if n != "password"}


@given(st.text(max_size=30))
def test_no_text_does_more_than_being_refused(rest):
    shown = "postgresql://"
    with suppress(InvalidInputError):
        shown = parse(f"postgresql://{rest}").shown
    assert parse(shown).shown == shown


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{PASSWORD}@more@host/db",
        f"postgresql://me:more@{PASSWORD}@host/db",
        f"postgresql://me:{PASSWORD}/more@host/db",
        f"postgresql://me:more/{PASSWORD}@host/db",
        f"postgresql://me:a/b?{PASSWORD}@host/db",
        f"postgresql://me:{PASSWORD}%zz@host/db",
        f"postgresql://me:{PASSWORD}%00@host/db",
        f"postgresql://me:{PASSWORD} more@host/db",
        f"postgresql://me:{PASSWORD}@[::1/db",
        f"postgresql://me:{PASSWORD}@host:port/db",
        f"postgresql://me:{PASSWORD}@host:70000/db",
        f"postgresql://host:{PASSWORD}/db",
        f"postgresql://me:{PASSWORD}@host/db?pasword=x",
        f"postgresql://host/db?pasword={PASSWORD}",
        f"postgresql://host/db?password={PASSWORD}&novalue",
        f"postgresql://me:{PASSWORD}\0@host/db",
        f"postgresql://me:{PASSWORD}\udcff@host/db",
        f"postgresql+psycopg://me:{PASSWORD}@host/db",
        f"me:{PASSWORD}@host",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_being_quoted(url):
    error = refused(url)
    assert PASSWORD not in everything_said(error)
    assert error.__context__ is None


@pytest.mark.parametrize(
    "schema", ["", "public", "pg_x", "information_schema", "A", "a-b", 'a"b', "a b", "1a", "a" * 33]
)
def test_a_schema_must_be_one_of_its_own_with_a_plain_name(schema):
    error = refused(f"postgresql://host/db?schema={quote(schema)}")
    assert "schema" in str(error)
    assert "?schema=" in error.hint


def test_secrets_are_hidden_in_texts_whatever_their_spelling(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "from-the-environment")
    address = parse("postgresql://me:gl%40ss%2Fhouse@host/db?sslpassword=k%C3%A9strel")
    text = address.hide("gl@ss/house gl%40ss%2Fhouse késtrel k%C3%A9strel from-the-environment me host")
    assert text == " ".join(["$PGPASSWORD"] * 5) + " me host"


def test_an_address_shows_no_password():
    address = parse(f"postgresql://me:{PASSWORD}@host/db")
    assert PASSWORD not in f"{address!r} {address}"
