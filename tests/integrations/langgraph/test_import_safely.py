"""What an import must not do: show a password, take locks of a store away, promise in a dry run what it cannot do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.integrations.langgraph.import_sources import fill

import holdfast
from holdfast.errors import ErrorCode
from holdfast.integrations.langgraph.import_saver import import_langgraph


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with holdfast.open(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.sqlite"


def refusal(source: Any, store: holdfast.Store, **options: Any) -> holdfast.HoldfastError:
    with pytest.raises(holdfast.HoldfastError) as raised:
        import_langgraph(source, store, **options)
    return raised.value


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("host=127.0.0.1 port=1 user=u password=xyzzy dbname=d", ErrorCode.SERVER_GONE),
        ("password=xyzzy host=127.0.0.1 port=1", ErrorCode.SERVER_GONE),
        ("host=h password='xyzzy", ErrorCode.BAD_URL),
        ("host=h password=xy xyzzy dbname=d", ErrorCode.BAD_URL),
        ("host=h pw=xyzzy", ErrorCode.BAD_URL),
        ("host=u:xyzzy@h", ErrorCode.BAD_URL),
        ("host=h port=xyzzy", ErrorCode.BAD_URL),
        ("dbname=postgresql://u:xyzzy@h/d", ErrorCode.BAD_URL),
        ("dbname='host=h password=xyzzy'", ErrorCode.BAD_URL),
        ("me:xyzzy@host/db", ErrorCode.BAD_URL),
        ("//me:xyzzy@host/db", ErrorCode.BAD_URL),
        ("host/db?user=me&password=xyzzy", ErrorCode.BAD_URL),
        ("sqlite:///postgresql://u:xyzzy@h/d", ErrorCode.BAD_URL),
        ("sqlite:///host=h password=xyzzy", ErrorCode.BAD_URL),
        ("~/postgres:u:xyzzy@h", ErrorCode.BAD_URL),
    ],
)
def test_a_password_is_never_repeated(source: str, code: ErrorCode, store: holdfast.Store) -> None:
    error = refusal(source, store)

    assert error.code is code
    shown: BaseException | None = error
    while shown is not None:
        assert "xyzzy" not in f"{shown}{shown!r}{json.dumps(error.to_dict())}"
        shown = shown.__cause__ or shown.__context__


def test_keywords_of_libpq_lead_to_the_database(postgres_url: str, store: holdfast.Store) -> None:
    fill("postgres", postgres_url, ("chat",))
    parts = urlsplit(postgres_url)
    words = {
        "host": parts.hostname,
        "port": parts.port,
        "user": parts.username,
        "password": parts.password,
        "dbname": parts.path.lstrip("/"),
    }
    text = " ".join(f"{name}='{value}'" for name, value in words.items() if value)

    report = import_langgraph(text, store)

    assert [each.id for each in report.threads] == ["chat"]
    assert report.source.startswith("postgresql://")
