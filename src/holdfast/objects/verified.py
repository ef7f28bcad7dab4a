"""Reading chunks without trusting the place they come from.

Every chunk is hashed again on its way in and compared with the name it was asked by. What does not match is damage, and
is reported as such; it never reaches a decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from holdfast.errors import IntegrityError
from holdfast.objects.at_hand import FoundChunks
from holdfast.objects.hashing import hash_chunk
from holdfast.storage.records import ChunkHash

Read = Callable[[Iterable[ChunkHash]], Mapping[ChunkHash, bytes]]
"""How chunks are fetched: `Reader.chunks` of a store."""


def read_chunks(hashes: Iterable[ChunkHash], read: Read) -> dict[ChunkHash, bytes]:
    """The plain bytes of all these chunks, each checked against its hash.

    Raises:
        IntegrityError: A chunk is not there (`chunk-missing`), or is not what its name says (`chunk-damaged`).
    """
    wanted = list(dict.fromkeys(hashes))
    found = read(wanted)
    return {name: checked(name, found) for name in wanted}


def read_chunk(name: ChunkHash, read: Read) -> bytes:
    """The plain bytes of one chunk, checked against its hash."""
    return checked(name, read([name]))


def fetch(names: Iterable[ChunkHash], read: Read) -> None:
    """Have chunks at hand for who reads each of them next: one question to the store instead of one for each.

    What is wrong with one of them shows when that is read for itself.
    """
    wanted = list(dict.fromkeys(names))
    found = read(wanted)
    for name in wanted:
        with suppress(IntegrityError):
            checked(name, found)


def checked(name: ChunkHash, found: Mapping[ChunkHash, bytes]) -> bytes:
    """The plain bytes of one of the chunks that were found, checked against its hash; see `read_chunks`."""
    if type(found) is not FoundChunks:
        return _as_named(name, found.get(name))
    known = found.known.get(name)
    if known is not None:
        # It was checked when it came in.
        return known
    data = _as_named(name, found.from_store(name))
    found.keep(name, data)
    return data


def _as_named(name: ChunkHash, data: bytes | None) -> bytes:
    if data is None:
        raise IntegrityError.chunk_missing(name)
    if hash_chunk(data) != name:
        raise IntegrityError.chunk_damaged(name, why="its bytes do not have this hash")
    return data
