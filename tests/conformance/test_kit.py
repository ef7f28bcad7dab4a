"""The kit itself: each of these backends breaks one sentence of the contract, and the kit must say so.

A broken backend is the memory backend with one thing wrong. A part of the kit is run against it, test by test and case
by case, until one fails. That all of them pass against a sound one is what test_memory.py shows.
"""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.backends import rules
from holdfast.backends.lease_rules import GC, gc_lease, this_process
from holdfast.backends.memory import MemoryBackend, MemoryCollection
from holdfast.errors import ConflictError, ErrorCode, HoldfastError
from holdfast.storage.records import Batch, CheckpointId, Claim, Guard, Move, Query, Receipt
from holdfast.testing.faults import Fault, FaultyBackend
from holdfast.testing.kit import BackendConformance, contract
from holdfast.testing.kit.commit import CommitContract
from holdfast.testing.kit.gc import GcContract
from holdfast.testing.kit.lifetime import SECRET, LifetimeContract
from holdfast.testing.kit.query import QueryContract
from holdfast.testing.kit.reader import ReaderContract
from holdfast.testing.kit.repair import RepairContract
from holdfast.testing.rows import START, edit

# A kit test fails by its assert, by an error that it does not expect, or by pytest's "did not raise".
FAILURES = (
    AssertionError,
    HoldfastError,
    AttributeError,
    KeyError,
    threading.BrokenBarrierError,
    pytest.fail.Exception,
)


def runs(part):
    """Each test of a part of the kit with each of its cases, but for those that need more than a backend."""
    for name, test in vars(part).items():
        if not name.startswith("test_") or name.startswith("test_a_forked"):
            continue
        if "tmp_path" in test.__code__.co_varnames[: test.__code__.co_argcount]:
            continue
        tables = []
        for mark in getattr(test, "pytestmark", ()):
            if mark.name == "parametrize":
                names, values = mark.args[0], list(mark.args[1])
                names = [names] if isinstance(names, str) else names
                tables.append(
                    [dict(zip(names, each if len(names) > 1 else (each,), strict=True)) for each in values]
                )
        for chosen in itertools.product(*tables):
            yield name, {name: value for each in chosen for name, value in each.items()}


def assert_caught(make, part):
    """Some test of this part of the kit fails against such a backend."""
    with pytest.MonkeyPatch.context() as impatient:
        # A thread that waits in vain is called stuck sooner. Only here: a busy machine keeps a sound backend waiting.
        impatient.setattr(contract, "PATIENCE", 0.5)
        for test, arguments in runs(part):
            try:
                getattr(BackendConformance(), test)(make(), **arguments)
            except FAILURES:
                return
            except pytest.skip.Exception:
                pass
    pytest.fail(f"{part.__name__} finds nothing wrong with it")


class Rewriting(MemoryBackend):
    """A backend that commits something else than it was given."""

    def __init__(self, rewrite):
        super().__init__()
        self.rewrite = rewrite

    def commit(self, batch):
        return super().commit(self.rewrite(self, batch))


def ignores_the_guard(_, batch):
    return batch._replace(guard=None)


def ignores_last_seq(_, batch):
    return batch._replace(guard=Guard(log_count=batch.guard.log_count)) if batch.guard else batch


def ignores_the_log_count(backend, batch):
    with backend.reader() as reader:
        session = reader.session(batch.claim.session)
    now = session.log_count if session else 0
    return batch._replace(guard=Guard(log_count=now)) if batch.guard else batch


def ignores_the_claim(_, batch):
    return batch._replace(claim=Claim(session=batch.claim.session))


def ignores_expected_heads(backend, batch):
    def actual(move):
        with backend.reader() as reader:
            branch = reader.branch(batch.claim.session, move.branch)
        return Move(branch=move.branch, expected=branch.head if branch else None, head=move.head)

    return batch._replace(moves=tuple(map(actual, batch.moves)))


def drops_the_second_move(_, batch):
    return batch._replace(moves=batch.moves[:1])


def forgets_keys(_, batch):
    return batch._replace(checkpoints=tuple(row._replace(key=None) for row in batch.checkpoints))


def forgets_tags(_, batch):
    return batch._replace(checkpoints=tuple(row._replace(tags=()) for row in batch.checkpoints))


def forgets_the_log(_, batch):
    return batch._replace(operations=())


def forgets_edits(_, batch):
    return batch._replace(edits=())


