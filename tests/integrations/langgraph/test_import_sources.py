"""What can be imported from, what is said of the rest, and that a source is left as it was."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.integrations.langgraph.import_sources import config, fill, made, put_row

import holdfast
from holdfast.errors import ErrorCode
from holdfast.integrations.langgraph.import_saver import import_langgraph, open_source
from holdfast.integrations.langgraph.safe_serde import SafeSerializer

SERDE = JsonPlusSerializer()


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with holdfast.open(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder / "checkpoints.sqlite"


def checkpoint(**more: Any) -> tuple[str, bytes]:
    return SERDE.dumps_typed(made(**more))


def code_of(source: Any, store: holdfast.Store, **options: Any) -> tuple[ErrorCode, str]:
    with pytest.raises(holdfast.HoldfastError) as raised:
        import_langgraph(source, store, **options)
    assert raised.value.hint
    return raised.value.code, str(raised.value)


class TestSqlite:
    def test_a_source_is_left_as_it_was_with_no_file_beside_it(
        self, source: Path, store: holdfast.Store
    ) -> None:
        fill("sqlite", source, ("chat",))
        before = hashlib.sha256(source.read_bytes()).digest(), source.stat().st_mtime_ns, [source]

        import_langgraph(source, store)

        after = (
            hashlib.sha256(source.read_bytes()).digest(),
            source.stat().st_mtime_ns,
            list(source.parent.iterdir()),
        )
        assert after == before

    def test_one_moment_is_read_beside_a_running_writer(self, source: Path, store: holdfast.Store) -> None:
        with SqliteSaver.from_conn_string(str(source)) as saver:
            for number in range(3):
                saver.put(config("t", checkpoint_ns=""), made(id=f"{number}"), {}, {})
            late = iter(range(3, 9))

            def write(_what: str, _done: int) -> None:
                saver.put(config("t", checkpoint_ns=""), made(id=f"{next(late)}"), {}, {})

            report = import_langgraph(source, store, progress=write)

            assert report.checkpoints == 3
            assert import_langgraph(source, store).checkpoints == 4
            # The writer goes on, and its file has everything.
            assert len(list(saver.list(config("t")))) == 7

    def test_what_a_killed_writer_left_in_the_log_is_read(self, source: Path, store: holdfast.Store) -> None:
        program = f"""
import os
from langgraph.checkpoint.sqlite import SqliteSaver
with SqliteSaver.from_conn_string({str(source)!r}) as saver:
    saver.put({config("t", checkpoint_ns="")!r}, {made(id="1")!r}, {{}}, {{}})
    os._exit(9)
