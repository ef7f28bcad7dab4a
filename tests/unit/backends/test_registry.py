"""Which backend a target names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.backends.memory import MemoryBackend
from holdfast.backends.registry import connect
from holdfast.backends.sqlite import SqliteBackend
from holdfast.errors import BackendError, ErrorCode, InvalidInputError
from holdfast.storage.ports import Backend


def opened(target: str | Path) -> Backend:
    return connect(target, durability="process", create=True, timeout=5.0)


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("target", ["memory:", "memory://"])
def test_memory_is_a_store_of_its_own_each_time(target: str) -> None:
    first, second = opened(target), opened(target)
    assert isinstance(first, MemoryBackend)
    assert isinstance(second, MemoryBackend)
    assert first is not second
    assert first.url == "memory:"


@pytest.mark.parametrize(
    ("target", "file"),
    [
        ("agents", "agents/store.db"),
        ("agents/", "agents/store.db"),
        ("notes.db", "notes.db"),
        ("notes.DB", "notes.DB"),
        ("deep/er/notes.sqlite", "deep/er/notes.sqlite"),
        ("notes.sqlite3", "notes.sqlite3"),
        ("v1.2", "v1.2/store.db"),
        ("odd:name", "odd:name/store.db"),
        ("sqlite:///notes.db", "notes.db"),
        ("sqlite:///some%20notes%3F.db", "some notes?.db"),
        ("sqlite:///folder", "folder/store.db"),
    ],
)
def test_a_target_is_a_file_or_a_folder_with_a_store_in_it(tmp_path: Path, target: str, file: str) -> None:
    backend = opened(target)
    backend.close()
    assert isinstance(backend, SqliteBackend)
    assert [each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*") if each.is_file()] == [file]


@pytest.mark.parametrize(
    "name", ["plain.db", "a b.db", "50%.db", "what?.db", "a#b.db", "%3F.db", "\N{SNOWMAN}.db"]
)
def test_the_url_of_a_store_opens_the_same_store(tmp_path: Path, name: str) -> None:
    backend = opened(tmp_path / name)
    backend.close()
    again = opened(backend.url)
    again.close()
    assert again.url == backend.url
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "target",
    ["", "mysql://user:secret@host/db", "sqlite:///", "sqlite://notes.db", "sqlite:///a.db?mode=ro", "://"],
)
def test_other_targets_are_refused_with_the_kinds_there_are(tmp_path: Path, target: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        opened(target)
    assert caught.value.code is ErrorCode.BAD_URL
    assert "sqlite:///path" in caught.value.hint
    assert "secret" not in str(caught.value.to_dict())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "target",
    [
        "postgresql:/me:secret@host/db",
        "postgresql//me:secret@host/db",
        "postgresql:me:secret@host/db",
        "postgres:/me:secret@host/db",
        "Postgres//me:secret@host/db",
        " postgresql:/me:secret@host/db",
        "postgresql+psycopg:/me:secret@host/db",
        "postgresql//me:secret@host://db",
        Path("postgresql://me:secret@host/db"),
        "host=localhost dbname=agents user=me password=secret",
        "user=me host = localhost",
        "dbname=agents password = 'secret'",
        "password=secret",
        Path("host=/tmp/pg user=me password=secret"),
    ],
)
def test_a_mistyped_url_of_a_server_makes_no_folder_and_shows_no_password(
    tmp_path: Path, target: str | Path
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        opened(target)
    assert caught.value.code is ErrorCode.BAD_URL
    assert "postgresql://user:password@host/database" in caught.value.hint
    assert "secret" not in str(caught.value.to_dict())
    assert "me:" not in str(caught.value.to_dict())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["no\0tes.db", "no\udcfftes.db"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        opened(name)
    assert caught.value.code is ErrorCode.BAD_URL


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
@pytest.mark.parametrize("missing", ["psycopg", "psycopg.pq"])
def test_postgresql_without_its_driver_says_what_to_install(scheme: str, missing: str) -> None:
    code = (
        "import sys; from holdfast.backends.registry import connect; from holdfast.errors import UnsupportedError\n"
        f"sys.modules[{missing!r}] = None\n"
        f"try: connect('{scheme}://me:secret@host/db', durability='power', create=True, timeout=1.0)\n"
        "except UnsupportedError as error: print(error.to_dict())"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "'not-supported'" in done.stdout, done.stderr
    assert "pip install 'holdfast[postgres]'" in done.stdout
    assert "secret" not in done.stdout + done.stderr


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_postgresql_is_found_by_its_scheme(scheme: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(BackendError) as caught:
        connect(f"{scheme}://me:secret@127.0.0.1:1/db", durability="process", create=True, timeout=0.1)
    assert caught.value.code is ErrorCode.SERVER_GONE
    assert "secret" not in str(caught.value.to_dict())


@pytest.mark.parametrize(
    "target",
    [
        "postgresq://me:secret@host/db",
        "postgresql:/me:secret@host/db",
        "POSTGRESQL://me:secret@host/db",
        "postgresql+psycopg://me:secret@host/db",
        "posgresql://me:secret@host/db",
        "postgers://me:secret@host/db",
        "pgsql://me:secret@host/db",
    ],
)
def test_what_looks_like_the_url_of_a_server_is_answered_with_the_right_one(target: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        opened(target)
    assert caught.value.code is ErrorCode.BAD_URL
    assert caught.value.hint == "did you mean postgresql://user:password@host/database?"
    assert "secret" not in str(caught.value.to_dict())
    assert "host/db" not in str(caught.value.to_dict())
