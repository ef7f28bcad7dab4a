"""How chunks lie in the file: whole, as differences, as versions of a stream; and what if a base is not what it was."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast import BackendError, ErrorCode, IntegrityError
from holdfast.backends.chunk_rows import MAX_DEPTH, pack
from holdfast.backends.recent import RecentChunks
from holdfast.backends.sqlite import SqliteBackend
from holdfast.backends.sqlite.chunks import write_chunks
from holdfast.objects.compression import RAW, ZSTD
from holdfast.objects.deltas import DELTA
from holdfast.objects.squeezed import SqueezedChunk
from holdfast.objects.streams import STREAM
from holdfast.objects.verified import read_chunk
from holdfast.storage.records import Chunk, ChunkHash, NewChunk
from holdfast.testing.rows import batch, chunk, row

Open = Callable[..., SqliteBackend]


def words(source: random.Random, count: int) -> bytes:
    return b" ".join(source.randbytes(4).hex().encode() for _ in range(count))


def versions(count: int, *, seed: int = 1, size: int = 300) -> list[Chunk]:
    """Versions of one part, each naming the one before."""
    source = random.Random(seed)
    made = [chunk(words(source, size))]
    for _ in range(count - 1):
        made.append(chunk(made[-1].data + words(source, 5))._replace(base=made[-1].hash))
    return made


def save_root(backend: SqliteBackend, root: NewChunk, *more: NewChunk) -> None:
    """A checkpoint of a session of its own, with this root."""
    label = root.hash.hex()[:12]
    made = row(label, session=label, root=root.hash)
    backend.commit(batch(made, session=label, chunks=(*more, root)))


def stored(path: Path) -> list[tuple[Any, ...]]:
    """(codec, base, depth) of all chunks, in order of arrival."""
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    found = connection.execute("SELECT codec, base, depth FROM chunks ORDER BY number").fetchall()
    connection.close()
    return found


def read(backend: SqliteBackend, *chunks: Chunk) -> list[bytes]:
    with backend.reader() as reader:
        found = reader.chunks([each.hash for each in chunks])
    return [found[each.hash] for each in chunks]


def test_roots_of_one_writer_are_a_stream_and_all_come_back(
    path: Path, store: SqliteBackend, open_store: Open
):
    roots = versions(80)
    for each in roots:
        save_root(store, each)
    rows = stored(path)
    assert {codec for codec, _, _ in rows} == {STREAM}
    assert max(depth for _, _, depth in rows) == MAX_DEPTH
    assert [depth for _, _, depth in rows if depth == 0] == [0, 0, 0]
    assert read(open_store(), *roots) == [each.data for each in roots]


def test_a_new_writer_goes_on_with_differences(path: Path, store: SqliteBackend, open_store: Open):
    roots = versions(6)
    for each in roots[:3]:
        save_root(store, each)
    other = open_store()
    for each in roots[3:]:
        save_root(other, each)
    assert [codec for codec, _, _ in stored(path)] == [STREAM] * 3 + [DELTA] * 3
    assert [depth for _, _, depth in stored(path)] == [0, 1, 2, 3, 4, 5]
    assert read(open_store(), *roots) == [each.data for each in roots]


def test_differences_end_in_a_whole_chunk_that_begins_a_stream(
    path: Path, store: SqliteBackend, open_store: Open
):
    roots = versions(MAX_DEPTH + 4)
    save_root(store, roots[0])
    other = open_store()
    for each in roots[1:]:
        save_root(other, each)
    rows = stored(path)
    assert [depth for _, _, depth in rows] == [*range(MAX_DEPTH + 1), 0, 1, 2]
    assert [codec for codec, _, _ in rows] == [STREAM] + [DELTA] * MAX_DEPTH + [STREAM] * 3
    assert read(open_store(), *roots) == [each.data for each in roots]


def test_a_new_writer_does_not_build_on_what_stands_on_enough_others(
    path: Path, store: SqliteBackend, open_store: Open
):
    roots = versions(MAX_DEPTH + 2)
    for each in roots[:-1]:
        save_root(store, each)
    save_root(open_store(), roots[-1])
    assert [depth for _, _, depth in stored(path)] == [*range(MAX_DEPTH + 1), 0]
    assert read(open_store(), *roots) == [each.data for each in roots]


def test_a_codec_that_is_not_known_is_named(path: Path, store: SqliteBackend):
    roots = versions(3)
    for each in roots:
        save_root(store, each)
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    connection.execute("UPDATE chunks SET codec = 9 WHERE number = 3")
    connection.close()
    with pytest.raises(IntegrityError, match="codec 9"):
        read(store, roots[2])


def test_a_damaged_chunk_among_others_is_damage_and_no_failure_of_the_disk(path: Path, store: SqliteBackend):
    roots = versions(5)
    for each in roots:
        save_root(store, each)
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    connection.execute("UPDATE chunks SET codec = 9 WHERE number = 2")
    connection.close()
    with pytest.raises(IntegrityError, match="codec 9"):
        read(store, *roots)
    # The view that it ended in is let go: nothing keeps the log of the file from being taken over.
    assert read(store, roots[0]) == [roots[0].data]


def test_chunks_that_are_no_roots_are_differences_or_whole(
    path: Path, store: SqliteBackend, open_store: Open
):
    parts = versions(4)
    other = chunk(random.Random(2).randbytes(900))
    for each in parts:
        save_root(store, chunk(b"root " + each.hash), each)
    save_root(store, chunk(b"last"), other)
    codecs = [codec for codec, _, _ in stored(path)]
    assert codecs == [ZSTD, RAW, DELTA, RAW, DELTA, RAW, DELTA, RAW, RAW, RAW]
    assert read(open_store(), *parts, other) == [each.data for each in (*parts, other)]


def test_a_root_that_was_cut_down_begins_a_new_stream_when_the_old_one_is_long(
    path: Path, store: SqliteBackend
):
    short, long = versions(10), versions(20, seed=2)
    for roots, depth in ((short, 10), (long, 0)):
        cut = chunk(roots[-1].data[: len(roots[-1].data) // 3] + b" and more")
        roots.append(cut._replace(base=roots[-1].hash))
        for each in roots:
            save_root(store, each)
        assert stored(path)[-1][2] == depth
        assert read(store, *roots) == [each.data for each in roots]


def test_two_that_follow_from_one_version_both_come_back(path: Path, store: SqliteBackend, open_store: Open):
    roots = versions(5)
    for each in roots:
        save_root(store, each)
    beside = [chunk(roots[at].data + b" beside %d" % at)._replace(base=roots[at].hash) for at in (4, 4, 2)]
    for number, each in enumerate(beside):
        save_root(store, chunk(each.data + b"%d" % number)._replace(base=each.base))
    assert [codec for codec, _, _ in stored(path)] == [STREAM] * 6 + [DELTA] * 2
    made = [chunk(each.data + b"%d" % number) for number, each in enumerate(beside)]
    assert read(open_store(), *roots, *made) == [each.data for each in (*roots, *made)]


def test_a_save_that_failed_does_not_spoil_the_next_one(path: Path, store: SqliteBackend, open_store: Open):
    roots = versions(6)
    for each in roots[:3]:
        save_root(store, each)
    blocker = apsw.Connection(str(path), vfs="cksmvfs")
    blocker.execute("BEGIN IMMEDIATE")
    store._timeout = 0
    with pytest.raises(BackendError):
        save_root(store, roots[3])
    blocker.execute("ROLLBACK")
    blocker.close()
    store._timeout = 10
    for each in roots[3:]:
        save_root(store, each)
    assert read(open_store(), *roots) == [each.data for each in roots]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE chunks SET codec = 0, base = NULL, depth = 0, data = ?1 WHERE number = 3",
        "UPDATE chunks SET depth = 7 WHERE number = 3",
        "UPDATE chunks SET number = 77 WHERE number = 3",
        "DELETE FROM chunks WHERE number = 3",
    ],
)
def test_blocks_are_not_put_on_a_row_that_the_stream_did_not_write(
    path: Path, store: SqliteBackend, open_store: Open, change: str
):
    roots = versions(4)
    for each in roots[:3]:
        save_root(store, each)
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    connection.execute(change, (roots[2].data,) if "?1" in change else ())
    connection.close()
    save_root(store, roots[3])
    assert stored(path)[-1][1:] == (None, 0)
    assert read(open_store(), roots[3]) == [roots[3].data]


def test_a_store_that_came_back_from_a_copy_is_not_taken_for_the_one_before(
    path: Path, open_store: Open, tmp_path: Path
):
    roots, others = versions(6), versions(6, seed=9)
    first = open_store()
    save_root(first, others[0])
    first.close()
    shutil.copy(path, tmp_path / "copy.db")
    backend = open_store()
    for each in roots[:3]:
        save_root(backend, each)
    # Another store with the same roots comes under the name, written in another way.
    second = open_store(tmp_path / "copy.db")
    save_root(second, roots[1])
    save_root(second, roots[2]._replace(base=None))
    second.close()
    (tmp_path / "copy.db").replace(path)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    save_root(backend, roots[3])
    assert read(backend, roots[3]) == [roots[3].data]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE chunks SET base = number WHERE number = 4",
        "UPDATE chunks SET base = 5 WHERE number = 3",
        "UPDATE chunks SET base = 99 WHERE number = 4",
        "UPDATE chunks SET base = NULL WHERE number = 3",
        "UPDATE chunks SET depth = 40 WHERE number = 5",
        "UPDATE chunks SET depth = 9 WHERE number = 2",
        "UPDATE chunks SET codec = 2 WHERE number = 3",
        "UPDATE chunks SET codec = 1 WHERE number = 3",
        "UPDATE chunks SET codec = 0 WHERE number = 1",
        "UPDATE chunks SET codec = 9 WHERE number = 5",
        "UPDATE chunks SET size_bytes = size_bytes + 1 WHERE number = 2",
        "UPDATE chunks SET size_bytes = 1 << 40 WHERE number = 2",
        "UPDATE chunks SET data = zeroblob(10) WHERE number = 3",
        "DELETE FROM chunks WHERE number = 2",
        "DELETE FROM chunks WHERE number = 1",
    ],
)
def test_a_stream_that_is_not_as_it_was_written_is_damage(path: Path, store: SqliteBackend, change: str):
    roots = versions(5)
    for each in roots:
        save_root(store, each)
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    connection.execute(change)
    connection.close()
    with pytest.raises(IntegrityError) as caught, store.reader() as reader:
        read_chunk(roots[4].hash, reader.chunks)
    assert caught.value.code is ErrorCode.CHUNK_DAMAGED
    assert roots[4].hash.hex() in str(caught.value)


def test_streams_that_are_not_used_are_dropped(store: SqliteBackend):
    parts = [versions(2, seed=seed) for seed in range(20)]
    for first, _ in parts:
        save_root(store, first)
    for _, second in parts:
        save_root(store, second)
    assert read(store, *(second for _, second in parts)) == [second.data for _, second in parts]
    assert len(store._recent._streams) <= 8


def test_what_is_remembered_is_bounded():
    recent = RecentChunks(limit_bytes=1000)
    names = [ChunkHash(bytes([number]) * 32) for number in range(20)]
    for name in names:
        recent.put(name, b"x" * 100)
    assert [name for name in names if recent.get(name)] == names[-10:]
    recent.put(ChunkHash(b"large" * 7), b"x" * 300)
    assert recent.get(ChunkHash(b"large" * 7)) is None


@pytest.mark.parametrize("kept", [range(5, 10), range(0, 10, 3), (9,), (0, 9), (4, 5)])
def test_what_a_collection_keeps_of_a_stream_comes_back_and_can_be_built_on(
    path: Path, store: SqliteBackend, open_store: Open, kept: Sequence[int]
):
    roots = versions(13)
    for each in roots[:10]:
        save_root(store, each)
    with store.collection() as collection:
        collection.mark(roots[at].hash for at in kept)
        while not collection.sweep(3).done:
            pass
    assert len(stored(path)) == len(kept)
    # The stream of this writer ended in a row that is another now: the next one must not be put on it as it is.
    for each in roots[10:]:
        save_root(store, each)
    wanted = [*(roots[at] for at in kept), *roots[10:]]
    assert read(open_store(), *wanted) == [each.data for each in wanted]


def squeezed(made: Chunk) -> SqueezedChunk:
    return SqueezedChunk(made.hash, made.data, made.base)


def test_squeezed_chunks_are_stored_like_plain_ones(
    path: Path, store: SqliteBackend, open_store: Open, tmp_path: Path
):
    roots, parts = versions(4), versions(12, seed=2)
    other = open_store(tmp_path / "other.db")
    for backend, made in ((store, lambda each: each), (other, squeezed)):
        for at, root in enumerate(roots):
            save_root(backend, made(root), *map(made, parts[: 3 * (at + 1)]))
        assert read(backend, *roots, *parts) == [each.data for each in (*roots, *parts)]
    assert stored(tmp_path / "other.db") == stored(path)


def test_a_squeezed_chunk_that_was_removed_while_it_waited_is_written(store: SqliteBackend, open_store: Open):
    """It was there when the batch was packed, so nothing was packed for it."""
    parts = versions(12, seed=3)
    packed = pack([squeezed(each) for each in parts], (), RecentChunks(), {each.hash for each in parts})
    assert {each.data for each in packed} == {None}
    connection = apsw.Connection(str(store._path), vfs="cksmvfs")
    with connection:
        write_chunks(connection, packed, 0)
    connection.close()
    assert read(open_store(), *parts) == [each.data for each in parts]
