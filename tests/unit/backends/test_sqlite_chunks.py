"""How chunks lie in the file: whole, as differences, as versions of a stream; and what if a base is not what it was."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast import ErrorCode, IntegrityError
from holdfast.backends.sqlite import SqliteBackend
from holdfast.objects.tree.read import read_chunk
from holdfast.storage.records import Chunk, NewChunk
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
