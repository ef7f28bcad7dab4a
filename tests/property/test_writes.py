"""The notes of what was written to a container: outside of them nothing is different, and nothing is out of place."""

from __future__ import annotations

from itertools import count, pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.objects.writes import DictWrites, Edit, ListWrites

SPLICES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 6), st.integers(0, 6), st.booleans()), max_size=25
)
MANY_SPLICES = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 1), st.integers(0, 2), st.booleans()),
    min_size=70,
    max_size=150,
)


def spliced(items: list[int], writes: ListWrites, splices: list[Any], fresh: Any) -> None:
    """Do to a list what is noted; every new item is one that never was in it."""
    for place, length, new, in_place in splices:
        start = place % (len(items) + 1)
        if in_place and start < len(items):
            writes.touch(start)
            items[start] = next(fresh)
        else:
            stop = min(start + length, len(items))
            writes.splice(start, stop, new)
            items[start:stop] = [next(fresh) for _ in range(new)]


def check(before: list[Any], after: list[Any], edits: list[Edit] | None) -> None:
    """What lies between the edits is the same, and all of it is there."""
    assert edits is not None
    old = new = 0
    for edit in [*edits, Edit(len(before), len(before), len(after), len(after))]:
        assert before[old : edit.old_start] == after[new : edit.new_start]
        assert edit.old_start <= edit.old_stop
        assert edit.new_start <= edit.new_stop
        old, new = edit.old_stop, edit.new_stop
    assert (old, new) == (len(before), len(after))


def changed(edits: list[Edit]) -> int:
    return sum(edit.new_stop - edit.new_start for edit in edits)


@given(st.integers(0, 40), SPLICES | MANY_SPLICES)
def test_a_list_differs_only_where_it_was_written_to(length, splices):
    fresh = count(1000)
    before = list(range(length))
    after, writes = list(before), ListWrites(length)
    spliced(after, writes, splices, fresh)
    edits = writes.edits(len(after))

    check(before, after, edits)
    for position, item in enumerate(after):
        old = writes.before(position)
        if old is not None and old not in writes.touched:
            assert before[old] == item
        elif len(splices) < 60:
            assert item >= 1000
    if len(splices) < 60:
        # Few enough to be told apart: then no item that is the same counts as changed.
        assert changed(edits or []) == sum(item >= 1000 for item in after)


@given(st.integers(0, 40), st.lists(SPLICES, min_size=2, max_size=3))
def test_writes_of_a_list_one_after_another_are_one(length, several):
    fresh = count(1000)
    before = list(range(length))
    after, together = list(before), ListWrites(length)
    for splices in several:
        later = ListWrites(len(after))
        spliced(after, later, splices, fresh)
        together = together.then(later)

    edits = together.edits(len(after))
    check(before, after, edits)
    assert changed(edits or []) == sum(item >= 1000 for item in after)


@given(st.integers(0, 20), SPLICES)
def test_positions_that_are_touched_from_outside_are_edits_too(length, splices):
    after, writes = list(range(length)), ListWrites(length)
    spliced(after, writes, splices, count(1000))
    survivors = [old for position in range(len(after)) if (old := writes.before(position)) is not None]
    edits = writes.edits(len(after), survivors[::2]) or []

    covered = {old for edit in edits for old in range(edit.old_start, edit.old_stop)}
    assert covered >= set(survivors[::2])
    assert all(edit.old_stop <= later.old_start for edit, later in pairwise(edits))


def test_a_list_whose_length_is_another_than_noted_may_have_changed_anywhere():
    writes = ListWrites(5)
    writes.splice(1, 2, 3)

    assert writes.edits(7) is not None
    assert writes.edits(8) is None
    assert writes.then(ListWrites(8)).edits(8) is None
    writes.unsure = True
    assert writes.edits(7) is None
    assert writes.then(ListWrites(7)).edits(7) is None
    assert ListWrites(5).then(writes).edits(7) is None


WORDS = st.sampled_from("abcdefghijklmnop")
DICT_STEPS = st.lists(st.tuples(st.sampled_from(["set", "delete", "again"]), WORDS), max_size=25)


def rewritten(pairs: dict[str, int], writes: DictWrites, steps: list[Any], fresh: Any) -> None:
    for step, key in steps:
        if key not in pairs:
            pairs[key] = next(fresh)
        elif step == "set":
            writes.touch(key)
            pairs[key] = next(fresh)
        else:
            writes.remove((key,), pairs)
            del pairs[key]
            if step == "again":
                pairs[key] = next(fresh)


@given(
    st.dictionaries(WORDS, st.integers(0, 9)),
    st.lists(DICT_STEPS, min_size=1, max_size=3),
    st.integers(0, 16),
)
def test_a_dict_differs_only_where_it_was_written_to(before, several, tail):
    fresh = count(1000)
    after, together = dict(before), DictWrites(len(before))
    for steps in several:
        later = DictWrites(len(after))
        rewritten(after, later, steps, fresh)
        together = together.then(later)
        check(list(before.items()), list(after.items()), together.edits(after, tail=tail))

    gone = together.gone()
    assert {key for key in before if key not in after} <= gone <= set(before)
    edits = together.edits(after, tail=tail) or []
    assert changed(edits) == sum(value >= 1000 for value in after.values())


def test_a_dict_in_which_a_key_did_not_go_after_all_may_have_changed_anywhere():
    pairs = {"a": 1, "b": 2, "c": 3}
    writes = DictWrites(3)
    writes.remove(("b",), pairs)

    assert writes.edits({"a": 1, "c": 3}) is not None
    assert writes.edits(pairs) is None
    assert writes.edits({}) is None
    unsure = DictWrites(3)
    unsure.unsure = True
    assert unsure.edits(pairs) is None
    assert unsure.then(DictWrites(3)).edits(pairs) is None
    assert DictWrites(3).then(unsure).edits(pairs) is None
