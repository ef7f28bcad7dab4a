"""Damage is seen: in a page by its checksum, in a row by its seal, in a chunk by its hash. None is ever served."""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.backends.sqlite import SqliteBackend
from holdfast.errors import ErrorCode, IntegrityError
from holdfast.storage.records import ChunkHash, Query, seal
from holdfast.testing.rows import (
    Contents,
    batch,
    checkpoint_id,
    chunk,
    contents,
    edit,
    history,
    row,
    save,
    state_chunk,
)

from .conftest import Open


def fill(backend: SqliteBackend) -> None:
    """A bit of everything: sessions, branches, tags, keys, steps, operations, chunks from small to many pages."""
    before = None
    for number in range(25):
        name = f"n{number}"
        data = chunk(random.Random(number).randbytes(40 * 3 ** (number % 7)))
        saved = save(name, after=before, step=number, key=f"k{number}", tags=("t", name), metadata='{"a":1}')
        backend.commit(
            batch(
                *saved.checkpoints,
                chunks=(*saved.chunks, data),
                moves=saved.moves,
                agent="scout",
                project="acme",
            )
        )
        backend.commit(
            save(f"other{number}", after=f"other{number - 1}" if number else None, session="other")
        )
        before = name
    backend.commit(batch(edits=(edit(row("n3"), tags=("golden",), hidden=1),), operations=history(3)))


def everything(path: Path) -> tuple[Contents, dict[ChunkHash, bytes]]:
    """All that can be read from a store, state included, checked as `load` checks it."""
    backend = SqliteBackend.open(path, durability="process", create=False, timeout=1.0)
    try:
        shown = contents(backend)
        with backend.reader() as reader:
            roots = [each.root for each in reader.checkpoints(Query(include_hidden=True))]
            chunks = dict(reader.chunks(roots))
            for name in ("t", "golden"):
                assert reader.checkpoints(Query(tag=name, session="work", include_hidden=True))
            for number in range(25):
                assert reader.checkpoints(Query(session="work", key=f"k{number}", include_hidden=True))
        for digest, data in chunks.items():
            if chunk(data).hash != digest:
                raise IntegrityError.chunk_damaged(digest, why="its bytes do not have this hash")
        assert len(chunks) == len(set(roots))
        return shown, chunks
    finally:
        backend.close()


@pytest.fixture
def sound(path: Path, store: SqliteBackend) -> bytes:
    """The bytes of a filled store that is closed, and so all in one file."""
    fill(store)
    store.close()
    assert not path.with_name("store.db-wal").exists()
    return path.read_bytes()


