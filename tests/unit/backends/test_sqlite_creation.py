"""How a store comes into being, and which files are taken for one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.backends.sqlite import SqliteBackend
from holdfast.backends.sqlite.connection import check_library
from holdfast.errors import (
    ErrorCode,
    HoldfastError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from holdfast.objects.tree.boundaries import FORMAT_0
from holdfast.storage.records import seal
from holdfast.testing.rows import contents, save

from .conftest import Open


def plain(path: Path) -> apsw.Connection:
    """A connection that writes sound pages into a store, as somebody else would."""
    return apsw.Connection(str(path), vfs="cksmvfs")


def change(path: Path, sql: str, *parameters: object) -> None:
    connection = plain(path)
    connection.execute(sql, parameters).fetchall()
    connection.close()


def refused(open_store: Open, **options: object) -> HoldfastError:
    with pytest.raises(HoldfastError) as caught:
        open_store(**options)
    assert caught.value.hint
    return caught.value


@pytest.fixture
def everything_allowed() -> Iterator[None]:
    """A mask that hides no permission, so that only our own modes count."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("everything_allowed")
def test_files_and_folders_are_for_this_user_only(tmp_path: Path, open_store: Open) -> None:
    tmp_path.chmod(0o755)
    path = tmp_path / "deep" / "er" / "store.db"
    open_store(path).commit(save("a"))
    modes = {
        each.relative_to(tmp_path).as_posix(): each.stat().st_mode & 0o777 for each in tmp_path.rglob("*")
    }
    assert modes == {
        "deep": 0o700,
        "deep/er": 0o700,
        "deep/er/store.db": 0o600,
        "deep/er/store.db-wal": 0o600,
        "deep/er/store.db-shm": 0o600,
    }
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_new_names_are_synced_into_their_folders(
    tmp_path: Path, open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def spy(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    open_store(tmp_path / "deep" / "er" / "store.db")
    assert synced == [str(tmp_path), str(tmp_path / "deep"), str(tmp_path / "deep" / "er")]


def test_a_store_carries_its_marks(path: Path, store: SqliteBackend) -> None:
    store.close()
    connection = plain(path)
    assert connection.execute("PRAGMA application_id").get == int.from_bytes(b"hldf", "big")
    assert connection.execute("PRAGMA user_version").get == 1000
    assert connection.execute("PRAGMA page_size").get == 4096
    assert connection.reserve_bytes() == 8
    header = {key: value for key, value, _ in connection.execute("SELECT * FROM header")}
    connection.close()
    assert {key: header[key] for key in ("format", "revision", "hash", "cipher", "key")} == {
        "format": "0",
        "revision": "3",
        "hash": "blake3",
        "cipher": "0",
        "key": "0",
    }
    assert header["layout"] == FORMAT_0.canonical()
    assert set(header) == {"format", "revision", "store", "hash", "cipher", "key", "layout", "created_at"}


@pytest.mark.parametrize(("durability", "synchronous", "full"), [("power", 2, 1), ("process", 1, 0)])
def test_every_connection_is_set_as_it_must_be(
    open_store: Open, durability: str, synchronous: int, full: int
) -> None:
    expected = {
        "synchronous": synchronous,
        "fullfsync": full,
        "checkpoint_fullfsync": full,
        "journal_mode": "wal",
        "mmap_size": 0,
        "cell_size_check": 1,
        "trusted_schema": 0,
        "foreign_keys": 1,
        "checksum_verification": "1",
    }
    backend = open_store(durability=durability)
    first = backend._connections.take()
    second = backend._connections.take()
    for connection in (first, second):
        settings = {name: connection.execute(f"PRAGMA {name}").get for name in expected}
        assert settings == expected
        assert connection.open_vfs == "cksmvfs"
        backend._connections.give(connection)


def test_a_missing_store_is_not_made_unasked(tmp_path: Path, open_store: Open) -> None:
    path = tmp_path / "nowhere" / "store.db"
    error = refused(open_store, at=path, create=False)
    assert isinstance(error, NotFoundError)
    assert error.code is ErrorCode.STORE_MISSING
    assert "holdfast init" in error.hint
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_finished(path: Path, open_store: Open) -> None:
    path.touch()
    assert refused(open_store, create=False).code is ErrorCode.STORE_MISSING
    assert path.stat().st_size == 0
    backend = open_store()
    backend.commit(save("a"))
    assert len(contents(backend).checkpoints) == 1


def test_a_store_that_was_not_yet_switched_to_the_wal_is_switched(path: Path, open_store: Open) -> None:
    open_store().close()
    change(path, "PRAGMA journal_mode=DELETE")
    assert plain(path).execute("PRAGMA journal_mode").get == "delete"
    open_store().commit(save("a"))
    assert plain(path).execute("PRAGMA journal_mode").get == "wal"


FOREIGN: list[bytes | str] = [
    b"this is a diary, and long enough to look like a header of a file " * 40,
    b"x",
    "CREATE TABLE mine (x); INSERT INTO mine VALUES (1)",
    "PRAGMA application_id=252006673",
    "PRAGMA user_version=7",
]


@pytest.mark.parametrize("made", FOREIGN)
def test_a_file_of_somebody_else_is_left_alone(path: Path, open_store: Open, made: bytes | str) -> None:
    if isinstance(made, bytes):
        path.write_bytes(made)
    else:
        connection = apsw.Connection(str(path))
        connection.execute(made).fetchall()
        connection.close()
    before = path.read_bytes()
    error = refused(open_store)
    assert isinstance(error, InvalidInputError)
    assert error.code is ErrorCode.NOT_A_STORE
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_what_is_no_file_is_not_a_store(tmp_path: Path, open_store: Open) -> None:
    (tmp_path / "folder.db").mkdir()
    os.mkfifo(tmp_path / "pipe.db")
    (tmp_path / "file").touch()
    for name in ("folder.db", "pipe.db"):
        assert refused(open_store, at=tmp_path / name).code is ErrorCode.NOT_A_STORE
    assert refused(open_store, at=tmp_path / "file" / "store.db").code is ErrorCode.BAD_URL


def header(key: str, value: str) -> str:
    return f"UPDATE header SET value = '{value}', seal = {seal(key, value)} WHERE key = '{key}'"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("PRAGMA user_version=1001", ErrorCode.FORMAT_TOO_NEW),
        ("PRAGMA user_version=3", ErrorCode.STORE_DAMAGED),
        (header("format", "1"), ErrorCode.FORMAT_TOO_NEW),
        (header("revision", "99"), ErrorCode.FORMAT_TOO_NEW),
        (header("revision", "2"), ErrorCode.FORMAT_TOO_OLD),
        ("DELETE FROM header WHERE key = 'revision'", ErrorCode.FORMAT_TOO_OLD),
        (header("cipher", "1"), ErrorCode.FORMAT_TOO_NEW),
        (header("hash", "other"), ErrorCode.FORMAT_TOO_NEW),
        (header("layout", "other"), ErrorCode.FORMAT_TOO_NEW),
        ("UPDATE header SET key = 'changed' WHERE key = 'store'", ErrorCode.ROW_DAMAGED),
        ("UPDATE header SET value = 'changed' WHERE key = 'store'", ErrorCode.ROW_DAMAGED),
        ("UPDATE header SET seal = 5 WHERE key = 'store'", ErrorCode.ROW_DAMAGED),
        ("DELETE FROM header WHERE key = 'hash'", ErrorCode.STORE_DAMAGED),
        ("DROP TABLE header", ErrorCode.STORE_DAMAGED),
    ],
)
def test_a_store_of_another_version_or_a_changed_header_is_refused_and_left_alone(
    path: Path, open_store: Open, sql: str, code: ErrorCode
) -> None:
    open_store().close()
    change(path, sql)
    before = path.read_bytes()
    assert refused(open_store).code is code
    assert path.read_bytes() == before


