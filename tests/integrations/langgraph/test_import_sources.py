"""What can be imported from, what is said of the rest, and that a source is left as it was."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Send
from tests.integrations.langgraph.import_sources import config, fill, made, put_row

import holdfast
from holdfast.errors import ErrorCode
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.langgraph.importing import import_langgraph
from holdfast.integrations.langgraph.importing.decoding import Decoder
from holdfast.integrations.langgraph.importing.postgres_source import PostgresSource
from holdfast.integrations.langgraph.importing.source import Listed, parents_first
from holdfast.objects.registry import TypeRegistry

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

    def test_a_file_from_before_task_paths_is_read(self, source: Path, store: holdfast.Store) -> None:
        kind, data = checkpoint(id="1")
        put_row(source, kind, data)
        with closing(sqlite3.connect(source)) as connection, connection:
            connection.execute("ALTER TABLE writes DROP COLUMN task_path")
            connection.execute(
                "INSERT INTO writes (thread_id, checkpoint_id, task_id, idx, channel, type, value) "
                "VALUES ('t', '1', 'task', 0, 'c', 'msgpack', ?)",
                (ormsgpack.packb("v"),),
            )

        assert import_langgraph(source, store).writes == 1
        found = HoldfastSaver(store).get_tuple(config("t"))
        assert found is not None
        assert found.pending_writes == [("task", "c", "v")]

    def test_writes_without_their_checkpoint_come_along(self, source: Path, store: holdfast.Store) -> None:
        with SqliteSaver.from_conn_string(str(source)) as saver:
            saver.put_writes(
                config("t", checkpoint_ns="", checkpoint_id="9"), [("c", 1), ("d", 2)], "task", "a:b"
            )

        report = import_langgraph(source, store)

        assert [(each.id, each.checkpoints, each.writes) for each in report.threads] == [("t", 0, 2)]
        saver_here = HoldfastSaver(store)
        saver_here.put(config("t", checkpoint_ns=""), made(id="9"), {}, {})
        found = saver_here.get_tuple(config("t"))
        assert found is not None
        assert found.pending_writes == [("task", "c", 1), ("task", "d", 2)]

    def test_a_parent_that_is_gone_and_ids_in_another_order_are_kept(
        self, source: Path, store: holdfast.Store
    ) -> None:
        with SqliteSaver.from_conn_string(str(source)) as saver:
            # a and b follow z, which comes after them by its id; d follows one that was removed; e and f each other.
            for name, parent in (("z", None), ("a", "z"), ("b", "z"), ("d", "gone"), ("e", "f"), ("f", "e")):
                saver.put(
                    config("t", checkpoint_ns="", checkpoint_id=parent),
                    made(id=name),
                    {},
                    {},
                )
            wanted = list(saver.list(config("t")))

        import_langgraph(source, store)

        found = list(HoldfastSaver(store).list(config("t", checkpoint_ns="")))
        assert found == wanted
        rows = {row.id: row for row in store.find(session="t")}
        parents = {(row.key or "")[2:]: rows[row.parent].key if row.parent else None for row in rows.values()}
        assert parents["a"] == parents["b"] == "/ z"
        assert parents["d"] is None

    def test_names_of_every_kind_come_along(self, source: Path, store: holdfast.Store) -> None:
        names = ["", "a b%c", "deep:1|" * 200, "π/\t#1"]
        with SqliteSaver.from_conn_string(str(source)) as saver:
            for name in names:
                where = saver.put(config("a thread, 100 %", checkpoint_ns=name), made(id="an id"), {}, {})
                saver.put_writes(where, [("c d", name)], "a task", "~path %")
            wanted = {name: saver.get_tuple(config("a thread, 100 %", checkpoint_ns=name)) for name in names}

        assert import_langgraph(source, store).checkpoints == 4

        ours = HoldfastSaver(store)
        assert {
            name: ours.get_tuple(config("a thread, 100 %", checkpoint_ns=name)) for name in names
        } == wanted
        assert import_langgraph(source, store).threads[0].status == "unchanged"

    def test_a_thread_whose_id_no_session_can_have_is_an_error(
        self, source: Path, store: holdfast.Store
    ) -> None:
        put_row(source, *checkpoint(id="1"), thread="two\nlines")

        code, said = code_of(source, store)

        assert code is ErrorCode.BAD_NAME
        assert r"'two\nlines'" in said

    def test_metadata_that_is_no_plain_json_comes_along(self, source: Path, store: holdfast.Store) -> None:
        kind, data = checkpoint(id="1")
        put_row(source, kind, data)
        with closing(sqlite3.connect(source)) as connection, connection:
            connection.execute(
                "UPDATE checkpoints SET metadata = ?", (b'{"step": 2, "score": NaN, "zero": "a\\u0000b"}',)
            )

        import_langgraph(source, store)

        found = HoldfastSaver(store).get_tuple(config("t"))
        assert found is not None
        come: Any = found.metadata
        assert (come["step"], come["zero"]) == (2, "a\0b")
        assert math.isnan(come["score"])

    @pytest.mark.parametrize("log", [False, True])
    def test_a_place_where_sqlite_cannot_make_its_files_is_no_obstacle(
        self, source: Path, store: holdfast.Store, monkeypatch: pytest.MonkeyPatch, log: bool
    ) -> None:
        monkeypatch.setattr("holdfast.integrations.langgraph.importing.sqlite_source._PATIENCE", 0.01)
        put_row(source, *checkpoint(id="1"))
        # As in a folder that this user may not write to, but that would not keep root out.
        Path(f"{source}-shm").mkdir()
        if not log:
            assert import_langgraph(source, store).checkpoints == 1
            return
        # Where there is a log, what is read without it may be old.
        Path(f"{source}-wal").write_bytes(b"x" * 4096)
        assert code_of(source, store)[0] in (ErrorCode.PERMISSION_DENIED, ErrorCode.IO_FAILED)


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

    def test_a_folder_and_a_store(self, tmp_path: Path, store: holdfast.Store) -> None:
        assert code_of(tmp_path, store)[0] is ErrorCode.SOURCE_UNKNOWN
        store.session().save(1)
        assert "the store itself" in code_of(tmp_path / "store.db", store)[1]
        with holdfast.open(tmp_path / "other.db") as other:
            other.session().save(1)
        assert "other columns" in code_of(tmp_path / "other.db", store)[1]

    def test_nothing_in_it(self, source: Path, store: holdfast.Store) -> None:
        with SqliteSaver.from_conn_string(str(source)) as saver:
            saver.setup()

        assert code_of(source, store)[0] is ErrorCode.SOURCE_EMPTY

    def test_a_locked_file(
        self, source: Path, store: holdfast.Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("holdfast.integrations.langgraph.importing.sqlite_source._PATIENCE", 0.01)
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

    @pytest.mark.parametrize(
        "url", ["mysql://u:hush@h/d", "postgres:/u:hush@h/d", "postgresql+psycopg://u:hush@h/d", ""]
    )
    def test_another_kind_of_url(self, store: holdfast.Store, url: str) -> None:
        code, said = code_of(url, store)

        assert code is ErrorCode.BAD_URL
        assert "hush" not in said

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
            ("msgpack", ormsgpack.packb([1]), ErrorCode.DECODE_FAILED, "no checkpoint"),
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

    @pytest.mark.parametrize("kind", ["pickle", "msgpack+aes"])
    def test_the_channel_of_a_write_is_named(self, source: Path, store: holdfast.Store, kind: str) -> None:
        put_row(source, *checkpoint(id="1"))
        with closing(sqlite3.connect(source)) as connection, connection:
            row = ("t", "sub|graph", "1", "task", "", 0, "channel", kind, b"xyz")
            connection.execute("INSERT INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

        assert "namespace 'sub|graph', checkpoint 1, channel 'channel'" in code_of(source, store)[1]
        # Nothing of the thread is there, not even what comes before.
        assert store.sessions() == []

    @pytest.mark.parametrize("dry_run", [True, False])
    def test_a_value_that_the_store_does_not_keep_is_located(
        self, source: Path, store: holdfast.Store, dry_run: bool
    ) -> None:
        put_row(source, *checkpoint(id="1", parent="a name that the saver keeps for itself"))

        _, said = code_of(source, store, dry_run=dry_run)

        assert said.startswith("thread 't', checkpoint 1: ")
        assert "'parent'" in said

    def test_metadata_that_cannot_be_read(self, source: Path, store: holdfast.Store) -> None:
        put_row(source, *checkpoint(id="1"))
        with closing(sqlite3.connect(source)) as connection, connection:
            connection.execute("UPDATE checkpoints SET metadata = '[1]'")

        assert "metadata is no object" in code_of(source, store)[1]


class TestPostgres:
    def test_the_source_is_read_in_a_transaction_that_cannot_write(self, postgres_url: str) -> None:
        fill("postgres", postgres_url, ("spread",))

        with (
            closing(PostgresSource.open(postgres_url, Decoder(TypeRegistry()))) as opened,
            pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
        ):
            opened._connection.execute("DELETE FROM checkpoints")

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

    def test_sends_of_old_checkpoints_are_where_the_saver_puts_them(
        self, postgres_url: str, store: holdfast.Store
    ) -> None:
        with PostgresSaver.from_conn_string(postgres_url) as saver:
            saver.setup()
            first = made(id="1", v=2)
            where = saver.put(config("t", checkpoint_ns=""), first, {}, {})
            saver.put_writes(where, [("__pregel_tasks", Send("a", 1)), ("c", 0)], "t1", "b")
            saver.put_writes(where, [("__pregel_tasks", Send("b", [2]))], "t0", "a")
            second = made(id="2", v=3, channel_versions={"c": "7", "d": "8"})
            saver.put(where, second, {}, {})
            wanted = list(saver.list(config("t")))
            assert [each.node for each in wanted[0].checkpoint["channel_values"]["__pregel_tasks"]] == [
                "b",
                "a",
            ]

        import_langgraph(postgres_url, store)

        assert list(HoldfastSaver(store).list(config("t", checkpoint_ns=""))) == wanted

    def test_values_that_stay_the_same_are_fetched_once(
        self, postgres_url: str, store: holdfast.Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with PostgresSaver.from_conn_string(postgres_url) as saver:
            saver.setup()
            where: Any = config("t", checkpoint_ns="")
            for number in range(5):
                values = {"still": ["same"], "moving": [number]}
                versions = {"still": 1, "moving": number + 1}
                put = made(id=f"{number}", channel_values=values, channel_versions=versions)
                new: Any = {"moving": number + 1} if number else versions
                where = saver.put(where, put, {}, new)
            wanted = list(saver.list(config("t")))
        read: list[Any] = []
        value = Decoder.value

        def noting(self: Decoder, *data: Any) -> Any:
            read.append(value(self, *data))
            return read[-1]

        monkeypatch.setattr(Decoder, "value", noting)

        import_langgraph(postgres_url, store)

        assert sorted(read, key=str) == [["same"], [0], [1], [2], [3], [4]]
        assert list(HoldfastSaver(store).list(config("t", checkpoint_ns=""))) == wanted

    def test_tables_in_another_schema_are_found_by_its_name(
        self, postgres_url: str, store: holdfast.Store
    ) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA graphs")
        fill("postgres", f"{postgres_url}?options=-csearch_path%3Dgraphs", ("spread",))

        assert code_of(postgres_url, store)[0] is ErrorCode.SOURCE_UNKNOWN
        assert import_langgraph(f"{postgres_url}?schema=graphs", store).checkpoints == 4
        assert import_langgraph(f"{postgres_url}?options=-csearch_path%3Dgraphs", store).checkpoints == 0

    def test_a_database_without_the_newest_column_is_read(
        self, postgres_url: str, store: holdfast.Store
    ) -> None:
        wanted = fill("postgres", postgres_url, ("asked",))
        with psycopg.connect(postgres_url) as connection:
            connection.execute("ALTER TABLE checkpoint_writes DROP COLUMN task_path")

        assert import_langgraph(postgres_url, store).writes == sum(
            len(each.pending_writes or ()) for each in wanted["asked"]
        )

    def test_no_such_tables_or_others(self, postgres_url: str, store: holdfast.Store) -> None:
        assert code_of(postgres_url, store)[0] is ErrorCode.SOURCE_UNKNOWN
        with psycopg.connect(postgres_url) as connection:
            connection.execute(
                "CREATE TABLE checkpoints (thread_id text, checkpoint_ns text, checkpoint jsonb)"
            )
        assert "ShallowPostgresSaver" in code_of(postgres_url, store)[1]

    def test_an_empty_database(self, postgres_url: str, store: holdfast.Store) -> None:
        with PostgresSaver.from_conn_string(postgres_url) as saver:
            saver.setup()

        assert code_of(postgres_url, store)[0] is ErrorCode.SOURCE_EMPTY

    def test_no_secret_of_a_url_is_in_an_error(
        self, postgres: Any, postgres_url: str, store: holdfast.Store
    ) -> None:
        with PostgresSaver.from_conn_string(postgres_url) as saver:
            saver.setup()
        role = postgres.create_role(password="xyzzy-secret-of-the-role")
        right = postgres.url(postgres_url.rpartition("/")[2], role)
        wrong = right.replace("xyzzy-secret-of-the-role", "xyzzy-wrong-secret")
        expected = {
            wrong: ErrorCode.LOGIN_REFUSED,
            right: ErrorCode.PERMISSION_DENIED,
            right.replace("/fresh", "/nofresh"): ErrorCode.DATABASE_MISSING,
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

    @pytest.mark.parametrize(
        ("kind", "said"), [("pickle", "pickle"), ("msgpack+aes", "encrypted"), ("odd", "'odd'")]
    )
    def test_the_channel_of_a_value_is_named(
        self, postgres_url: str, store: holdfast.Store, kind: str, said: str
    ) -> None:
        fill("postgres", postgres_url, ("chat",))
        with psycopg.connect(postgres_url) as connection:
            connection.execute("UPDATE checkpoint_blobs SET type = %s WHERE channel = 'messages'", (kind,))

        code, message = code_of(postgres_url, store)

        assert code is ErrorCode.VALUE_UNSUPPORTED
        assert said in message
        assert "thread 'chat', checkpoint " in message
        assert "channel 'messages'" in message
        assert store.sessions() == []


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 9)), unique_by=lambda pair: pair[0]))
def test_every_checkpoint_comes_once_and_after_its_parent(pairs: list[tuple[int, int | None]]) -> None:
    entries = [Listed(str(one), "", None if parent is None else str(parent)) for one, parent in sorted(pairs)]

    found = list(parents_first(entries))

    assert sorted(found) == entries
    parents = {each.id: each.parent for each in entries}
    places = {each.id: place for place, each in enumerate(found)}
    for each in entries:
        if each.parent in places and not goes_round(each.id, parents):
            assert places[each.parent] < places[each.id]


def goes_round(name: str | None, parents: dict[str, str | None]) -> bool:
    seen: set[str | None] = set()
    while name in parents:
        if name in seen:
            return True
        seen.add(name)
        name = parents[name]
    return False
