"""Chunks that a backend stores as differences to others: when those go, what stood on them still reads right.

Most saves change a state a little, so that its chunks come with a base. A backend may make chains of them as long as it
likes. Whatever of a chain is removed, at its bottom, in its middle or at its top, the rest has to stay as it was, and
nothing may stay only because something else was stored as a difference to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from random import Random

import pytest

from holdfast.storage.ports import Backend, Collection
from holdfast.storage.records import CheckpointRow, Chunk, ChunkHash, Query
from holdfast.testing.conformance.collecting import collect, mark_roots, sweep_all, there
from holdfast.testing.conformance.contract import Contract, commit_all
from holdfast.testing.rows import batch, chunk, contents, removal, row, state_chunk

LENGTH = 40
"""More than a backend that knows its limits puts on each other."""

GOING: dict[str, set[int]] = {
    "the bottom": {0},
    "the lower half": set(range(20)),
    "one in the middle": {17},
    "some in the middle": {3, 4, 5, 17, 18, 29},
    "every second": set(range(0, LENGTH, 2)),
    "every second but the bottom": set(range(1, LENGTH, 2)),
    "all but the bottom": set(range(1, LENGTH)),
    "all but the top": set(range(LENGTH - 1)),
    "the top": {LENGTH - 1},
    "everything": set(range(LENGTH)),
}


def versions(count: int = LENGTH, *, start: int = 0, base: Chunk | None = None) -> list[Chunk]:
    """A text that grows and changes a little from one to the next; each names the one before as its base."""
    random = Random(start)  # noqa: S311 - the same in each run
    lines = base.data.split(b"\n") if base else [b"%030x" % random.getrandbits(120) for _ in range(40)]
    made: list[Chunk] = []
    for number in range(start, start + count):
        lines[random.randrange(len(lines))] = b"changed in %d: %x" % (number, random.getrandbits(60))
        lines.append(b"added in %d: %x" % (number, random.getrandbits(60)))
        last = made[-1] if made else base
        made.append(chunk(b"\n".join(lines))._replace(base=last.hash if last else None))
    return made


def saved(backend: Backend, pieces: Iterable[Chunk]) -> list[CheckpointRow]:
    """Commit one after the other, each as the root of a checkpoint."""
    return commit_all(
        backend, *(batch(row(each.hash.hex(), root=each.hash), chunks=(each,)) for each in pieces)
    )


def saved_as_parts(backend: Backend, pieces: Iterable[Chunk]) -> list[CheckpointRow]:
    """Commit one after the other, each beside a root of its own, which a backend may keep in another way."""
    rows: list[CheckpointRow] = []
    for each in pieces:
        made = row(each.hash.hex(), message=each.hash.hex())
        rows += commit_all(backend, batch(made, chunks=(state_chunk(made.id), each)))
    return rows


def mark_parts(backend: Backend, collection: Collection) -> None:
    """Mark what `saved_as_parts` saved."""
    with backend.reader() as reader:
        for each in reader.checkpoints(Query(include_hidden=True, oldest_first=True)):
            collection.mark([each.root, ChunkHash(bytes.fromhex(each.message))])


class ChainContract(Contract):
    """What a chunk stands on is the backend's affair: nobody sees it."""

    @pytest.mark.parametrize("going", GOING)
    def test_what_stood_on_a_removed_chunk_reads_as_before(self, backend: Backend, going: str) -> None:
        """And no chunk stays that nobody needs."""
        pieces = versions()
        rows = saved(backend, pieces)
        backend.commit(removal(*(rows[n] for n in GOING[going])))
        removed = collect(backend)
        assert removed.chunks == len(GOING[going])
        left = [each for n, each in enumerate(pieces) if n not in GOING[going]]
        assert there(backend, pieces) == [each.data for each in left]
        assert contents(backend).stats.chunks == len(left)

    @pytest.mark.parametrize("going", ["the lower half", "some in the middle", "every second", "everything"])
    def test_a_chain_goes_on_after_a_collection(self, backend: Backend, going: str) -> None:
        """New versions on the newest one, which may be gone, and then the next collection."""
        pieces = versions()
        rows = saved(backend, pieces)
        backend.commit(removal(*(rows[n] for n in GOING[going])))
        collect(backend)
        more = versions(10, start=LENGTH, base=pieces[-1])
        new = saved(backend, more)
        backend.commit(removal(*(new[n] for n in (0, 3, 4))))
        collect(backend)
        left = [each for n, each in enumerate(pieces) if n not in GOING[going]]
        left += [each for n, each in enumerate(more) if n not in (0, 3, 4)]
        assert there(backend, [*pieces, *more]) == [each.data for each in left]

    def test_a_chain_goes_on_after_reopening(self, backend: Backend) -> None:
        """Nothing that the last process had in mind is needed."""
        pieces = versions(12)
        rows = saved(backend, pieces)
        backend = self.reopen(backend)
        try:
            more = versions(5, start=12, base=pieces[-1])
            saved(backend, more)
            backend.commit(removal(*rows[::2]))
            collect(backend)
            assert there(backend, [*pieces, *more]) == [each.data for each in [*pieces[1::2], *more]]
        finally:
            backend.close()

    def test_two_branches_of_a_chain_lose_their_stem(self, backend: Backend) -> None:
        """Both stood on the same chunk, and neither needs it any more."""
        stem = versions(6)
        left, right = (versions(6, start=start, base=stem[-1]) for start in (100, 200))
        rows = saved(backend, stem)
        saved(backend, left)
        saved(backend, right)
        backend.commit(removal(*rows))
        assert collect(backend).chunks == 6
        assert there(backend, [*stem, *left, *right]) == [each.data for each in [*left, *right]]

    @pytest.mark.parametrize(
        ("save", "mark"), [(saved, mark_roots), (saved_as_parts, mark_parts)], ids=["roots", "parts"]
    )
    @pytest.mark.parametrize("limit", [1, 4])
    def test_a_chain_that_grows_while_it_is_swept_loses_nothing(
        self,
        backend: Backend,
        save: Callable[[Backend, Iterable[Chunk]], list[CheckpointRow]],
        mark: Callable[[Backend, Collection], None],
        limit: int,
    ) -> None:
        """Each new version stands on one whose own base may be going."""
        pieces = versions(24)
        rows = save(backend, pieces[:12])
        backend.commit(removal(*rows[1:11]))
        coming = iter(pieces[12:])
        with backend.collection() as collection:
            save(backend, islice(coming, 1))
            mark(backend, collection)
            save(backend, islice(coming, 1))
            while not collection.sweep(limit).done:
                save(backend, islice(coming, 1))
        save(backend, coming)
        needed = [pieces[0].data, *(each.data for each in pieces[11:])]
        assert there(backend, [pieces[0], *pieces[11:]]) == needed
        with backend.collection() as collection:
            mark(backend, collection)
            sweep_all(collection, limit)
        assert there(backend, pieces) == needed

    def test_parts_of_states_that_go_leave_the_others_whole(self, backend: Backend) -> None:
        """The same for chunks that are not roots."""
        pieces = versions()
        rows = saved_as_parts(backend, pieces)
        keep = set(range(5, LENGTH, 7))
        backend.commit(removal(*(each for n, each in enumerate(rows) if n not in keep)))
        with backend.collection() as collection:
            mark_parts(backend, collection)
            sweep_all(collection, 3)
        assert there(backend, pieces) == [pieces[n].data for n in sorted(keep)]
        assert contents(backend).stats.chunks == 2 * len(keep)