def test_a_store_whose_pages_have_no_checksums_is_damaged(path: Path, open_store: Open) -> None:
    open_store().close()
    marks = (plain(path).execute("PRAGMA application_id").get, plain(path).execute("PRAGMA user_version").get)
    path.unlink()
    bare = apsw.Connection(str(path), vfs="unix")
    for name, mark in zip(("application_id", "user_version"), marks, strict=True):
        bare.execute(f"PRAGMA {name}={mark}").fetchall()
    bare.execute("CREATE TABLE header (x)")
    bare.close()
    error = refused(open_store)
    assert error.code is ErrorCode.STORE_DAMAGED
    assert "checksums" in str(error)


@pytest.mark.parametrize("timeout", [-1.0, float("nan")])
def test_a_timeout_is_a_number_of_seconds(path: Path, open_store: Open, timeout: float) -> None:
    assert refused(open_store, timeout=timeout).code is ErrorCode.BAD_ARGUMENT
    assert not path.exists()


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.51.2"])
def test_a_library_that_can_corrupt_a_wal_is_refused(version: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        check_library(version)
    assert caught.value.code is ErrorCode.SQLITE_TOO_OLD
    assert caught.value.details["version"] == version


CREATE = (
    "import sys; from pathlib import Path; from holdfast.backends.sqlite import SqliteBackend as B; "
    "sys.stdin.read(1); B.open(Path(sys.argv[1]), durability='power', create=True, timeout=30.0).close()"
)


def test_many_processes_make_one_store(tmp_path: Path, open_store: Open) -> None:
    for attempt in range(4):
        path = tmp_path / f"{attempt}" / "store.db"
        makers = [
            subprocess.Popen([sys.executable, "-c", CREATE, str(path)], stdin=subprocess.PIPE)
            for _ in range(5)
        ]
        for each in makers:
            assert each.stdin is not None
            each.stdin.write(b"!")
            each.stdin.close()
        assert [each.wait() for each in makers] == [0] * 5
        open_store(path).commit(save("a"))
        connection = plain(path)
        assert connection.execute("SELECT count(*) FROM header WHERE key = 'store'").get == 1
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        connection.close()


STRACE = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=pwrite64,unlink", "-e"]


def test_a_maker_killed_between_writes_leaves_nothing_or_a_store(
    tmp_path: Path, open_store: Open, require: Callable[[str], None]
) -> None:
    require("strace")
    # Every third, because each costs a start of the interpreter.
    number, status = 1, -9
    while status != 0:
        path = tmp_path / f"{number}" / "store.db"
        path.parent.mkdir()
        ran = subprocess.run(
            [
                *STRACE,
                f"inject=pwrite64,unlink:signal=KILL:when={number}",
                sys.executable,
                "-c",
                CREATE,
                str(path),
            ],
            input=b"!",
            check=False,
        )
        backend = open_store(path)
        backend.commit(save("a"))
        assert len(contents(backend).checkpoints) == 1
        backend.close()
        number, status = number + 3, ran.returncode
        assert status in (0, -9, 137)
    assert number > 10