def flip(path: Path, sound: bytes, bit: int) -> None:
    for suffix in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    spoiled = bytearray(sound)
    spoiled[bit // 8] ^= 1 << bit % 8
    path.write_bytes(spoiled)


def test_no_flipped_bit_is_served(path: Path, sound: bytes) -> None:
    expected = everything(path)
    seed = 20261115
    choose = random.Random(seed)
    caught = 0
    for _ in range(250):
        bit = choose.randrange(len(sound) * 8)
        flip(path, sound, bit)
        try:
            found = everything(path)
        except IntegrityError:
            caught += 1
        else:
            assert found == expected, f"bit {bit}, seed {seed}"
    assert caught > 100


def test_each_bit_of_the_header_of_the_file_is_guarded(path: Path, sound: bytes) -> None:
    expected = everything(path)
    for bit in range(100 * 8):
        flip(path, sound, bit)
        try:
            found = everything(path)
        except IntegrityError:
            pass
        else:
            assert found == expected, f"bit {bit}"


@pytest.mark.parametrize("pages", [1, 2, 10])
def test_a_cut_off_file_is_damage(path: Path, sound: bytes, pages: int) -> None:
    path.write_bytes(sound[: -pages * 4096])
    with pytest.raises(IntegrityError) as caught:
        everything(path)
    assert caught.value.code is ErrorCode.STORE_DAMAGED


def test_a_damaged_page_stops_a_commit_too(path: Path, sound: bytes, open_store: Open) -> None:
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'branches'").get
    connection.close()
    spoiled = bytearray(sound)
    spoiled[page * 4096 - 100] ^= 1
    path.write_bytes(spoiled)
    backend = open_store()
    with pytest.raises(IntegrityError) as caught:
        backend.commit(save("new", after="n24"))
    assert caught.value.code is ErrorCode.STORE_DAMAGED
    assert "checksum" in str(caught.value)


CHANGED: dict[str, object] = {"TEXT": "changed", "INTEGER": 987654321, "BLOB": b"changed", "ANY": 1.5}


def columns(table: str) -> list[tuple[str, str]]:
    schema = apsw.Connection(":memory:")
    text = (Path(sys.modules[SqliteBackend.__module__].__file__ or "").parent / "schema.sql").read_text()
    schema.execute(text).fetchall()
    return [(name, kind) for _, name, kind, *_ in schema.execute(f"PRAGMA table_info({table})")]


def spoil(path: Path, sql: str, *parameters: Any) -> None:
    """Change a row so that its page is sound, and only the row's own seal can tell."""
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    connection.execute(sql, parameters).fetchall()
    assert connection.changes() == 1
    connection.close()


@pytest.mark.parametrize(("column", "kind"), columns("checkpoints"))
def test_every_column_of_a_checkpoint_is_sealed(
    path: Path, store: SqliteBackend, column: str, kind: str
) -> None:
    store.commit(save("a", session="other"))
    store.commit(save("first"))
    store.commit(save("b", after="first", message="whole", key="k", step=5))
    value = 1 if column == "session" else CHANGED[kind]
    spoil(path, f"UPDATE checkpoints SET \"{column}\" = ? WHERE message = 'whole'", value)
    with pytest.raises(IntegrityError) as caught, store.reader() as reader:
        reader.checkpoints(Query(include_hidden=True))
    assert caught.value.code is ErrorCode.ROW_DAMAGED


@pytest.mark.parametrize(("column", "kind"), [each for each in columns("sessions") if each[0] != "adopted"])
def test_every_column_of_a_session_is_sealed(
    path: Path, store: SqliteBackend, column: str, kind: str
) -> None:
    store.commit(save("a", agent="scout", project="acme"))
    spoil(path, f"UPDATE sessions SET {column} = ?", CHANGED[kind])
    with pytest.raises(IntegrityError) as caught, store.reader() as reader:
        reader.sessions()
    assert caught.value.code is ErrorCode.ROW_DAMAGED
    if column != "id":
        # The row that a commit starts from is checked like any other.
        with pytest.raises(IntegrityError):
            store.commit(save("b", after="a"))


@pytest.mark.parametrize(("column", "kind"), columns("branches"))
def test_every_column_of_a_branch_is_sealed(path: Path, store: SqliteBackend, column: str, kind: str) -> None:
    store.commit(batch(row("x", session="other"), session="other"))
    store.commit(save("a"))
    value = 1 if column == "session" else CHANGED[kind]
    spoil(path, f"UPDATE branches SET {column} = ?", value)
    with pytest.raises(IntegrityError) as caught, store.reader() as reader:
        reader.branches("other" if column == "session" else "work")
    assert caught.value.code is ErrorCode.ROW_DAMAGED


@pytest.mark.parametrize(("column", "kind"), columns("operations"))
def test_every_column_of_an_operation_is_sealed(
    path: Path, store: SqliteBackend, column: str, kind: str
) -> None:
    store.commit(batch(row("x", session="other"), session="other"))
    store.commit(batch(operations=history(1)))
    value = 1 if column == "session" else CHANGED[kind]
    spoil(path, f"UPDATE operations SET {column} = ?", value)
    with pytest.raises(IntegrityError) as caught, store.reader() as reader:
        reader.operations("other" if column == "session" else "work")
    assert caught.value.code is ErrorCode.ROW_DAMAGED


def test_a_damaged_head_is_damage_and_not_a_conflict(path: Path, store: SqliteBackend) -> None:
    store.commit(save("a"))
    spoil(path, "UPDATE branches SET head = zeroblob(32)")
    with pytest.raises(IntegrityError) as caught:
        store.commit(save("b", after="a"))
    assert caught.value.code is ErrorCode.ROW_DAMAGED


def test_text_that_is_not_utf8_is_damage(path: Path, store: SqliteBackend) -> None:
    store.commit(save("a"))
    spoil(path, "UPDATE checkpoints SET message = CAST(x'ff41' AS TEXT)")
    with pytest.raises(IntegrityError) as caught, store.reader() as reader:
        reader.checkpoint(checkpoint_id("a"))
    assert caught.value.code is ErrorCode.STORE_DAMAGED


@pytest.mark.parametrize(
    "change",
    [
        "data = x'00'",
        "data = CAST(data || x'00' AS BLOB)",
        "codec = 7",
        "codec = 0",
        "size_bytes = size_bytes + 1",
    ],
)
def test_a_chunk_that_cannot_be_expanded_is_named(path: Path, store: SqliteBackend, change: str) -> None:
    store.commit(save("a"))
    spoil(path, f"UPDATE chunks SET {change}")
    damaged = state_chunk("a").hash
    with pytest.raises(IntegrityError) as caught, store.reader() as reader:
        reader.chunks([damaged])[damaged]
    assert caught.value.code is ErrorCode.CHUNK_DAMAGED
    assert caught.value.details["chunk"] == damaged.hex()


def test_a_counter_that_went_back_is_damage_and_nothing_is_written_over(
    path: Path, store: SqliteBackend
) -> None:
    store.commit(save("a"))
    store.commit(save("b", after="a"))
    with store.reader() as reader:
        session = reader.session("work")
    assert session is not None
    checksum = seal(1, "work", None, None, session.created_at, 1, 0, b"", session.current)
    spoil(path, "UPDATE sessions SET last_seq = 1, seal = ?", checksum)
    with pytest.raises(IntegrityError) as caught:
        store.commit(save("c", after="b"))
    assert caught.value.code is ErrorCode.STORE_DAMAGED
    with store.reader() as reader:
        assert [each.seq for each in reader.checkpoints(Query())] == [2, 1]


def verified_pages(path: Path) -> int:
    """How many pages carry a right checksum, by a reading of the file that trusts nobody."""
    data, good = path.read_bytes(), 0
    for at in range(0, len(data), 4096):
        page = data[at : at + 4096]
        s1 = s2 = 0
        words = struct.unpack("<1022I", page[:-8])
        for first, second in zip(words[::2], words[1::2], strict=True):
            s1 = (s1 + first + s2) & 0xFFFFFFFF
            s2 = (s2 + second + s1) & 0xFFFFFFFF
        good += struct.pack("<II", s1, s2) == page[-8:]
    return good