def merges_edits(backend, batch):
    """Keeps an old message where an edit takes it away."""

    def merged(edit):
        with backend.reader() as reader:
            old = reader.checkpoint(edit.id)
        return edit._replace(edited_message=edit.edited_message or old.edited_message)

    return batch._replace(edits=tuple(map(merged, batch.edits)))


def mixes_up_zero_and_none(_, batch):
    return batch._replace(checkpoints=tuple(row._replace(step=row.step or None) for row in batch.checkpoints))


def uses_its_own_clock(_, batch):
    return batch._replace(at=START + 123)


def reverses_batches(_, batch):
    return batch._replace(checkpoints=batch.checkpoints[::-1])


def ignores_what_it_relies_on(_, batch):
    return batch._replace(relies_on=None)


def relies_on_one_alone(_, batch):
    return batch._replace(also_relies_on=batch.also_relies_on[1:])


def takes_hidden_rows_for_gone(backend, batch):
    """Relies only on what is visible."""
    if batch.relies_on is not None:
        with backend.reader() as reader:
            relied = reader.checkpoint(batch.relies_on)
        if relied is not None and relied.hidden:
            raise ConflictError.chunks_gone(relied.id)
    return batch


def looks_for_what_it_relies_on_last(backend, batch):
    try:
        MemoryBackend.commit(backend, batch._replace(relies_on=None, checkpoints=(), operations=()))
    except ConflictError as error:
        if error.code is ErrorCode.BRANCH_MOVED:
            raise
    return batch


def forgets_removals(_, batch):
    return batch._replace(removals=())


def hides_what_it_removes(backend, batch):
    with backend.reader() as reader:
        rows = [reader.checkpoint(each) for each in batch.removals]
    mine = [row for row in rows if row and row.session == batch.claim.session]
    return batch._replace(edits=(*batch.edits, *(edit(row, hidden=1) for row in mine)))


def checks_removals_before_edits(backend, batch):
    with backend.reader() as reader:
        rows = [reader.checkpoint(each) for each in batch.removals]
    return batch._replace(removals=tuple(row.id for row in rows if row and row.hidden))


def misses_what_is_gone(backend, batch):
    with backend.reader() as reader:
        if any(reader.checkpoint(each) is None for each in batch.removals):
            raise rules.edit_missing(batch.removals[0])
    return batch


def stays_on_its_branch(_, batch):
    return batch._replace(switch_to=None)


def goes_back_to_main(_, batch):
    return batch._replace(switch_to=batch.switch_to or "main")


def keeps_the_whole_log(_, batch):
    return batch._replace(cuts_log_from=0)


def cuts_its_own_entries_too(backend, batch):
    if batch.cuts_log_from and batch.operations:
        MemoryBackend.commit(backend, batch._replace(cuts_log_from=0))
        return Batch(claim=batch.claim, at=batch.at, cuts_log_from=batch.cuts_log_from)
    return batch


def cuts_the_whole_log(_, batch):
    return batch._replace(cuts_log_from=min(batch.cuts_log_from, 1))


def cuts_one_entry_too_many(_, batch):
    return batch._replace(cuts_log_from=max(batch.cuts_log_from - 1, min(batch.cuts_log_from, 1)))


def cuts_one_entry_too_few(_, batch):
    return batch._replace(cuts_log_from=batch.cuts_log_from and batch.cuts_log_from + 1)


class NotAtomic(MemoryBackend):
    def commit(self, batch):
        super().commit(Batch(claim=Claim(session="leak"), at=batch.at, chunks=batch.chunks))
        return super().commit(batch)


class NotIdempotent(MemoryBackend):
    """Checks a repeated batch as if it were new."""

    def commit(self, batch):
        with self.reader() as reader:
            repeated = [row for row in batch.checkpoints if reader.checkpoint(row.id)]
        if repeated:
            super().commit(batch._replace(checkpoints=(), chunks=()))
        return super().commit(batch)


class GapsInSeq(MemoryBackend):
    def commit(self, batch):
        try:
            return super().commit(batch)
        except HoldfastError:
            moment = self._open_moment()
            moment.sessions["work"] = moment.sessions["work"]._replace(last_seq=9)
            raise


class ForgetfulReceipt(MemoryBackend):
    def commit(self, batch):
        super().commit(batch)
        return Receipt(batch.checkpoints)


class LateView(MemoryBackend):
    """Takes the moment of the first question for the moment of opening."""

    @contextmanager
    def reader(self):
        backend, inner = self, super().reader

        class Late:
            view = None

            def __getattr__(self, name):
                if self.view is None:
                    with inner() as reader:
                        self.view = type(reader)(backend._open_moment().copy())
                return getattr(self.view, name)

        yield Late()


