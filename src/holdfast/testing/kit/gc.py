"""Removing chunks that no checkpoint needs: exactly those, beside running writers, and harmless when left half done.

Most saves change a state a little, so that its chunks come with a base. A backend may make chains of them as long as it
likes. Whatever of a chain is removed, the rest has to stay as it was, and nothing may stay only because something else
was stored as a difference to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from itertools import islice
from random import Random
from typing import Any

import pytest

from holdfast.errors import ConflictError, ErrorCode, IntegrityError
from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.tree.read import links, reachable
from holdfast.objects.tree.state import encode_state
from holdfast.storage.ports import Backend, Collection
from holdfast.storage.records import CheckpointRow, Chunk, ChunkHash, NewChunk, Query, Swept
from holdfast.testing.kit.contract import Contract, cases, commit_all
from holdfast.testing.rows import batch, chunk, contents, removal, row, save, state_chunk

LENGTH = 40
"""Of a chain: more than a backend that knows its limits puts on each other."""

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


def mark_roots(backend: Backend, collection: Collection) -> None:
    """Mark the root of every row, oldest first; enough where states are single chunks, as most are in this kit."""
    with backend.reader() as reader:
        rows = reader.checkpoints(Query(include_hidden=True, oldest_first=True))
    for each in rows:
        collection.mark([each.root])


def sweep_all(collection: Collection, limit: int = 1000) -> Swept:
    """Sweep until nothing is left; what was removed in all."""
    removed = Swept(done=False)
    while not removed.done:
        swept = collection.sweep(limit)
        assert swept.chunks <= limit
        assert swept.chunks or swept.done, "a sweep that removes nothing has nothing left to remove"
        removed = Swept(
            removed.chunks + swept.chunks, removed.stored_bytes + swept.stored_bytes, done=swept.done
        )
    return removed


def collect(backend: Backend) -> Swept:
    """A whole collection of a store whose states are single chunks."""
    with backend.collection() as collection:
        mark_roots(backend, collection)
        return sweep_all(collection)


def there(backend: Backend, pieces: Iterable[NewChunk]) -> list[bytes]:
    """Which of these chunks are in the store, by their data; each must read as it was given."""
    pieces = list(pieces)
    with backend.reader() as reader:
        data = reader.chunks([each.hash for each in pieces])
    for each in pieces:
        assert data.get(each.hash, each.data) == each.data
    return [each.data for each in pieces if each.hash in data]


def with_garbage(backend: Backend, count: int = 5) -> tuple[CheckpointRow, list[Chunk]]:
    """A store with one checkpoint and the chunks of others that are gone."""
    kept, *gone = commit_all(backend, *(save(f"{n}", branch=f"{n}") for n in range(count + 1)))
    backend.commit(removal(*gone))
    return kept, [state_chunk(each.id) for each in gone]


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
    batches = (batch(row(each.hash.hex(), root=each.hash), chunks=(each,)) for each in pieces)
    return commit_all(backend, *batches)


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


class GcContract(Contract):
    """A chunk goes if it is not marked and its stamp is older than the epoch; no other chunk does."""

    def test_what_no_checkpoint_needs_goes_and_the_rest_stays(self, backend: Backend) -> None:
        """Hidden checkpoints need theirs too; rows, branches and logs are not concerned."""
        assert collect(backend) == Swept()
        kept, gone = with_garbage(backend)
        (hidden,) = commit_all(backend, batch(row("hidden", hidden=1)))
        before = contents(backend)
        removed = collect(backend)
        after = contents(backend)
        assert (removed.chunks, there(backend, gone)) == (len(gone), [])
        assert len(there(backend, [state_chunk(kept.id), state_chunk(hidden.id)])) == after.stats.chunks == 2
        assert after.stats.stored_bytes == before.stats.stored_bytes - removed.stored_bytes
        assert (after.checkpoints, after.branches) == (before.checkpoints, before.branches)
        assert collect(backend) == Swept()

    def test_marking_gives_each_chunk_once(self, backend: Backend) -> None:
        """Only where it may refer to others; so that whoever follows comes to an end, and to everything."""
        encoded = encode_state({"log": [f"line {n} of many" * 3 for n in range(20_000)]}, GLOBAL)
        data = {each.hash: each.data for each in encoded.chunks}
        assert len(data) > 10
        backend.commit(batch(row("tree", root=encoded.root), chunks=(*encoded.chunks, chunk(b"garbage"))))
        everything = set(reachable(encoded.root, lambda names: {name: data[name] for name in names}))
        with backend.collection() as collection:
            to_do = list(collection.mark([encoded.root, encoded.root]))
            assert to_do == [encoded.root]
            seen = set(to_do)
            while to_do:
                name = to_do.pop()
                below = links(name, data[name])
                new = collection.mark(below)
                assert len(set(new)) == len(new)
                assert seen.isdisjoint(new)
                assert {each for each in below if links(each, data[each])} <= seen | set(new)
                seen |= set(new)
                to_do += new
            assert list(collection.mark(everything)) == list(collection.mark([])) == []
            with pytest.raises(IntegrityError) as caught:
                collection.mark([chunk(b"never stored").hash])
            assert caught.value.code is ErrorCode.CHUNK_MISSING
            assert sweep_all(collection).chunks == 1
        assert len(there(backend, encoded.chunks)) == len(everything) == len(encoded.chunks)

    @pytest.mark.parametrize("when", ["before marking", "before sweeping", "between sweeps"])
    @pytest.mark.parametrize("how", ["written", "found again", "built on", "found again on its base"])
    def test_what_is_committed_meanwhile_is_not_lost(self, backend: Backend, how: str, when: str) -> None:
        """A commit stamps the chunks that it writes, finds or builds on; nobody marked them, and they stay."""
        bottom = chunk(b"".join(b"line %d of an old state\n" % n for n in range(200)))
        base = chunk(bottom.data + b"with a line more")._replace(base=bottom.hash)
        like = chunk(base.data + b"and one line more")._replace(base=base.hash)
        old = saved(backend, [bottom, base, like])
        with_garbage(backend, 3)
        # Garbage that comes last goes first, so that after one sweep all that matters here is still there.
        backend.commit(removal(*old))
        late = commit_all(backend, *(save(f"late {n}", branch=f"late {n}") for n in range(3)))
        backend.commit(removal(*late))
        new = {
            "written": chunk(b"quite new"),
            "found again": base,
            "built on": chunk(base.data + b"something else")._replace(base=base.hash),
            "found again on its base": like,
        }[how]
        saving = batch(row("new", root=new.hash), chunks=(new,))
        with backend.collection() as collection:
            if when == "before marking":
                backend.commit(saving)
            mark_roots(backend, collection)
            if when == "between sweeps":
                collection.sweep(1)
            if when != "before marking":
                backend.commit(saving)
            sweep_all(collection, 2)
        assert there(backend, [new]) == [new.data]
        collect(backend)
        assert there(backend, [new]) == [new.data]
        assert contents(backend).stats.chunks == 2

    def test_what_relies_on_a_marked_row_is_not_lost(self, backend: Backend) -> None:
        """Its chunks are not stamped: those of the row it relies on are marked, though that row goes meanwhile."""
        (first,) = commit_all(backend, save("a"))
        with_garbage(backend)
        with backend.collection() as collection:
            mark_roots(backend, collection)
            backend.commit(batch(row("b", root=first.root), chunks=(), relies_on=first.id))
            backend.commit(removal(first))
            sweep_all(collection, 1)
        collect(backend)
        assert there(backend, [state_chunk("a")]) != []

    @pytest.mark.parametrize("limit", [1, 3, 5, 6, 7, 100])
    def test_a_sweep_removes_at_most_its_limit(self, backend: Backend, limit: int) -> None:
        """Not one more; and that none is left is said with the last one."""
        _, gone = with_garbage(backend, 6)
        with backend.collection() as collection:
            mark_roots(backend, collection)
            left, size = 6, collection.unneeded().stored_bytes
            while left:
                assert collection.unneeded() == Swept(left, size, done=False)
                swept = collection.sweep(limit)
                assert 0 < swept.chunks <= limit
                left, size = left - swept.chunks, size - swept.stored_bytes
                assert len(there(backend, gone)) == left
                assert swept.done == (left == 0)
            assert (size, collection.sweep(limit), collection.unneeded()) == (0, Swept(), Swept())

    def test_a_dry_run_counts_and_writes_nothing(self, backend: Backend) -> None:
        """Not even when it is told to sweep. It ends no collection, takes no notice of others and gives none."""
        with_garbage(backend)
        before = contents(backend)
        with backend.collection(dry_run=True) as trial:
            mark_roots(backend, trial)
            counted = trial.unneeded()
            assert trial.sweep(100) == Swept()
            with backend.collection(stale_after=3600) as collection:
                trial.sweep(100)
                assert contents(backend) == before
                mark_roots(backend, collection)
                with backend.collection(dry_run=True, stale_after=3600) as other:
                    mark_roots(backend, other)
                    assert other.unneeded() == counted
                assert sweep_all(collection) == counted._replace(done=True)
        assert counted.chunks == 5

    @pytest.mark.parametrize("after", ["opening", "marking", "one sweep"])
    def test_a_collection_that_is_left_harms_nothing(self, backend: Backend, after: str) -> None:
        """Whatever it removed was not needed; the next one begins at once, and removes the rest."""
        kept, gone = with_garbage(backend)
        with pytest.raises(ZeroDivisionError), backend.collection(stale_after=3600) as collection:
            if after != "opening":
                mark_roots(backend, collection)
            if after == "one sweep":
                collection.sweep(2)
            raise ZeroDivisionError
        left = there(backend, gone)
        assert len(left) == (3 if after == "one sweep" else 5)
        again = chunk(left[0])
        backend.commit(batch(row("again", root=again.hash), chunks=(again,)))
        with backend.collection(stale_after=3600) as collection:
            mark_roots(backend, collection)
            sweep_all(collection)
        assert there(backend, [*gone, state_chunk(kept.id)]) == [again.data, state_chunk(kept.id).data]

    def test_an_older_collection_leaves_all_to_a_newer_one(self, backend: Backend) -> None:
        """Which begins by itself only where the other has not shown itself for long."""

        def is_refused() -> bool:
            with pytest.raises(ConflictError) as caught, backend.collection(stale_after=3600):
                pass
            return caught.value.code is ErrorCode.COLLECTION_RUNNING

        _, gone = with_garbage(backend)
        with ExitStack() as outer:
            with backend.collection(stale_after=3600) as older:
                mark_roots(backend, older)
                assert is_refused()
                assert older.sweep(1).chunks == 1
                assert is_refused()
                newer = outer.enter_context(backend.collection())
                assert older.sweep(100) == Swept(superseded=True)
                mark_roots(backend, newer)
                assert older.sweep(100) == Swept(superseded=True)
            # The one before took back only what it has shown itself.
            assert is_refused()
            assert sweep_all(newer, 1).chunks == len(gone) - 1
            with backend.collection(stale_after=0):
                assert newer.sweep(1) == Swept(superseded=True)
        assert there(backend, gone) == []
        with backend.collection(stale_after=3600):
            pass

    @pytest.mark.parametrize("first", ["older", "newer"])
    def test_two_collections_at_once_lose_nothing(self, backend: Backend, first: str) -> None:
        """Also where one of them saw rows that the other did not."""
        bottom, middle, top = pieces = versions(3)
        rows = saved(backend, pieces)
        backend.commit(removal(rows[1]))
        with backend.collection() as older:
            mark_roots(backend, older)
            backend.commit(removal(rows[0]))
            with backend.collection() as newer:
                mark_roots(backend, newer)
                for each in (older, newer) if first == "older" else (newer, older):
                    sweep_all(each, 1)
        assert there(backend, [bottom, middle, top]) == [top.data]

    @cases("going", GOING)
    def test_what_stood_on_a_removed_chunk_reads_as_before(self, backend: Backend, going: set[int]) -> None:
        """And no chunk stays that nobody needs; then the chain goes on, on its newest one, which may be gone."""
        pieces = versions()
        rows = saved(backend, pieces)
        backend.commit(removal(*(rows[n] for n in going)))
        assert collect(backend).chunks == len(going)
        left = [each.data for n, each in enumerate(pieces) if n not in going]
        assert there(backend, pieces) == left
        assert contents(backend).stats.chunks == len(left)
        more = versions(10, start=LENGTH, base=pieces[-1])
        new = saved(backend, more)
        backend.commit(removal(*(new[n] for n in (0, 3, 4))))
        collect(backend)
        left += [each.data for n, each in enumerate(more) if n not in (0, 3, 4)]
        assert there(backend, [*pieces, *more]) == left

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

    def test_branches_of_a_chain_lose_their_stem(self, backend: Backend) -> None:
        """Both stood on the same chunk, and neither needs it any more."""
        stem = versions(6)
        rows = saved(backend, stem)
        tops = [each for start in (100, 200) for each in versions(6, start=start, base=stem[-1])]
        saved(backend, tops)
        backend.commit(removal(*rows))
        assert collect(backend).chunks == 6
        assert there(backend, [*stem, *tops]) == [each.data for each in tops]

    @cases(("save_them", "mark"), {"roots": (saved, mark_roots), "parts": (saved_as_parts, mark_parts)})
    @pytest.mark.parametrize("limit", [1, 4])
    def test_a_chain_that_grows_while_it_is_swept_loses_nothing(
        self,
        backend: Backend,
        save_them: Callable[[Backend, Any], list[CheckpointRow]],
        mark: Any,
        limit: int,
    ) -> None:
        """Each new version stands on one whose own base may be going."""
        pieces = versions(24)
        rows = save_them(backend, pieces[:12])
        backend.commit(removal(*rows[1:11]))
        coming = iter(pieces[12:])
        with backend.collection() as collection:
            save_them(backend, islice(coming, 1))
            mark(backend, collection)
            save_them(backend, islice(coming, 1))
            while not collection.sweep(limit).done:
                save_them(backend, islice(coming, 1))
        save_them(backend, coming)
        needed = [pieces[0].data, *(each.data for each in pieces[11:])]
        assert there(backend, [pieces[0], *pieces[11:]]) == needed
        with backend.collection() as collection:
            mark(backend, collection)
            sweep_all(collection, limit)
        assert there(backend, pieces) == needed
