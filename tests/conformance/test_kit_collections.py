"""What the kit says about collections: each of these backends breaks one sentence, and the kit must notice."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from holdfast.backends.lease_rules import GC, gc_lease, this_process
from holdfast.backends.memory import MemoryBackend, MemoryCollection
from holdfast.errors import HoldfastError
from holdfast.testing.conformance import BackendConformance, erasing

MEANWHILE = "test_what_is_committed_meanwhile_is_not_lost"
WAYS = ["written", "found again", "built on", "found again on its base"]
TIMES = ["before marking", "before sweeping", "between sweeps"]


class Collecting(MemoryBackend):
    """A backend with another kind of collection."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    @contextmanager
    def collection(self, *, dry_run=False, stale_after=None):
        with super().collection(dry_run=dry_run, stale_after=stale_after) as sound:
            yield self.kind(sound._backend, sound._epoch, sound._lease)


class IgnoresStamps(MemoryCollection):
    def _gone(self, moment):
        return [name for name in moment.chunks if name not in self._marked]


class IgnoresMarks(MemoryCollection):
    def _gone(self, moment):
        return [name for name, stamp in moment.stamps.items() if stamp < self._epoch]


class KeepsOne(MemoryCollection):
    def _gone(self, moment):
        return super()._gone(moment)[1:]


class IgnoresTheLimit(MemoryCollection):
    def sweep(self, limit):
        return super().sweep(limit + 1)


class NeverDone(MemoryCollection):
    """Says so only when it finds nothing."""

    def sweep(self, limit):
        swept = super().sweep(limit)
        return swept._replace(done=not swept.chunks)


class DoneTooSoon(MemoryCollection):
    def sweep(self, limit):
        return super().sweep(limit)._replace(done=True)


class CountsOneMore(MemoryCollection):
    def unneeded(self):
        return super().unneeded()._replace(chunks=super().unneeded().chunks + 1)


class FreesNothing(MemoryCollection):
    def sweep(self, limit):
        return super().sweep(limit)._replace(stored_bytes=0)


class MarksWhatIsMissing(MemoryCollection):
    def mark(self, names):
        return super().mark([name for name in names if name in self._backend._open_moment().chunks])


class MarksAgain(MemoryCollection):
    """Gives chunks again that were marked before."""

    def mark(self, names):
        names = list(names)
        super().mark(names)
        return names


class FollowsNothing(MemoryCollection):
    def mark(self, names):
        super().mark(names)
        return []


class SweepsInADryRun(MemoryCollection):
    def __init__(self, backend, epoch, lease):
        super().__init__(backend, epoch, lease or gc_lease(this_process("x"), epoch))

    def sweep(self, limit):
        self._epoch = self._backend._open_moment().epoch
        return super().sweep(limit)


class SweepsBesideANewer(MemoryCollection):
    def sweep(self, limit):
        moment, epoch = self._backend._open_moment(), self._epoch
        moment.epoch, newest = epoch, moment.epoch
        try:
            return super().sweep(limit)
        finally:
            moment.epoch = newest