class NoView(MemoryBackend):
    """Answers each question from what is there at that time."""

    @contextmanager
    def reader(self):
        inner = super().reader

        class Now:
            def __getattr__(self, name):
                def ask(*args, **kwargs):
                    with inner() as reader:
                        return getattr(reader, name)(*args, **kwargs)

                return ask

        yield Now()


class OpenForEver(MemoryBackend):
    def close(self):
        pass


class ReachesIntoOtherSessions(MemoryBackend):
    """Removes whatever it is told to."""

    def commit(self, batch):
        receipt = super().commit(batch._replace(removals=()))
        for each in batch.removals:
            self._writable().checkpoints.pop(each, None)
        return receipt


class KeepsKeys(MemoryBackend):
    def commit(self, batch):
        keys = dict(self._open_moment().keys)
        receipt = super().commit(batch)
        moment = self._open_moment()
        moment.keys = keys | moment.keys
        return receipt


class CountsRows(MemoryBackend):
    """Takes the number of the newest row for the highest number."""

    def commit(self, batch):
        receipt = super().commit(batch)
        moment = self._open_moment()
        moment.position = max((row.position for row in moment.checkpoints.values()), default=0)
        return receipt


class CountsRowsOfSessions(MemoryBackend):
    def commit(self, batch):
        moment = self._open_moment()
        for name, session in moment.sessions.items():
            rows = [row.seq for row in moment.checkpoints.values() if row.session == name]
            moment.sessions[name] = session._replace(last_seq=max(rows, default=0))
        return super().commit(batch)


class SweepsAtOnce(MemoryBackend):
    """Removes the chunks with the row, though a view or a writer may be at them."""

    def commit(self, batch):
        roots = {row.root for row in self._open_moment().checkpoints.values() if row.id in batch.removals}
        receipt = super().commit(batch)
        for root in roots:
            del self._writable().chunks[root]
        return receipt


class LeavesTheRows(MemoryBackend):
    def erase_session(self, session):
        del self._writable().sessions[session]


class LeavesTheLog(MemoryBackend):
    def erase_session(self, session):
        log = dict(self._writable().operations)
        super().erase_session(session)
        self._writable().operations.update(log)


class ErasesEverything(MemoryBackend):
    def erase_session(self, session):
        for each in list(self._open_moment().sessions):
            super().erase_session(each)


class RemembersTheErased(MemoryBackend):
    """A session of the same name goes on where the last one was."""

    def erase_session(self, session):
        old = self._open_moment().sessions.get(session)
        super().erase_session(session)
        if old is not None:
            self._writable().sessions[session] = old


class MissesTheErased(MemoryBackend):
    def erase_session(self, session):
        if session not in self._open_moment().sessions:
            raise rules.edit_missing(CheckpointId(b""))
        super().erase_session(session)


class ScrubsTooMuch(MemoryBackend):
    def scrub(self, *, dry_run=False):
        moment = self._writable()
        moment.position = 0
        moment.operations.clear()


class SleepsOn(MemoryBackend):
    """Waits out its time, whatever comes."""

    def wait_for_checkpoint(self, after, timeout):
        time.sleep(timeout if timeout < 100 else 1)
        if timeout >= 100:
            threading.Event().wait(10)
        return super().wait_for_checkpoint(after, 0)


class WakesForNothing(MemoryBackend):
    def wait_for_checkpoint(self, after, timeout):
        return super().wait_for_checkpoint(after, min(timeout, 0.001))


class SaysWhatItWasAsked(MemoryBackend):
    def wait_for_checkpoint(self, after, timeout):
        return max(after, super().wait_for_checkpoint(after, timeout))


class Adopting(MemoryBackend):
    """A backend that adopts something else than it was given."""

    def __init__(self, rewrite):
        super().__init__()
        self.rewrite = rewrite

    def adopt(self, batch):
        return super().adopt(self.rewrite(self, batch))


def overwrites_whatever_is_there(backend, batch):
    with backend.reader() as reader:
        return batch._replace(expected=reader.session(batch.session.id))


def looks_at_the_counters_alone(backend, batch):
    with backend.reader() as reader:
        there = reader.session(batch.session.id)
    if there and batch.expected and (there.last_seq, there.log_count) == batch.expected[4:6]:
        return batch._replace(expected=there)
    return batch


def ignores_what_it_found(_, batch):
    return batch._replace(found=())


def gives_its_own_numbers(_, batch):
    rows = (row._replace(seq=number) for number, row in enumerate(batch.checkpoints, start=1))
    return batch._replace(checkpoints=tuple(rows))


