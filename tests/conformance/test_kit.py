"""The kit itself: each of these backends breaks one sentence of the contract, and the kit must say so.

A broken backend is the memory backend with one thing wrong. The test of the kit that stands for that sentence is run
against it, and has to fail.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.backends import rules
from holdfast.backends.memory import MemoryBackend
from holdfast.errors import ConflictError, ErrorCode, HoldfastError
from holdfast.storage.records import Batch, CheckpointId, Claim, Guard, Move, Query, Receipt
from holdfast.testing.conformance import BackendConformance, views, waiting
from holdfast.testing.faults import Fault, FaultyBackend
from holdfast.testing.rows import START, edit


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


REWRITES = [
    (ignores_what_it_relies_on, "test_a_batch_that_relies_on_what_is_not_there_is_refused"),
    (ignores_what_it_relies_on, "test_a_checkpoint_that_was_removed_for_good_cannot_be_relied_on"),
    (ignores_what_it_relies_on, "test_the_chunks_of_an_erased_session_wait_for_a_collection"),
    (relies_on_one_alone, "test_a_batch_can_rely_on_many_and_is_refused_where_one_of_them_is_gone"),
    (
        looks_for_what_it_relies_on_last,
        "test_what_it_relies_on_is_checked_after_the_guard_and_before_the_moves",
    ),
    (takes_hidden_rows_for_gone, "test_a_hidden_checkpoint_can_be_relied_on"),
    (forgets_removals, "test_what_is_removed_for_good_is_found_no_more"),
    (forgets_removals, "test_what_was_hidden_before_is_removed"),
    (forgets_removals, "test_what_was_removed_can_be_saved_again"),
    (hides_what_it_removes, "test_what_is_visible_is_not_removed"),
    (hides_what_it_removes, "test_what_the_same_batch_shows_again_is_not_removed"),
    (checks_removals_before_edits, "test_what_is_visible_is_not_removed"),
    (checks_removals_before_edits, "test_what_the_same_batch_saves_is_visible"),
    (misses_what_is_gone, "test_one_that_is_gone_is_no_error"),
    (stays_on_its_branch, "test_people_are_on_main_until_they_switch"),
    (stays_on_its_branch, "test_a_switch_concerns_its_session"),
    (goes_back_to_main, "test_people_are_on_main_until_they_switch"),
    (keeps_the_whole_log, "test_a_log_that_is_cut_has_only_what_came_with_the_cut"),
    (keeps_the_whole_log, "test_a_log_can_be_cut_to_nothing"),
    (keeps_the_whole_log, "test_a_log_is_cut_from_a_number_on"),
    (cuts_its_own_entries_too, "test_a_log_that_is_cut_has_only_what_came_with_the_cut"),
    (cuts_its_own_entries_too, "test_a_log_is_cut_from_a_number_on"),
    (cuts_its_own_entries_too, "test_a_cut_that_begins_after_the_end_takes_nothing"),
    (cuts_the_whole_log, "test_a_log_is_cut_from_a_number_on"),
    (cuts_the_whole_log, "test_a_cut_that_begins_after_the_end_takes_nothing"),
    (cuts_one_entry_too_many, "test_a_log_is_cut_from_a_number_on"),
    (cuts_one_entry_too_few, "test_a_log_is_cut_from_a_number_on"),
    (cuts_one_entry_too_few, "test_a_log_can_be_cut_to_nothing"),
    (ignores_the_guard, "test_a_guard_sees_a_new_operation"),
    (ignores_the_guard, "test_the_guard_is_checked_before_the_moves"),
    (ignores_last_seq, "test_a_guard_with_last_seq_sees_a_new_checkpoint"),
    (ignores_the_log_count, "test_a_guard_sees_a_new_operation"),
    (ignores_the_claim, "test_a_session_of_another_agent_is_refused"),
    (ignores_the_claim, "test_the_claim_is_checked_before_the_guard"),
    (ignores_the_claim, "test_an_agent_or_project_is_set_where_there_is_none"),
    (ignores_expected_heads, "test_a_branch_that_moved_on_is_not_moved_back"),
    (ignores_expected_heads, "test_a_branch_that_exists_is_not_made_again"),
    (ignores_expected_heads, "test_of_threads_that_write_to_one_branch_one_wins_each_round"),
    (drops_the_second_move, "test_several_branches_move_in_one_batch"),
    (forgets_keys, "test_a_key_names_one_checkpoint_of_a_session"),
    (forgets_tags, "test_a_tag_is_found_whole"),
    (forgets_the_log, "test_operations_come_back_in_order"),
    (forgets_the_log, "test_the_session_row_has_the_count_and_the_tip_of_its_log"),
    (forgets_edits, "test_a_removed_checkpoint_can_still_be_read_by_id"),
    (merges_edits, "test_an_edit_can_take_everything_back"),
    (mixes_up_zero_and_none, "test_zero_and_empty_text_are_not_none"),
    (uses_its_own_clock, "test_stored_at_is_the_time_of_the_batch"),
    (uses_its_own_clock, "test_a_branch_knows_when_it_moved"),
    (reverses_batches, "test_the_receipt_has_the_rows_as_they_are_stored"),
]


@pytest.mark.parametrize(("rewrite", "test"), REWRITES, ids=lambda value: getattr(value, "__name__", value))
def test_a_backend_that_commits_something_else_is_caught(rewrite, test):
    assert_caught(Rewriting(rewrite), test)


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


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (ReachesIntoOtherSessions, "test_a_checkpoint_of_another_session_is_not_removed"),
        (ReachesIntoOtherSessions, "test_what_is_visible_is_not_removed"),
        (KeepsKeys, "test_key_and_tags_of_what_is_removed_are_free_again"),
        (CountsRows, "test_seq_and_position_are_never_given_twice"),
        (CountsRows, "test_what_was_removed_counts"),
        (CountsRowsOfSessions, "test_seq_and_position_are_never_given_twice"),
        (CountsRowsOfSessions, "test_what_was_removed_can_be_saved_again"),
        (LeavesTheRows, "test_an_erased_session_is_gone_with_all_that_belongs_to_it"),
        (LeavesTheLog, "test_an_erased_session_is_gone_with_all_that_belongs_to_it"),
        (ErasesEverything, "test_other_sessions_are_not_touched"),
        (RemembersTheErased, "test_its_id_is_free_again"),
        (MissesTheErased, "test_erasing_what_is_not_there_is_no_error"),
        (ScrubsTooMuch, "test_a_scrubbed_store_is_the_same_to_every_question"),
        (SleepsOn, "test_what_is_there_already_is_not_waited_for"),
        (SleepsOn, "test_a_commit_of_another_thread_ends_it"),
        (WakesForNothing, "test_a_commit_of_another_thread_ends_it"),
        (SaysWhatItWasAsked, "test_it_comes_back_when_its_time_is_over"),
        (SweepsAtOnce, "test_its_chunks_wait_for_a_collection"),
        (NotAtomic, "test_a_refused_batch_leaves_nothing_behind"),
        (NotIdempotent, "test_a_repeated_batch_changes_nothing_and_returns_its_rows"),
        (NotIdempotent, "test_whatever_else_a_repeated_batch_says_is_ignored"),
        (GapsInSeq, "test_a_refused_batch_uses_up_no_seq"),
        (ForgetfulReceipt, "test_seq_counts_from_one_in_batch_order"),
        (LateView, "test_a_view_begins_when_it_is_opened"),
        (NoView, "test_a_view_does_not_change_while_others_commit"),
        (NoView, "test_two_threads_have_two_views"),
        (OpenForEver, "test_another_thread_may_close"),
    ],
)
def test_a_backend_that_is_not_sound_is_caught(broken, test):
    assert_caught(broken(), test)


IGNORED_FILTERS = {
    "session": "test_filters_together_must_all_hold",
    "branch": "test_filters_together_must_all_hold",
    "agent": "test_agent_and_project_are_those_of_the_session",
    "project": "test_agent_and_project_are_those_of_the_session",
    "tag": "test_a_tag_is_found_whole",
    "status": "test_filters_together_must_all_hold",
    "trigger": "test_the_trigger_auto_matches_every_event",
    "step": "test_filters_together_must_all_hold",
    "seq": "test_seq_is_a_filter_like_any_other",
    "key": "test_a_filter_matches_its_value_exactly",
    "key_from": "test_a_range_of_keys_has_its_first_and_not_its_last",
    "key_below": "test_a_range_of_keys_is_a_filter_like_any_other",
    "by_key": "test_by_key_comes_in_the_order_of_bytes_and_leaves_out_what_has_no_key",
    "prev": "test_what_follows_a_checkpoint_is_found_by_it",
    "id_prefix": "test_an_ambiguous_prefix_gives_all_of_them",
    "since": "test_since_and_until_include_their_moment",
    "until": "test_since_and_until_include_their_moment",
    "metadata": "test_every_metadata_pair_must_hold",
    "before_seq": "test_pages_by_seq_and_by_position_cover_everything_once",
    "before_position": "test_pages_by_seq_and_by_position_cover_everything_once",
    "after_seq": "test_after_and_before_leave_out_their_own_number",
    "after_position": "test_a_row_removed_meanwhile_moves_no_page",
    "oldest_first": "test_oldest_first_is_newest_first_backwards",
    "include_hidden": "test_removed_checkpoints_come_only_when_asked_for",
    "limit": "test_a_limit_gives_the_newest",
}


def test_every_filter_of_a_query_is_in_the_list_above():
    assert set(IGNORED_FILTERS) == set(Query._fields)


@pytest.mark.parametrize(("name", "test"), IGNORED_FILTERS.items())
def test_a_backend_that_ignores_a_filter_is_caught(name, test):
    default: Any = Query._field_defaults[name]

    class Ignoring(MemoryBackend):
        @contextmanager
        def reader(self):
            with super().reader() as reader:
                ask = reader.checkpoints
                setattr(reader, "checkpoints", lambda query: ask(query._replace(**{name: default})))  # noqa: B010
                yield reader

    arguments: dict[str, Any] = {}
    if test == "test_a_filter_matches_its_value_exactly":
        arguments = {"field": name, "value": "v", "near_misses": ["V"]}
    if name in ("after_seq", "oldest_first"):
        arguments = {"way": {}}
    assert_caught(Ignoring(), test, **arguments)


def test_a_backend_that_lists_oldest_first_is_caught():
    backend = FaultyBackend(MemoryBackend(), [Fault("checkpoints", nth=None, after=lambda rows: rows[::-1])])
    assert_caught(backend, "test_order_is_by_seq_and_never_by_time")


def in_order(by):
    """A fault: rows that all have a key come in another order of keys, rising or falling as they would."""

    def mixed_up(rows):
        keys = [row.key for row in rows]
        if None in keys:
            return rows
        return sorted(rows, key=lambda row: by(row.key), reverse=keys != sorted(keys))

    return mixed_up


@pytest.mark.parametrize(
    "by",
    [lambda key: key.encode("utf-16-be"), str.casefold, len],
    ids=["utf-16", "without case", "length"],
)
def test_a_backend_that_compares_keys_in_another_way_is_caught(by):
    backend = FaultyBackend(MemoryBackend(), [Fault("checkpoints", nth=None, after=in_order(by))])
    assert_caught(backend, "test_by_key_comes_in_the_order_of_bytes_and_leaves_out_what_has_no_key")


def test_a_backend_that_gives_other_bytes_is_caught():
    def stripped(pieces):
        return {name: data.rstrip(b"\x00") for name, data in pieces.items()}

    backend = FaultyBackend(MemoryBackend(), [Fault("chunks", nth=None, after=stripped)])
    assert_caught(backend, "test_a_chunk_comes_back_exactly", data=b"\x00")


def test_no_test_of_the_kit_hides_another():
    names = [
        name
        for part in BackendConformance.__mro__
        for name in vars(part)
        if name.startswith("test_") and part is not BackendConformance
    ]
    assert len(set(names)) == len(names)


def assert_caught(backend, test, **arguments):
    """Run one test of the kit against a sound backend, then against this one: it must pass, then fail."""
    check = getattr(BackendConformance(), test)
    check(MemoryBackend(), **arguments)
    # A kit test fails by its assert, by an error that it does not expect, or by pytest's "did not raise".
    expected = (AssertionError, HoldfastError, AttributeError, KeyError, pytest.fail.Exception)
    with pytest.MonkeyPatch.context() as impatient:
        # A thread that waits in vain is called stuck sooner. Only here: a busy machine keeps a sound backend waiting.
        impatient.setattr(views, "PATIENCE", 0.5)
        impatient.setattr(waiting, "PATIENCE", 0.5)
        with pytest.raises(expected):
            check(backend, **arguments)