@pytest.mark.parametrize(
    ("kind", "test", "arguments"),
    [
        (IgnoresMarks, "test_what_no_checkpoint_needs_goes_and_the_rest_stays", {}),
        (IgnoresMarks, "test_where_everything_is_needed_nothing_goes", {}),
        (IgnoresMarks, "test_what_relies_on_a_marked_row_is_not_lost", {}),
        (KeepsOne, "test_what_no_checkpoint_needs_goes_and_the_rest_stays", {}),
        (KeepsOne, "test_what_stood_on_a_removed_chunk_reads_as_before", {"going": "the bottom"}),
        (IgnoresTheLimit, "test_a_sweep_removes_at_most_its_limit_and_says_when_none_are_left", {"limit": 3}),
        (NeverDone, "test_a_sweep_removes_at_most_its_limit_and_says_when_none_are_left", {"limit": 6}),
        (DoneTooSoon, "test_a_sweep_removes_at_most_its_limit_and_says_when_none_are_left", {"limit": 5}),
        (CountsOneMore, "test_a_dry_run_counts_what_a_sweep_would_remove_and_writes_nothing", {}),
        (FreesNothing, "test_what_no_checkpoint_needs_goes_and_the_rest_stays", {}),
        (FreesNothing, "test_a_dry_run_counts_what_a_sweep_would_remove_and_writes_nothing", {}),
        (MarksWhatIsMissing, "test_a_needed_chunk_that_is_not_there_is_an_error", {}),
        (MarksAgain, "test_marking_gives_each_chunk_once", {}),
        (FollowsNothing, "test_marking_gives_each_chunk_once", {}),
        (SweepsInADryRun, "test_a_dry_run_counts_what_a_sweep_would_remove_and_writes_nothing", {}),
        (SweepsBesideANewer, "test_where_a_newer_collection_has_begun_an_older_one_sweeps_nothing_more", {}),
        (IgnoresStamps, MEANWHILE, {"how": "written", "when": "before sweeping"}),
        (IgnoresStamps, MEANWHILE, {"how": "found again", "when": "before sweeping"}),
        (IgnoresStamps, MEANWHILE, {"how": "built on", "when": "between sweeps"}),
        (IgnoresStamps, MEANWHILE, {"how": "found again on its base", "when": "between sweeps"}),
    ],
)
def test_a_collection_that_is_wrong_is_caught(kind, test, arguments):
    assert_caught(Collecting(kind), test, **arguments)


class OpensAnEpochToCount(MemoryBackend):
    @contextmanager
    def collection(self, *, dry_run=False, stale_after=None):
        with super().collection(stale_after=stale_after) as real:
            if dry_run:
                real._lease = None
            yield real


class BeginsBesideOthers(MemoryBackend):
    def collection(self, *, dry_run=False, stale_after=None):
        return super().collection(dry_run=dry_run)


class WaitsForTheDead(MemoryBackend):
    def collection(self, *, dry_run=False, stale_after=None):
        return super().collection(dry_run=dry_run, stale_after=None if stale_after is None else 3600)


class TakesNothingBack(MemoryBackend):
    def release(self, lease):
        pass


class TakesBackForOthers(MemoryBackend):
    def release(self, lease):
        del self._writable().leases[lease.name]


class CountsAsOneAtWork(MemoryBackend):
    @contextmanager
    def collection(self, *, dry_run=False, stale_after=None):
        with super().collection(dry_run=dry_run, stale_after=stale_after) as sound:
            if dry_run:
                self._writable().leases[GC] = gc_lease(this_process("x"), sound._epoch)
            yield sound


class StampsOnlyWhatIsNew(MemoryBackend):
    """Takes a chunk that is there for one that stays there."""

    def commit(self, batch):
        stamps = dict(self._open_moment().stamps)
        receipt = super().commit(batch)
        self._open_moment().stamps.update(stamps)
        return receipt


class Standing(MemoryBackend):
    """Keeps differences: a chunk whose base is there cannot be read without it."""

    stamps_bases = True

    def __init__(self):
        super().__init__()
        self.bases = {}

    def commit(self, batch):
        there = self._open_moment().chunks
        for chunk in batch.chunks:
            if chunk.hash not in there and chunk.base in there:
                self.bases[chunk.hash] = chunk.base
        receipt = super().commit(batch)
        moment = self._open_moment()
        for chunk in batch.chunks if self.stamps_bases else ():
            name = chunk.hash
            while name in self.bases:
                name = self.bases[name]
                moment.stamps[name] = moment.epoch
        return receipt

    def written_out(self, gone, marked):
        """Write anew what stood on a chunk that goes."""
        for name in [name for name, base in self.bases.items() if base == gone and name in marked]:
            del self.bases[name]

    @contextmanager
    def collection(self, *, dry_run=False, stale_after=None):
        with super().collection(dry_run=dry_run, stale_after=stale_after) as sound:
            backend, sweep = self, sound.sweep
            # The youngest go first: what stood on a chunk is gone before it.
            setattr(sound, "_gone", lambda moment: MemoryCollection._gone(sound, moment)[::-1])  # noqa: B010

            def sweeping(limit):
                before = dict(backend._open_moment().chunks)
                swept = sweep(limit)
                after = backend._open_moment().chunks
                for gone in before.keys() - after.keys():
                    backend.written_out(gone, sound._marked)
                for name, base in backend.bases.items():
                    if base not in after and after.get(name):
                        after[name] = b"cannot be read"
                return swept

            setattr(sound, "sweep", sweeping)  # noqa: B010
            yield sound