def shows_what_is_hidden(_, batch):
    return batch._replace(checkpoints=tuple(row._replace(hidden=0) for row in batch.checkpoints))


def gives_each_a_new_position(_, batch):
    return batch._replace(checkpoints=tuple(row._replace(position=0) for row in batch.checkpoints))


def adopts_removals(_, batch):
    return batch._replace(removals=())


def adds_branches(backend, batch):
    with backend.reader() as reader:
        there = {each.name: each for each in reader.branches(batch.session.id)}
    return batch._replace(branches=(*(there | {e.name: e for e in batch.branches or ()}).values(),))


def takes_none_for_empty(_, batch):
    return batch._replace(branches=batch.branches or ())


def keeps_the_old_log(_, batch):
    return batch._replace(cuts_log_from=0)


def is_always_whole(_, batch):
    return batch._replace(whole=True)


class NoStamps(MemoryBackend):
    def adopt(self, batch):
        old = dict(self._open_moment().stamps)
        super().adopt(batch)
        moment = self._open_moment()
        moment.stamps = dict.fromkeys(moment.stamps, 0) | old


class RemovesAnywhere(MemoryBackend):
    def adopt(self, batch):
        super().adopt(batch)
        for each in batch.removals:
            self._writable().checkpoints.pop(each, None)


class KeepsThePositionToItself(MemoryBackend):
    """Counts on from the rows there are."""

    def adopt(self, batch):
        super().adopt(batch)
        moment = self._open_moment()
        moment.position = max((row.position for row in moment.checkpoints.values()), default=0)


class TakesAnything(MemoryBackend):
    """Stores a row under whatever session it is given with."""

    def adopt(self, batch):
        name = batch.session.id
        rows = tuple(row._replace(session=name) for row in batch.checkpoints)
        super().adopt(batch._replace(checkpoints=rows))


class NeverForgets(MemoryBackend):
    def erase_session(self, session):
        marks = dict(self._open_moment().adopted)
        super().erase_session(session)
        self._open_moment().adopted.update(marks)


class SaysAllAreThere(MemoryBackend):
    @contextmanager
    def reader(self):
        with super().reader() as reader:
            setattr(reader, "present", set)  # noqa: B010 - in the place of a method
            yield reader


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


COMMITS = (
    ignores_the_guard, ignores_last_seq, ignores_the_log_count, ignores_the_claim, ignores_expected_heads,
    drops_the_second_move, forgets_keys, forgets_tags, forgets_the_log, forgets_edits, merges_edits,
    mixes_up_zero_and_none, uses_its_own_clock, reverses_batches, ignores_what_it_relies_on,
    relies_on_one_alone, takes_hidden_rows_for_gone, looks_for_what_it_relies_on_last, forgets_removals,
    hides_what_it_removes, checks_removals_before_edits, misses_what_is_gone, stays_on_its_branch,
    goes_back_to_main, keeps_the_whole_log, cuts_its_own_entries_too, cuts_the_whole_log,
    cuts_one_entry_too_many, cuts_one_entry_too_few,
)  # fmt: skip
ADOPTIONS = (
    overwrites_whatever_is_there, looks_at_the_counters_alone, ignores_what_it_found, gives_its_own_numbers,
    shows_what_is_hidden, gives_each_a_new_position, adopts_removals, adds_branches, takes_none_for_empty,
    keeps_the_old_log, is_always_whole,
)  # fmt: skip
COLLECTIONS = (
    IgnoresStamps, IgnoresMarks, KeepsOne, IgnoresTheLimit, NeverDone, DoneTooSoon, CountsOneMore,
    FreesNothing, MarksWhatIsMissing, MarksAgain, FollowsNothing, SweepsInADryRun, SweepsBesideANewer,
)  # fmt: skip
UNSOUND = (
    (NotAtomic, CommitContract),
    (NotIdempotent, CommitContract),
    (GapsInSeq, CommitContract),
    (ForgetfulReceipt, CommitContract),
    (LateView, ReaderContract),
    (NoView, ReaderContract),
    (OpenForEver, LifetimeContract),
    (ReachesIntoOtherSessions, CommitContract),
    (KeepsKeys, CommitContract),
    (CountsRows, CommitContract),
    (CountsRowsOfSessions, CommitContract),
    (SweepsAtOnce, CommitContract),
    (LeavesTheRows, LifetimeContract),
    (LeavesTheLog, LifetimeContract),
    (ErasesEverything, LifetimeContract),
    (RemembersTheErased, LifetimeContract),
    (MissesTheErased, LifetimeContract),
    (ScrubsTooMuch, LifetimeContract),
    (SleepsOn, ReaderContract),
    (WakesForNothing, ReaderContract),
    (SaysWhatItWasAsked, ReaderContract),
    (NoStamps, RepairContract),
    (RemovesAnywhere, RepairContract),
    (KeepsThePositionToItself, RepairContract),
    (TakesAnything, RepairContract),
    (NeverForgets, RepairContract),
    (SaysAllAreThere, ReaderContract),
    (OpensAnEpochToCount, GcContract),
    (BeginsBesideOthers, GcContract),
    (WaitsForTheDead, GcContract),
    (TakesNothingBack, GcContract),
    (TakesBackForOthers, GcContract),
    (CountsAsOneAtWork, GcContract),
    (StampsOnlyWhatIsNew, GcContract),
    (DoesNotStampBases, GcContract),
    (WritesNothingOut, GcContract),
    (HarmedByLeaving, GcContract),
)


