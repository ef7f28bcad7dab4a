"""What a caller meets when SQLite, the disk or the system fails: our errors, each with a way on."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import urllib.parse  # noqa: F401 - a child without permissions could not import it any more
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.backends.sqlite import SqliteBackend
from holdfast.backends.sqlite.errors import translate
from holdfast.errors import (
    BackendError,
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StateError,
)
from holdfast.storage.records import Query
from holdfast.testing.rows import contents, save

from .conftest import Open

NO_FAILURES = (apsw.SQLITE_OK, apsw.SQLITE_ROW, apsw.SQLITE_DONE, apsw.SQLITE_NOTICE, apsw.SQLITE_WARNING)
RESULT_CODES = sorted(
    code
    for mapping in (apsw.mapping_result_codes, apsw.mapping_extended_result_codes)
    for code in mapping
    if isinstance(code, int) and code & 0xFF not in NO_FAILURES
)


@pytest.mark.parametrize("code", RESULT_CODES)
def test_no_result_code_of_sqlite_leaks(code: int) -> None:
    error = apsw.exception_for(code)
    assert isinstance(translate(error, "/srv/store.db"), HoldfastError)


@pytest.mark.parametrize(
    ("code", "kind", "ours"),
    [
        (apsw.SQLITE_BUSY, BackendError, ErrorCode.STORE_LOCKED),
        (apsw.SQLITE_LOCKED, BackendError, ErrorCode.STORE_LOCKED),
        (apsw.SQLITE_FULL, BackendError, ErrorCode.DISK_FULL),
        (apsw.SQLITE_READONLY, BackendError, ErrorCode.PERMISSION_DENIED),
        (apsw.SQLITE_PERM, BackendError, ErrorCode.PERMISSION_DENIED),
        (apsw.SQLITE_IOERR_FSYNC, BackendError, ErrorCode.IO_FAILED),
        (apsw.SQLITE_IOERR_WRITE, BackendError, ErrorCode.IO_FAILED),
        (apsw.SQLITE_NOMEM, BackendError, ErrorCode.IO_FAILED),
        (apsw.SQLITE_IOERR_DATA, IntegrityError, ErrorCode.STORE_DAMAGED),
        (apsw.SQLITE_CORRUPT, IntegrityError, ErrorCode.STORE_DAMAGED),
        (apsw.SQLITE_NOTADB, IntegrityError, ErrorCode.STORE_DAMAGED),
        (apsw.SQLITE_CONSTRAINT_FOREIGNKEY, IntegrityError, ErrorCode.STORE_DAMAGED),
        (apsw.SQLITE_CONSTRAINT_DATATYPE, InvalidInputError, ErrorCode.BAD_ARGUMENT),
        (apsw.SQLITE_TOOBIG, InvalidInputError, ErrorCode.VALUE_TOO_LARGE),
        (apsw.SQLITE_INTERRUPT, StateError, ErrorCode.STORE_CLOSED),
        (apsw.SQLITE_CANTOPEN, NotFoundError, ErrorCode.STORE_MISSING),
    ],
)
def test_each_failure_has_the_code_that_says_what_to_do(
    tmp_path: Path, code: int, kind: type[HoldfastError], ours: ErrorCode
) -> None:
    error = translate(apsw.exception_for(code), str(tmp_path / "gone.db"))
    assert isinstance(error, kind)
    assert error.code is ours


def test_numbers_and_text_that_do_not_fit_are_refused_and_nothing_is_written(store: SqliteBackend) -> None:
    for fields in ({"step": 2**63}, {"message": "\ud800"}, {"tokens": "many"}, {"cost_usd": float("nan")}):
        with pytest.raises(InvalidInputError) as caught:
            store.commit(save("a", **fields))
        assert caught.value.code is ErrorCode.BAD_ARGUMENT
    assert contents(store).sessions == []


def test_a_locked_store_says_so_and_goes_on_later(path: Path, open_store: Open) -> None:
    backend = open_store(timeout=0.05)
    backend.commit(save("a"))
    other = apsw.Connection(str(path), vfs="cksmvfs")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(BackendError) as caught:
        backend.commit(save("b", after="a"))
    assert caught.value.code is ErrorCode.STORE_LOCKED
    assert caught.value.retryable
    assert caught.value.exit_code == 11
    assert len(contents(backend).checkpoints) == 1
    other.execute("ROLLBACK")
    other.close()
    backend.commit(save("b", after="a"))


def test_a_store_that_is_removed_while_it_is_open_does_not_swallow_saves(
    path: Path, open_store: Open
) -> None:
    backend = open_store()
    backend.commit(save("a"))
    for each in path.parent.iterdir():
        each.unlink()
    with pytest.raises(NotFoundError) as caught:
        backend.commit(save("b", after="a"))
    assert caught.value.code is ErrorCode.STORE_MISSING
    with pytest.raises(NotFoundError), backend.reader():
        pass
    path.touch()
    with pytest.raises(NotFoundError):
        backend.commit(save("b", after="a"))
    assert path.stat().st_size == 0


def test_a_store_that_is_replaced_while_it_is_open_is_the_new_one(
    tmp_path: Path, path: Path, open_store: Open
) -> None:
    backend = open_store()
    backend.commit(save("a"))
    backend.backup(tmp_path / "copy.db")
    backend.commit(save("b", after="a"))
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        (tmp_path / name).unlink()
    (tmp_path / "copy.db").rename(path)
    assert len(contents(backend).checkpoints) == 1
    backend.commit(save("c", after="a"))
    backend.close()
    assert len(contents(open_store()).checkpoints) == 2


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own belong to this one alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def as_nobody(in_child: Callable[[Callable[[], object]], int]) -> Callable[[Callable[[], object]], int]:
    """Runs a function in a child that file permissions bind."""

    def run(work: Callable[[], object]) -> int:
        def dropped() -> None:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            work()

        return in_child(dropped)

    return run


def test_a_store_that_may_only_be_read_can_be_read(
    open_to_all: Path, open_store: Open, as_nobody: Callable[[Callable[[], object]], int]
) -> None:
    path = open_to_all / "store.db"
    backend = open_store(path)
    backend.commit(save("a"))
    expected = contents(backend)
    backend.close()
    path.chmod(0o444)
    open_to_all.chmod(0o555)

    def work() -> None:
        reading = SqliteBackend.open(path, durability="power", create=True, timeout=1.0)
        assert contents(reading) == expected
        # Without locks, only a new connection is sure to see the file as it is.
        assert reading._connections._idle == []
        assert contents(reading) == expected
        with pytest.raises(BackendError) as caught:
            reading.commit(save("b", after="a"))
        assert caught.value.code is ErrorCode.PERMISSION_DENIED
        reading.close()

    assert as_nobody(work) == 0
    assert sorted(each.name for each in open_to_all.iterdir()) == ["store.db"]


def run_in_small_disk(script: str, tmp_path: Path, size: str, then: str = "true") -> None:
    """Run Python in a mount namespace of its own, where `disk` under tmp_path is a small file system in memory."""
    disk = tmp_path / "disk"
    disk.mkdir()
    code = tmp_path / "script.py"
    code.write_text(textwrap.dedent(script))
    shell = (
        f'mount -t tmpfs -o size={size} tmpfs "$1" && "$2" "$3" "$1" first && {then} && "$2" "$3" "$1" second'
    )
    ran = subprocess.run(
        [
            "unshare",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            shell,
            "sh",
            str(disk),
            sys.executable,
            str(code),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_a_read_only_file_system_is_read(tmp_path: Path, require: Callable[[str], None]) -> None:
    require("unshare")
    script = """
        import sys
        from pathlib import Path
        from holdfast.backends.sqlite import SqliteBackend
        from holdfast.errors import BackendError, ErrorCode
        from holdfast.testing.rows import contents, save

        disk, turn = Path(sys.argv[1]), sys.argv[2]
        backend = SqliteBackend.open(disk / "store.db", durability="power", create=True, timeout=1.0)
        if turn == "first":
            backend.commit(save("a"))
            backend.close()
            sys.exit()
        assert len(contents(backend).checkpoints) == 1
        for attempt in (
            lambda: backend.commit(save("b", after="a")),
            lambda: SqliteBackend.open(disk / "new" / "store.db", durability="power", create=True, timeout=1.0),
        ):
            try:
                attempt()
            except BackendError as error:
                assert error.code is ErrorCode.PERMISSION_DENIED, error
            else:
                sys.exit("it was written")
        """
    run_in_small_disk(script, tmp_path, "1m", then='mount -o remount,ro "$1"')


STRACE = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=fdatasync", "-e"]


def test_a_failed_sync_is_an_error_and_the_next_save_works(
    tmp_path: Path, open_store: Open, require: Callable[[str], None]
) -> None:
    require("strace")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import sys
        from pathlib import Path
        from holdfast.backends.sqlite import SqliteBackend
        from holdfast.errors import BackendError
        from holdfast.testing.rows import batch, row

        backend = SqliteBackend.open(Path(sys.argv[1]), durability="power", create=False, timeout=1.0)
        for number in range(20):
            before = backend._connections._idle[-1] if backend._connections._idle else None
            try:
                backend.commit(batch(row(f"{number}")))
            except BackendError as error:
                print("failed", number, error.code, before not in backend._connections._idle)
            else:
                print("saved", number)
        """)
    )
    for number in (5, 9):
        path = tmp_path / f"{number}.db"
        open_store(path).close()
        inject = f"inject=fdatasync:error=EIO:when={number}"
        ran = subprocess.run(
            [*STRACE, inject, sys.executable, str(script), str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        lines = ran.stdout.splitlines()
        failed = [line for line in lines if line.startswith("failed")]
        assert len(failed) == 1
        assert failed[0].endswith("io-failed True")
        with open_store(path).reader() as reader:
            kept = len(reader.checkpoints(Query()))
        # What failed may be there all the same; what was acknowledged must be.
        assert kept in (19, 20)