class DoesNotStampBases(Standing):
    stamps_bases = False


class WritesNothingOut(Standing):
    def written_out(self, gone, marked):
        pass


@pytest.mark.parametrize(
    ("broken", "test", "arguments"),
    [
        (OpensAnEpochToCount, "test_a_dry_run_does_not_end_a_collection", {}),
        (BeginsBesideOthers, "test_one_that_nobody_asked_for_begins_only_where_no_other_is_under_way", {}),
        (WaitsForTheDead, "test_one_that_has_not_shown_itself_for_long_is_taken_over", {}),
        (TakesNothingBack, "test_one_that_nobody_asked_for_begins_only_where_no_other_is_under_way", {}),
        (TakesNothingBack, "test_one_that_was_left_by_an_error_is_not_under_way", {}),
        (TakesBackForOthers, "test_one_that_was_asked_for_begins_whoever_is_at_work", {}),
        (CountsAsOneAtWork, "test_a_dry_run_takes_no_notice_of_others_and_gives_none", {}),
        (StampsOnlyWhatIsNew, MEANWHILE, {"how": "found again", "when": "before sweeping"}),
        (StampsOnlyWhatIsNew, MEANWHILE, {"how": "found again on its base", "when": "between sweeps"}),
        (DoesNotStampBases, MEANWHILE, {"how": "built on", "when": "before sweeping"}),
        (DoesNotStampBases, MEANWHILE, {"how": "built on", "when": "between sweeps"}),
        (DoesNotStampBases, MEANWHILE, {"how": "found again on its base", "when": "before sweeping"}),
        (WritesNothingOut, "test_what_stood_on_a_removed_chunk_reads_as_before", {"going": "the bottom"}),
        (WritesNothingOut, "test_what_stood_on_a_removed_chunk_reads_as_before", {"going": "every second"}),
        (WritesNothingOut, "test_a_chain_goes_on_after_a_collection", {"going": "the lower half"}),
        (WritesNothingOut, "test_two_branches_of_a_chain_lose_their_stem", {}),
        (WritesNothingOut, "test_two_collections_at_once_lose_nothing", {"first": "newer"}),
        (WritesNothingOut, "test_parts_of_states_that_go_leave_the_others_whole", {}),
    ],
)
def test_a_backend_that_loses_chunks_is_caught(broken, test, arguments):
    assert_caught(broken(), test, **arguments)


@pytest.mark.parametrize("when", TIMES)
@pytest.mark.parametrize("how", WAYS)
def test_a_backend_that_keeps_differences_with_care_is_not_blamed(how, when):
    getattr(BackendConformance(), MEANWHILE)(Standing(), how=how, when=when)


class HarmedByLeaving(MemoryBackend):
    """Sweeps what is left when a collection is left."""

    @contextmanager
    def collection(self, *, dry_run=False, stale_after=None):
        with super().collection(dry_run=dry_run, stale_after=stale_after) as sound:
            try:
                yield sound
            except ZeroDivisionError:
                sound.sweep(1000)
                raise


@pytest.mark.parametrize("after", ["opening", "marking", "one sweep"])
def test_a_collection_that_does_harm_when_it_is_left_is_caught(after):
    assert_caught(HarmedByLeaving(), "test_a_collection_that_is_left_harms_nothing", after=after)


def test_a_file_that_still_tells_is_found(tmp_path):
    class InAFile(BackendConformance):
        def files(self, backend):
            return [tmp_path / "store"]

    check = InAFile().test_nothing_of_what_was_erased_is_left_in_the_files
    (tmp_path / "store").write_bytes(b"nothing here")
    check(MemoryBackend())
    (tmp_path / "store").write_bytes(b"a page with " + erasing.SECRET.encode())
    with pytest.raises(AssertionError, match="it is still in store"):
        check(MemoryBackend())


def assert_caught(backend, test, **arguments):
    """Run one test of the kit against a sound backend, then against this one: it must pass, then fail."""
    check = getattr(BackendConformance(), test)
    check(MemoryBackend(), **arguments)
    with pytest.raises((AssertionError, HoldfastError, AttributeError, KeyError, pytest.fail.Exception)):
        check(backend, **arguments)