"""
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 9
        log = Path(f"{source}-wal")
        content = source.read_bytes(), log.read_bytes()
        assert content[1]

        assert import_langgraph(source, store).checkpoints == 1
        assert (source.read_bytes(), log.read_bytes()) == content


class TestBadSources:
    def test_no_such_file(self, tmp_path: Path, store: holdfast.Store) -> None:
        code, said = code_of(tmp_path / "nope.sqlite", store)

        assert code is ErrorCode.SOURCE_MISSING
        assert "nope.sqlite" in said

    @pytest.mark.parametrize(
        "content", [b"", b"hello world, this is no database at all", b"SQLite format 3\0" * 9]
    )
    def test_no_such_database(self, source: Path, store: holdfast.Store, content: bytes) -> None:
        source.write_bytes(content)

        assert code_of(source, store)[0] is ErrorCode.SOURCE_UNKNOWN
        assert list(source.parent.iterdir()) == [source]

    def test_a_locked_file(
        self, source: Path, store: holdfast.Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("holdfast.integrations.langgraph.import_saver.LOCK_SECONDS", 0.01)
        put_row(source, *checkpoint(id="1"))
        with closing(sqlite3.connect(source, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN EXCLUSIVE")
            assert code_of(source, store)[0] is ErrorCode.STORE_LOCKED

    def test_a_damaged_file(self, source: Path, store: holdfast.Store) -> None:
        put_row(source, *checkpoint(id="1", ts="x" * 20_000))
        content = bytearray(source.read_bytes())
        content[4096:8192] = b"\xff" * 4096
        source.write_bytes(content)

        assert code_of(source, store)[0] is ErrorCode.STORE_DAMAGED

    @pytest.mark.parametrize("threads", ["t", [1]])
    def test_threads_that_are_no_list_of_texts(
        self, source: Path, store: holdfast.Store, threads: Any
    ) -> None:
        assert code_of(source, store, threads=threads)[0] is ErrorCode.BAD_ARGUMENT


class TestBadValues:
    @pytest.mark.parametrize(
        ("kind", "data", "code", "said"),
        [
            ("pickle", b"cos\nsystem\n(S'true'\ntR.", ErrorCode.VALUE_UNSUPPORTED, "pickle"),
            ("msgpack+aes", b"\0" * 64, ErrorCode.VALUE_UNSUPPORTED, "encrypted"),
            ("msgpack", b"\xc1", ErrorCode.DECODE_FAILED, "cannot be read"),
            ("msgpack", ormsgpack.packb([1]), ErrorCode.DECODE_FAILED, "cannot be read"),
            (
                "msgpack",
                ormsgpack.packb({"x": ormsgpack.Ext(99, b"\x00")}),
                ErrorCode.DECODE_FAILED,
                "code 99",
            ),
            ("json", b"{", ErrorCode.DECODE_FAILED, "cannot be read"),
        ],
    )
    def test_the_message_says_where_it_is(
        self, source: Path, store: holdfast.Store, kind: str, data: bytes, code: ErrorCode, said: str
    ) -> None:
        put_row(source, *checkpoint(id="1"), thread="good")
        put_row(source, kind, data, thread="the thread", number="the id")

        for dry_run in (True, False):
            found, message = code_of(source, store, dry_run=dry_run)
            assert found is code
            assert said in message
            assert "thread 'the thread', checkpoint the id" in message
        assert import_langgraph(source, store, threads=["good"]).threads[0].status == "unchanged"

    def test_metadata_that_cannot_be_read(self, source: Path, store: holdfast.Store) -> None:
        put_row(source, *checkpoint(id="1"))
        with closing(sqlite3.connect(source)) as connection, connection:
            connection.execute("UPDATE checkpoints SET metadata = '[1]'")

        assert code_of(source, store)[0] is ErrorCode.DECODE_FAILED


class TestPostgres:
    def test_the_source_is_read_in_a_transaction_that_cannot_write(self, postgres_url: str) -> None:
        fill("postgres", postgres_url, ("spread",))

        with (
            pytest.raises(holdfast.BackendError, match="read-only"),
            open_source(postgres_url, SafeSerializer(lambda _cls: False)) as opened,
        ):
            opened.query("DELETE FROM checkpoints RETURNING 1")

    def test_one_moment_is_read_beside_a_running_writer(
        self, postgres_url: str, store: holdfast.Store
    ) -> None:
        with PostgresSaver.from_conn_string(postgres_url) as saver:
            saver.setup()

            def put(number: int) -> None:
                saver.put(config("t", checkpoint_ns=""), made(id=f"{number}"), {}, {})

            for number in range(3):
                put(number)
            late = iter(range(3, 9))

            report = import_langgraph(postgres_url, store, progress=lambda *_: put(next(late)))

        assert report.checkpoints == 3
        assert import_langgraph(postgres_url, store).checkpoints == 4

    def test_no_such_tables_or_others(self, postgres_url: str, store: holdfast.Store) -> None:
        assert code_of(postgres_url, store)[0] is ErrorCode.SOURCE_UNKNOWN
        with psycopg.connect(postgres_url) as connection:
            connection.execute(
                "CREATE TABLE checkpoints (thread_id text, checkpoint_ns text, checkpoint jsonb)"
            )
        assert code_of(postgres_url, store)[0] is ErrorCode.SOURCE_UNKNOWN

    def test_no_secret_of_a_url_is_in_an_error(
        self, postgres: Any, postgres_url: str, store: holdfast.Store
    ) -> None:
        with PostgresSaver.from_conn_string(postgres_url) as saver:
            saver.setup()
        role = postgres.create_role(password="xyzzy-secret-of-the-role")
        right = postgres.url(postgres_url.rpartition("/")[2], role)
        wrong = right.replace("xyzzy-secret-of-the-role", "xyzzy-wrong-secret")
        expected = {
            wrong: ErrorCode.SERVER_GONE,
            right: ErrorCode.PERMISSION_DENIED,
            right.replace("/fresh", "/nofresh"): ErrorCode.SERVER_GONE,
            right.replace("127.0.0.1", "host.invalid"): ErrorCode.SERVER_GONE,
            f"{right}?nonsense=1": ErrorCode.BAD_URL,
        }
        for url, code in expected.items():
            with pytest.raises(holdfast.HoldfastError) as raised:
                import_langgraph(url, store)
            error = raised.value
            assert error.code is code, url
            shown: BaseException | None = error
            while shown is not None:
                assert "xyzzy" not in f"{shown}{shown!r}{json.dumps(error.to_dict())}"
                shown = shown.__cause__ or shown.__context__
