"""What the kit says about adoptions: each of these backends breaks one sentence, and the kit must notice."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from holdfast.backends.memory import MemoryBackend
from holdfast.errors import HoldfastError
from holdfast.testing.conformance import BackendConformance

AS_IT_WAS = "test_what_is_adopted_comes_out_as_it_was_put_in"
UNDER_WAY = "test_a_collection_that_is_under_way_takes_nothing_of_it"
NOT_EXPECTED = "test_a_session_that_is_not_as_expected_is_left_alone"


class Rewriting(MemoryBackend):
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


def forgets_removals(_, batch):
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


REWRITES = [
    (overwrites_whatever_is_there, NOT_EXPECTED, {"way": "another"}),
    (overwrites_whatever_is_there, NOT_EXPECTED, {"way": "there already"}),
    (overwrites_whatever_is_there, NOT_EXPECTED, {"way": "not there"}),
    (looks_at_the_counters_alone, "test_any_change_of_the_session_is_noticed", {}),
    (ignores_what_it_found, "test_a_chunk_that_it_counts_on_has_to_be_there", {}),
    (ignores_what_it_found, UNDER_WAY, {"way": "found"}),
    (gives_its_own_numbers, AS_IT_WAS, {}),
    (shows_what_is_hidden, AS_IT_WAS, {}),
    (gives_each_a_new_position, "test_a_row_takes_the_place_of_the_one_that_is_there", {}),
    (forgets_removals, "test_what_it_removes_is_gone", {}),
    (adds_branches, "test_branches_are_replaced_or_left_as_they_are", {}),
    (takes_none_for_empty, "test_branches_are_replaced_or_left_as_they_are", {}),
    (keeps_the_old_log, "test_the_end_of_a_log_is_replaced", {}),
    (is_always_whole, "test_an_adopted_session_is_known_until_somebody_writes_to_it", {}),
]


@pytest.mark.parametrize(("rewrite", "test", "arguments"), REWRITES)
def test_a_backend_that_adopts_something_else_is_caught(rewrite, test, arguments):
    assert_caught(Rewriting(rewrite), test, arguments)


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


@pytest.mark.parametrize(
    ("broken", "test", "arguments"),
    [
        (NoStamps, UNDER_WAY, {"way": "brought"}),
        (NoStamps, UNDER_WAY, {"way": "brought again"}),
        (RemovesAnywhere, "test_what_it_removes_is_gone", {}),
        (KeepsThePositionToItself, "test_a_row_without_a_position_comes_last", {}),
        (TakesAnything, "test_rows_of_another_session_are_refused", {}),
        (NeverForgets, "test_an_adopted_session_is_known_until_somebody_writes_to_it", {}),
        (SaysAllAreThere, "test_present_says_which_chunks_are_there", {}),
    ],
)
def test_a_backend_that_is_not_sound_is_caught(broken, test, arguments):
    assert_caught(broken(), test, arguments)


def assert_caught(backend, test, arguments):
    """The test of the kit passes against a sound backend, and fails against this one."""
    check = getattr(BackendConformance(), test)
    check(MemoryBackend(), **arguments)
    with pytest.raises((AssertionError, HoldfastError, pytest.fail.Exception)):
        check(backend, **arguments)
