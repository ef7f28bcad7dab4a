"""Removing chunks that no checkpoint needs: exactly those, beside running writers, and harmless when left half done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack

import pytest

from holdfast.errors import ConflictError, ErrorCode, IntegrityError
from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.tree.read import links, reachable
from holdfast.objects.tree.state import encode_state
from holdfast.storage.ports import Backend, Collection
from holdfast.storage.records import CheckpointRow, Chunk, NewChunk, Query, Swept
from holdfast.testing.conformance.contract import Contract, commit_all
from holdfast.testing.rows import batch, chunk, contents, removal, row, save, state_chunk


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


class CollectionContract(Contract):
    """A chunk goes if it is not marked and its stamp is older than the epoch; no other chunk does."""

    def test_what_no_checkpoint_needs_goes_and_the_rest_stays(self, backend: Backend) -> None:
        """Hidden checkpoints need theirs too; rows, branches and logs are not concerned."""
        kept, gone = with_garbage(backend)
        (hidden,) = commit_all(backend, batch(row("hidden", hidden=1)))
        before = contents(backend)
        removed = collect(backend)
        assert removed.chunks == len(gone)
        assert there(backend, gone) == []
        assert len(there(backend, [state_chunk(kept.id), state_chunk(hidden.id)])) == 2
        after = contents(backend)
        assert after.stats.chunks == 2
        assert after.stats.stored_bytes == before.stats.stored_bytes - removed.stored_bytes
        gone_with_it = {"chunks": 0, "chunk_bytes": 0, "stored_bytes": 0}
        assert after.stats._replace(**gone_with_it) == before.stats._replace(**gone_with_it)
        assert (after.checkpoints, after.branches) == (before.checkpoints, before.branches)

    def test_where_everything_is_needed_nothing_goes(self, backend: Backend) -> None:
        """Also in an empty store."""
        assert collect(backend) == Swept()
        commit_all(backend, save("a"), save("b", after="a"))
        assert collect(backend) == Swept()
        assert there(backend, [state_chunk("a"), state_chunk("b")]) != []

    def test_marking_gives_each_chunk_once(self, backend: Backend) -> None:
        """Only where it may refer to others; so that whoever follows comes to an end, and to everything."""
        encoded = encode_state({"log": [f"line {n} of many" * 3 for n in range(20_000)]}, GLOBAL)
        assert len(encoded.chunks) > 10
        data = {each.hash: each.data for each in encoded.chunks}
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
            assert list(collection.mark(everything)) == []
            assert sweep_all(collection).chunks == 1
        assert len(there(backend, encoded.chunks)) == len(everything) == len(encoded.chunks)

    def test_a_needed_chunk_that_is_not_there_is_an_error(self, backend: Backend) -> None:
        """Whatever looks unneeded then may be what is left of something damaged."""
        with_garbage(backend)
        absent = chunk(b"never stored")
        with backend.collection() as collection:
            assert list(collection.mark([])) == []
            with pytest.raises(IntegrityError) as caught:
                collection.mark([absent.hash])
        assert caught.value.code is ErrorCode.CHUNK_MISSING

    @pytest.mark.parametrize("when", ["before marking", "before sweeping", "between sweeps"])
    @pytest.mark.parametrize("how", ["written", "found again", "built on", "found again on its base"])
    def test_what_is_committed_meanwhile_is_not_lost(self, backend: Backend, how: str, when: str) -> None:
        """A commit stamps the chunks that it writes, finds or builds on; nobody marked them, and they stay."""
        bottom = chunk(b"".join(b"line %d of an old state\n" % n for n in range(200)))
        base = chunk(bottom.data + b"with a line more")._replace(base=bottom.hash)
        like = chunk(base.data + b"and one line more")._replace(base=base.hash)
        old = commit_all(
            backend,
            batch(row("oldest", root=bottom.hash), chunks=(bottom,)),
            batch(row("older", root=base.hash), chunks=(base,)),
            batch(row("old", root=like.hash), chunks=(like,)),
        )
        with_garbage(backend, 3)
        # Garbage that comes last goes first, so that after one sweep all that matters here is still there.
        backend.commit(removal(*old))
        commit_all(backend, *(save(f"late {n}", branch=f"late {n}") for n in range(3)))
        backend.commit(removal(*(row(f"late {n}", branch=f"late {n}") for n in range(3))))
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
            if when == "before sweeping":
                backend.commit(saving)
            if when == "between sweeps":
                collection.sweep(1)
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
        assert there(backend, [state_chunk("a")]) != []
        collect(backend)
        assert there(backend, [state_chunk("a")]) != []

    @pytest.mark.parametrize("limit", [1, 3, 5, 6, 7, 100])
    def test_a_sweep_removes_at_most_its_limit_and_says_when_none_are_left(
        self, backend: Backend, limit: int
    ) -> None:
        """Not one more; and done is said with the last one."""
        _, gone = with_garbage(backend, 6)
        with backend.collection() as collection:
            mark_roots(backend, collection)
            assert collection.unneeded().chunks == 6
            assert not collection.unneeded().done
            left, size = 6, collection.unneeded().stored_bytes
            while left:
                swept = collection.sweep(limit)
                assert 0 < swept.chunks <= limit
                left, size = left - swept.chunks, size - swept.stored_bytes
                assert len(there(backend, gone)) == left
                assert collection.unneeded() == Swept(left, size, done=not left)
                assert swept.done == (left == 0)
            assert size == 0
            assert collection.sweep(limit) == Swept()

    def test_a_dry_run_counts_what_a_sweep_would_remove_and_writes_nothing(self, backend: Backend) -> None:
        """Not even when it is told to sweep, or when a real collection begins beside it."""
        with_garbage(backend)
        before = contents(backend)
        with backend.collection(dry_run=True) as trial:
            mark_roots(backend, trial)
            counted = trial.unneeded()
            assert trial.sweep(100) == Swept()
            assert contents(backend) == before
        assert counted.chunks == 5
        with backend.collection(dry_run=True) as trial:
            with backend.collection():
                trial.sweep(100)
            assert contents(backend) == before
        assert collect(backend) == counted._replace(done=True)

    def test_a_dry_run_does_not_end_a_collection(self, backend: Backend) -> None:
        """It opens no epoch."""
        with_garbage(backend)
        with backend.collection() as collection:
            mark_roots(backend, collection)
            with backend.collection(dry_run=True) as trial:
                mark_roots(backend, trial)
                assert trial.unneeded().chunks == 5
            assert sweep_all(collection).chunks == 5

    @pytest.mark.parametrize("after", ["opening", "marking", "one sweep"])
    def test_a_collection_that_is_left_harms_nothing(self, backend: Backend, after: str) -> None:
        """Whatever it removed was not needed; the next one removes the rest."""
        kept, gone = with_garbage(backend)
        with pytest.raises(ZeroDivisionError), backend.collection() as collection:
            if after != "opening":
                mark_roots(backend, collection)
            if after == "one sweep":
                collection.sweep(2)
            raise ZeroDivisionError
        left = there(backend, gone)
        assert len(left) == (3 if after == "one sweep" else 5)
        assert there(backend, [state_chunk(kept.id)]) != []
        again = chunk(left[0])
        backend.commit(batch(row("again", root=again.hash), chunks=(again,)))
        collect(backend)
        assert there(backend, gone) == [again.data]

    def test_where_a_newer_collection_has_begun_an_older_one_sweeps_nothing_more(
        self, backend: Backend
    ) -> None:
        """What it would have removed is left to the newer one."""
        _, gone = with_garbage(backend)
        with backend.collection() as older:
            mark_roots(backend, older)
            older.sweep(1)
            with backend.collection() as newer:
                assert older.sweep(100) == Swept(superseded=True)
                mark_roots(backend, newer)
                assert older.sweep(100) == Swept(superseded=True)
                assert sweep_all(newer, 1).chunks == 4
            assert older.sweep(100) == Swept(superseded=True)
        assert there(backend, gone) == []

    @pytest.mark.parametrize("first", ["older", "newer"])
    def test_two_collections_at_once_lose_nothing(self, backend: Backend, first: str) -> None:
        """Also where one of them saw rows that the other did not."""
        text = b"".join(b"line %d of a state\n" % n for n in range(200))
        bottom = chunk(text)
        middle = chunk(text + b"more")._replace(base=bottom.hash)
        top = chunk(text + b"more and more")._replace(base=middle.hash)
        rows = self._commit(backend, [bottom, middle, top])
        backend.commit(removal(rows[1]))
        with backend.collection() as older:
            mark_roots(backend, older)
            backend.commit(removal(rows[0]))
            with backend.collection() as newer:
                mark_roots(backend, newer)
                for each in (older, newer) if first == "older" else (newer, older):
                    sweep_all(each, 1)
        assert there(backend, [bottom, middle, top]) == [top.data]

    def test_one_that_nobody_asked_for_begins_only_where_no_other_is_under_way(
        self, backend: Backend
    ) -> None:
        """With `stale_after`: otherwise each would end the one before, and none would get to the sweep."""
        _, gone = with_garbage(backend)
        with backend.collection(stale_after=3600) as first:
            mark_roots(backend, first)
            self._assert_refused(backend)
            assert first.sweep(1).chunks == 1
            self._assert_refused(backend)
            assert sweep_all(first).chunks == len(gone) - 1
            self._assert_refused(backend)
        with backend.collection(stale_after=3600):
            pass

    def test_one_that_has_not_shown_itself_for_long_is_taken_over(self, backend: Backend) -> None:
        """Its process may be dead. What it does later is nothing, and says so."""
        _, gone = with_garbage(backend)
        with backend.collection() as older:
            mark_roots(backend, older)
            with backend.collection(stale_after=0) as newer:
                assert older.sweep(1) == Swept(superseded=True)
                mark_roots(backend, newer)
                assert sweep_all(newer).chunks == len(gone)

    def test_one_that_was_asked_for_begins_whoever_is_at_work(self, backend: Backend) -> None:
        """The one before takes back only what it has shown itself."""
        _, gone = with_garbage(backend)
        with ExitStack() as outer:
            with backend.collection(stale_after=3600) as older:
                newer = outer.enter_context(backend.collection())
                mark_roots(backend, older)
                assert older.sweep(1) == Swept(superseded=True)
            self._assert_refused(backend)
            mark_roots(backend, newer)
            assert sweep_all(newer).chunks == len(gone)
        with backend.collection(stale_after=3600):
            pass

    def test_a_dry_run_takes_no_notice_of_others_and_gives_none(self, backend: Backend) -> None:
        """It is in nobody's way."""
        with_garbage(backend)
        with backend.collection(), backend.collection(dry_run=True, stale_after=3600) as trial:
            mark_roots(backend, trial)
            assert trial.unneeded().chunks == 5
        with backend.collection(dry_run=True) as trial:
            mark_roots(backend, trial)
            with backend.collection(stale_after=3600):
                pass

    def test_one_that_was_left_by_an_error_is_not_under_way(self, backend: Backend) -> None:
        """The next one need not wait until it looks dead."""
        with pytest.raises(ZeroDivisionError), backend.collection(stale_after=3600):
            raise ZeroDivisionError
        with backend.collection(stale_after=3600):
            pass

    @staticmethod
    def _assert_refused(backend: Backend) -> None:
        with pytest.raises(ConflictError) as caught, backend.collection(stale_after=3600):
            pass
        assert caught.value.code is ErrorCode.COLLECTION_RUNNING

    @staticmethod
    def _commit(backend: Backend, pieces: Sequence[Chunk]) -> list[CheckpointRow]:
        batches = (batch(row(f"v{n}", root=each.hash), chunks=(each,)) for n, each in enumerate(pieces))
        return commit_all(backend, *batches)