def name_of(value):
    return getattr(value, "__name__", None)


@pytest.mark.parametrize("rewrite", COMMITS, ids=name_of)
def test_a_backend_that_commits_something_else_is_caught(rewrite):
    assert_caught(lambda: Rewriting(rewrite), CommitContract)


@pytest.mark.parametrize("rewrite", ADOPTIONS, ids=name_of)
def test_a_backend_that_adopts_something_else_is_caught(rewrite):
    assert_caught(lambda: Adopting(rewrite), RepairContract)


@pytest.mark.parametrize("kind", COLLECTIONS, ids=name_of)
def test_a_collection_that_is_wrong_is_caught(kind):
    assert_caught(lambda: Collecting(kind), GcContract)


@pytest.mark.parametrize(("broken", "part"), UNSOUND, ids=name_of)
def test_a_backend_that_is_not_sound_is_caught(broken, part):
    assert_caught(broken, part)


@pytest.mark.parametrize("name", Query._fields)
def test_a_backend_that_ignores_a_filter_is_caught(name):
    default: Any = Query._field_defaults[name]

    class Ignoring(MemoryBackend):
        @contextmanager
        def reader(self):
            with super().reader() as reader:
                ask = reader.checkpoints
                setattr(reader, "checkpoints", lambda query: ask(query._replace(**{name: default})))  # noqa: B010
                yield reader

    assert_caught(Ignoring, QueryContract)


def in_order(by):
    """A fault: rows that all have a key come in another order of keys, rising or falling as they would."""

    def mixed_up(rows):
        keys = [row.key for row in rows]
        if None in keys:
            return rows
        return sorted(rows, key=lambda row: by(row.key), reverse=keys != sorted(keys))

    return mixed_up


def stripped(pieces):
    return {name: data.rstrip(b"\x00") for name, data in pieces.items()}


ANSWERS = {
    "oldest first": ("checkpoints", lambda rows: rows[::-1], QueryContract),
    "keys by UTF-16": ("checkpoints", in_order(lambda key: key.encode("utf-16-be")), QueryContract),
    "keys without case": ("checkpoints", in_order(str.casefold), QueryContract),
    "keys by length": ("checkpoints", in_order(len), QueryContract),
    "other bytes": ("chunks", stripped, CommitContract),
}


@pytest.mark.parametrize("fault", ANSWERS.values(), ids=list(ANSWERS))
def test_a_backend_that_answers_something_else_is_caught(fault):
    call, answer, part = fault
    assert_caught(lambda: FaultyBackend(MemoryBackend(), [Fault(call, nth=None, after=answer)]), part)


def test_a_backend_that_keeps_differences_with_care_is_not_blamed():
    for test, arguments in runs(GcContract):
        if "meanwhile" in test:
            getattr(BackendConformance(), test)(Standing(), **arguments)


def test_a_file_that_still_tells_is_found(tmp_path):
    class InAFile(BackendConformance):
        def files(self, backend):
            return [tmp_path / "store"]

    check = InAFile().test_nothing_of_what_was_erased_is_left_in_the_files
    (tmp_path / "store").write_bytes(b"nothing here")
    check(MemoryBackend())
    (tmp_path / "store").write_bytes(b"a page with " + SECRET.encode())
    with pytest.raises(AssertionError, match="it is still in store"):
        check(MemoryBackend())


def test_no_test_of_the_kit_hides_another():
    names = [
        name for part in BackendConformance.__mro__[1:] for name in vars(part) if name.startswith("test_")
    ]
    assert len(set(names)) == len(names)
